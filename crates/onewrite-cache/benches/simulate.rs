//! Speed and memory of the cache simulator on 10 M requests, Zipf(1.0) over 1 M pages, 30% writes, one thread.
//!
//! For each policy and cache size it prints requests per second of processor time, the share of misses, and bytes of
//! memory for each cached page. If `LIBCACHESIM` names a `cachesim` binary, this rival runs on the same file in the
//! same minute, and the program prints the ratios. Both read the trace from a file in the format `oracleGeneral`.
//!
//! `WRITE_TRACE=zipf.oracleGeneral MILLIONS=100` only writes a trace of that kind, for other programs.

mod zipf;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use onewrite_cache::{Access, CacheShape, PageRequest, PolicyKind};
use zipf::{PAGES, write_trace};

const REQUESTS: usize = 10_000_000;
const WRITE_PERCENT: u64 = 30;
const BLOCK_PAGES: u64 = 1024;
/// Bytes of a record of `oracleGeneral`: time, object, size, next access.
const RECORD: usize = 24;
/// Runs of each cell; the best counts.
const RUNS: usize = 3;
/// Records read at a time.
const CHUNK: usize = 4096;

/// Processor time of this process, in seconds.
fn own_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("Linux tells the processor time");
    let nanos: u64 = text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number");
    nanos as f64 / 1e9
}

/// Processor time of the child processes that have ended, in seconds: fields 16 and 17, in hundredths.
fn children_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux tells the processor time");
    let after_name = text.rsplit(')').next().expect("the name ends");
    let fields: Vec<f64> = after_name.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    (fields[12] + fields[13]) / 100.0
}

/// Anonymous memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux tells the memory");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line for it");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

/// A fixed, scattered 30% of requests.
fn access(number: u64) -> Access {
    let is_write = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 100 < WRITE_PERCENT;
    if is_write { Access::Write } else { Access::Read }
}

/// Reads the trace in chunks.
fn for_each_chunk(path: &Path, mut take: impl FnMut(&[PageRequest])) {
    let mut file = File::open(path).expect("the trace was written");
    let mut bytes = vec![0_u8; RECORD * CHUNK];
    let mut chunk = Vec::with_capacity(CHUNK);
    for start in (0..REQUESTS).step_by(CHUNK) {
        let count = CHUNK.min(REQUESTS - start);
        file.read_exact(&mut bytes[..count * RECORD]).expect("the trace has all its records");
        chunk.clear();
        let records = bytes[..count * RECORD].chunks_exact(RECORD).enumerate();
        chunk.extend(records.map(|(index, record)| {
            let page = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
            PageRequest::new(page, access((start + index) as u64))
        }));
        take(&chunk);
    }
}

/// Results of a cell.
struct Figures {
    millions_per_second: f64,
    miss_share: f64,
}

/// The fastest of [`RUNS`] runs: other load on the machine only slows a run down.
fn best<T>(mut run: impl FnMut() -> T, speed: impl Fn(&T) -> f64) -> T {
    let runs = (0..RUNS).map(|_| run());
    runs.max_by(|a, b| speed(a).total_cmp(&speed(b))).expect("at least one run")
}

/// Runs one cell. Each run has its own process, so that its memory is its own. Prints the best run and returns its
/// speed.
fn simulate(kind: PolicyKind, pages: u64, trace: &Path) -> f64 {
    let (line, speed) = best(|| run_cell(kind, pages, trace), |(_, speed)| *speed);
    print!("{line}");
    speed
}

/// The line that [`cell`] printed, and the speed in it.
fn run_cell(kind: PolicyKind, pages: u64, trace: &Path) -> (String, f64) {
    let own = std::env::current_exe().expect("a path");
    let arguments = ["cell", kind.name(), &pages.to_string()];
    let output = Command::new(own).args(arguments).arg(trace).output().expect("this program runs");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let speed = line.split("Mrequests/s=").nth(1).and_then(|after| after.split(' ').next());
    let speed = speed.and_then(|speed| speed.parse().ok()).expect("a cell prints its speed");
    (line, speed)
}

fn cell(kind: PolicyKind, pages: u64, trace: &Path) {
    let shape = CacheShape::new(pages, BLOCK_PAGES).expect("a possible cache");
    for_each_chunk(trace, |_| ());
    let before = resident_bytes();
    let start = own_seconds();
    let mut cache = kind.simulation(shape, None);
    for_each_chunk(trace, |chunk| cache.feed(chunk, &mut |_| ()));
    let seconds = own_seconds() - start;
    let bytes = resident_bytes().saturating_sub(before) as f64 / pages as f64;
    let counts = cache.counts();
    let figures = Figures {
        millions_per_second: REQUESTS as f64 / seconds / 1e6,
        miss_share: counts.misses as f64 / counts.requests as f64,
    };
    println!(
        "onewrite    {:9} cache={pages:6} Mrequests/s={:.2} misses={:.4} bytes/page={bytes:.1} evicted_dirty={}",
        kind.name(),
        figures.millions_per_second,
        figures.miss_share,
        counts.evicted_dirty,
    );
}

