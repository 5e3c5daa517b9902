//! The command line of Onewrite: arguments and printing only. What is done is done in the crates below.
//!
//! Standard output carries results, standard error everything else. Exit codes: 0 done, 1 failed, 2 not understood;
//! `crash`: 1 also if a promise was broken; `fsck`: 0 clean, 4 errors in the file system, 8 could not be checked.

mod args;
mod commands;
mod open;
mod progress;
mod size;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, Host};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let failure = if matches!(command, Command::Fsck(_)) { 8 } else { 1 };
    match carry_out(command) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onewrite: {error:#}");
            ExitCode::from(failure)
        }
    }
}

fn carry_out(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Mkfs(mkfs) => commands::mkfs::mkfs(&mkfs),
        Command::Fsck(fsck) => return commands::fsck::fsck(&fsck),
        Command::Ls(ls) => commands::look::ls(&ls),
        Command::Cat(cat) => commands::look::cat(&cat),
        Command::Tree(tree) => commands::look::tree(&tree),
        Command::Cp(cp) => commands::cp::cp(&cp),
        Command::Run(run) => commands::run::run(&run),
        Command::Compare(compare) => commands::compare::compare(&compare),
        Command::Crash(crash) => return commands::crash::crash(&crash),
        Command::Cache(cache) => commands::cache::cache(&cache),
        Command::Trace(trace) => commands::trace::trace(&trace),
        Command::Device(device) => commands::device::device(&device),
        Command::Probe(probe) => commands::probe::probe(&probe),
        Command::Host(Host::Measure(measure)) => commands::host::measure(&measure),
        Command::Host(Host::Show { host }) => commands::host::show(&host),
        Command::Paper(paper) => commands::paper::paper(&paper),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Whoever reads our output has seen enough (`onewrite tree … | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}
