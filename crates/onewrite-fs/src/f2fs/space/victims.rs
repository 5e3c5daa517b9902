//! Victims: which segment cleaning empties next.

use std::ops::Range;

use super::logs::BLOCKS;
use super::{Log, Prepared, Space};
use crate::block::BlockNo;
use crate::f2fs::format::SegmentNo;

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::f2fs) enum VictimBy {
    /// Fewest blocks in use: frees space fastest.
    Greed,
    /// Free space gained, times the age of the segment, over the cost of reading and writing what is in use. Source:
    /// the F2FS paper (FAST'15), §2.3, after LFS.
    CostBenefit,
}

/// A segment to empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::f2fs) struct Victim {
    pub(in crate::f2fs) segment: SegmentNo,
    /// Whether its blocks are nodes.
    pub(in crate::f2fs) holds_nodes: bool,
    /// The blocks in use, each with its place in the segment.
    pub(in crate::f2fs) blocks: Vec<(BlockNo, usize)>,
    /// The block of its summary.
    pub(in crate::f2fs) summary: BlockNo,
}

impl Space {
    /// The segments in use of the best section from which something is gained; where sections are not whole, the best
    /// segment with at most `used_max` blocks in use. Empty if there is none.
    pub(in crate::f2fs) fn victims(&self, by: VictimBy, used_max: u16) -> Vec<Victim> {
        match self.sections.are_whole() {
            true => self.victim_section(by),
            false => self.victim(by, used_max).into_iter().collect(),
        }
    }

    /// Nothing is threaded there, so any section counts from which something is gained.
    fn victim_section(&self, by: VictimBy) -> Vec<Victim> {
        let usable = self.sections.all().filter(|section| {
            let used = self.used_in(section);
            used > 0 && used < Space::blocks_in(section) && !self.is_kept_section(section)
        });
        let gain =
            |section: &Range<u32>| -> u64 { section.clone().map(|segment| self.gain(SegmentNo(segment), by)).sum() };
        let Some(section) = usable.max_by_key(|section| (gain(section), std::cmp::Reverse(section.start))) else {
            return Vec::new();
        };
        let is_used = |segment: &SegmentNo| self.segments[segment.0 as usize].used() > 0;
        section.map(SegmentNo).filter(is_used).map(|segment| self.victim_of(segment)).collect()
    }

    /// The best segment with at most `used_max` blocks in use; `None` if there is none.
    fn victim(&self, by: VictimBy, used_max: u16) -> Option<Victim> {
        let stand = self.logs.each_ref().map(Log::segment);
        let is_kept = |segment: &SegmentNo| {
            let is_prepared = self.prepared.iter().any(|Prepared { segment: other, .. }| other == segment);
            stand.contains(segment) || is_prepared || self.barred.contains(segment)
        };
        let numbers = (0..self.segments.len() as u32).map(SegmentNo);
        let usable = numbers.filter(|segment| {
            let used = self.segments[segment.0 as usize].used();
            used > 0 && used <= used_max && !is_kept(segment)
        });
        let best = usable.max_by_key(|segment| (self.gain(*segment, by), std::cmp::Reverse(segment.0)));
        best.map(|segment| self.victim_of(segment))
    }

    fn victim_of(&self, segment: SegmentNo) -> Victim {
        let found = &self.segments[segment.0 as usize];
        let start = self.layout.segment_start(segment);
        let blocks = (0..BLOCKS).filter(|index| found.is_used(*index)).map(|index| (start + index as u64, index));
        let summary = self.layout.ssa + u64::from(segment.0);
        Victim { segment, holds_nodes: found.holds_nodes(), blocks: blocks.collect(), summary }
    }

    /// How good a victim is; larger is better.
    fn gain(&self, segment: SegmentNo, by: VictimBy) -> u64 {
        let found = &self.segments[segment.0 as usize];
        let (used, free) = (u64::from(found.used()), BLOCKS as u64 - u64::from(found.used()));
        match by {
            VictimBy::Greed => free,
            VictimBy::CostBenefit => free * (1 + found.idle(self.age)) * 1000 / (BLOCKS as u64 + used),
        }
    }

    /// Whether cleaning should empty segments before anybody takes more.
    pub(in crate::f2fs) fn is_short(&self) -> bool {
        self.free.count() <= self.scarce_from()
    }

    /// Whether less than a share of all segments, one in `share`, is free.
    pub(in crate::f2fs) fn is_below(&self, share: usize) -> bool {
        self.free.count() * share < self.segments.len()
    }
}
