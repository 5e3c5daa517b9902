//! Whole commands beside their rivals, in one run, as users start them.
//!
//! `cargo bench --package onewrite --bench commands [-- cache|tree|disk|beside|bytes|crash|memory]`
//!
//! - `cache`: `onewrite cache` and libCacheSim's `cachesim` (`LIBCACHESIM=.../bin/cachesim`) on one trace.
//! - `tree`: `onewrite mkfs --from` and `mke2fs -d` on trees of 10,000 and 100,000 files (`FILES=1000000`: one more).
//! - `disk`: `onewrite run` on a real file and fio on the kernel's ext4 over a loop device, on the same disk, as root.
//! - `beside`: small synchronous writes, in several mechanisms and on the kernel's ext4, XFS and Btrfs, as root.
//! - `bytes`: bytes that reach the device for each byte of small overwrites.
//! - `crash`: crash states that `onewrite crash` judges in a second, in four modes and inside two devices.
//! - `memory`: most memory of `onewrite run` after 262,144 fsyncs and after four times as many.
//!
//! Commands of a pair run in turn; figures are processor seconds (user and system) but for `disk` and `beside`, whose
//! are operations per second of time; the median of ROUNDS counts. It fails if an aim is missed. A rival that is not
//! there is named loudly.

mod beside;
mod bytes;
mod cache;
mod crash;
mod disk;
mod memory;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const ROUNDS: usize = 5;

/// The program under test.
const OURS: &str = env!("CARGO_BIN_EXE_onewrite");

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let scratch = Scratch::new();
    PARTS.iter().filter(|part| part.name.contains(&wanted)).for_each(|part| (part.compare)(&scratch.0));
    onewrite_testing::all_reached()
}

/// What is compared under one name, in a directory for its files.
struct Part {
    name: &'static str,
    compare: fn(&Path),
}

const PARTS: [Part; 7] = [
    Part { name: "cache", compare: cache::compare },
    Part { name: "tree", compare: tree::compare },
    Part { name: "disk", compare: disk::compare },
    Part { name: "beside", compare: beside::compare },
    Part { name: "bytes", compare: bytes::compare },
    Part { name: "crash", compare: crash::compare },
    Part { name: "memory", compare: memory::compare },
];

/// A directory that goes when this goes.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let path = std::env::temp_dir().join(format!("onewrite-commands-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a program is there; says so loudly if not.
fn is_there(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("a shell");
    if !found.status.success() {
        println!("SKIPPED: no {program}");
    }
    found.status.success()
}

/// Runs a command to its end; gives its processor seconds.
fn seconds(command: &mut Command) -> f64 {
    let before = children_seconds();
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    children_seconds() - before
}

/// Processor time of the child processes that have ended, in seconds.
fn children_seconds() -> f64 {
    processor_seconds(12)
}

/// Processor time of this process, in seconds.
fn own_seconds() -> f64 {
    processor_seconds(10)
}

/// User and system time as /proc tells them, in hundredths: fields 14 and 15 are the process's, 16 and 17 those of its
/// children; `at` counts from the state, field 4 on.
fn processor_seconds(at: usize) -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux tells the processor time");
    let after_name = text.rsplit(')').next().expect("the name ends");
    let fields: Vec<f64> = after_name.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    (fields[at] + fields[at + 1]) / 100.0
}

/// The median of what a measurement gives.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
