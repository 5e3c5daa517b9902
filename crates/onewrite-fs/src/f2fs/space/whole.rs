//! Whole: what a space does with whole sections (`sections`).

use std::ops::Range;

use super::logs::{BLOCKS, Log};
use super::{RESERVE, RESERVE_FROM_CLEANING, RESERVE_SECTIONS, Reserve, Space, THREADED_FROM};
use crate::block::BlockRange;
use crate::f2fs::format::SegmentNo;
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::sit::LogKind;

impl Space {
    /// Free segments that only a checkpoint and recovery take.
    pub(super) fn reserved(&self) -> usize {
        if self.sections.are_whole() { RESERVE_SECTIONS * self.sections.size() } else { RESERVE }
    }

    /// Blocks of free segments beyond the reserve.
    pub(in crate::f2fs) fn open_blocks(&self) -> usize {
        self.free.count().saturating_sub(self.reserved()) * BLOCKS
    }

    /// With as many free segments or fewer, space is short.
    pub(super) fn scarce_from(&self) -> usize {
        if self.sections.are_whole() { self.reserved() + 2 * self.sections.size() } else { THREADED_FROM }
    }

    /// Free segments that a log leaves alone.
    pub(super) fn kept_from(&self, kind: LogKind) -> usize {
        let is_content = matches!(kind, LogKind::WarmData | LogKind::ColdData);
        let for_staged = self.sections.whole_segments(self.staged);
        match (self.reserve, self.sections.are_whole()) {
            (Reserve::ForAll, _) => 0,
            (Reserve::ForNodes | Reserve::ForStaged, is_whole) if !(is_whole && is_content) => 0,
            (_, true) if kind == LogKind::ColdData => RESERVE_FROM_CLEANING * self.sections.size() + for_staged,
            (_, true) if is_content => self.reserved() + for_staged,
            _ => self.reserved(),
        }
    }

    /// As [`Space::run_of`], for content. `staged` pages are in a staging area only, and the next checkpoint brings
    /// them in: on whole ground other content leaves them their room, and the reserve to nodes. What is `needed` is
    /// such a page, or names: a checkpoint takes the reserve for it.
    pub(in crate::f2fs) fn room_for_content(&mut self, kind: LogKind, most: u64, needed: bool, staged: usize) -> u64 {
        self.staged = staged;
        let is_for_staged = self.reserve == Reserve::ForStaged;
        let is_scarce = || self.free.count() <= self.reserved() + self.sections.whole_segments(self.staged);
        if self.sections.are_whole() && is_for_staged && !needed && is_scarce() {
            onewrite_block::reached!("writeback leaves a checkpoint its reserve");
            return 0;
        }
        if is_for_staged && needed && self.log(kind).is_full() {
            onewrite_block::reached!("content that a checkpoint needs takes from the reserve");
            self.enter_next(kind, 0);
        }
        self.run_of(kind, most)
    }

    /// Whether a section holds nothing, held nothing at the last checkpoint, and nothing stands in the way of its use.
    pub(super) fn is_vacant(&self, section: &Range<u32>) -> bool {
        section.clone().map(SegmentNo).all(|segment| self.is_vacant_segment(segment))
    }

    /// As [`Space::is_vacant`], for one segment.
    fn is_vacant_segment(&self, segment: SegmentNo) -> bool {
        self.segments[segment.0 as usize].is_unused()
            && !self.taken.contains_key(&segment)
            && !self.barred.contains(&segment)
            && !self.logs.iter().any(|log| log.segment() == segment)
    }

    /// No segment of this section is free from now on.
    pub(super) fn take_section(&mut self, segment: SegmentNo) {
        for number in self.sections.of(segment) {
            self.free.take(SegmentNo(number));
        }
    }

