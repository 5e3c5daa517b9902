//! Point: the directory to mount on, judged before the image is opened; and the end of a mount.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use super::error::MountError;
use super::stats::{STATS_BYTES_MAX, Stats};
use super::table::Entry;
use super::{STATS_ATTRIBUTE, SYNC_ATTRIBUTE};

/// Number of `/dev/fuse`: major 10, minor 229 (Linux's devices.txt).
const FUSE_NUMBERS: (u32, u32) = (10, 229);

/// A directory that can be mounted on.
#[derive(Clone, Debug)]
pub struct MountPoint {
    /// Its absolute path, without links.
    pub directory: PathBuf,
    /// What the user should know, for example that another mount lies below.
    pub remarks: Vec<String>,
}

impl MountPoint {
    /// Judges `path`. Detaches a dead mount of Onewrite there, whose process was killed.
    ///
    /// # Errors
    /// If it is no directory, or this user or machine cannot mount by FUSE.
    pub fn new(path: &Path) -> Result<MountPoint, MountError> {
        check_fuse()?;
        let mut remarks = Vec::new();
        let refused = |error| MountError::Directory { path: path.display().to_string(), error };
        let metadata = match path.metadata() {
            Err(error) if is_dead(&error) => {
                detach_dead(path)?;
                remarks.push(format!("{}: a dead mount was detached; its process had been killed", path.display()));
                path.metadata()
            }
            found => found,
        };
        if !metadata.map_err(refused)?.is_dir() {
            return Err(refused(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let directory = path.canonicalize().map_err(refused)?;
        if let Some(below) = Entry::topmost(&directory).filter(Entry::is_ours) {
            remarks.push(format!(
                "{}: the mount of {} is there; a new one hides it",
                directory.display(),
                below.source
            ));
        }
        Ok(MountPoint { directory, remarks })
    }
}

/// Whether the process behind a mount is gone.
fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

fn detach_dead(path: &Path) -> Result<(), MountError> {
    let directory = without_links(path).unwrap_or_else(|_| path.to_owned());
    let dead = |error| MountError::Dead { path: path.display().to_string(), error };
    match Entry::topmost(&directory) {
        Some(entry) if entry.is_ours() => take_off(&directory, UnmountFlags::DETACH).map_err(dead),
        _ => Err(dead(io::Error::from(Errno::NOTCONN))),
    }
}

/// The absolute path of a directory. Asks only its parent if its own mount is dead.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if is_dead(&error) => {
            let path = std::path::absolute(path)?;
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
            Ok(parent.canonicalize()?.join(name))
        }
        found => found,
    }
}

/// Checks that this machine has FUSE and that this user can use it.
fn check_fuse() -> Result<(), MountError> {
    let device = std::fs::metadata("/dev/fuse").map_err(MountError::NoFuse)?;
    let numbers = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    if !device.file_type().is_char_device() || numbers != FUSE_NUMBERS {
        return Err(MountError::NotFuse);
    }
    let helper = "fusermount3";
    let has_helper = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(helper).exists())
    };
    match geteuid().is_root() || has_helper() {
        true => Ok(()),
        false => Err(MountError::NoHelper),
    }
}

/// Takes the topmost mount off `directory`; users other than root need the helper.
pub(super) fn take_off(directory: &Path, flags: UnmountFlags) -> io::Result<()> {
    match unmount(directory, flags) {
        Err(Errno::PERM) => by_helper(directory, flags),
        done => Ok(done?),
    }
}

/// Takes the topmost mount, of whatever kind, off `directory`, even while programs use it.
///
/// # Errors
/// The system's error.
pub fn detach(directory: &Path) -> io::Result<()> {
    take_off(directory, UnmountFlags::DETACH)
}

fn by_helper(directory: &Path, flags: UnmountFlags) -> io::Result<()> {
    let mut helper = std::process::Command::new("fusermount3");
    helper.arg("-u").args(flags.contains(UnmountFlags::DETACH).then_some("-z")).arg("--").arg(directory);
    let output = helper.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// How a mount ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Only if no program uses it; waits until its process has ended.
    Clean,
    /// Even while programs use it; does not wait for them.
    Lazy,
}

/// Whether a mount that was ended had a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It had, which has ended with it.
    Alive,
    /// Its process had died before: what was not synced then is lost.
    Dead,
}

/// Ends the mount on `path`. After [`Ending::Clean`], the image is clean and free for others. A dead mount is detached.
///
/// # Errors
/// [`MountError`]: no mount of Onewrite, or programs use it, or its image does not take what they wrote.
pub fn end_mount(path: &Path, ending: Ending) -> Result<Ended, MountError> {
    let shown = || path.display().to_string();
    let directory = without_links(path).map_err(|error| MountError::Directory { path: shown(), error })?;
    if !Entry::topmost(&directory).is_some_and(|entry| entry.is_ours()) {
        return Err(MountError::NoMount { path: shown() });
    }
    let process = read_stats(&directory).ok().and_then(|stats| Pid::from_raw(stats.pid as i32));
    let process = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let saved = if ending == Ending::Clean { save(&directory) } else { Ok(()) };
    let is_dead = saved.as_ref().err().is_some_and(is_dead) || directory.metadata().is_err_and(|error| is_dead(&error));
    let is = |error: &io::Error, number: Errno| error.raw_os_error() == Some(number.raw_os_error());
    let is_given_up = |error: &io::Error| is(error, Errno::ROFS);
    let is_foreign = saved.as_ref().is_err_and(|error| is(error, Errno::ACCESS) || is(error, Errno::PERM));
    if is_foreign && !geteuid().is_root() {
        return Err(MountError::Foreign { path: shown() });
    }
    // Root cannot ask another user's mount; the kernel lets it end it.
    let saved = if is_dead || is_foreign { Ok(()) } else { saved };
    let saved = match saved {
        Err(error) if !is_given_up(&error) => return Err(MountError::Unsaved { path: shown(), error }),
        saved => saved,
    };
    let flags = if ending == Ending::Lazy || is_dead { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    take_off(&directory, flags).map_err(|error| MountError::Kept { path: shown(), error })?;
    if let (Some(process), Ending::Clean) = (process, ending) {
        // A signal interrupts the wait, and the caller's handler decides what it means.
        while poll(&mut [PollFd::new(&process, PollFlags::IN)], None) == Err(Errno::INTR) {}
    }
    saved.map_err(|error| MountError::Lost { path: shown(), error })?;
    Ok(if is_dead { Ended::Dead } else { Ended::Alive })
}

/// Has the mount on `directory` write everything to its image, where a failure still finds somebody to tell.
fn save(directory: &Path) -> io::Result<()> {
    match rustix::fs::getxattr(directory, SYNC_ATTRIBUTE, &mut [0_u8; 1][..]) {
        // A mount of an older program.
        Ok(_) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Asks the mount on `directory` for its statistics.
///
/// # Errors
/// The system's error; `ENODATA` if no mount of Onewrite lies there.
pub fn read_stats(directory: &Path) -> io::Result<Stats> {
    let mut value = vec![0; STATS_BYTES_MAX];
    let length = rustix::fs::getxattr(directory, STATS_ATTRIBUTE, &mut value[..])?;
    Ok(serde_json::from_slice(&value[..length])?)
}
