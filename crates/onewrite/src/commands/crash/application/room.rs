//! Room: a private directory of one run, for its mounts and trees. It removes what killed runs left.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use onewrite_host::fuse::detach;
use rustix::fs::{FlockOperation, flock};

use super::program::tool;

const PREFIX: &str = "onewrite-crash-";
/// Held locked while the run goes on.
const LOCK: &str = "lock";

/// The directory; removed when dropped.
pub struct Room {
    path: PathBuf,
    _lock: File,
}

impl Room {
    /// # Errors
    /// The host's error.
    pub fn new() -> anyhow::Result<Room> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_left(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| path.display().to_string())?;
        let lock = File::create_new(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Room { path, _lock: lock })
    }

    /// A path in the room.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the rooms of this user's runs that were killed.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|id| id.parse::<u32>().ok());
        if process.is_some_and(|process| was_killed(&entry.path(), process)) {
            remove(&entry.path());
        }
    }
}

/// Whether a directory is a room of this user, and neither its process nor its lock's holder lives. The process tells
/// in the moment before a new room is locked, the lock tells of runs in other containers.
fn was_killed(room: &Path, process: u32) -> bool {
    let is_ours = fs::symlink_metadata(room).is_ok_and(|room| {
        room.is_dir() && room.uid() == rustix::process::geteuid().as_raw() && room.mode() & 0o077 == 0
    });
    let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_ours && !Path::new("/proc").join(process.to_string()).exists() && File::open(room.join(LOCK)).is_ok_and(is_free)
}

/// Takes off the mounts in a room and removes it. A room with a mount that stays is left as it is.
fn remove(room: &Path) {
    for name in ["mnt", "spoken"] {
        let _ = detach(&room.join(name));
    }
    free_loop_devices(room);
    let _ = detach(&room.join("disk"));
    let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev()).ok();
    let inside: Vec<PathBuf> = fs::read_dir(room).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if inside.iter().all(|path| device(path).is_some() && device(path) == device(room)) {
        let _ = fs::remove_dir_all(room);
    }
}

/// Detaches the loop devices over files in a room.
fn free_loop_devices(room: &Path) {
    for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()).starts_with(room) {
            let device = Path::new("/dev").join(block.file_name());
            let _ = tool("losetup", &["-d".as_ref(), device.as_ref()]);
        }
    }
}
