//! Operations on a file system that the kernel has mounted, through system calls.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use onewrite_fs::{Allocation, AttributeManner, DeviceNumber, FileKind, RenameManner, SeekTarget, Timestamp};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;

use super::entry::{Entry, Tree};
use super::model::{device_of, takes_attribute};
use super::operation::{Answer, NOT_ASKED, OpenManner, Operation, Outcome, SLOTS, Target, filled_name, link_target};

/// A task on a mounted directory, with its open handles.
pub struct Kernel {
    root: PathBuf,
    slots: [Option<File>; SLOTS],
}

fn number(error: Errno) -> i32 {
    error.raw_os_error()
}

fn io_number(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn kind_of(kind: std::fs::FileType) -> FileKind {
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharacterDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}

fn mode(permissions: u16) -> Mode {
    Mode::from_raw_mode(permissions.into())
}

impl Kernel {
    pub fn new(root: &Path) -> Kernel {
        Kernel { root: root.to_owned(), slots: [const { None }; SLOTS] }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn kind(&self, path: &str) -> Result<FileKind, i32> {
        Ok(kind_of(std::fs::symlink_metadata(self.at(path)).map_err(io_number)?.file_type()))
    }

    pub fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::SetAttribute(target, name, ..)
            | Operation::RemoveAttribute(target, name)
            | Operation::GetAttribute(target, name) => self.apply_attribute(target, name, operation),
            _ => match operation.target() {
                Some(target) => self.apply_to(&self.file(target)?, operation),
                None => self.apply_names(operation),
            },
        }
    }

    fn file(&self, target: &Target) -> Result<File, i32> {
        match target {
            Target::Slot(slot) => self.slots[*slot].as_ref().ok_or(NOT_ASKED)?.try_clone().map_err(io_number),
            Target::Path(path) => self.open(path, OpenManner::default()),
        }
    }

    fn open(&self, path: &str, manner: OpenManner) -> Result<File, i32> {
        match self.kind(path) {
            Ok(kind) if kind != FileKind::Regular && !manner.exclusive => return Err(NOT_ASKED),
            _ => (),
        }
        let mut flags = OFlags::RDWR | OFlags::NOFOLLOW;
        flags.set(OFlags::CREATE, manner.create);
        flags.set(OFlags::EXCL, manner.exclusive);
        flags.set(OFlags::TRUNC, manner.truncate);
        rustix::fs::open(self.at(path), flags, mode(0o644)).map(File::from).map_err(number)
    }

    fn apply_attribute(&self, target: &Target, name: &str, operation: &Operation) -> Outcome {
        let (path, kind) = match target {
            Target::Path(path) => (self.at(path), self.kind(path)?),
            Target::Slot(slot) => {
                use std::os::fd::AsRawFd;
                let file = self.slots[*slot].as_ref().ok_or(NOT_ASKED)?;
                (PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), FileKind::Regular)
            }
        };
        if !takes_attribute(kind, name) {
            return Err(NOT_ASKED);
        }
        let follow = matches!(target, Target::Slot(_));
        let mut value = vec![0; 4096];
        let outcome = match (operation, follow) {
            (Operation::SetAttribute(_, _, value, manner), _) => {
                let flags = match manner {
                    AttributeManner::Either => XattrFlags::empty(),
                    AttributeManner::Create => XattrFlags::CREATE,
                    AttributeManner::Replace => XattrFlags::REPLACE,
                };
                match follow {
                    true => rustix::fs::setxattr(&path, name, value, flags),
                    false => rustix::fs::lsetxattr(&path, name, value, flags),
                }
            }
            (Operation::RemoveAttribute(..), true) => rustix::fs::removexattr(&path, name),
            (Operation::RemoveAttribute(..), false) => rustix::fs::lremovexattr(&path, name),
            (_, true) => rustix::fs::getxattr(&path, name, &mut value[..]).map(|length| value.truncate(length)),
            (_, false) => rustix::fs::lgetxattr(&path, name, &mut value[..]).map(|length| value.truncate(length)),
        };
        let is_get = matches!(operation, Operation::GetAttribute(..));
        outcome.map(|()| if is_get { Answer::Bytes(value) } else { Answer::Done }).map_err(number)
    }

    fn apply_names(&mut self, operation: &Operation) -> Outcome {
        let done = match operation {
            Operation::Open(path, slot, manner) => {
                self.slots[*slot] = None;
                self.slots[*slot] = Some(self.open(path, *manner)?);
                Ok(())
            }
            Operation::Close(slot) => {
                self.slots[*slot] = None;
                Ok(())
            }
            Operation::Make(path, kind, permissions) => self.make(path, *kind, *permissions),
            Operation::Symlink(path, length) => rustix::fs::symlink(link_target(*length), self.at(path)),
            Operation::Link(old, new) => rustix::fs::linkat(CWD, self.at(old), CWD, self.at(new), AtFlags::empty()),
            Operation::Unlink(path) => rustix::fs::unlink(self.at(path)),
            Operation::RemoveDirectory(path) => rustix::fs::rmdir(self.at(path)),
            Operation::Rename(from, to, manner) => {
                let flags = match manner {
                    RenameManner::Replace => RenameFlags::empty(),
                    RenameManner::NoReplace => RenameFlags::NOREPLACE,
                    RenameManner::Exchange => RenameFlags::EXCHANGE,
                };
                rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), flags)
            }
            Operation::Fill(path, first, count) => self.fill(path, *first..first + count)?,
            Operation::Clear(path, first, count) => self.clear(path, *first..first + count)?,
            Operation::List(path) => return self.list(path),
            Operation::ReadLink(path) => {
                let target = std::fs::read_link(self.at(path)).map_err(io_number)?;
                return Ok(Answer::Bytes(target.as_os_str().as_bytes().to_vec()));
            }
            Operation::Permissions(path, permissions) => match self.kind(path)? {
                FileKind::Symlink => return Err(NOT_ASKED),
                _ => rustix::fs::chmod(self.at(path), mode(*permissions)),
            },
            Operation::Owner(path, user, group) => {
                let (user, group) = (Some(Uid::from_raw(*user)), Some(Gid::from_raw(*group)));
                rustix::fs::chownat(CWD, self.at(path), user, group, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::Times(path, accessed, modified) => return self.set_times(path, *accessed, *modified),
            _ => unreachable!("not about names: {operation:?}"),
        };
        done.map(|()| Answer::Done).map_err(number)
    }

    fn make(&self, path: &str, kind: FileKind, permissions: u16) -> Result<(), Errno> {
        let (path, mode) = (self.at(path), mode(permissions));
        let DeviceNumber { major, minor } = device_of(kind);
        let device = rustix::fs::makedev(major, minor);
        let kind = match kind {
            FileKind::Regular => {
                return rustix::fs::open(path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, mode).map(drop);
            }
            FileKind::Directory => return rustix::fs::mkdir(path, mode),
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            FileKind::CharacterDevice => FileType::CharacterDevice,
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::Symlink => unreachable!("made by Symlink"),
        };
        rustix::fs::mknodat(CWD, path, kind, mode, device)
    }

    fn expect_directory(&self, path: &str) -> Result<(), i32> {
        if self.kind(path)? == FileKind::Directory { Ok(()) } else { Err(NOT_ASKED) }
    }

    fn fill(&self, path: &str, numbers: std::ops::Range<u32>) -> Result<Result<(), Errno>, i32> {
        self.expect_directory(path)?;
        for one in numbers {
            match self.make(&format!("{path}/{}", filled_name(one)), FileKind::Regular, 0o600) {
                Ok(()) | Err(Errno::EXIST) => (),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    fn clear(&self, path: &str, numbers: std::ops::Range<u32>) -> Result<Result<(), Errno>, i32> {
        self.expect_directory(path)?;
        for one in numbers {
            match rustix::fs::unlink(self.at(path).join(filled_name(one))) {
                Ok(()) | Err(Errno::NOENT) => (),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    fn list(&self, path: &str) -> Outcome {
        self.expect_directory(path)?;
        let entries = std::fs::read_dir(self.at(path)).map_err(io_number)?;
        let mut names: Vec<Vec<u8>> =
            entries.map(|entry| entry.expect("entry").file_name().as_bytes().to_vec()).collect();
        names.sort();
        Ok(Answer::Names(names))
    }

    fn set_times(&self, path: &str, accessed: Timestamp, modified: Timestamp) -> Outcome {
        let time = |at: Timestamp| Timespec { tv_sec: at.seconds, tv_nsec: at.nanoseconds.into() };
        let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
        rustix::fs::utimensat(CWD, self.at(path), &times, AtFlags::SYMLINK_NOFOLLOW).map_err(number)?;
        let found = std::fs::symlink_metadata(self.at(path)).map_err(io_number)?;
        let stamp = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
        Ok(Answer::Times(stamp(found.atime(), found.atime_nsec()), stamp(found.mtime(), found.mtime_nsec())))
    }

    fn apply_to(&self, file: &File, operation: &Operation) -> Outcome {
        let done = match operation {
            Operation::Write(_, offset, bytes) => rustix::io::pwrite(file, bytes, *offset).map(drop),
            Operation::Append(_, bytes) => {
                let end = file.metadata().expect("an open file").len();
                rustix::io::pwrite(file, bytes, end).map(drop)
            }
            Operation::Read(_, offset, length) => {
                let mut bytes = vec![0; *length as usize];
                let read = rustix::io::pread(file, &mut bytes[..], *offset).map_err(number)?;
                bytes.truncate(read);
                return Ok(Answer::Bytes(bytes));
            }
            Operation::Truncate(_, size) => rustix::fs::ftruncate(file, *size),
            Operation::Allocate(_, offset, length, allocation) => {
                let flags = match allocation {
                    Allocation::Extend => FallocateFlags::empty(),
                    Allocation::KeepSize => FallocateFlags::KEEP_SIZE,
                    Allocation::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    Allocation::ZeroRange => FallocateFlags::ZERO_RANGE,
                    Allocation::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
                    Allocation::InsertRange => FallocateFlags::INSERT_RANGE,
                };
                rustix::fs::fallocate(file, flags, *offset, *length)
            }
            Operation::Seek(_, offset, target) => {
                let from = match target {
                    SeekTarget::Data => SeekFrom::Data(*offset),
                    SeekTarget::Hole => SeekFrom::Hole(*offset),
                };
                return rustix::fs::seek(file, from).map(Answer::Number).map_err(number);
            }
            Operation::Sync(_, true) => rustix::fs::fdatasync(file),
            Operation::Sync(_, false) => rustix::fs::fsync(file),
            _ => unreachable!("not about a file: {operation:?}"),
        };
        done.map(|()| Answer::Done).map_err(number)
    }

    /// Inode number, modification time and change time of a path.
    pub fn stamps(&self, path: &str) -> Option<(u64, Timestamp, Timestamp)> {
        let found = std::fs::symlink_metadata(self.at(path)).ok()?;
        let stamp = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
        Some((found.ino(), stamp(found.mtime(), found.mtime_nsec()), stamp(found.ctime(), found.ctime_nsec())))
    }

    fn entry(&self, path: &str) -> Entry {
        let full = self.at(path);
        let found = std::fs::symlink_metadata(&full).expect("metadata");
        let kind = kind_of(found.file_type());
        let content = match kind {
            FileKind::Symlink => std::fs::read_link(&full).expect("target").as_os_str().as_bytes().to_vec(),
            FileKind::Regular => std::fs::read(&full).expect("content"),
            _ => Vec::new(),
        };
        let has_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
        let device = DeviceNumber::new(rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
        Entry {
            kind,
            permissions: (found.mode() & 0o7777) as u16,
            owner: (found.uid(), found.gid()),
            links: found.nlink() as u32,
            size: found.size(),
            device: if has_device { device } else { DeviceNumber::NONE },
            content,
            attributes: attributes(&full),
        }
    }

    /// Everything below the root but `lost+found`.
    pub fn tree(&self) -> Tree {
        let (mut tree, mut pending) = (Tree::new(), vec![String::new()]);
        while let Some(path) = pending.pop() {
            let entry = self.entry(&path);
            if entry.kind == FileKind::Directory {
                let names =
                    std::fs::read_dir(self.at(&path)).expect("names").map(|name| name.expect("name").file_name());
                let names = names.map(|name| name.into_string().expect("UTF-8")).filter(|name| name != "lost+found");
                pending.extend(names.map(|name| if path.is_empty() { name } else { format!("{path}/{name}") }));
            }
            if !path.is_empty() {
                tree.push((path, entry));
            }
        }
        tree.sort_by(|one, other| one.0.cmp(&other.0));
        tree
    }
}

fn attributes(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut list, mut value) = (vec![0; 4096], vec![0; 4096]);
    let length = rustix::fs::llistxattr(path, &mut list[..]).expect("names");
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
    let mut all: Vec<_> = names
        .map(|name| {
            let length = rustix::fs::lgetxattr(path, &name[..], &mut value[..]).expect("value");
            (name, value[..length].to_vec())
        })
        .collect();
    all.sort();
    all
}
