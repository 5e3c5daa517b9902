//! Files: requests about content.

use std::ops::Range;

use fuser::Errno;
use onewrite_block::PAGE_SIZE;
use onewrite_fs::{Allocation, AttributeChanges, Content, Data, FsError, Ino, Manner, Position, SeekTarget};

use super::convert::Answer;
use super::handles::{Caching, Change, Manners, Open, Opened};
use super::inodes::Writer;
use super::server::{Mountable, Server};

/// `O_DIRECT` of open(2).
const DIRECT: i32 = 0o40_000;
/// `O_APPEND`, and the mask of what a program may do.
const APPEND: i32 = 0o2_000;
const ACCESS_MODE: i32 = 0o3;
const READ_ONLY: i32 = 0;
const WRITE_ONLY: i32 = 1;
/// `O_TRUNC` of open(2).
pub(super) const TRUNCATE: i32 = 0o1_000;
/// The kernel's flag of an `open` by execve(2), which needs no right to read.
const EXECUTE: i32 = 0o40;
/// Modes of fallocate(2).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
/// Targets of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Most bytes that one `copy_file_range` copies; programs ask again for the rest.
const COPY_BYTES_MAX: u64 = 4 << 20;

/// Bytes from which on a read is that of a kernel which reads ahead, and keeps the pages itself. Smaller ones may come
/// past the kernel's cache, and one behind the other.
const READ_ONCE_MIN: u64 = 64 * 1024;

/// How to read or write this range of a file that was opened with `flags`. A direct access that is not aligned to pages
/// goes through the page cache.
const fn manner(flags: i32, offset: u64, length: u64) -> Manner {
    let direct = flags & DIRECT != 0 && (offset | length).is_multiple_of(PAGE_SIZE as u64);
    Manner { direct, once: length >= READ_ONCE_MIN }
}

/// What a sync of a file makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// Content, and what reading it takes.
    Data,
    /// Times and the like, too.
    Everything,
}

/// What a write did.
pub(super) struct Written {
    /// Offset of its first byte.
    pub(super) place: u64,
    /// Bytes written, from the first on; fewer than asked if there was no room for all.
    pub(super) length: u64,
    /// Whether the inode's pages must leave the kernel's cache before the program gets its answer.
    pub(super) is_stale: bool,
}

impl<F: Mountable> Server<F> {
    pub(super) async fn open(&self, ino: Ino, flags: i32, uid: u32) -> Answer<Opened> {
        let access = flags & ACCESS_MODE;
        let can_read = access != WRITE_ONLY && flags & EXECUTE == 0;
        let can_write = access != READ_ONLY;
        let is_marked = can_write && self.is_marked(ino).await?;
        self.fs.open(ino).await?;
        self.known.opened(ino);
        let caching = if self.known.is_atomic(ino) { Caching::Direct } else { Caching::Cached };
        let opened = self.handles.open(ino, Manners { caching, can_read, can_write, uid, is_marked });
        if flags & TRUNCATE != 0
            && let Err(refusal) = self.truncate_opened(Open { ino, handle: opened.handle }, uid).await
        {
            self.release(Open { ino, handle: opened.handle }).await?;
            return Err(refusal);
        }
        Ok(opened)
    }

    /// `O_TRUNC`: empties a file that was just opened, of a marked file in a draft.
    async fn truncate_opened(&self, open: Open, uid: u32) -> Answer<()> {
        let writer = if uid == 0 { Writer::KeepsSetId } else { Writer::DropsSetId };
        self.drop_privileges(open.ino, writer).await?;
        match self.draft_to_change(open, Change::Other).await? {
            Some(draft) => self.fs.draft_set_size(draft, open.ino, 0).await?,
            None => {
                let changes = AttributeChanges { size: Some(0), ..AttributeChanges::default() };
                self.fs.set_attributes(open.ino, changes).await?;
            }
        }
        Ok(())
    }

    /// Closes a file. Its draft, if it owns one, is aborted; returns whether it did.
    pub(super) async fn release(&self, open: Open) -> Answer<bool> {
        if let Some(draft) = self.handles.begun_by_change(open)
            && self.fs.is_draft_changed(draft)?
        {
            tracing::warn!("{}, an atomic file, was closed without fsync: its changes since the last one go", open.ino);
        }
        let draft = self.handles.close(open);
        let ended = match draft {
            Some(draft) => self.end_if_there(draft).await,
            None => Ok(()),
        };
        if self.known.released(open.ino) {
            self.fs.release(open.ino).await?;
        }
        ended?;
        Ok(draft.is_some())
    }

    /// Reads as the handle sees the file: its draft, or what was committed.
    pub(super) async fn read(&self, open: Open, offset: u64, size: u32, flags: i32) -> Answer<Data> {
        let length = u64::from(size);
        Ok(match self.handles.draft(open) {
            Some(draft) => self.fs.draft_read(draft, open.ino, offset, length).await?,
            None => self.fs.read(open.ino, offset, length, manner(flags, offset, length)).await?,
        })
    }

    /// Calls `reply` with the bytes in one piece. They are collected in memory that is kept for the next reply.
    pub(super) fn in_one_piece(&self, data: &Data, reply: impl FnOnce(&[u8])) {
        let mut bytes = self.reply_bytes.borrow_mut();
        bytes.clear();
        data.append_to(&mut bytes);
        reply(&bytes);
    }

