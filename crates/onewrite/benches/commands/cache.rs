//! `onewrite cache` beside `cachesim`: 10 M requests, Zipf(1.0) over 1 M pages, caches of 1% and 10% of the footprint,
//! which both find out by themselves.

#[path = "../../../onewrite-cache/benches/zipf/mod.rs"]
mod zipf;

use std::path::Path;
use std::process::Command;

use onewrite_testing::verdict;

use crate::{OURS, ROUNDS, median, seconds};

const REQUESTS: usize = 10_000_000;
/// Policies, and the least that we want of the rival's time for each of ours.
const POLICIES: [(&str, f64); 4] = [("lru", 2.5), ("clock", 2.5), ("sieve", 2.5), ("arc", 1.5)];

fn ours(trace: &Path, policy: &str, percent: u64) -> f64 {
    let mut command = Command::new(OURS);
    seconds(command.args(["-q", "cache", "--policy", policy, "--size", &format!("{percent}%")]).arg(trace))
}

fn rival(binary: &Path, trace: &Path, policy: &str, percent: u64) -> f64 {
    let share = format!("{}", percent as f64 / 100.0);
    let mut command = Command::new(binary);
    command.current_dir(trace.parent().expect("the trace lies in a directory"));
    seconds(command.arg(trace).args(["oracleGeneral", policy, &share, "--ignore-obj-size", "1", "--num-thread", "1"]))
}

pub fn compare(scratch: &Path) {
    let trace = scratch.join("zipf.oracleGeneral");
    zipf::write_trace(&trace, REQUESTS).expect("room for a trace of 240 MB");
    let binary = std::env::var_os("LIBCACHESIM").map(std::path::PathBuf::from);
    if binary.is_none() {
        println!("SKIPPED: cachesim: LIBCACHESIM names no program");
    }
    for (policy, wanted) in POLICIES {
        for percent in [1, 10] {
            let (mut own, mut other) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                own.push(ours(&trace, policy, percent));
                other.extend(binary.as_deref().map(|binary| rival(binary, &trace, policy, percent)));
            }
            let own = median(&mut own);
            print!("cache {policy} {percent}%: onewrite {own:.2} s");
            match other.is_empty() {
                true => println!(),
                false => {
                    let other = median(&mut other);
                    let verdict = verdict(other / own >= wanted);
                    println!(", cachesim {other:.2} s, {:.2} times as fast (wanted {wanted}): {verdict}", other / own);
                }
            }
        }
    }
    std::fs::remove_file(&trace).expect("the trace is still there");
}
