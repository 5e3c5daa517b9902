//! Zipf: a trace of Zipf(1.0) over a million pages, in libCacheSim's format `oracleGeneral`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use onewrite_block::Choices;

/// Different pages.
pub const PAGES: usize = 1_000_000;

/// Page numbers: ranks drawn from the Zipf distribution, popular ranks spread over the address space.
pub fn write_trace(path: &Path, requests: usize) -> std::io::Result<()> {
    let mut choices = Choices::new(1).stream("zipf", 0);
    let mut cumulative = Vec::with_capacity(PAGES);
    let mut sum = 0.0;
    for rank in 1..=PAGES {
        sum += 1.0 / rank as f64;
        cumulative.push(sum);
    }
    let mut page_of_rank: Vec<u64> = (0..PAGES as u64).collect();
    choices.shuffle(&mut page_of_rank);
    let mut file = BufWriter::new(File::create(path)?);
    for time in 0..requests as u32 {
        let at = choices.fraction() * sum;
        let page = page_of_rank[cumulative.partition_point(|below| *below < at).min(PAGES - 1)];
        file.write_all(&time.to_le_bytes())?;
        // The format stores no writes. `access` decides by the number of the request.
        file.write_all(&(page + 1).to_le_bytes())?;
        file.write_all(&1_u32.to_le_bytes())?;
        file.write_all(&(-1_i64).to_le_bytes())?;
    }
    file.flush()
}
