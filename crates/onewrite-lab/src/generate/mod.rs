//! Generate: the four workloads of the dissertation's table 2-2 as seeded traces of pages.
//!
//! The original traces are not public. The dissertation gives only the volume read, the volume written, the write range
//! and a sentence or two of each (§2.4.2 to §2.4.4). Each file here says how it makes a trace that fits. Volumes and
//! range are met to the page: a [`Tally`](tally::Tally) counts them, and a stream does more of what lags behind until
//! both volumes are used up.
//!
//! The write range is the distance from the lowest to the highest page written. It cannot be the number of different
//! pages, because the server workloads write less than their range.

mod file_server;
mod load_file;
mod mixed;
mod tally;
mod tpc_c;
mod video;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use onewrite_block::{Choices, PAGE_SIZE};
use onewrite_cache::PageRequest;

use crate::error::LabError;

pub use load_file::LOAD_FILE;
pub use tally::Targets;

/// A workload of table 2-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceKind {
    /// Video streaming on a phone.
    Video,
    /// Mixed applications on a phone.
    Mixed,
    /// A file server: dbench's load file.
    FileServer,
    /// TPC-C on a database with 50 warehouses.
    TpcC,
}

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a> {
    /// Which workload.
    pub kind: TraceKind,
    /// The seed of all chance.
    pub seed: u64,
    /// Scale of the volumes and the range of table 2-2; above 0 and at most 1.
    pub scale: f64,
    /// dbench's load file, for the file server; by default the one of Debian's package.
    pub load_file: Option<&'a Path>,
    /// Clients of the file server; by default so many that no cache of the dissertation holds all their files.
    pub clients: Option<u32>,
}

impl TraceKind {
    /// All, in the order of the table.
    pub const ALL: [TraceKind; 4] = [TraceKind::Video, TraceKind::Mixed, TraceKind::FileServer, TraceKind::TpcC];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            TraceKind::Video => "video-streaming",
            TraceKind::Mixed => "mixed-applications",
            TraceKind::FileServer => "file-server",
            TraceKind::TpcC => "tpc-c",
        }
    }

    /// Read, written and write range in MB of 2²⁰ bytes. Source: dissertation, table 2-2.
    pub const fn table(self) -> [f64; 3] {
        match self {
            TraceKind::Video => [0.2, 1514.4, 266.6],
            TraceKind::Mixed => [526.9, 413.2, 133.0],
            TraceKind::FileServer => [7252.8, 5880.1, 14568.2],
            TraceKind::TpcC => [1129.2, 2357.6, 15124.4],
        }
    }

    /// The figures of the table times `scale`.
    pub fn targets(self, scale: f64) -> Targets {
        let pages = |megabytes: f64| (megabytes * scale * f64::from(1 << 20) / PAGE_SIZE as f64).round() as u64;
        let [reads, writes, range] = self.table().map(pages);
        Targets { reads, writes, range }
    }
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TraceKind {
    /// The least scale, to four digits behind the point.
    pub(crate) fn scale_min(self) -> f64 {
        (1e4 * RANGE_MIN as f64 / self.targets(1.0).range as f64).ceil() / 1e4
    }
}

impl FromStr for TraceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<TraceKind, String> {
        TraceKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known = TraceKind::ALL.map(TraceKind::name).join(", ");
            format!("`{text}` is no workload to generate; there are {known}")
        })
    }
}

/// The least write range in pages; with less, the parts of a workload have no room.
const RANGE_MIN: u64 = 1 << 10;

/// Makes a trace. The same [`Generation`] gives the same trace.
///
/// # Errors
/// If the scale is out of bounds; if the file server's load file is missing or cannot be understood.
pub fn generate(what: Generation<'_>) -> Result<Vec<PageRequest>, LabError> {
    let Generation { kind, seed, scale, load_file, clients } = what;
    let targets = kind.targets(scale);
    if !(scale > 0.0 && scale <= 1.0) || targets.range < RANGE_MIN {
        let problem = format!("scale {scale} of {kind}: it lies between {:.4} and 1", kind.scale_min());
        return Err(LabError::Option(problem));
    }
    if clients.is_some() && kind != TraceKind::FileServer {
        return Err(LabError::Option(format!("{kind} has no clients to count; file-server has")));
    }
    let choices = Choices::new(seed).stream(kind.name(), 0);
    match kind {
        TraceKind::Video => Ok(video::generate(targets, choices)),
        TraceKind::Mixed => Ok(mixed::generate(targets, choices)),
        TraceKind::TpcC => Ok(tpc_c::generate(targets, choices)),
        TraceKind::FileServer => file_server::generate(targets, load_file, clients),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(trace: &[PageRequest]) -> Targets {
        let written = || trace.iter().filter(|request| request.is_write()).map(|request| request.page());
        let (first, last) = (written().min().unwrap(), written().max().unwrap());
        Targets {
            reads: trace.iter().filter(|request| !request.is_write()).count() as u64,
            writes: written().count() as u64,
            range: last - first + 1,
        }
    }

    fn generation(kind: TraceKind, seed: u64, scale: f64) -> Generation<'static> {
        Generation { kind, seed, scale, load_file: None, clients: None }
    }

    #[test]
    fn traces_match_the_table_to_the_page_at_every_scale() {
        for kind in [TraceKind::Video, TraceKind::Mixed, TraceKind::TpcC] {
            for scale in [0.05, 0.3, 1.0] {
                let trace = generate(generation(kind, 1, scale)).unwrap();
                assert_eq!(found(&trace), kind.targets(scale), "{kind} at {scale}");
            }
        }
    }

    #[test]
    fn the_file_server_matches_the_table_where_dbench_is_installed() {
        if !Path::new(LOAD_FILE).exists() {
            onewrite_testing::skipped!("{LOAD_FILE} is not there; install Debian's package dbench");
            return;
        }
        let trace = generate(generation(TraceKind::FileServer, 1, 0.02)).unwrap();
        assert_eq!(found(&trace), TraceKind::FileServer.targets(0.02));
    }

    #[test]
    fn a_seed_gives_one_trace() {
        for kind in [TraceKind::Video, TraceKind::Mixed, TraceKind::TpcC] {
            let trace = |seed| generate(generation(kind, seed, 0.05)).unwrap();
            assert!(trace(1) == trace(1) && trace(1) != trace(2), "{kind}");
        }
    }

    #[test]
    fn video_is_mostly_sequential_and_the_others_are_not() {
        let sequential = |kind| {
            let trace = generate(generation(kind, 1, 0.2)).unwrap();
            let writes: Vec<u64> =
                trace.iter().filter(|request| request.is_write()).map(|request| request.page()).collect();
            writes.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as f64 / writes.len() as f64
        };
        let [video, mixed] = [TraceKind::Video, TraceKind::Mixed].map(sequential);
        assert!(video > 0.75 && mixed < 0.7, "{video:.2}, {mixed:.2}");
    }

    #[test]
    fn a_scale_out_of_bounds_names_them() {
        for scale in [0.0, 1.5, 1e-9, f64::NAN] {
            let error = generate(generation(TraceKind::Mixed, 1, scale)).unwrap_err().to_string();
            assert!(error.contains("between 0.0301 and 1"), "{error}");
        }
    }

    #[test]
    fn a_missing_load_file_says_where_to_get_it() {
        let load_file = Some(Path::new("/nowhere/client.txt"));
        let what = Generation { load_file, ..generation(TraceKind::FileServer, 1, 0.01) };
        let error = generate(what).unwrap_err().to_string();
        assert!(error.contains("/nowhere/client.txt") && error.contains("package dbench"), "{error}");
    }
}
