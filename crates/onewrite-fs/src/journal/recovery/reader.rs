//! Reads the log in order, with read-ahead.

use std::collections::VecDeque;

use onewrite_block::{DeviceError, Page};

use super::super::ring::LogBlock;
use super::super::stored::{PieceRead, StoredLog};

/// Number of log blocks of one read.
const READ_BLOCKS: u32 = 256;
/// Maximum number of reads under way.
const READS_AHEAD_MAX: usize = 8;

/// Reads the ring once, block by block, with read-ahead.
pub(super) struct Reader<'a> {
    log: &'a StoredLog<'a>,
    under_way: VecDeque<PieceRead>,
    /// Number of reads that may be under way. Starts at one: for a short log, reads ahead pass its end and are wasted.
    reads_ahead: usize,
    /// Blocks that are read but not returned yet.
    ahead: std::vec::IntoIter<Page>,
    /// The block that [`Reader::next`] returns next.
    next: LogBlock,
    /// The block that is read next.
    to_read: LogBlock,
    left_to_read: u32,
    blocks_read: u64,
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

    /// The log block that [`Reader::next`] returns next.
    pub(super) fn block(&self) -> LogBlock {
        self.next
    }

    /// Number of blocks read so far, returned or not.
    pub(super) fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    /// The content of the next block; `None` after one round.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, DeviceError> {
        loop {
            if let Some(page) = self.ahead.next() {
                self.next = self.log.after(self.next, 1);
                onewrite_block::reached!("recovery reads on behind the wrap", self.next == self.log.ring().first());
                return Ok(Some(page));
            }
            self.read_ahead().await;
            onewrite_block::reached!("recovery reads the whole log", self.under_way.is_empty());
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
