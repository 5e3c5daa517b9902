//! Reading the ring of the log: in order with reads ahead, or anywhere.

use std::collections::VecDeque;

use onewrite_block::{Cause, DeviceError, DevicePort, InFlight, Lpn, Page, Request};

use super::super::format::JournalSuperblock;
use super::super::log::LogMap;

/// Log blocks of one read.
const READ_BLOCKS: u32 = 256;
/// Reads under way at once.
const READS_AHEAD_MAX: usize = 8;

/// The ring.
pub(super) struct Ring<'a> {
    pub(super) port: &'a DevicePort,
    map: &'a LogMap,
    first: u32,
    length: u32,
}

impl<'a> Ring<'a> {
    pub(super) fn new(port: &'a DevicePort, map: &'a LogMap, superblock: &JournalSuperblock) -> Ring<'a> {
        Ring { port, map, first: superblock.first, length: superblock.length.min(map.length() as u32) }
    }

    /// Blocks that can hold transactions.
    pub(super) fn blocks(&self) -> u32 {
        self.length.saturating_sub(self.first)
    }

    /// The log block that comes `count` behind `block`.
    pub(super) fn after(&self, block: u32, count: u32) -> u32 {
        self.first + (block - self.first + count) % self.blocks()
    }

    /// Where a log block lies on the device.
    pub(super) fn place(&self, block: u32) -> Lpn {
        Lpn(self.map.runs(u64::from(block), 1)[0].start)
    }

    /// The content of `count` log blocks from `block` on.
    pub(super) async fn read(&self, block: u32, count: u32) -> Result<Vec<Page>, DeviceError> {
        let (mut block, mut left) = (block, count);
        let mut pages = Vec::with_capacity(count as usize);
        while left > 0 {
            let run = self.run(block, left);
            pages.extend(self.port.request(Request::read(run.0, run.1, Cause::Recovery)).await?);
            (block, left) = (self.after(block, run.1), left - run.1);
        }
        Ok(pages)
    }

    /// The content of log blocks in ascending order; neighbours are read together, all at once.
    pub(super) async fn read_all(&self, blocks: impl Iterator<Item = u32>) -> Result<Vec<Page>, DeviceError> {
        let mut under_way = Vec::new();
        let mut blocks = blocks.peekable();
        while let Some(first) = blocks.next() {
            let mut count = 1;
            while blocks.next_if_eq(&(first + count)).is_some() {
                count += 1;
            }
            let (mut block, end) = (first, first + count);
            while block < end {
                let (lpn, count) = self.run(block, end - block);
                under_way.push(self.port.send(Request::read(lpn, count, Cause::Recovery)).await);
                block += count;
            }
        }
        let mut pages = Vec::new();
        for read in under_way {
            pages.extend(read.await?);
        }
        Ok(pages)
    }

    /// The longest read from `block` on, of `most` blocks at most.
    fn run(&self, block: u32, most: u32) -> (Lpn, u32) {
        let count = most.min(self.length - block).min(self.port.geometry().transfer_pages_max);
        let run = self.map.runs(u64::from(block), u64::from(count))[0];
        (Lpn(run.start), run.count as u32)
    }
}

/// Goes round the ring once, block by block, with reads ahead.
pub(super) struct Reader<'a> {
    ring: &'a Ring<'a>,
    under_way: VecDeque<InFlight>,
    /// How many reads may be under way: one at first, for a short log is read in vain beyond its end.
    reads_ahead: usize,
    /// What has been read and not given.
    ahead: std::vec::IntoIter<Page>,
    /// The block that comes next.
    next: u32,
    /// The block that is read next.
    to_read: u32,
    left_to_read: u32,
    pub(super) blocks_read: u64,
}

impl<'a> Reader<'a> {
    /// A reader that begins at log block `start`.
    pub(super) fn new(ring: &'a Ring<'a>, start: u32) -> Reader<'a> {
        let start = start.max(ring.first);
        Reader {
            ring,
            under_way: VecDeque::new(),
            reads_ahead: 1,
            ahead: Vec::new().into_iter(),
            next: start,
            to_read: start,
            left_to_read: ring.blocks(),
            blocks_read: 0,
        }
    }

    /// The log block that comes next.
    pub(super) fn block(&self) -> u32 {
        self.next
    }

    /// The content of the next block; `None` after one round.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, DeviceError> {
        loop {
            if let Some(page) = self.ahead.next() {
                self.next = self.ring.after(self.next, 1);
                return Ok(Some(page));
            }
            self.read_ahead().await;
            let Some(read) = self.under_way.pop_front() else { return Ok(None) };
            let pages = read.await?;
            self.blocks_read += pages.len() as u64;
            self.ahead = pages.into_iter();
            self.reads_ahead = (self.reads_ahead * 2).min(READS_AHEAD_MAX);
        }
    }

    async fn read_ahead(&mut self) {
        while self.under_way.len() < self.reads_ahead && self.left_to_read > 0 {
            let (lpn, count) = self.ring.run(self.to_read, self.left_to_read.min(READ_BLOCKS));
            self.under_way.push_back(self.ring.port.send(Request::read(lpn, count, Cause::Recovery)).await);
            self.to_read = self.ring.after(self.to_read, count);
            self.left_to_read -= count;
        }
    }
}
