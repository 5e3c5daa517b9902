//! The command line of Onewrite: arguments and printing only. What is done is done in the crates below.
//!
//! Standard output carries results, standard error everything else. Exit codes: 0 done, 1 failed, 2 not understood;
//! `crash`: 1 also if a promise was broken; `fsck`: 0 clean, 4 errors in the file system, 8 could not be checked.

#[macro_use]
mod output;

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
            eprintln!("onewrite: {}", told(&error));
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

/// The error and its causes in one line, each said once: causes repeat the names and words of what they caused.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() || cause.starts_with(&told) {
            cause
        } else if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

/// Whoever reads our output has seen enough (`onewrite tree … | head`).
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn nothing_is_said_twice() {
        assert_eq!(told(&anyhow!("a.img: it is empty").context("a.img")), "a.img: it is empty");
        assert_eq!(told(&anyhow!("too small").context("mkfs: too small").context("a.img")), "a.img: mkfs: too small");
        assert_eq!(told(&anyhow!("no space").context("cannot write a")), "cannot write a: no space");
    }
}