    /// Writes into the handle's draft, or into the file; returns where the bytes went.
    pub(super) async fn write(
        &self,
        open: Open,
        offset: u64,
        bytes: &[u8],
        (flags, writer): (i32, Writer),
    ) -> Answer<Written> {
        let ino = open.ino;
        self.drop_privileges(ino, writer).await?;
        // The kernel may take the size of an aborted draft for the end of the file.
        let is_at_end = flags & APPEND != 0 && self.known.is_atomic(ino);
        let position = if is_at_end { Position::End } else { Position::At(offset) };
        let content = Content::Bytes(bytes);
        let manner = manner(flags, offset, bytes.len() as u64);
        let length = bytes.len() as u64;
        if let Some(draft) = self.draft_to_change(open, Change::Other).await? {
            let place = self.fs.draft_write(draft, ino, position, content).await?;
            let is_stale = !self.sync_written(open, flags).await?.is_empty();
            return Ok(Written { place, length, is_stale });
        }
        let before = self.fs.attributes(ino).await?.size;
        match self.fs.write(ino, position, content, manner).await {
            Ok(place) => Ok(Written { place, length, is_stale: false }),
            Err(error @ FsError::NoSpace { .. }) => {
                // What made the file longer is there; a program that is told of nothing would write it again.
                let after = self.fs.attributes(ino).await?.size;
                let length = if after > before { after.saturating_sub(offset).min(length) } else { 0 };
                if length > 0 { Ok(Written { place: offset, length, is_stale: false }) } else { Err(error.into()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file durable; commits the draft that a change of a marked file began. Returns inodes whose pages must
    /// leave the kernel's cache before the program gets its answer.
    pub(super) async fn sync(&self, open: Open, what: Synced) -> Answer<Vec<Ino>> {
        if let Some(draft) = self.handles.begun_by_change(open) {
            let stale = self.commit_together(&[(open.ino, draft)]).await?.stale;
            self.handles.note_committed(open);
            return Ok(stale);
        }
        match what {
            Synced::Data => self.fs.fdatasync(open.ino).await?,
            Synced::Everything => self.fs.fsync(open.ino).await?,
        }
        Ok(Vec::new())
    }

    pub(super) async fn allocate(&self, open: Open, bytes: Range<u64>, mode: i32, writer: Writer) -> Answer<()> {
        const PUNCH: i32 = PUNCH_HOLE | KEEP_SIZE;
        const ZERO_KEEP: i32 = ZERO_RANGE | KEEP_SIZE;
        let (ino, offset, length) = (open.ino, bytes.start, bytes.end - bytes.start);
        self.drop_privileges(ino, writer).await?;
        if let Some(draft) = self.draft_to_change(open, Change::Other).await? {
            return match mode {
                PUNCH | ZERO_KEEP => Ok(self.fs.draft_punch(draft, ino, offset, length).await?),
                _ => Err(Errno::EOPNOTSUPP.into()),
            };
        }
        let allocation = match mode {
            0 => Allocation::Extend,
            KEEP_SIZE => Allocation::KeepSize,
            PUNCH => Allocation::PunchHole,
            ZERO_RANGE => Allocation::ZeroRange,
            ZERO_KEEP => return self.zero_within(ino, offset, length).await,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        Ok(self.fs.allocate(ino, offset, length, allocation).await?)
    }

    /// Zeroes the range up to the end of the file; allocates blocks behind it.
    async fn zero_within(&self, ino: Ino, offset: u64, length: u64) -> Answer<()> {
        let size = self.fs.attributes(ino).await?.size;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let middle = size.clamp(offset, end);
        if middle > offset {
            self.fs.allocate(ino, offset, middle - offset, Allocation::ZeroRange).await?;
        }
        if end > middle {
            self.fs.allocate(ino, middle, end - middle, Allocation::KeepSize).await?;
        }
        Ok(())
    }

    /// The owner of a draft sees all of its file as data: holes of drafts are not looked for.
    pub(super) async fn seek(&self, open: Open, offset: i64, whence: i32) -> Answer<i64> {
        let target = match whence {
            SEEK_DATA => SeekTarget::Data,
            SEEK_HOLE => SeekTarget::Hole,
            _ => return Err(Errno::EINVAL.into()),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let Some(draft) = self.handles.draft(open) else {
            return Ok(self.fs.seek(open.ino, offset, target).await? as i64);
        };
        let size = self.fs.draft_size(draft, open.ino)?;
        match target {
            _ if offset >= size => Err(Errno::ENXIO.into()),
            SeekTarget::Data => Ok(offset as i64),
            SeekTarget::Hole => Ok(size as i64),
        }
    }

    /// Copies a range; returns the bytes copied, 0 at the end of the source. Shares whole pages where the device can.
    pub(super) async fn copy_range(&self, from: (Open, u64), to: (Open, u64), length: u64) -> Answer<u32> {
        let shared = self.share_instead_of_copy(from, to, length).await?;
        if shared > 0 {
            return Ok(shared as u32);
        }
        let content = self.read(from.0, from.1, length.min(COPY_BYTES_MAX) as u32, 0).await?.to_vec();
        if content.is_empty() {
            return Ok(0);
        }
        self.write(to.0, to.1, &content, (0, Writer::DropsSetId)).await?;
        Ok(content.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_go_past_the_page_cache() {
        assert!(manner(DIRECT, 4096, 8192).direct);
        assert!(!manner(DIRECT, 512, 4096).direct);
        assert!(!manner(DIRECT, 4096, 512).direct);
        assert!(!manner(0, 4096, 4096).direct);
    }
}
