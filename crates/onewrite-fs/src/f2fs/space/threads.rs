//! Threads: used segments whose free blocks the logs take when few free segments are left.
//!
//! A log enters a segment without waiting, but needs its summary then. So segments are prepared ahead: chosen, and
//! their summaries read.

use super::logs::{BLOCKS, Log, Prepared};
use super::{Space, THREADED_FROM};
use crate::block::BlockNo;
use crate::f2fs::format::SegmentNo;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::format::summary::SummaryKind;

/// Prepared segments of nodes, and as many of content, that are wanted while free segments are scarce.
const PREPARED: usize = 4;
/// Fewest free blocks of a segment that is worth a log's visit.
const OPEN_MIN: usize = 16;

impl Space {
    /// A segment that should be prepared, with the block of its summary; `None` if enough are.
    pub(in crate::f2fs) fn wants_prepared(&self) -> Option<(SegmentNo, BlockNo)> {
        if self.free.count() > THREADED_FROM || self.sections.are_whole() {
            return None;
        }
        let segment = [SummaryKind::Data, SummaryKind::Node].into_iter().find_map(|kind| self.best_thread(kind))?;
        Some((segment, self.layout.ssa + u64::from(segment.0)))
    }

    /// The segment of this kind with most free blocks that is not prepared yet, if more are wanted.
    fn best_thread(&self, kind: SummaryKind) -> Option<SegmentNo> {
        let holds_nodes = kind == SummaryKind::Node;
        let is_alike = |segment: SegmentNo| self.segments[segment.0 as usize].holds_nodes() == holds_nodes;
        if self.prepared.iter().filter(|prepared| is_alike(prepared.segment)).count() >= PREPARED {
            return None;
        }
        let stand = self.logs.each_ref().map(Log::segment);
        let is_taken = |segment: SegmentNo| {
            let is_prepared = self.prepared.iter().any(|prepared| prepared.segment == segment);
            self.free.contains(segment) || stand.contains(&segment) || is_prepared
        };
        let numbers = (0..self.segments.len() as u32).map(SegmentNo);
        let open = |segment: &SegmentNo| self.segments[segment.0 as usize].open_count(self.taken.get(segment));
        numbers
            .filter(|segment| is_alike(*segment) && !is_taken(*segment) && !self.barred.contains(segment))
            .filter(|segment| (OPEN_MIN..BLOCKS).contains(&open(segment)))
            .max_by_key(|segment| (open(segment), std::cmp::Reverse(segment.0)))
    }

    /// The segment of a log's sort with fewest blocks in use in which no log stands, with the block of its summary. A
    /// free one only if there is no other, and the section of another log last.
    pub(in crate::f2fs) fn emptiest(&self, kind: LogKind) -> Option<(SegmentNo, BlockNo)> {
        let stand = self.logs.each_ref().map(Log::segment);
        let numbers = (0..self.segments.len() as u32).map(SegmentNo).filter(|segment| !stand.contains(segment));
        let alike = numbers.filter(|segment| {
            let found = &self.segments[segment.0 as usize];
            found.used() == 0 || found.holds_nodes() == kind.is_node()
        });
        let rank = |segment: &SegmentNo| {
            let used = self.segments[segment.0 as usize].used();
            let is_beside = stand.iter().any(|log| self.sections.of(*log).contains(&segment.0));
            (usize::from(used) == BLOCKS, is_beside, self.free.contains(*segment), used, segment.0)
        };
        let segment = alike.min_by_key(rank)?;
        Some((segment, self.layout.ssa + u64::from(segment.0)))
    }

    /// Adds a segment whose summary was read.
    pub(in crate::f2fs) fn prepare(&mut self, prepared: Prepared) {
        self.prepared.push(prepared);
    }

    /// Forgets all prepared segments.
    pub(super) fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    /// The next prepared segment of the log's sort.
    pub(super) fn take_prepared(&mut self, kind: LogKind) -> Option<Prepared> {
        let stand = self.logs.each_ref().map(Log::segment);
        let is_usable = |prepared: &Prepared| {
            let segment = &self.segments[prepared.segment.0 as usize];
            let is_free = self.free.contains(prepared.segment);
            segment.holds_nodes() == kind.is_node() && !is_free && !stand.contains(&prepared.segment)
        };
        let at = self.prepared.iter().position(is_usable)?;
        Some(self.prepared.remove(at))
    }
}
