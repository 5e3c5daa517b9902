//! Conversions between the types of FUSE and those of the file-system API.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileHandle, FileType, Generation, INodeNo};
use onewrite_fs::{Attributes, DeviceNumber, FileKind, FsError, Ino, Timestamp};

use super::handles::Open;

/// How long the kernel may cache a reply: a day, because nobody else changes the file system.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);

/// How long the kernel may cache these attributes. It does not learn that a write took set-ID bits away
/// (`FUSE_HANDLE_KILLPRIV_V2`), so it must ask for those of a file that has any.
pub(super) fn time_to_live(attributes: &Attributes) -> Duration {
    let may_lose = attributes.kind == FileKind::Regular && attributes.permissions & 0o6000 != 0;
    if may_lose { Duration::ZERO } else { TIME_TO_LIVE }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Caller {
    pub(super) fn of(request: &fuser::Request) -> Caller {
        Caller { uid: request.uid(), gid: request.gid() }
    }
}

/// The refusal of a request: the error number that the program gets.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Errno);

/// The result of a request.
pub(super) type Answer<T> = Result<T, Refusal>;

impl From<FsError> for Refusal {
    /// Logs an error of the image or its device, because the program gets only a number.
    fn from(error: FsError) -> Refusal {
        match error {
            FsError::Device(_) | FsError::Damaged { .. } => tracing::error!("{error}"),
            _ => tracing::debug!("{error}"),
        }
        Refusal(Errno::from_i32(error.errno()))
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Refusal {
        Refusal(error)
    }
}

pub(super) const fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharacterDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind in the upper bits of `st_mode`; `None` if they are invalid or name a kind that `mknod` cannot make.
pub(super) const fn kind_of_mode(mode: u32) -> Option<FileKind> {
    match mode & 0o170_000 {
        0o100_000 => Some(FileKind::Regular),
        0o010_000 => Some(FileKind::Fifo),
        0o140_000 => Some(FileKind::Socket),
        0o020_000 => Some(FileKind::CharacterDevice),
        0o060_000 => Some(FileKind::BlockDevice),
        _ => None,
    }
}

/// A device's number in the kernel's packed form (`new_encode_dev`).
pub(super) const fn pack_device(device: DeviceNumber) -> u32 {
    let DeviceNumber { major, minor } = device;
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse of [`pack_device`].
pub(super) const fn unpack_device(packed: u32) -> DeviceNumber {
    DeviceNumber::new((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & 0xf_ff00))
}

/// Converts a time for a reply.
pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nanoseconds))
}

/// Converts the time of a request. Before 1970, the kernel adds the nanoseconds to a negative second, but the library
/// (0.18) subtracts them; this undoes the subtraction.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let (span, sign) = match time.duration_since(UNIX_EPOCH) {
        Ok(span) => (span, 1),
        Err(before) => (before.duration(), -1),
    };
    Timestamp { seconds: sign * span.as_secs() as i64, nanoseconds: span.subsec_nanos() }
}

/// Converts inode numbers. FUSE uses 1 for the root; a file system has its own number for the root and does not
/// otherwise use 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) root: Ino,
}

impl Numbers {
    pub(super) fn outside(self, ino: Ino) -> INodeNo {
        if ino == self.root { INodeNo::ROOT } else { INodeNo(ino.0) }
    }

    pub(super) fn inside(self, number: INodeNo) -> Ino {
        if number == INodeNo::ROOT { self.root } else { Ino(number.0) }
    }

    /// The open file that a request names.
    pub(super) fn open(self, number: INodeNo, handle: FileHandle) -> Open {
        Open { ino: self.inside(number), handle: handle.0 }
    }

    pub(super) fn attributes(self, attributes: &Attributes) -> FileAttr {
        let Attributes { ino, kind, permissions, links, uid, gid, size, sectors, device, .. } = *attributes;
        FileAttr {
            ino: self.outside(ino),
            size,
            blocks: sectors,
            atime: system_time(attributes.accessed),
            mtime: system_time(attributes.modified),
            ctime: system_time(attributes.changed),
            crtime: system_time(attributes.created.unwrap_or_default()),
            kind: file_type(kind),
            perm: permissions,
            nlink: links,
            uid,
            gid,
            rdev: pack_device(device),
            blksize: 4096,
            flags: 0,
        }
    }
}

pub(super) fn generation(attributes: &Attributes) -> Generation {
    Generation(u64::from(attributes.generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_told_right_and_taken_as_the_library_gives_them() {
        let quarter_before = UNIX_EPOCH - Duration::from_millis(250);
        assert_eq!(system_time(Timestamp { seconds: -1, nanoseconds: 750_000_000 }), quarter_before);
        let from_library = UNIX_EPOCH - Duration::new(1, 750_000_000);
        assert_eq!(timestamp(from_library), Timestamp { seconds: -1, nanoseconds: 750_000_000 });
        let late = Timestamp { seconds: 4_000_000_000, nanoseconds: 3 };
        assert_eq!(timestamp(system_time(late)), late);
    }

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for (major, minor) in [(8, 1), (259, 300), (0xfff, 0xf_ffff)] {
            let device = DeviceNumber::new(major, minor);
            assert_eq!(unpack_device(pack_device(device)), device);
        }
    }
}
