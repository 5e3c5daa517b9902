//! Logs: six places at which blocks are taken, each in a segment of its own.
//!
//! A log takes the blocks of a free segment in order. If few free segments are left, it threads through the free blocks
//! of a used segment of its sort. It always knows the block that it takes next, which the footers of nodes name.

use onewrite_block::{PAGE_SIZE, Page};

use super::{Space, THREADED_FROM};
use crate::block::BlockNo;
use crate::f2fs::format::SegmentNo;
use crate::f2fs::format::checkpoint::LogPosition;
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::{self, Summary, SummaryKind};

pub(super) const BLOCKS: usize = SEGMENT_BLOCKS as usize;

/// The owner of a block, for the summary of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) struct Owner {
    pub(in crate::f2fs) summary: Summary,
    /// Version of the node's entry in the NAT.
    pub(in crate::f2fs) version: u8,
}

/// One log.
#[derive(Clone, Debug)]
pub(in crate::f2fs) struct Log {
    position: LogPosition,
    /// The summary of its segment, as a block.
    owners: Box<[u8; PAGE_SIZE]>,
}

/// A used segment that a log may enter.
pub(in crate::f2fs) struct Prepared {
    pub(in crate::f2fs) segment: SegmentNo,
    /// The summary of the segment, as a block.
    pub(in crate::f2fs) owners: Box<[u8; PAGE_SIZE]>,
}

impl Log {
    /// A log that stands at `position`; `owners` is the summary of its segment.
    pub(in crate::f2fs) fn new(position: LogPosition, owners: [u8; PAGE_SIZE]) -> Log {
        Log { position, owners: Box::new(owners) }
    }

    pub(in crate::f2fs) fn segment(&self) -> SegmentNo {
        self.position.segment
    }

    pub(in crate::f2fs) fn position(&self) -> LogPosition {
        self.position
    }

    /// The summary of its segment, as a block without a journal.
    pub(in crate::f2fs) fn owners(&self) -> &[u8; PAGE_SIZE] {
        &self.owners
    }

    /// Notes the owner of a block of its segment.
    pub(super) fn put_owner(&mut self, index: usize, owner: Owner) {
        summary::put_entry(&mut self.owners[..], index, owner.summary, owner.version);
    }

    /// Lets nothing be left for it in its segment.
    pub(super) fn end(&mut self) {
        self.position.next = BLOCKS as u16;
    }

    pub(super) fn is_full(&self) -> bool {
        usize::from(self.position.next) >= BLOCKS
    }
}

impl Space {
    /// The block that a log takes next; `None` if nothing is left for it.
    pub(in crate::f2fs) fn next_block(&self, kind: LogKind) -> Option<BlockNo> {
        let log = self.log(kind);
        (!log.is_full()).then(|| self.layout.segment_start(log.segment()) + u64::from(log.position.next))
    }

    /// Blocks beside each other that a log takes next, at most `most`; 0 if nothing is left for it.
    pub(in crate::f2fs) fn run_of(&self, kind: LogKind, most: u64) -> u64 {
        let log = self.log(kind);
        let start = usize::from(log.position.next);
        let end = BLOCKS.min(start + most as usize);
        let (segment, taken) = (&self.segments[log.segment().0 as usize], self.taken.get(&log.segment()));
        let is_open = |index: &usize| segment.is_open(*index) && taken.is_none_or(|taken| !taken.has(*index));
        (start..end).take_while(is_open).count() as u64
    }

    /// Whether a log may take block `index` of a segment.
    fn is_open(&self, segment: SegmentNo, index: usize) -> bool {
        let is_taken = self.taken.get(&segment).is_some_and(|taken| taken.has(index));
        !is_taken && self.segments[segment.0 as usize].is_open(index)
    }

    /// Takes the log's next block; `None` if nothing is left for it.
    pub(in crate::f2fs) fn take(&mut self, kind: LogKind, owner: Owner) -> Option<BlockNo> {
        let block = self.next_block(kind)?;
        let position = self.log(kind).position;
        let index = usize::from(position.next);
        self.mark(position.segment, index, kind);
        self.logs[kind as usize].put_owner(index, owner);
        let next = (index + 1..BLOCKS).find(|next| self.is_open(position.segment, *next)).unwrap_or(BLOCKS);
        self.logs[kind as usize].position.next = next as u16;
        if next == BLOCKS {
            self.leave(kind);
        }
        Some(block)
    }

    /// Leaves a full segment: its summary goes to the SSA, and the log goes on elsewhere, if it can.
    pub(super) fn leave(&mut self, kind: LogKind) {
        let log = &self.logs[kind as usize];
        let page = Page::from_slice(&log.owners[..]);
        self.full.insert(self.layout.ssa + u64::from(log.segment().0), page);
        // If nothing was taken from it, the next checkpoint makes it free.
        self.barred.push(self.log(kind).segment());
        self.enter_next(kind, self.kept_from(kind));
    }

