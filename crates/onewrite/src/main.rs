//! The command line of Onewrite: arguments and printing only. The crates below do the work.
//!
//! Results go to standard output, everything else to standard error. `failure` has the exit codes; `fsck` has those of
//! fsck(8).

#[macro_use]
mod output;

mod args;
mod commands;
mod escape;
mod failure;
mod open;
mod outputs;
mod progress;
mod stop;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command, Host};
use commands::mount::Called;
use failure::Failure;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let arguments = match commands::mount::called_as(&arguments) {
        Called::Itself => arguments,
        Called::Helper(arguments) => arguments,
        Called::Fake => return ExitCode::SUCCESS,
    };
    let parser = taking_negative_numbers(Cli::command());
    let understood = parser.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let Cli { mut command, quiet } = match understood {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    output::set_quiet(quiet);
    if let Err(problem) = may_open_files() {
        errln!("onewrite: {problem}");
        return ExitCode::from(if matches!(command, Command::Fsck(_)) { 8 } else { Failure::Machine as u8 });
    }
    stop::watch();
    let is_fsck = matches!(command, Command::Fsck(_));
    let prints = only_prints(&command);
    if !prints {
        output::go_on_unread(if is_fsck { 8 } else { Failure::Machine as u8 });
    }
    let sizes_device = matches!(command, Command::Run(_) | Command::Compare(_));
    let done = commands::stdin::spool(&mut command).and_then(|_spooled| carry_out(command));
    let code = match done {
        Ok(code) => code,
        Err(error) if prints && is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("onewrite: {}", told(&error));
            ExitCode::from(match (is_fsck, sizes_device) {
                (true, _) => 8,
                (_, true) => Failure::of_sized(&error) as u8,
                _ => Failure::of(&error) as u8,
            })
        }
    };
    stop::end_if_asked();
    code
}

/// The same parser, in which `--operations -5` is a number out of range, not another option.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let has_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if has_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(taking_negative_numbers)
}

/// Most files that a command has open at once, with what the system's libraries need beside them.
const FILES: u64 = 32;

/// # Errors
/// If a limit lets the process open fewer files than [`FILES`].
fn may_open_files() -> Result<(), String> {
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(most) if most < FILES => {
            Err(format!("this process may open {most} files, and {FILES} are needed at most: `ulimit -n {FILES}`"))
        }
        _ => Ok(()),
    }
}

/// Whether all that a command does is print: it may end when nobody reads that.
fn only_prints(command: &Command) -> bool {
    use Command::{Cache, Cat, Device, Host, Ls, Names, Stat, Stats, Trace, Tree};
    matches!(
        command,
        Cache(_) | Cat(_) | Device(_) | Host(_) | Ls(_) | Names(_) | Stat(_) | Stats(_) | Trace(_) | Tree(_)
    )
}

/// Prints help (exit code 0) or the error in the arguments (exit code 2; for `fsck` 16, as in fsck(8)).
fn misunderstood(error: &clap::Error) -> ExitCode {
    let is_option = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b"-");
    let is_fsck = std::env::args_os().skip(1).find(|name| !is_option(name)).is_some_and(|name| name == "fsck");
    let _ = error.print();
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_fsck => ExitCode::from(16),
        _ => ExitCode::from(2),
    }
}

fn carry_out(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Mkfs(mkfs) => return commands::mkfs::mkfs(&mkfs),
        Command::Fsck(fsck) => return commands::fsck::fsck(&fsck),
        Command::Ls(ls) => return commands::look::ls(&ls),
        Command::Cat(cat) => return commands::look::cat(&cat),
        Command::Tree(tree) => return commands::look::tree(&tree),
        Command::Stat(stat) => return commands::look::stat(&stat),
        Command::Cp(cp) => return commands::cp::cp(&cp),
        Command::Mv(mv) => return commands::change::mv(&mv),
        Command::Rm(rm) => return commands::change::rm(&rm),
        Command::Mkdir(mkdir) => return commands::change::mkdir(&mkdir),
        Command::Mount(mount) => return commands::mount::mount(&mount),
        Command::Umount(umount) => commands::mount::umount(&umount),
        Command::Stats(stats) => commands::stats::stats(&stats),
        Command::Run(run) => commands::run::run(&run),
        Command::Compare(compare) => commands::compare::compare(&compare),
        Command::Crash(crash) => return commands::crash::crash(&crash),
        Command::Cache(cache) => commands::cache::cache(&cache),
        Command::Trace(trace) => commands::trace::trace(&trace),
        Command::Device(device) => commands::device::device(&device),
        Command::Probe(probe) => commands::probe::probe(&probe),
        Command::Host(Host::Measure(measure)) => commands::host::measure(&measure),
        Command::Host(Host::Show { host }) => commands::host::show(&host),
        Command::Names(names) => commands::names::names(&names),
        Command::Paper(paper) => return commands::paper::paper(&paper),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The error and its causes in one line. Repeated texts are left out, because causes often repeat the text of their
/// error.
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

/// Whether the reader of our output has closed it (`onewrite tree … | head`).
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
