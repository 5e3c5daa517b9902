//! Programs: the one that is proved, run with its standard output heard, and those of the system.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use onewrite_host::fuse::LineFile;
use onewrite_host::{ACKNOWLEDGE_TO, ACKNOWLEDGES};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::stop;

/// The shell line that runs a program: descriptor 3 takes acknowledgements, too.
const SHELL: &str = "exec 3>&1; eval \"$ONEWRITE_RUN\"";

/// What a program acknowledged that ended well.
pub fn acknowledged((tokens, status): (Vec<String>, ExitStatus)) -> anyhow::Result<Vec<String>> {
    match status.success() {
        true => Ok(tokens),
        false => bail!("--run ended with {status}; a program under test must end well when no power is cut"),
    }
}

/// The tokens that a program acknowledged, and how it ended.
pub type Ran = anyhow::Result<(Vec<String>, ExitStatus)>;

/// Runs a shell line in `directory` until every process has closed its standard output. Lines that acknowledge are
/// taken before the program goes on, others go to standard error.
pub fn run_program(line: &str, directory: &Path, spoken: &Path, acknowledge: impl Fn(u64) + Send + 'static) -> Ran {
    let tokens: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&tokens);
    let hear = move |line: &[u8]| match line.strip_prefix(ACKNOWLEDGES.as_bytes()) {
        Some(token) => {
            let mut tokens = heard.lock().unwrap_or_else(PoisonError::into_inner);
            acknowledge(tokens.len() as u64);
            tokens.push(String::from_utf8_lossy(token).into_owned());
        }
        None => errln!("{}", String::from_utf8_lossy(line)),
    };
    fs::create_dir(spoken)?;
    let lines = LineFile::new(spoken, hear).context("--run: a FUSE mount for its standard output")?;
    let mut program = Command::new("sh");
    program.args(["-c", SHELL]).env("ONEWRITE_RUN", line).env("ONEWRITE_DIR", directory).current_dir(directory);
    program.env(ACKNOWLEDGE_TO, lines.path());
    program.stdin(Stdio::null()).stdout(lines.open().context("--run: its standard output")?);
    let ended = program.process_group(0).spawn().and_then(|mut child| {
        let group = Pid::from_child(&child);
        // This process ends by a signal only when the program has ended.
        stop::when_asked(move || {
            let _ = kill_process_group(group, Signal::TERM);
        });
        child.wait()
    });
    // It holds an open file of the mount.
    drop(program);
    lines.wait_until_closed();
    drop(lines);
    let tokens = std::mem::take(&mut *tokens.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((tokens, ended.context("sh, for --run")?))
}

/// Runs a program of the system; returns its output.
pub fn tool(name: &str, arguments: &[&OsStr]) -> anyhow::Result<String> {
    let output = Command::new(name).args(arguments).output().with_context(|| format!("{name}: it cannot be run"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}