    /// Whether a checkpoint would free a section.
    pub(super) fn has_emptied_section(&self) -> bool {
        let is_empty = |segment: u32| {
            let stands = self.logs.iter().any(|log| log.segment().0 == segment);
            self.segments[segment as usize].used() == 0 && !stands
        };
        self.changed.iter().any(|segment| {
            let mut section = self.sections.of(*segment);
            !self.free.contains(*segment) && section.all(is_empty)
        })
    }

    /// Frees the sections of these segments that hold nothing; gives their blocks.
    pub(super) fn free_sections(&mut self, segments: &[SegmentNo]) -> Vec<BlockRange> {
        let mut sections: Vec<u32> = segments.iter().map(|segment| self.sections.of(*segment).start).collect();
        sections.sort_unstable();
        sections.dedup();
        let mut freed = Vec::new();
        for first in sections.into_iter().map(SegmentNo) {
            let section = self.sections.of(first);
            if self.is_vacant(&section) && !self.free.contains(first) {
                let blocks = (section.end - section.start) as u64 * SEGMENT_BLOCKS;
                for segment in section {
                    self.free.give(SegmentNo(segment));
                }
                onewrite_block::reached!("whole section freed");
                freed.push(self.layout.segment_start(first).run(blocks));
            }
        }
        freed
    }

    /// The blocks of all free sections, neighbours together.
    pub(in crate::f2fs) fn free_runs(&self) -> Vec<BlockRange> {
        let mut runs: Vec<BlockRange> = Vec::new();
        for section in self.sections.all().filter(|section| self.free.contains(SegmentNo(section.start))) {
            let run = self.layout.segment_start(SegmentNo(section.start));
            let run = run.run((section.end - section.start) as u64 * SEGMENT_BLOCKS);
            match runs.last_mut() {
                Some(last) if last.end() == run.start => last.count += run.count,
                _ => runs.push(run),
            }
        }
        runs
    }

    /// The segment behind the log's own in its section, if the log goes on there.
    pub(super) fn next_in_section(&self, kind: LogKind) -> Option<SegmentNo> {
        let segment = self.log(kind).segment();
        let next = SegmentNo(segment.0 + 1);
        let is_mine = self.sections.are_whole() && !self.astray[kind as usize];
        (is_mine && self.sections.of(segment).contains(&next.0))
            .then_some(next)
            .filter(|next| self.is_vacant_segment(*next))
    }

    /// On a device with zones: moves logs to blank sections, all of them or those that stand where they do not write.
    /// The caller has reset the free sections, and makes a checkpoint before anything is synced.
    pub(in crate::f2fs) fn leave_zones(&mut self, all: bool) {
        if !self.sections.has_zones() {
            return;
        }
        let before = std::mem::replace(&mut self.reserve, Reserve::ForAll);
        // Logs of nodes and names first: recovery cannot do without them.
        let needed = [LogKind::HotNode, LogKind::WarmNode, LogKind::HotData, LogKind::ColdNode];
        for kind in needed.into_iter().chain([LogKind::WarmData, LogKind::ColdData]) {
            if all || self.log(kind).position().is_threaded {
                onewrite_block::reached!("log leaves its zone at the mount");
                self.astray[kind as usize] = true;
                self.logs[kind as usize].end();
                self.leave(kind);
            }
        }
        self.reserve = before;
    }

    /// Whether cleaning leaves a section alone: a log stands in it, or recovery keeps the logs out of it.
    pub(super) fn is_kept_section(&self, section: &Range<u32>) -> bool {
        section.clone().map(SegmentNo).any(|segment| {
            self.logs.iter().map(Log::segment).any(|other| other == segment) || self.barred.contains(&segment)
        })
    }

    /// Blocks of a section that are in use.
    pub(super) fn used_in(&self, section: &Range<u32>) -> u64 {
        section.clone().map(|segment| u64::from(self.segments[segment as usize].used())).sum()
    }

    /// Blocks of a section.
    pub(super) fn blocks_in(section: &Range<u32>) -> u64 {
        u64::from(section.end - section.start) * BLOCKS as u64
    }
}
