//! Hold: keeps others out of an image or disk while it is open; refuses one that others use.
//!
//! | | reads | writes |
//! |---|---|---|
//! | file | `flock`, shared | `flock`, alone |
//! | block device | `flock`, shared; refused while anybody has claimed it | `flock`, alone; claimed (`O_EXCL`) |
//! | file behind a loop device | both: the file's, and the device's | both |
//!
//! The kernel claims a block device, or its partition's disk, for a mounted file system, swap, device mapper and md.
//! An image or disk in use is refused at once, with the name of its user. Two users are waited for, at most three
//! seconds: udev, which looks at a device only for a moment, and a process that has ended, whose last requests the
//! kernel still carries out (a killed one that used io_uring).
//!
//! A file system without `flock` lets everybody in: there this module sees only loop devices and swap.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::users::{self, Locker, Loop, Use};
use crate::error::{Error, refuse};

/// Why a file or disk is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading, beside other readers.
    Shared,
    /// For changes, with no other user.
    Alone,
}

/// Keeps others out until it is dropped. See the module's head.
#[derive(Debug)]
pub struct Hold {
    _files: Vec<File>,
}

/// Number of tries for a lock that udev or an ended process holds, or whose holder has gone meanwhile.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);

impl Hold {
    /// Holds the file or disk at `path` without opening it for use.
    ///
    /// # Errors
    /// If it cannot be read, or others use it.
    pub fn take(path: &Path, access: Access) -> Result<Hold, Error> {
        let metadata = std::fs::metadata(path).map_err(|error| unread(path, &error))?;
        if metadata.file_type().is_block_device() {
            return Hold::device(path, access);
        }
        let file = File::open(path).map_err(|error| unread(path, &error))?;
        let mut hold = Hold::file(path, &file, access)?;
        hold._files.push(file);
        Ok(hold)
    }

    /// Holds the regular file `file`, which was opened as `path`, while both live.
    pub(super) fn file(path: &Path, file: &File, access: Access) -> Result<Hold, Error> {
        let metadata = file.metadata().map_err(|error| unread(path, &error))?;
        if let Some(found) = users::of_file(metadata.dev(), metadata.ino()) {
            return Err(busy(path, found));
        }
        lock(path, file, access)?;
        let loops = users::loops_of(metadata.dev(), metadata.ino());
        let held = loops.iter().map(|one| behind(path, one, access)).collect::<Result<Vec<_>, Error>>()?;
        Ok(Hold { _files: held.into_iter().flatten().collect() })
    }

    /// Holds the block device at `path`, and the file behind it if it is a loop device.
    pub(super) fn device(path: &Path, access: Access) -> Result<Hold, Error> {
        let metadata = std::fs::metadata(path).map_err(|error| unread(path, &error))?;
        let mut files = claim(path, &metadata, access)?;
        let device = users::number(metadata.rdev());
        if let Some(one) = users::loops().into_iter().find(|one| one.number == device)
            && let Ok(backing) = File::open(&one.backing)
        {
            let told = |error| match error {
                Error::Busy { by, cure, .. } => {
                    let by = format!("the loop device of {}, which is {by}", one.backing.display());
                    busy(path, Use { by, cure })
                }
                other => other,
            };
            lock(&one.backing, &backing, access).map_err(told)?;
            files.push(backing);
        }
        Ok(Hold { _files: files })
    }
}

fn unread(path: &Path, error: &io::Error) -> Error {
    refuse(path, "open", error, "name an existing image or block device that you may read")
}

fn busy(path: &Path, Use { by, cure }: Use) -> Error {
    Error::Busy { path: path.display().to_string(), by, cure }
}

/// Holds the loop device `one` on the file at `path`. If it may not be opened, looks for its users by name.
fn behind(path: &Path, one: &Loop, access: Access) -> Result<Vec<File>, Error> {
    let device = one.device.display();
    let told = |found: Use| {
        let by = format!("the image behind {device}, which is {}", found.by);
        Err(busy(path, Use { by, cure: found.cure }))
    };
    let metadata = match std::fs::metadata(&one.device) {
        Ok(metadata) if users::number(metadata.rdev()) == one.number => metadata,
        _ => return users::of_device(one.number).map_or(Ok(Vec::new()), told),
    };
    match claim(&one.device, &metadata, access) {
        Err(Error::Busy { by, cure, .. }) => told(Use { by, cure }),
        Err(_) => users::of_device(one.number).map_or(Ok(Vec::new()), told),
        Ok(files) => Ok(files),
    }
}

/// Locks a block device and claims it. For reading, only tests whether a claim would succeed.
fn claim(path: &Path, metadata: &Metadata, access: Access) -> Result<Vec<File>, Error> {
    let open = |flags: OFlags| {
        let flags = (flags | OFlags::NONBLOCK).bits() as i32;
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    let device = users::number(metadata.rdev());
    let file = open(OFlags::empty()).map_err(|error| unread(path, &error))?;
    lock(path, &file, access)?;
    for tries in 1.. {
        match open(OFlags::EXCL) {
            Ok(claimed) if access == Access::Alone => return Ok(vec![file, claimed]),
            Ok(_) => return Ok(vec![file]),
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return Err(unread(path, &error)),
            Err(_) => {
                if let Some(found) = users::of_device(device) {
                    return Err(busy(path, found));
                }
                // Another reader may be testing at this moment.
                if tries == TRIES {
                    break;
                }
                pause();
            }
        }
    }
    Err(busy(path, Use { by: "in use by the kernel or another program".into(), cure: "wait or stop that".into() }))
}

fn lock(path: &Path, file: &File, access: Access) -> Result<(), Error> {
    let operation = match access {
        Access::Shared => FlockOperation::NonBlockingLockShared,
        Access::Alone => FlockOperation::NonBlockingLockExclusive,
    };
    let mut tries = 0;
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK | Errno::INVAL) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(refuse(path, "lock", &error.into(), "check the file system it is on")),
        }
        let metadata = file.metadata().map_err(|error| unread(path, &error))?;
        let holders = users::lockers(metadata.dev(), metadata.ino());
        tries += 1;
        if tries < TRIES && holders.iter().all(Locker::goes_soon) {
            pause();
            continue;
        }
        let named: Vec<String> = holders.iter().map(Locker::to_string).collect();
        let by = if named.is_empty() { "another program".to_owned() } else { named.join(", ") };
        return Err(busy(
            path,
            Use { by: format!("in use by {by}"), cure: "wait or stop it (a mount: `onewrite umount DIR`)".into() },
        ));
    }
}

#[expect(clippy::disallowed_methods, reason = "real disks are opened in real time, before a run begins")]
fn pause() {
    std::thread::sleep(PAUSE);
}
