//! Daemon: a mount leaves the terminal when it begins to serve.
//!
//! The command starts a second process with the same arguments and waits for one word on that process's standard
//! output. Until that word, the new process reports errors on the terminal; after it, in the log.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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

/// First line of each log.
const LOG_HEAD: &[u8] = b"Log of onewrite mount\n";

/// Opens the log of a mount on `directory` for appending; only its owner can read it.
///
/// # Errors
/// If the file is a link, no regular file, lies below the mount, or holds something other than a log of a mount.
pub fn open_log(wanted: Option<&Path>, directory: &Path) -> anyhow::Result<File> {
    let path = match wanted {
        Some(path) => path.to_owned(),
        None => default_log(directory)?,
    };
    let opened = checked_log(&path, directory);
    opened.with_context(|| format!("{}: the log; name another file with --log", path.display()))
}

fn checked_log(path: &Path, directory: &Path) -> anyhow::Result<File> {
    if path == Path::new("-") {
        bail!("a log goes to a file; --foreground logs to standard error");
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if parent.canonicalize()?.starts_with(directory) {
        bail!("it would be hidden below the mount");
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = OpenOptions::new();
    let file = file.append(true).read(true).create(true).mode(0o600).custom_flags(flags.bits() as i32).open(path);
    let mut file = match file {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => bail!("it is a symbolic link"),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        bail!("it is not a regular file");
    }
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(LOG_HEAD.len() as u64).read_to_end(&mut head)?;
    match &*head {
        [] => {
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(LOG_HEAD)?;
        }
        LOG_HEAD => (),
        _ => bail!("it exists, and is not a log of a mount"),
    }
    Ok(file)
}

fn default_log(directory: &Path) -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or(home);
    let room = match geteuid().is_root() {
        true => PathBuf::from("/var/log"),
        false => state.context("neither XDG_STATE_HOME nor HOME is set; name a file with --log")?,
    };
    let room = room.join("onewrite");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&room)
        .with_context(|| format!("{}: for the log; name a file with --log", room.display()))?;
    let name = directory.display().to_string().trim_matches('/').replace('/', "-");
    Ok(room.join(format!("{name}.log")))
}

/// Logs to `log`, or to standard error: our own lines, and warnings of the libraries.
pub fn log_to(log: Option<&File>, logs_refusals: bool) -> anyhow::Result<()> {
    let level = if logs_refusals { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let ours = Targets::new().with_target("onewrite", level).with_default(LevelFilter::WARN);
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(false);
    let subscriber = tracing_subscriber::registry();
    match log {
        Some(file) => subscriber.with(lines.with_writer(Mutex::new(file.try_clone()?)).with_filter(ours)).init(),
        None => subscriber.with(lines.with_writer(std::io::stderr).with_filter(ours)).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_only_appended_to_a_log() {
        let room = std::env::temp_dir().join(format!("onewrite-log-{}", std::process::id()));
        std::fs::create_dir_all(room.join("mnt")).unwrap();
        let mount = room.join("mnt").canonicalize().unwrap();
        let told = |name: &str| format!("{:#}", open_log(Some(&room.join(name)), &mount).unwrap_err());
        std::fs::write(room.join("notes"), b"mine").unwrap();
        std::os::unix::fs::symlink("notes", room.join("link")).unwrap();
        assert!(told("notes").contains("not a log of a mount"));
        assert!(told("link").contains("symbolic link"));
        assert!(told("mnt/log").contains("hidden below the mount"));
        assert!(told("absent/log").contains("No such file"));
        assert!(format!("{:#}", open_log(Some(Path::new("-")), &mount).unwrap_err()).contains("--foreground"));
        assert!(format!("{:#}", open_log(Some(Path::new("/dev/full")), &mount).unwrap_err()).contains("not a regular"));
        std::fs::write(room.join("log"), b"").unwrap();
        std::fs::set_permissions(room.join("log"), Permissions::from_mode(0o666)).unwrap();
        for line in [&b"one\n"[..], b"two\n"] {
            open_log(Some(&room.join("log")), &mount).unwrap().write_all(line).unwrap();
        }
        assert_eq!(std::fs::read(room.join("log")).unwrap(), [LOG_HEAD, b"one\ntwo\n"].concat());
        assert_eq!(std::fs::metadata(room.join("log")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(room.join("notes")).unwrap(), b"mine");
        std::fs::remove_dir_all(room).unwrap();
    }
}
