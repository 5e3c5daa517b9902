//! What the tests of all crates share.
#![deny(unreachable_pub)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

/// Says on standard error, past the test runner's capture, that a test or a part of it is skipped, and why.
///
/// Takes what `format!` takes.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => {
        $crate::say_skipped(format_args!($($why)*))
    };
}

/// Aims that a benchmark missed.
static MISSED: AtomicU32 = AtomicU32::new(0);

/// What a benchmark prints behind a figure that has an aim.
pub fn verdict(is_reached: bool) -> &'static str {
    if is_reached {
        return "reached";
    }
    MISSED.fetch_add(1, Ordering::Relaxed);
    "MISSED"
}

/// The end of a benchmark: it fails if a [`verdict`] was "MISSED", and says so on standard error.
pub fn all_reached() -> ExitCode {
    match MISSED.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!("{count} aims MISSED");
            ExitCode::FAILURE
        }
    }
}

/// Starts a test of this program in a process of its own, with further variables in its environment, and kills it when
/// it has printed the line `committed COUNT`. Returns the last count that it printed.
///
/// # Panics
/// If the process cannot be started.
pub fn killed_after(test: &str, variables: &[(&str, &std::ffi::OsStr)], count: u64) -> u64 {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let mut process = Command::new(std::env::current_exe().expect("this program has a path"));
    process.args(["--exact", test, "--nocapture"]).envs(variables.iter().copied()).stdout(Stdio::piped());
    let mut child = process.spawn().expect("this program starts again");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let mut told = 0;
    for number in lines.filter_map(|line| line.strip_prefix("committed ").and_then(|number| number.parse().ok())) {
        told = number;
        if told == count {
            child.kill().expect("it is ours");
        }
    }
    child.wait().expect("it is ours");
    told
}

/// Prints the line that [`killed_after`] waits for.
///
/// # Panics
/// If nobody reads.
pub fn tell_committed(count: u64) {
    use std::io::Write;

    let mut out = std::io::stdout();
    writeln!(out, "\ncommitted {count}").and_then(|()| out.flush()).expect("the parent reads");
}

/// What [`skipped!`] calls: writes `SKIPPED: why` and the name of the test, which is its thread's.
pub fn say_skipped(why: std::fmt::Arguments<'_>) {
    use std::io::Write;

    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread");
    // `eprintln!` would be captured. If standard error is closed, nobody reads it.
    let _ = writeln!(std::io::stderr().lock(), "\nSKIPPED: {test}: {why}");
}