/// Runs the rival on the same file. Returns its printed share of misses and its speed by processor time.
fn rival(binary: &Path, kind: PolicyKind, pages: u64, trace: &Path) -> Option<Figures> {
    let name = kind.name().replace('-', "");
    let start = children_seconds();
    let size = pages.to_string();
    let arguments = ["oracleGeneral", &name, &size, "--ignore-obj-size", "1", "--num-thread", "1"];
    // It writes a result file to its working directory: make that the trace's directory, not ours.
    let directory = trace.parent().expect("the trace lies in a directory");
    let mut command = Command::new(binary);
    let output =
        command.arg(trace).args(arguments).current_dir(directory).output().expect("LIBCACHESIM names its binary");
    let left = directory.join(trace.file_name().expect("a name")).with_extension("oracleGeneral.cachesim");
    fs::remove_file(left).ok();
    let seconds = children_seconds() - start;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = text.rsplit("miss ratio ").next()?;
    let miss_share: f64 = after.split([',', ' ', '\n']).next()?.parse().ok()?;
    Some(Figures { millions_per_second: REQUESTS as f64 / seconds / 1e6, miss_share })
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, kind, pages, trace] = &arguments[..]
        && word == "cell"
    {
        return cell(kind.parse().expect("a policy"), pages.parse().expect("a number"), Path::new(trace));
    }
    if let Some(path) = std::env::var_os("WRITE_TRACE") {
        let millions = std::env::var("MILLIONS").map_or(REQUESTS / 1_000_000, |text| text.parse().expect("a number"));
        write_trace(Path::new(&path), millions * 1_000_000).expect("room for 24 bytes a request");
        return;
    }
    let directory = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let trace = directory.join(format!("onewrite-zipf-{}.oracleGeneral", std::process::id()));
    write_trace(&trace, REQUESTS).expect("room for a trace of 240 MB");
    let start = own_seconds();
    let mut writes = 0;
    for_each_chunk(&trace, |chunk| writes += chunk.iter().filter(|request| request.is_write()).count());
    let seconds = own_seconds() - start;
    println!("reading alone: {:.1} Mrequests/s, {writes} writes", REQUESTS as f64 / seconds / 1e6);
    let binary = std::env::var_os("LIBCACHESIM").map(PathBuf::from);
    for pages in [PAGES as u64 / 100, PAGES as u64 / 10] {
        let mut speeds = Vec::new();
        for kind in kinds() {
            let ours = simulate(kind, pages, &trace);
            speeds.push((kind, ours));
            let rivals = [PolicyKind::Lru, PolicyKind::Clock, PolicyKind::Sieve, PolicyKind::S3Fifo, PolicyKind::Arc];
            let Some(binary) = binary.as_deref().filter(|_| rivals.contains(&kind)) else { continue };
            let speed = |found: &Option<Figures>| found.as_ref().map_or(0.0, |found| found.millions_per_second);
            if let Some(theirs) = best(|| rival(binary, kind, pages, &trace), speed) {
                println!(
                    "libCacheSim {:9} cache={pages:6} Mrequests/s={:.2} misses={:.4}",
                    kind.name(),
                    theirs.millions_per_second,
                    theirs.miss_share
                );
                let times = ours / theirs.millions_per_second;
                println!("            {:9} cache={pages:6} times as fast={times:.2}", kind.name());
            }
        }
        let of = |wanted| speeds.iter().find(|(kind, _)| *kind == wanted).map(|(_, speed)| *speed);
        if let (Some(clock), Some(ts_clock)) = (of(PolicyKind::Clock), of(PolicyKind::TsClock)) {
            println!("clock / ts-clock at {pages} pages: {:.2}", clock / ts_clock);
        }
    }
    fs::remove_file(&trace).expect("the trace is still there");
}

/// All policies that need no future, or those that the environment names (`POLICIES=lru,clock`).
fn kinds() -> Vec<PolicyKind> {
    let named = std::env::var("POLICIES").ok();
    let named = named.as_deref().map(|names| names.split(',').map(|name| name.parse().expect("a policy")).collect());
    named.unwrap_or_else(|| PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_future()).collect())
}
