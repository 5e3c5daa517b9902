//! Work: the kernel operation of a request, with the memory that the kernel reads or fills.
//!
//! # Invariants
//! - Work owns its memory. The memory does not move until the work is dropped: the kernel may use it.
//! - Only [`Transfer::take`] judges the kernel's result of a read or write. So every carrier treats short transfers,
//!   interruptions and the end of the file in the same way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use onewrite_block::{Lpn, PAGE_SIZE, Page, Remap};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::reflink;

/// Alignment of memory that is valid for every direct transfer.
const DIRECT_ALIGNMENT: usize = 4096;

/// Required alignment of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alignment {
    Any,
    /// Alignment for transfers that bypass the host's page cache.
    Direct,
}

#[derive(Debug)]
pub(super) enum Work {
    Read(Transfer),
    Write(Transfer),
    Flush,
    Trim(Extent),
    Share(Vec<Remap>),
}

/// A byte range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Extent {
    pub(super) fn of_pages(start: Lpn, count: u64) -> Extent {
        Extent { offset: start.0 * PAGE_SIZE as u64, length: count * PAGE_SIZE as u64 }
    }

    pub(super) fn end(self) -> u64 {
        self.offset + self.length
    }
}

impl Work {
    pub(super) fn read(start: Lpn, count: u32, alignment: Alignment) -> Work {
        let Extent { offset, length } = Extent::of_pages(start, u64::from(count));
        let (mut memory, begin) = room(length as usize, alignment);
        memory.resize(begin + length as usize, 0);
        Work::Read(Transfer { memory, begin, done: 0, offset })
    }

    pub(super) fn write(start: Lpn, pages: &[Page], alignment: Alignment) -> Work {
        let Extent { offset, length } = Extent::of_pages(start, pages.len() as u64);
        let (mut memory, begin) = room(length as usize, alignment);
        pages.iter().for_each(|page| memory.extend_from_slice(&page.bytes()[..]));
        Work::Write(Transfer { memory, begin, done: 0, offset })
    }

    /// A write that is done.
    pub(super) fn written() -> Work {
        Work::Write(Transfer { memory: Vec::new(), begin: 0, done: 0, offset: 0 })
    }

    /// The word for error messages, the same as [`Operation::name`](onewrite_block::Operation::name).
    pub(super) fn name(&self) -> &'static str {
        match self {
            Work::Read(_) => "read",
            Work::Write(_) => "write",
            Work::Flush => "flush",
            Work::Trim(_) => "trim",
            Work::Share(_) => "share",
        }
    }

    /// Does the work with blocking calls.
    pub(super) fn carry_out(&mut self, file: &File) -> io::Result<()> {
        match self {
            Work::Read(transfer) => loop {
                let offset = transfer.rest().offset;
                let given = file.read_at(transfer.rest_mut(), offset);
                if let Some(end) = transfer.take(Direction::In, given) {
                    return end;
                }
            },
            Work::Write(transfer) => loop {
                let taken = file.write_at(transfer.rest_bytes(), transfer.rest().offset);
                if let Some(end) = transfer.take(Direction::Out, taken) {
                    return end;
                }
            },
            Work::Flush => file.sync_data(),
            Work::Trim(Extent { length: 0, .. }) => Ok(()),
            Work::Trim(extent) => trim(file, *extent),
            Work::Share(pairs) => reflink::share(file, pairs),
        }
    }
}

/// Empty memory with capacity for `length` bytes from the returned index on. The memory is filled up to that index.
fn room(length: usize, alignment: Alignment) -> (Vec<u8>, usize) {
    if alignment == Alignment::Any {
        return (Vec::with_capacity(length), 0);
    }
    let mut memory: Vec<u8> = Vec::with_capacity(length + DIRECT_ALIGNMENT);
    let begin = memory.as_ptr().align_offset(DIRECT_ALIGNMENT).min(DIRECT_ALIGNMENT);
    memory.resize(begin, 0);
    (memory, begin)
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the file into memory.
    In,
    /// From memory into the file.
    Out,
}

/// A read or write, and its progress.
pub(super) struct Transfer {
    /// Its length never exceeds its first capacity, so that it does not move.
    memory: Vec<u8>,
    /// Index of the first byte in `memory`.
    begin: usize,
    /// Bytes transferred.
    done: usize,
    /// Offset of the first byte in the file.
    offset: u64,
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Transfer { offset, done, .. } = self;
        write!(f, "{done} of {} bytes at {offset}", self.bytes().len())
    }
}

