//! Partial: a file has a temporary name until it is complete.
//!
//! ```text
//!   .NAME.onewrite-PID ──keep──► NAME          dropped, or remove_all: gone
//! ```
//!
//! # Invariants
//! - The file with the final name is complete: it is the old one or the new one. `kill -9` leaves at most a file with a
//!   temporary name, which may be deleted.
//! - Pipes, devices and files in `/proc` are written directly; so is a file in a directory that takes no new names. A
//!   symbolic link is followed.
//! - A replaced file keeps its permissions and, if that is allowed, its owner.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onewrite_device::{Access, Hold};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// The partial files of this process.
static PARTIALS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that is not complete yet.
#[derive(Debug)]
#[must_use]
pub struct Partial {
    /// Final path.
    target: PathBuf,
    /// Temporary path; `None` if the file is written directly.
    temporary: Option<PathBuf>,
    /// Lock on the file that is replaced.
    _hold: Option<Hold>,
}

/// Most bytes of a name that its temporary name contains; a name may have 255.
const NAME_MAX: usize = 200;
/// Most symbolic links to follow, as in Linux.
const LINKS_MAX: usize = 40;

impl Partial {
    /// Creates the file, empty.
    ///
    /// # Errors
    /// If it cannot be created; if the file at `path` may not be written or others use it.
    pub fn create(path: &Path) -> io::Result<(File, Partial)> {
        let Some(target) = destination(path)? else { return straight(path) };
        let old = match std::fs::metadata(&target) {
            Ok(metadata) => Some(replaceable(&target, metadata)?),
            Err(_) => None,
        };
        match place(&target) {
            Ok((file, temporary)) => {
                let hold = old.and_then(|(metadata, hold)| {
                    take_over(&file, &metadata);
                    hold
                });
                Ok((file, Partial { target, temporary: Some(temporary), _hold: hold }))
            }
            Err(error) if old.is_some() && error.kind() == ErrorKind::PermissionDenied => straight(path),
            Err(error) => Err(error),
        }
    }

    /// Whether [`Partial::create`] would succeed, as far as this can be known beforehand.
    ///
    /// # Errors
    /// The reason why not.
    pub fn may_create(path: &Path) -> io::Result<()> {
        let Some(target) = destination(path)? else { return Ok(()) };
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let place = if target.exists() { &target } else { directory };
        Ok(rustix::fs::access(place, rustix::fs::Access::WRITE_OK)?)
    }

    /// Its current path.
    pub fn path(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.target)
    }

    /// Makes the complete file durable and gives it its final name, in place of any old file.
    ///
    /// # Errors
    /// If it cannot be made durable or renamed; then it is removed.
    pub fn keep(self) -> io::Result<()> {
        self.make_durable()?;
        self.keep_unsynced()
    }

    /// [`Partial::keep`] without the wait for the disk, for one of many files.
    ///
    /// # Errors
    /// If it cannot be renamed; then it is removed.
    pub(crate) fn keep_unsynced(mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        match std::fs::rename(temporary, &self.target) {
            // The target is mounted into a container by itself, or belongs to another user in a directory like /tmp.
            Err(error) if matches!(error.kind(), ErrorKind::ResourceBusy | ErrorKind::PermissionDenied) => {
                self.pour()?;
                return Ok(());
            }
            renamed => renamed?,
        }
        self.forget();
        Ok(())
    }

    /// [`Partial::keep`] for a name that must be free.
    ///
    /// # Errors
    /// As there; also if the name is taken by now. That file then stays unchanged.
    pub fn keep_new(mut self) -> io::Result<()> {
        self.make_durable()?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        match rustix::fs::renameat_with(CWD, temporary, CWD, &self.target, RenameFlags::NOREPLACE) {
            // The file system cannot do it: make a second name instead, which never replaces an old one.
            Err(Errno::INVAL | Errno::NOSYS) => {
                std::fs::hard_link(temporary, &self.target)?;
                return Ok(());
            }
            renamed => renamed?,
        }
        self.forget();
        Ok(())
    }

    fn make_durable(&self) -> io::Result<()> {
        if self.temporary.is_none() {
            return Ok(());
        }
        File::open(self.path())?.sync_all()
    }

    /// Copies the content into the target, which stays in place.
    fn pour(&self) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(&self.target)?;
        io::copy(&mut File::open(self.path())?, &mut file)?;
        file.sync_all()
    }

    /// Marks the file as renamed: nothing is left to remove.
    fn forget(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            partials().remove(&temporary);
        }
        let directory = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Ok(directory) = File::open(directory.unwrap_or(Path::new("."))) {
            // The new name is there; whether it survives a power cut is up to the file system.
            let _ = directory.sync_all();
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It may not be removable; the caller reports the first error.
            let _ = std::fs::remove_file(temporary);
            partials().remove(temporary);
        }
    }
}

/// Removes every partial file before the process ends without unwinding. Afterwards nobody can create one: whoever
/// tries waits forever.
pub fn remove_all() {
    let partials = partials();
    for path in partials.iter() {
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(partials);
}

fn partials() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTIALS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn straight(path: &Path) -> io::Result<(File, Partial)> {
    let file = File::create(path)?;
    Ok((file, Partial { target: path.to_owned(), temporary: None, _hold: None }))
}

/// The path at which a file called `path` is created or replaced; `None` if it must be written directly.
fn destination(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if parent.canonicalize()?.starts_with("/proc") {
            return Ok(None);
        }
        match std::fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => place = parent.join(std::fs::read_link(&place)?),
            Ok(found) => return Ok(found.is_file().then_some(place)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(place)),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

/// Checks that the file at `target` may be written, and locks it. A file that may not be read is not locked.
fn replaceable(target: &Path, metadata: Metadata) -> io::Result<(Metadata, Option<Hold>)> {
    OpenOptions::new().write(true).open(target)?;
    match Hold::take(target, Access::Alone) {
        Ok(hold) => Ok((metadata, Some(hold))),
        Err(busy @ onewrite_device::Error::Busy { .. }) => {
            Err(io::Error::new(ErrorKind::ResourceBusy, busy.to_string()))
        }
        Err(_) => Ok((metadata, None)),
    }
}

fn take_over(file: &File, old: &Metadata) {
    // Only root can change the owner; otherwise the file belongs to its writer.
    let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    let _ = file.set_permissions(Permissions::from_mode(old.mode() & 0o777));
}

/// Creates a file with a temporary name beside `target`.
fn place(target: &Path) -> io::Result<(File, PathBuf)> {
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut partials = partials();
    for number in 0_u32.. {
        let path = target.with_file_name(temporary_name(name, number));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                partials.insert(path.clone());
                return Ok((file, path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn temporary_name(name: &OsStr, number: u32) -> OsString {
    let mut made = b".".to_vec();
    made.extend(name.as_bytes().iter().take(NAME_MAX));
    made.extend(format!(".onewrite-{}", std::process::id()).bytes());
    if number > 0 {
        made.extend(format!(".{number}").bytes());
    }
    OsString::from_vec(made)
}

/// Whether two paths lead to the same regular file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
