//! Map log: the state of the ring of blocks that makes the map durable; `mapping_flow` works on it.
//!
//! ```text
//!            oldest                       head
//!   blank │ ▓▓▓▓▓▓ │ ▓▓▓▓▓▓ │ ▓▓▓▓▓▓ │ ▓▓▓___ │ blank
//!            └ erased when every segment and a seal were written again behind it
//! ```
//!
//! Pages are programmed one at a time, each with the next number. So a cut can tear only the last one, and when a page
//! is made, all earlier pages are durable. Segments are rewritten in turn. Their pace is such that one round of the
//! ring rewrites all of them, so no checkpoint is needed.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::host::RequestSlot;
use super::log_page::{Content, OpenBlock};
use crate::address::{FlashBlock, Lpn, each};

/// The pace rewrites all segments once while records fill `1 / ROUNDS` of the ring.
const ROUNDS: u64 = 2;

/// A block of the ring with pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedBlock {
    pub(crate) block: FlashBlock,
    /// Number of its first page.
    pub(crate) first_number: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct MapLog {
    /// Blocks with pages, oldest first; the last is the head.
    pub(crate) used: VecDeque<UsedBlock>,
    /// Blank blocks.
    pub(crate) blank: Vec<FlashBlock>,
    /// The block that is being erased.
    pub(crate) erasing: Option<FlashBlock>,
    /// Number of the next page.
    pub(crate) next_number: u64,
    /// Number of the newest sealed page.
    pub(crate) sealed_number: u64,
    /// Page number of the newest whole copy of each segment; 0 if there is none.
    pub(crate) copied: Vec<u64>,
    /// Whether the log has data of a segment.
    pub(crate) touched: Vec<bool>,
    /// Pages of the batch under way that are not written yet.
    pub(crate) pages: VecDeque<Content>,
    /// Segments that must be written before the oldest block can be erased.
    pub(crate) forced: VecDeque<u32>,
    /// Whether a page is under program.
    pub(crate) is_writing: bool,
    /// Whether a batch is under way.
    pub(crate) has_batch: bool,
    /// Whether a request needs a batch that starts later than now.
    pub(crate) is_wanted: bool,
    /// Number of batches started.
    pub(crate) batches_begun: u64,
    /// Number of durable batches.
    pub(crate) batches_durable: u64,
    /// The open blocks that the batch under way announces.
    pub(crate) announcing: Vec<OpenBlock>,
    /// Requests that the batch under way will complete.
    pub(crate) waiters: Vec<RequestSlot>,
    /// Requests that the next batch will complete.
    pub(crate) joiners: Vec<RequestSlot>,
    /// SHARE requests that wait for their targets and the next batch.
    pub(crate) shares: Vec<RequestSlot>,
    /// Targets of the SHAREs in the batch under way.
    pub(crate) sharing: BTreeSet<Lpn>,
    debt: u64,
    cursor: u32,
    pace: u64,
}

impl MapLog {
    /// A log over `blocks`, all blank.
    pub(crate) fn new(blocks: Range<FlashBlock>, segments: u32, pages_per_block: u32) -> MapLog {
        let pace = (u64::from(blocks.end.0 - blocks.start.0) - 3) * u64::from(pages_per_block) / ROUNDS;
        MapLog {
            used: VecDeque::new(),
            blank: each(blocks).rev().collect(),
            erasing: None,
            next_number: 1,
            sealed_number: 0,
            copied: vec![0; segments as usize],
            touched: vec![false; segments as usize],
            pages: VecDeque::new(),
            forced: VecDeque::new(),
            is_writing: false,
            has_batch: false,
            is_wanted: false,
            batches_begun: 0,
            batches_durable: 0,
            announcing: Vec::new(),
            waiters: Vec::new(),
            joiners: Vec::new(),
            shares: Vec::new(),
            sharing: BTreeSet::new(),
            debt: 0,
            cursor: 0,
            pace,
        }
    }

    /// The block that takes the next page, if one is open.
    pub(crate) fn head(&self) -> Option<FlashBlock> {
        self.used.back().map(|used| used.block)
    }

    /// Whether the batch under way holds a SHARE.
    pub(crate) fn has_share(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// Notes that a page of records was written. Segments must follow at their pace.
    pub(crate) fn owe(&mut self) {
        self.debt += self.copied.len() as u64;
    }

    /// The next segment to write whole, if one is owed.
    pub(crate) fn take_owed(&mut self) -> Option<u32> {
        if let Some(segment) = self.forced.pop_front() {
            return Some(segment);
        }
        while self.debt >= self.pace {
            self.debt -= self.pace;
            let segment = self.cursor;
            self.cursor = (self.cursor + 1) % self.copied.len() as u32;
            if self.touched[segment as usize] {
                return Some(segment);
            }
        }
        None
    }

    /// The segments of which the oldest block may still have data.
    pub(crate) fn held_by_oldest(&self) -> Vec<u32> {
        let Some(second) = self.used.get(1) else { return Vec::new() };
        let is_held =
            |segment: &u32| self.touched[*segment as usize] && self.copied[*segment as usize] < second.first_number;
        (0..self.copied.len() as u32).filter(is_held).collect()
    }

    /// Whether the newest seal is still in the oldest block.
    pub(crate) fn seal_is_in_oldest(&self) -> bool {
        self.used.get(1).is_none_or(|second| self.sealed_number < second.first_number)
    }

    /// Verifies that every block of the ring is in exactly one place.
    pub(crate) fn check(&self, blocks: &Range<FlashBlock>) -> Result<(), String> {
        let used = self.used.iter().map(|used| used.block);
        let mut all: Vec<FlashBlock> = used.chain(self.blank.iter().copied()).chain(self.erasing).collect();
        all.sort_unstable();
        all.dedup();
        let numbers_ascend =
            self.used.iter().zip(self.used.iter().skip(1)).all(|(one, next)| one.first_number < next.first_number);
        if !all.iter().all(|block| blocks.contains(block)) || !numbers_ascend {
            return Err(format!("the map log's blocks are {:?}, blank {:?}", self.used, self.blank));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recovery finds the open blocks in the newest seal alone, and pages behind it may fill whole blocks.
    #[test]
    fn a_block_with_the_newest_seal_is_the_oldest_that_is_kept() {
        let mut log = MapLog::new(FlashBlock(0)..FlashBlock(6), 2, 64);
        log.used = [(0, 1), (1, 65), (2, 129)]
            .map(|(block, first_number)| UsedBlock { block: FlashBlock(block), first_number })
            .into();
        for (number, is_in_oldest) in [(64, true), (65, false), (130, false)] {
            log.sealed_number = number;
            assert_eq!(log.seal_is_in_oldest(), is_in_oldest, "page {number}");
        }
    }
}
