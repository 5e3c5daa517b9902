//! File: an open file with the flags of open(2).

use onewrite_fs::{FileKind, NewNode};
use onewrite_host::{File, Metadata, Volume};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// Most bytes of one call of the file system. Longer reads and writes are done in pieces.
const PIECE_BYTES: usize = 1 << 20;

/// Most bytes that one read or write takes, as in Linux: the largest whole page below 2 GiB.
pub(crate) const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// Flags that mean something here, or change nothing.
const KNOWN: OFlags = OFlags::RWMODE
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::LARGEFILE);

/// An open file and how it was opened.
pub(crate) struct OpenFile {
    file: File,
    flags: OFlags,
}

impl OpenFile {
    /// Opens or makes a file, as open(2) does with `flags`; a new file gets `permissions`.
    ///
    /// # Errors
    /// EINVAL for a flag that is not known; what open(2) refuses.
    pub(crate) fn open(volume: &Volume, path: &[u8], flags: i32, permissions: u32) -> Result<OpenFile, Failure> {
        let flags = known(flags)?;
        let node = NewNode { permissions: (permissions & 0o7777) as u16, ..NewNode::FILE };
        let file = match (flags.contains(OFlags::CREATE), flags.contains(OFlags::EXCL)) {
            (true, true) => volume.create_as(path, node)?,
            (true, false) => volume.open_or_create(path, node)?,
            (false, _) => volume.open_file(path)?,
        };
        judge(file.metadata()?.kind, flags)?;
        if flags.contains(OFlags::TRUNC) {
            file.set_size(0)?;
        }
        Ok(OpenFile { file, flags })
    }

    /// Gives `take` what lies from `offset` on, piece by piece; at most `count` bytes, fewer only at the end of the
    /// file or before an error. Returns their number.
    ///
    /// # Errors
    /// EBADF if it is not open for reading; EINVAL for a negative offset; what reading meets at the first byte.
    pub(crate) fn read(&self, offset: i64, count: usize, mut take: impl FnMut(usize, &[u8])) -> Result<usize, Failure> {
        self.check(OFlags::WRONLY, "reading")?;
        let (offset, count) = (position(offset)?, count.min(TRANSFER_BYTES_MAX));
        let mut done = 0;
        while done < count {
            let length = (count - done).min(PIECE_BYTES);
            match self.file.read_at(offset + done as u64, length as u64) {
                Ok(bytes) if bytes.is_empty() => break,
                Ok(bytes) => {
                    take(done, &bytes);
                    done += bytes.len();
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Writes `bytes` at `offset`, or with `O_APPEND` behind the end, whatever the offset. Returns how many were
    /// written: fewer only before an error. What is appended by one call is in one piece.
    ///
    /// # Errors
    /// As [`OpenFile::read`]; what writing meets at the first byte.
    pub(crate) fn write(&self, offset: i64, bytes: &[u8]) -> Result<usize, Failure> {
        self.check(OFlags::RDONLY, "writing")?;
        let (offset, bytes) = (position(offset)?, &bytes[..bytes.len().min(TRANSFER_BYTES_MAX)]);
        if self.flags.contains(OFlags::APPEND) {
            return Ok(self.file.append(bytes).map(|_| bytes.len())?);
        }
        let mut done = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            match self.file.write_at(offset + done as u64, piece) {
                Ok(()) => done += piece.len(),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// The file, to take its content.
    ///
    /// # Errors
    /// EBADF if it is not open for reading.
    pub(crate) fn source(&self) -> Result<&File, Failure> {
        self.check(OFlags::WRONLY, "reading")?;
        Ok(&self.file)
    }

    /// The file, to change it.
    ///
    /// # Errors
    /// EBADF if it is not open for writing.
    pub(crate) fn target(&self) -> Result<&File, Failure> {
        self.check(OFlags::RDONLY, "writing")?;
        Ok(&self.file)
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// EINVAL for a negative size or a file that is not open for writing; what the file system refuses.
    pub(crate) fn set_size(&self, size: i64) -> Result<(), Failure> {
        if self.flags.intersection(OFlags::RWMODE) == OFlags::RDONLY {
            return Err(Failure::new(Errno::INVAL, "the file is not open for writing"));
        }
        Ok(self.file.set_size(position(size)?)?)
    }

    /// Makes content, attributes and name durable.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        Ok(self.file.sync()?)
    }

    /// Makes the content durable, and what is needed to read it.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn sync_data(&self) -> Result<(), Failure> {
        Ok(self.file.sync_data()?)
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// A damaged image.
    pub(crate) fn metadata(&self) -> Result<Metadata, Failure> {
        Ok(self.file.metadata()?)
    }

    /// EBADF if the file was opened only for the other purpose.
    fn check(&self, refused: OFlags, purpose: &str) -> Result<(), Failure> {
        match self.flags.intersection(OFlags::RWMODE) == refused {
            true => Err(Failure::new(Errno::BADF, format!("the file is not open for {purpose}"))),
            false => Ok(()),
        }
    }
}

/// Whether a file with these flags may change something.
pub(crate) fn is_change(flags: i32) -> bool {
    let flags = OFlags::from_bits_retain(flags as u32);
    flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
}

fn known(flags: i32) -> Result<OFlags, Failure> {
    let flags = OFlags::from_bits_retain(flags as u32);
    let unknown = flags.difference(KNOWN);
    if !unknown.is_empty() || flags.contains(OFlags::WRONLY | OFlags::RDWR) {
        return Err(Failure::new(Errno::INVAL, format!("open flags {flags:?}: not supported: {unknown:?}")));
    }
    if flags.contains(OFlags::CREATE | OFlags::DIRECTORY) {
        return Err(Failure::new(Errno::INVAL, "O_CREAT makes files; use ow_mkdir"));
    }
    Ok(flags)
}

/// Refuses what cannot be opened in that way.
fn judge(kind: FileKind, flags: OFlags) -> Result<(), Failure> {
    let changes = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    match kind {
        FileKind::Directory if flags.intersects(changes) => {
            Err(Failure::new(Errno::ISDIR, "a directory opens for reading only"))
        }
        FileKind::Directory => Ok(()),
        _ if flags.contains(OFlags::DIRECTORY) => Err(Failure::new(Errno::NOTDIR, "it is no directory")),
        FileKind::Regular => Ok(()),
        _ => Err(Failure::new(Errno::NXIO, "pipes, sockets and devices in an image do not open")),
    }
}

pub(crate) fn position(offset: i64) -> Result<u64, Failure> {
    u64::try_from(offset).map_err(|_| Failure::new(Errno::INVAL, format!("{offset} is below 0")))
}
