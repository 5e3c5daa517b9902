//! Daemon: a mount leaves the terminal when it begins to serve.
//!
//! The command starts a second process with the same arguments and waits for one word on that process's standard
//! output. Until that word, the new process reports errors on the terminal; after it, in the log.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use anyhow::Context;
use rustix::process::geteuid;
use tracing::level_filters::LevelFilter;

/// Environment variable that marks the process that serves.
const MARK: &str = "ONEWRITE_MOUNT_DAEMON";
const READY: &[u8] = b"ready\n";

/// Whether this process is the one that serves.
pub fn is_daemon() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the process that serves; returns its exit code if it ends before the mount serves.
pub fn start() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("onewrite"));
    let program = std::env::current_exe().context("this program's own file")?;
    let mut child = Command::new(program)
        .arg0(name)
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("a process to serve the mount")?;
    let mut word = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut word)?;
    }
    if word == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    Ok(ExitCode::from(status.code().map_or(3, |code| code as u8)))
}

/// Leaves the terminal's session, so that the end of the session does not end the mount.
pub fn leave_terminal() {
    // It fails only if this process already leads a session.
    let _ = rustix::process::setsid();
}

/// Reports that the mount serves; from now on standard output and standard error go to `log`.
pub fn detach(log: &File) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(READY)?;
    stdout.flush()?;
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    // Otherwise the file system of the working directory could not be unmounted.
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Opens the log of a mount on `directory` for appending; only its owner can read it.
pub fn open_log(wanted: Option<&Path>, directory: &Path) -> anyhow::Result<File> {
    let path = match wanted {
        Some(path) => path.to_owned(),
        None => default_log(directory)?,
    };
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    file.with_context(|| format!("{}: the log; name another file with --log", path.display()))
}

fn default_log(directory: &Path) -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or(home);
    let room = match geteuid().is_root() {
        true => PathBuf::from("/var/log"),
        false => state.context("neither XDG_STATE_HOME nor HOME is set; name a file with --log")?,
    };
    let room = room.join("onewrite");
    DirBuilder::new().recursive(true).mode(0o700).create(&room).with_context(|| room.display().to_string())?;
    let name = directory.display().to_string().trim_matches('/').replace('/', "-");
    Ok(room.join(format!("{name}.log")))
}

/// Logs to `log`, or to standard error.
pub fn log_to(log: Option<&File>, logs_refusals: bool) -> anyhow::Result<()> {
    let level = if logs_refusals { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_ansi(false);
    match log {
        Some(file) => subscriber.with_writer(Mutex::new(file.try_clone()?)).init(),
        None => subscriber.with_writer(std::io::stderr).init(),
    }
    Ok(())
}
