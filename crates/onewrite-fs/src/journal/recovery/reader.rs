//! Reading the ring of the log: in order with reads ahead, or anywhere.
//!
//! A log block comes as a page. Where log blocks are smaller than pages, the device gives the pages that they lie in,
//! and each is cut out to the beginning of a page of its own ([`Piece`]).

use std::collections::VecDeque;

use onewrite_block::{Cause, DeviceError, DevicePort, InFlight, Lpn, PAGE_SIZE, Page, Request};

use super::super::format::JournalSuperblock;
use super::super::log::LogMap;
use super::super::ring::{LogBlock, Ring};

/// Log blocks of one read.
const READ_BLOCKS: u32 = 256;
/// Reads under way at once.
const READS_AHEAD_MAX: usize = 8;

/// A log as it lies on the device.
pub(super) struct StoredLog<'a> {
    pub(super) port: &'a DevicePort,
    map: &'a LogMap,
    ring: Ring,
    block_size: usize,
}

/// One read of log blocks that lie in one piece.
#[derive(Clone, Copy)]
struct Piece {
    /// Log blocks.
    count: u32,
    /// Pages that hold them.
    start: Lpn,
    pages: u32,
    /// Bytes of the first page before them.
    skip: usize,
}

impl<'a> StoredLog<'a> {
    pub(super) fn new(port: &'a DevicePort, map: &'a LogMap, superblock: &JournalSuperblock) -> StoredLog<'a> {
        let length = superblock.length.min(u32::try_from(map.length()).unwrap_or(u32::MAX));
        let ring = Ring::new(LogBlock(superblock.first), LogBlock(length));
        StoredLog { port, map, ring, block_size: superblock.block_size as usize }
    }

    /// Blocks that can hold transactions.
    pub(super) fn blocks(&self) -> u32 {
        self.ring.blocks()
    }

    /// The log block that comes `count` behind `block`.
    pub(super) fn after(&self, block: LogBlock, count: u32) -> LogBlock {
        self.ring.after(block, count)
    }

    /// Where a log block lies on the device; log blocks are pages.
    pub(super) fn page_of(&self, block: LogBlock) -> Lpn {
        Lpn(self.map.block_of(block))
    }

    /// The content of `count` log blocks from `block` on.
    pub(super) async fn read(&self, block: LogBlock, count: u32) -> Result<Vec<Page>, DeviceError> {
        let (mut block, mut left) = (block, count);
        let mut pages = Vec::with_capacity(count as usize);
        while left > 0 {
            let piece = self.piece(block, left);
            pages.extend(self.cut(piece, self.port.request(piece.request()).await?));
            (block, left) = (self.after(block, piece.count), left - piece.count);
        }
        Ok(pages)
    }

    /// The content of log blocks in ascending order; neighbours are read together, all at once.
    pub(super) async fn read_all(&self, blocks: impl Iterator<Item = LogBlock>) -> Result<Vec<Page>, DeviceError> {
        let mut under_way = Vec::new();
        let mut blocks = blocks.peekable();
        while let Some(first) = blocks.next() {
            let mut count = 1;
            while blocks.next_if_eq(&LogBlock(first.0 + count)).is_some() {
                count += 1;
            }
            let (mut block, mut left) = (first, count);
            while left > 0 {
                let piece = self.piece(block, left);
                under_way.push((piece, self.port.send(piece.request()).await));
                (block, left) = (LogBlock(block.0 + piece.count), left - piece.count);
            }
        }
        let mut pages = Vec::new();
        for (piece, read) in under_way {
            pages.extend(self.cut(piece, read.await?));
        }
        Ok(pages)
    }

    /// The longest read from `block` on, of `most` blocks at most.
    fn piece(&self, block: LogBlock, most: u32) -> Piece {
        let count = most.min(self.ring.until_end(block)).min(self.port.geometry().transfer_pages_max);
        let run = self.map.runs(block.run(count))[0];
        let (size, page) = (self.block_size as u64, PAGE_SIZE as u64);
        let (start, end) = (run.start * size, (run.start + run.count) * size);
        let first = start / page;
        let pages = (end.div_ceil(page) - first) as u32;
        Piece { count: run.count as u32, start: Lpn(first), pages, skip: (start % page) as usize }
    }

    /// The log blocks of a piece, from the pages that hold it.
    fn cut(&self, piece: Piece, pages: Vec<Page>) -> Vec<Page> {
        if self.block_size == PAGE_SIZE {
            return pages;
        }
        let block = |index: u32| {
            let at = piece.skip + index as usize * self.block_size;
            let (page, start) = (&pages[at / PAGE_SIZE], at % PAGE_SIZE);
            Page::from_slice(&page.bytes()[start..start + self.block_size])
        };
        (0..piece.count).map(block).collect()
    }
}

impl Piece {
    fn request(&self) -> Request {
        Request::read(self.start, self.pages, Cause::Recovery)
    }
}

/// Goes round the ring once, block by block, with reads ahead.
pub(super) struct Reader<'a> {
    log: &'a StoredLog<'a>,
    under_way: VecDeque<(Piece, InFlight)>,
    /// How many reads may be under way: one at first, for a short log is read in vain beyond its end.
    reads_ahead: usize,
    /// What has been read and not given.
    ahead: std::vec::IntoIter<Page>,
    /// The block that comes next.
    next: LogBlock,
    /// The block that is read next.
    to_read: LogBlock,
    left_to_read: u32,
    pub(super) blocks_read: u64,
}

impl<'a> Reader<'a> {
    /// A reader that begins at log block `start`.
    pub(super) fn new(log: &'a StoredLog<'a>, start: LogBlock) -> Reader<'a> {
        let start = start.max(log.ring.first());
        Reader {
            log,
            under_way: VecDeque::new(),
            reads_ahead: 1,
            ahead: Vec::new().into_iter(),
            next: start,
            to_read: start,
            left_to_read: log.blocks(),
            blocks_read: 0,
        }
    }

    /// The log block that comes next.
    pub(super) fn block(&self) -> LogBlock {
        self.next
    }

    /// The content of the next block; `None` after one round.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, DeviceError> {
        loop {
            if let Some(page) = self.ahead.next() {
                self.next = self.log.after(self.next, 1);
                return Ok(Some(page));
            }
            self.read_ahead().await;
            let Some((piece, read)) = self.under_way.pop_front() else { return Ok(None) };
            let pages = self.log.cut(piece, read.await?);
            self.blocks_read += pages.len() as u64;
            self.ahead = pages.into_iter();
            self.reads_ahead = (self.reads_ahead * 2).min(READS_AHEAD_MAX);
        }
    }

    async fn read_ahead(&mut self) {
        while self.under_way.len() < self.reads_ahead && self.left_to_read > 0 {
            let piece = self.log.piece(self.to_read, self.left_to_read.min(READ_BLOCKS));
            self.under_way.push_back((piece, self.log.port.send(piece.request()).await));
            self.to_read = self.log.after(self.to_read, piece.count);
            self.left_to_read -= piece.count;
        }
    }
}