    /// Lets a log that has nothing left look again, for example after a checkpoint.
    pub(in crate::f2fs) fn look_again(&mut self) {
        for kind in LogKind::ALL {
            // It stood in a used section for the checkpoint only.
            if self.sections.are_whole() && self.astray[kind as usize] {
                self.logs[kind as usize].end();
            }
            if self.log(kind).is_full() {
                self.enter_next(kind, self.kept_from(kind));
            }
        }
    }

    /// Lets all logs go on behind blocks that recovery keeps them away from.
    pub(in crate::f2fs) fn pass_barred(&mut self) {
        for kind in LogKind::ALL {
            let position = self.log(kind).position;
            let start = usize::from(position.next);
            let next = (start..BLOCKS).find(|next| self.is_open(position.segment, *next)).unwrap_or(BLOCKS);
            let log = &mut self.logs[kind as usize];
            // Blocks behind the next one may be in use from now on.
            log.position.is_threaded |= self.barred.contains(&position.segment);
            log.position.next = next as u16;
            if next == BLOCKS {
                self.leave(kind);
            }
        }
    }

    /// A log that must not stand where it does when a checkpoint names its place: at the end of its segment. Moves such
    /// logs to blocks that nothing uses now; what used them before is given back by the checkpoint. The checkpoint must
    /// become durable before anything takes a block.
    ///
    /// Gives a log for which there is no such block in its own segment and no free segment.
    pub(in crate::f2fs) fn move_full_logs(&mut self) -> Option<LogKind> {
        for kind in LogKind::ALL.into_iter().filter(|kind| self.log(*kind).is_full()).collect::<Vec<_>>() {
            self.enter_next(kind, self.kept_from(kind));
            let segment = self.log(kind).segment();
            if self.log(kind).is_full() && !self.stand_in(kind, segment) {
                return Some(kind);
            }
        }
        None
    }

    /// Lets a log stand at the first block of `segment` that nothing uses now; false if there is none.
    fn stand_in(&mut self, kind: LogKind, segment: SegmentNo) -> bool {
        onewrite_block::reached!("log stands where it has no room");
        self.astray[kind as usize] = true;
        let found = &self.segments[segment.0 as usize];
        let Some(first) = (0..BLOCKS).find(|index| !found.is_used(*index)) else { return false };
        self.logs[kind as usize].position = LogPosition { segment, next: first as u16, is_threaded: true };
        self.take_section(segment);
        self.segments[segment.0 as usize].set_log(kind);
        self.changed.insert(segment);
        true
    }

    /// As [`Space::move_full_logs`], for one log, in a segment whose summary was read.
    pub(in crate::f2fs) fn move_log(&mut self, kind: LogKind, prepared: Prepared) -> bool {
        let mut owners = prepared.owners;
        // An emptied segment may have been of the other sort.
        summary::put_kind(&mut owners[..], sort(kind));
        self.logs[kind as usize].owners = owners;
        self.stand_in(kind, prepared.segment)
    }

    /// Lets a log go on in its next segment, and leaves `kept` free segments alone.
    pub(super) fn enter_next(&mut self, kind: LogKind, kept: usize) {
        let fresh = |space: &Space| space.free.next(space.log(kind).segment()).filter(|_| space.free.count() > kept);
        let is_scarce = self.free.count() <= THREADED_FROM && !self.sections.are_whole();
        onewrite_block::reached!("free segments are scarce", is_scarce);
        let entered = match if is_scarce { self.take_prepared(kind) } else { None } {
            Some(prepared) => Some((prepared.segment, prepared.owners, true)),
            None => self.next_in_section(kind).or_else(|| fresh(self)).map(blank),
        };
        let Some((segment, mut owners, is_threaded)) = entered else {
            onewrite_block::reached!("log finds no segment");
            self.logs[kind as usize].position.next = BLOCKS as u16;
            return;
        };
        onewrite_block::reached!("log goes on in a threaded segment", is_threaded);
        // If nothing is in use where it stood for a checkpoint, the next one makes it free.
        let stood = self.log(kind).segment();
        if std::mem::take(&mut self.astray[kind as usize]) && !self.barred.contains(&stood) {
            self.barred.push(stood);
        }
        self.take_section(segment);
        self.segments[segment.0 as usize].set_log(kind);
        self.changed.insert(segment);
        summary::put_kind(&mut owners[..], sort(kind));
        let first = (0..BLOCKS).find(|index| self.is_open(segment, *index)).unwrap_or(BLOCKS);
        self.logs[kind as usize] = Log { position: LogPosition { segment, next: first as u16, is_threaded }, owners };
    }
}

/// What the summaries of a log's segments say they are about.
fn sort(kind: LogKind) -> SummaryKind {
    if kind.is_node() { SummaryKind::Node } else { SummaryKind::Data }
}

/// A segment that a log enters at its first block.
fn blank(segment: SegmentNo) -> (SegmentNo, Box<[u8; PAGE_SIZE]>, bool) {
    (segment, Box::new([0; PAGE_SIZE]), false)
}