impl Transfer {
    /// The bytes read or to write.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..]
    }

    /// The remaining bytes.
    pub(super) fn rest(&self) -> Extent {
        Extent { offset: self.offset + self.done as u64, length: self.rest_bytes().len() as u64 }
    }

    pub(super) fn rest_bytes(&self) -> &[u8] {
        &self.memory[self.begin + self.done..]
    }

    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin + self.done..]
    }

    /// Handles the kernel's answer to a read or write of the rest: bytes transferred, or its error. Returns the result
    /// of the transfer, or `None` if a rest remains. If the file ends inside the last page, zeros fill that page.
    pub(super) fn take(&mut self, direction: Direction, answer: io::Result<usize>) -> Option<io::Result<()>> {
        match answer {
            Ok(0) if direction == Direction::Out => return Some(Err(io::ErrorKind::WriteZero.into())),
            Ok(0) if self.rest_bytes().len() >= PAGE_SIZE => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => {
                self.rest_mut().fill(0);
                return Some(Ok(()));
            }
            Ok(length) => self.done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Some(Err(error)),
        }
        self.rest_bytes().is_empty().then_some(Ok(()))
    }

    /// The bytes read, page by page.
    pub(super) fn pages(&self) -> Vec<Page> {
        let pages = self.bytes().chunks_exact(PAGE_SIZE);
        pages.map(|page| if page == [0; PAGE_SIZE] { Page::ZEROS } else { Page::from_slice(page) }).collect()
    }
}

/// Flags of `fallocate` for a TRIM.
pub(super) const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Punches a hole. If the file system cannot, writes zeros: trimmed pages read as zeros.
fn trim(file: &File, Extent { offset, length }: Extent) -> io::Result<()> {
    match rustix::fs::fallocate(file, PUNCH, offset, length) {
        Err(Errno::OPNOTSUPP) => {
            let mut pages = offset / PAGE_SIZE as u64..(offset + length) / PAGE_SIZE as u64;
            pages.try_for_each(|page| Work::write(Lpn(page), &[Page::ZEROS], Alignment::Direct).carry_out(file))
        }
        other => other.map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(pages: u32) -> Transfer {
        match Work::read(Lpn(3), pages, Alignment::Direct) {
            Work::Read(transfer) => transfer,
            _ => unreachable!("it is a read"),
        }
    }

    #[test]
    fn a_short_transfer_goes_on_where_it_stopped() {
        let mut transfer = transfer(2);
        assert!(transfer.take(Direction::In, Ok(100)).is_none());
        let length = 2 * PAGE_SIZE as u64 - 100;
        assert_eq!(transfer.rest(), Extent { offset: 3 * PAGE_SIZE as u64 + 100, length });
        assert!(transfer.take(Direction::In, Err(io::ErrorKind::Interrupted.into())).is_none());
        assert_eq!(transfer.rest().length, length, "an interruption transfers nothing");
        assert!(matches!(transfer.take(Direction::In, Ok(length as usize)), Some(Ok(()))));
    }

    #[test]
    fn the_last_page_of_a_file_is_filled_up_and_a_missing_one_is_an_error() {
        let mut last = transfer(2);
        last.rest_mut().fill(7);
        assert!(last.take(Direction::In, Ok(PAGE_SIZE + 1)).is_none());
        assert!(matches!(last.take(Direction::In, Ok(0)), Some(Ok(()))));
        assert_eq!(last.pages(), [Page::from_slice(&[7; PAGE_SIZE]), Page::from_slice(&[7])]);
        let mut missing = transfer(2);
        assert!(missing.take(Direction::In, Ok(PAGE_SIZE)).is_none());
        let end = missing.take(Direction::In, Ok(0)).unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_write_of_nothing_is_an_error_and_other_errors_end_it() {
        let mut write = transfer(1);
        let end = write.take(Direction::Out, Ok(0)).unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::WriteZero);
        let end = write.take(Direction::Out, Err(Errno::NOSPC.into())).unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn memory_for_direct_transfers_is_aligned() {
        for pages in [1, 3, 256] {
            assert_eq!(transfer(pages).bytes().as_ptr().align_offset(DIRECT_ALIGNMENT), 0);
            assert_eq!(transfer(pages).bytes().len(), pages as usize * PAGE_SIZE);
        }
    }
}
