//! Reading the log in order, with reads ahead.

use std::collections::VecDeque;

use onewrite_block::{DeviceError, Page};

use super::super::ring::LogBlock;
use super::super::stored::{PieceRead, StoredLog};

/// Log blocks of one read.
const READ_BLOCKS: u32 = 256;
/// Reads under way at once.
const READS_AHEAD_MAX: usize = 8;

/// Goes round the ring once, block by block, with reads ahead.
pub(super) struct Reader<'a> {
    log: &'a StoredLog<'a>,
    under_way: VecDeque<PieceRead>,
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
        let start = start.max(log.ring().first());
        Reader {
            log,
            under_way: VecDeque::new(),
            reads_ahead: 1,
            ahead: Vec::new().into_iter(),
            next: start,
            to_read: start,
            left_to_read: log.ring().blocks(),
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
            let Some(read) = self.under_way.pop_front() else { return Ok(None) };
            let pages = self.log.receive_one(read).await?;
            self.blocks_read += pages.len() as u64;
            self.ahead = pages.into_iter();
            self.reads_ahead = (self.reads_ahead * 2).min(READS_AHEAD_MAX);
        }
    }

    async fn read_ahead(&mut self) {
        while self.under_way.len() < self.reads_ahead && self.left_to_read > 0 {
            let read = self.log.send_first(self.to_read, self.left_to_read.min(READ_BLOCKS)).await;
            self.to_read = self.log.after(self.to_read, read.log_blocks());
            self.left_to_read -= read.log_blocks();
            self.under_way.push_back(read);
        }
    }
}
