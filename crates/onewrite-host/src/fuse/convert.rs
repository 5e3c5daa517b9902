//! Conversions between the kernel's words and the file-system API's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, Generation, INodeNo};
use onewrite_fs::{Attributes, FileKind, FsError, Ino, Timestamp};

/// How long the kernel may keep what it was told. Nobody else changes the file system, so: a day.
pub(super) const TIME_TO_LIVE: Duration = Duration::from_secs(86_400);

/// Why a request is refused: the error number that the program sees.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Errno);

/// The result of a request.
pub(super) type Answer<T> = Result<T, Refusal>;

impl From<FsError> for Refusal {
    /// An error of the image or of its device is logged: the program sees a number only.
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

/// The kind in the upper bits of `st_mode`; `None` if they name none, or what `mknod` cannot make.
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

/// Major and minor number in the kernel's packed form (`new_encode_dev`).
pub(super) const fn pack_device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The reverse of [`pack_device`].
pub(super) const fn unpack_device(packed: u32) -> (u32, u32) {
    ((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & 0xf_ff00))
}

/// The moment, for a reply.
pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(time.nanoseconds))
}

/// The time of a request. Before 1970 the library (0.18) subtracts the nanoseconds, which the kernel means to be added
/// to a negative second; this takes them back out.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let (span, sign) = match time.duration_since(UNIX_EPOCH) {
        Ok(span) => (span, 1),
        Err(before) => (before.duration(), -1),
    };
    Timestamp { seconds: sign * span.as_secs() as i64, nanoseconds: span.subsec_nanos() }
}

/// Inode numbers: FUSE calls the root 1, a file system has its own number for it and no other use of 1.
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

    pub(super) fn attributes(self, attributes: &Attributes) -> FileAttr {
        let Attributes { ino, kind, permissions, links, uid, gid, size, sectors, device, .. } = *attributes;
        FileAttr {
            ino: self.outside(ino),
            size,
            blocks: sectors,
            atime: system_time(attributes.accessed),
            mtime: system_time(attributes.modified),
            ctime: system_time(attributes.changed),
            crtime: system_time(attributes.created),
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
        for device in [(8, 1), (259, 300), (0xfff, 0xf_ffff)] {
            assert_eq!(unpack_device(pack_device(device)), device);
        }
    }
}
