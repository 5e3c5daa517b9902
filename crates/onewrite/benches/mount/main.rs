//! The mount beside its rivals, in one run: fuse2fs, the kernel's ext4, the host's own file system, and three
//! more on FUSE: one that keeps nothing ("null", the limit of FUSE itself), one that does each request on a file of the
//! host ("relay"), and one whose kernel reads and writes that file past it ("passthrough").
//!
//! `cargo bench --package onewrite --bench mount` as root; `-- files`, `-- transactions` or `-- programs` is one part.
//! Every system runs every workload in turn, ROUNDS times; the best of the rounds counts, because others on the machine
//! only make it slower.

mod null;
mod programs;
mod systems;
mod transactions;
mod workloads;

use std::process::ExitCode;

use onewrite_testing::verdict;
use systems::System;
use workloads::Workload;

const ROUNDS: usize = 3;
const PARTS: [&str; 3] = ["files", "transactions", "programs"];

fn main() -> ExitCode {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        println!("SKIPPED: mounts need root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    let part = std::env::args().find(|argument| PARTS.contains(&argument.as_str()));
    let is_asked = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if is_asked("files") {
        compare_files();
    }
    if is_asked("transactions") {
        transactions::compare(ROUNDS);
    }
    if is_asked("programs") {
        programs::compare(ROUNDS);
    }
    onewrite_testing::all_reached()
}

fn compare_files() {
    let systems: Vec<System> = System::all().into_iter().filter(System::is_possible).collect();
    let mut best = vec![vec![0.0_f64; systems.len()]; Workload::ALL.len()];
    for round in 1..=ROUNDS {
        for (column, system) in systems.iter().enumerate() {
            eprintln!("round {round} of {ROUNDS}: {}", system.name());
            let Some(mounted) = system.mount() else { continue };
            for (row, workload) in Workload::ALL.iter().enumerate() {
                best[row][column] = best[row][column].max(workload.rate(&mounted));
            }
        }
    }
    print(&systems, &best);
}

fn print(systems: &[System], best: &[Vec<f64>]) {
    println!("best of {ROUNDS} rounds");
    print!("{:34}", "");
    systems.iter().for_each(|system| print!(" {:>14}", system.name()));
    println!();
    for (workload, rates) in Workload::ALL.iter().zip(best) {
        print!("{:34}", workload.name());
        rates.iter().for_each(|rate| print!(" {rate:>14.0}"));
        println!();
    }
    println!("\nratios");
    let rate = |row: usize, name: &str| systems.iter().position(|system| system.name() == name).map(|at| best[row][at]);
    for (row, workload) in Workload::ALL.iter().enumerate() {
        for (ours, rival, wanted) in workload.wanted() {
            let (Some(own), Some(other)) = (rate(row, ours), rate(row, rival)) else { continue };
            let ratio = own / other;
            let verdict = verdict(ratio >= wanted);
            println!("{:34} {ours} / {rival} {ratio:.2} (wanted {wanted:.1}): {verdict}", workload.name());
        }
        if let (Some(own), Some(limit)) = (rate(row, "ordered"), rate(row, "null")) {
            println!("{:34} ordered reaches {:.0} % of FUSE's limit", workload.name(), 100.0 * own / limit);
        }
    }
}
