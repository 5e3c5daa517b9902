//! Victims: which segment cleaning empties next.

use std::cmp::Reverse;
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
    /// Age and free space, weighed, of the oldest that have not changed for `threshold` seconds (ATGC): what is that
    /// old will hardly be freed by overwrites. Source: `Documentation/ABI/testing/sysfs-fs-f2fs`, `atgc_*`.
    Age {
        /// Seconds without a change.
        threshold: u64,
    },
}

/// Percent of the aged candidates, and their least number, among which [`VictimBy::Age`] chooses; and the percent that
/// age weighs, the rest for free space. As Linux has them.
const AGED_PERCENT: usize = 20;
const AGED_MIN: usize = 10;
const AGE_WEIGHT: u64 = 60;

/// What [`VictimBy::Age`] knows of a candidate.
#[derive(Clone, Copy, Debug)]
struct Aged {
    /// Seconds without a change.
    idle: u64,
    used: u64,
    blocks: u64,
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
        let Some(section) = self.best(usable, by) else { return Vec::new() };
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
        self.best(usable.map(|segment| segment.0..segment.0 + 1), by).map(|one| self.victim_of(SegmentNo(one.start)))
    }

    /// The best of these runs of segments.
    fn best(&self, runs: impl Iterator<Item = Range<u32>>, by: VictimBy) -> Option<Range<u32>> {
        match by {
            VictimBy::Greed => self.best_by(runs, Space::free_blocks),
            VictimBy::CostBenefit => self.best_by(runs, Space::benefit),
            VictimBy::Age { threshold } => {
                let runs: Vec<_> = runs.collect();
                let aged: Vec<Aged> = runs.iter().map(|run| self.aged(run)).collect();
                best_by_age(&aged, threshold).map(|at| runs[at].clone())
            }
        }
    }

    /// The first of the runs whose segments have the largest sum of gains.
    fn best_by(
        &self,
        runs: impl Iterator<Item = Range<u32>>,
        gain: impl Fn(&Space, SegmentNo) -> u64,
    ) -> Option<Range<u32>> {
        let sum = |run: &Range<u32>| -> u64 { run.clone().map(|segment| gain(self, SegmentNo(segment))).sum() };
        runs.max_by_key(|run| (sum(run), Reverse(run.start)))
    }

    fn aged(&self, run: &Range<u32>) -> Aged {
        let idle = |segment: u32| self.segments[segment as usize].idle(self.age);
        let idle = run.clone().map(idle).min().unwrap_or(0);
        Aged { idle, used: self.used_in(run), blocks: Space::blocks_in(run) }
    }

    fn victim_of(&self, segment: SegmentNo) -> Victim {
        let found = &self.segments[segment.0 as usize];
        let start = self.layout.segment_start(segment);
        let blocks = (0..BLOCKS).filter(|index| found.is_used(*index)).map(|index| (start + index as u64, index));
        let summary = self.layout.ssa + u64::from(segment.0);
        Victim { segment, holds_nodes: found.holds_nodes(), blocks: blocks.collect(), summary }
    }

    fn free_blocks(&self, segment: SegmentNo) -> u64 {
        BLOCKS as u64 - u64::from(self.segments[segment.0 as usize].used())
    }

    /// Cost and benefit of a victim, in thousandths; larger is better.
    fn benefit(&self, segment: SegmentNo) -> u64 {
        let found = &self.segments[segment.0 as usize];
        self.free_blocks(segment) * (1 + found.idle(self.age)) * 1000 / (BLOCKS as u64 + u64::from(found.used()))
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

/// The place of the best of the aged candidates; `None` if none is as old as `threshold`.
fn best_by_age(all: &[Aged], threshold: u64) -> Option<usize> {
    let (youngest, oldest) = (all.iter().map(|one| one.idle).min()?, all.iter().map(|one| one.idle).max()?);
    let mut aged: Vec<usize> = (0..all.len()).filter(|at| all[*at].idle >= threshold).collect();
    aged.sort_by_key(|at| (Reverse(all[*at].idle), *at));
    aged.truncate(AGED_MIN.max(aged.len() * AGED_PERCENT / 100));
    let score = |at: &usize| {
        let Aged { idle, used, blocks } = all[*at];
        // In thousandths, each weighed in percent.
        let age = 1000 * (idle - youngest) / (oldest - youngest).max(1);
        let free = 1000 * (blocks - used) / blocks;
        (age * AGE_WEIGHT + free * (100 - AGE_WEIGHT), Reverse(*at))
    };
    aged.into_iter().max_by_key(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aged(idle: u64, used: u64) -> Aged {
        Aged { idle, used, blocks: 512 }
    }

    #[test]
    fn nothing_young_is_a_victim() {
        assert_eq!(best_by_age(&[], 0), None);
        assert_eq!(best_by_age(&[aged(9, 1), aged(5, 1)], 10), None);
        assert_eq!(best_by_age(&[aged(9, 1), aged(10, 511)], 10), Some(1));
    }

    #[test]
    fn age_weighs_more_than_free_space_and_not_all() {
        // 60 x 1000 for age alone, against 40 x 998 for free space.
        assert_eq!(best_by_age(&[aged(1000, 512), aged(0, 1)], 0), Some(0));
        // 60 x 500 + 40 x 998 against 60 x 1000.
        assert_eq!(best_by_age(&[aged(1000, 512), aged(500, 1), aged(0, 512)], 0), Some(1));
        assert_eq!(best_by_age(&[aged(7, 100), aged(7, 100)], 0), Some(0), "the first of equal ones");
    }

    #[test]
    fn only_the_oldest_count() {
        // 100 candidates: the oldest 20 count. The 21st would be best by free space.
        let mut all: Vec<Aged> = (0..100).map(|number| aged(10_000 - number, 512)).collect();
        all[20].used = 1;
        assert_eq!(best_by_age(&all, 0), Some(0));
        all[19].used = 1;
        assert_eq!(best_by_age(&all, 0), Some(19));
        // Of 30, ten.
        assert_eq!(best_by_age(&all[..20], 0), Some(0));
    }
}
