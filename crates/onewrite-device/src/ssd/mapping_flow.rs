//! Map flow: makes changes of the map durable.
//!
//! A *batch* is everything that the map log needs at one moment: the dirty map, the open blocks with their numbers of
//! programmed pages (the *seal*), and the SHAREs that are ready. A request that needs durability joins the next batch.
//! So requests of one moment share its pages. Segments that are due follow a batch. With [`MapLogKind::Segments`] the
//! dirty map of a batch is the whole segments that changed, in front of the seal; pairs of a SHARE stay records, since
//! all of them must be on one page.
//!
//! ```text
//!   wanted ──begin──► records, records, …, sealed (+ shares) ──all durable──► waiters end, blocks are announced,
//!                                                                             emptied blocks may be erased
//! ```

use onewrite_block::{Operation, PAGE_SIZE};

use super::Ssd;
use super::die::Stream;
use super::host::RequestStage;
use super::log_page::{Content, LogPage, OpenBlock, SEGMENT_ENTRIES, records_max};
use super::map_log::UsedBlock;
use super::mapping::Record;
use super::model::MapLogKind;
use super::oob::Oob;
use crate::address::{Lpn, each};

impl Ssd {
    /// Prepares a blank device, so that recovery understands it. Runs before the device is first switched on.
    pub(super) fn format(&mut self) {
        for die in 0..self.dies.len() {
            self.choose_next(die, Stream::Host);
            self.choose_next(die, Stream::Moved);
        }
        let open = self.open_blocks();
        let content = Content::Sealed(open.clone(), Vec::new());
        let page = LogPage { number: 1, sequence: 1, content }.encode();
        self.advance_head();
        self.flash.program(self.log.head().expect("a blank log opens a block"), page, Oob::map(1));
        (self.log.next_number, self.log.sealed_number) = (2, 1);
        self.announced(&open);
        self.log.is_wanted = false;
    }

    /// The open blocks in the order of the seal, with their numbers of programmed pages.
    pub(super) fn open_blocks(&self) -> Vec<OpenBlock> {
        let fronts = self.dies.iter().flat_map(|die| [die.host, die.moved]);
        let blocks = fronts.flat_map(|front| [front.active, front.next]);
        let covered = |block| self.flash.programmed(block);
        blocks.map(|block| OpenBlock { block, covered: block.map_or(0, covered) }).collect()
    }

    /// Notes that the durable log names these open blocks.
    pub(super) fn announced(&mut self, open: &[OpenBlock]) {
        for (die, open) in self.dies.iter_mut().zip(open.chunks_exact(4)) {
            die.host.is_announced |= die.host.next.is_some() && die.host.next == open[1].block;
            die.moved.is_announced |= die.moved.next.is_some() && die.moved.next == open[3].block;
        }
    }

    /// Opens another block of the log.
    fn advance_head(&mut self) {
        let block = self.log.blank.pop().expect("a blank block was seen");
        onewrite_block::reached!("map log wrapped", self.log.used.back().is_some_and(|last| block < last.block));
        self.log.used.push_back(UsedBlock { block, first_number: self.log.next_number });
    }

    fn head_is_full(&self) -> bool {
        self.log.head().is_none_or(|head| self.flash.is_full(head))
    }

    /// Starts the program of the next page of the log, if there is one and a block has room.
    pub(super) fn write_log(&mut self) {
        if self.log.is_writing || (self.head_is_full() && self.log.blank.is_empty()) {
            onewrite_block::reached!("map log waits for a blank block", !self.log.is_writing);
            return;
        }
        let Some(content) = self.next_log_content() else { return };
        if self.head_is_full() {
            self.advance_head();
        }
        self.log.is_writing = true;
        let page = LogPage { number: self.log.next_number, sequence: self.sequence, content };
        let head = self.log.head().expect("the head is open");
        let die = self.model.shape.die_of(head);
        self.dies[die].map_page = Some(page.encode());
        self.kicked |= 1 << die;
    }

    fn next_log_content(&mut self) -> Option<Content> {
        if self.log.pages.is_empty() {
            if let Some(segment) = self.log.take_owed() {
                return Some(self.segment(segment));
            }
            if self.log.is_wanted {
                self.begin_batch();
            }
        }
        self.log.pages.pop_front()
    }

    fn segment(&self, segment: u32) -> Content {
        let start = segment * SEGMENT_ENTRIES as u32;
        let end = (start + SEGMENT_ENTRIES as u32).min(self.map.logical_pages());
        Content::Segment(segment, each(Lpn(start)..Lpn(end)).map(|lpn| self.map.get(lpn)).collect())
    }

    fn begin_batch(&mut self) {
        self.log.is_wanted = false;
        self.log.has_batch = true;
        self.log.batches_begun += 1;
        let open = self.open_blocks();
        let sealed_max = records_max(open.len());
        let mut records = self.map.take_dirty();
        if self.model.map_log == MapLogKind::Segments && self.log.shares.is_empty() {
            self.add_segments(&std::mem::take(&mut records));
        }
        while records.len() > sealed_max {
            onewrite_block::reached!("map batch of several pages");
            let rest = records.split_off(records.len().min(records_max(0)));
            self.log.pages.push_back(Content::Records(std::mem::replace(&mut records, rest)));
        }
        self.log.waiters = std::mem::take(&mut self.log.joiners);
        self.add_shares(&open, &mut records);
        self.log.pages.push_back(Content::Sealed(open.clone(), records));
        self.log.announcing = open;
        self.cover_stale();
        self.note_touched();
    }

    /// Adds the segments that these records are of, whole. Each is a page beyond the round of all segments.
    fn add_segments(&mut self, records: &[Record]) {
        let mut segments: Vec<u32> = records.iter().map(|record| record.lpn.0 / SEGMENT_ENTRIES as u32).collect();
        segments.sort_unstable();
        segments.dedup();
        for segment in segments {
            self.log.owe();
            self.log.touched[segment as usize] = true;
            let content = self.segment(segment);
            self.log.pages.push_back(content);
        }
    }

    /// Adds the ready SHAREs behind the last records. All pairs of a SHARE are on one page.
    fn add_shares(&mut self, open: &[OpenBlock], records: &mut Vec<Record>) {
        for (slot, pairs) in self.take_ready_shares() {
            match self.apply_share(&pairs) {
                Err(error) => {
                    onewrite_block::reached!("SHARE refused at its batch");
                    self.host.active(slot).error = Some(error);
                    self.finish(slot);
                }
                Ok(mut shared) => {
                    self.log.sharing.extend(shared.iter().map(|record| record.lpn));
                    let together = self.rules.share_pairs_together(shared.len());
                    if together < shared.len() {
                        let rest = shared.split_off(together);
                        records.extend(shared);
                        self.log.pages.push_back(Content::Sealed(open.to_vec(), std::mem::take(records)));
                        shared = rest;
                    }
                    if records.len() + shared.len() > records_max(open.len()) {
                        onewrite_block::reached!("SHARE begins a page of the map log");
                        let full = std::mem::take(records);
                        self.log.pages.push_back(Content::Sealed(open.to_vec(), full));
                    }
                    onewrite_block::reached!("SHARE beside other records of its page", !records.is_empty());
                    records.extend(shared);
                    self.log.waiters.push(slot);
                }
            }
        }
    }

    fn note_touched(&mut self) {
        for page in &self.log.pages {
            let (Content::Records(records) | Content::Sealed(_, records)) = page else { continue };
            for record in records {
                self.log.touched[record.lpn.index() / SEGMENT_ENTRIES] = true;
            }
        }
    }

    /// A page of the log is durable.
    pub(super) fn log_page_written(&mut self, content: &Content) {
        self.log.is_writing = false;
        self.counters.map_program_bytes += PAGE_SIZE as u64;
        let number = self.log.next_number;
        self.log.next_number += 1;
        match content {
            Content::Segment(segment, _) => self.log.copied[*segment as usize] = number,
            Content::Records(_) => self.log.owe(),
            Content::Sealed(..) => {
                self.log.owe();
                self.log.sealed_number = number;
                if self.log.pages.is_empty() {
                    self.end_batch();
                }
            }
        }
        self.reclaim_log();
    }

    fn end_batch(&mut self) {
        self.log.has_batch = false;
        self.log.sharing.clear();
        self.log.batches_durable = self.log.batches_begun;
        let open = std::mem::take(&mut self.log.announcing);
        self.announced(&open);
        self.drop_stale();
        if !self.log.waiters.is_empty() {
            self.flash.sync();
        }
        for slot in std::mem::take(&mut self.log.waiters) {
            let is_flush = self.host.active(slot).request.operation == Operation::Flush;
            let delay = if is_flush { self.model.timing.flush } else { 0 };
            self.host.at(self.now + delay, slot, RequestStage::Done);
        }
    }

    /// Keeps two blank blocks in the ring: erases the oldest block, or forces copies of the segments that need it.
    pub(super) fn reclaim_log(&mut self) {
        if self.log.blank.len() >= 2 || self.log.erasing.is_some() || self.log.used.len() < 2 {
            return;
        }
        let held = self.log.held_by_oldest();
        if held.is_empty() && !self.log.seal_is_in_oldest() {
            onewrite_block::reached!("block of the map log reclaimed");
            let UsedBlock { block, .. } = self.log.used.pop_front().expect("there are two");
            self.log.erasing = Some(block);
            let die = self.model.shape.die_of(block);
            self.dies[die].log_erase = Some(block);
            self.kicked |= 1 << die;
            return;
        }
        if self.log.blank.is_empty() && self.log.forced.is_empty() {
            onewrite_block::reached!("map segments copied to free the oldest log block");
            self.log.forced.extend(held);
            self.log.is_wanted |= self.log.seal_is_in_oldest();
        }
    }
}
