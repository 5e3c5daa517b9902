//! Dirty bytes: the bytes of a page written since it was clean.

use std::ops::Range;

use onewrite_block::PAGE_SIZE;

/// Ranges of bytes of one page, at most [`DirtyBytes::RANGES_MAX`].
///
/// Adding a ninth range joins the two nearest ranges. So the ranges may cover bytes that were not written, but they
/// never miss a written byte.
///
/// # Invariants
/// Ranges are in order, not empty, and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtyBytes {
    ranges: Vec<Range<u16>>,
}

impl DirtyBytes {
    /// Maximum number of ranges of one page.
    pub const RANGES_MAX: usize = 8;

    /// The ranges, in order.
    pub fn ranges(&self) -> &[Range<u16>] {
        &self.ranges
    }

    /// Whether no byte is dirty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Total number of bytes.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(|range| range.len()).sum()
    }

    /// Adds bytes.
    ///
    /// # Panics
    /// If they lie beyond the page.
    pub fn add(&mut self, bytes: Range<usize>) {
        assert!(bytes.end <= PAGE_SIZE, "bytes up to {} of a page of {PAGE_SIZE}", bytes.end);
        if bytes.is_empty() {
            return;
        }
        let (mut start, mut end) = (bytes.start as u16, bytes.end as u16);
        self.ranges.retain(|range| {
            let touches = range.start <= end && start <= range.end;
            if touches {
                (start, end) = (start.min(range.start), end.max(range.end));
            }
            !touches
        });
        let at = self.ranges.partition_point(|range| range.start < start);
        self.ranges.insert(at, start..end);
        if self.ranges.len() > DirtyBytes::RANGES_MAX {
            self.join_nearest();
        }
    }

    /// Adds the bytes of `other`.
    pub(crate) fn add_all(&mut self, other: &DirtyBytes) {
        other.ranges.iter().for_each(|range| self.add(range.start.into()..range.end.into()));
    }

    fn join_nearest(&mut self) {
        let gap = |at: &usize| self.ranges[at + 1].start - self.ranges[*at].end;
        let nearest = (0..self.ranges.len() - 1).min_by_key(gap).expect("more than one range");
        let behind = self.ranges.remove(nearest + 1);
        self.ranges[nearest].end = behind.end;
    }
}

/// Ranges of bytes in which `after` differs from `before`, which is as long. Ranges at most `gap` bytes apart are one.
pub(crate) fn changed_ranges(before: &[u8], after: &[u8], gap: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in (0..after.len()).filter(|at| before[*at] != after[*at]) {
        match ranges.last_mut() {
            Some(last) if at <= last.end + gap => last.end = at + 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn dirty_bytes_cover_what_was_added_in_few_ordered_ranges() {
        for seed in 0..200 {
            let mut choices = Choices::new(seed);
            let (mut dirty, mut plain) = (DirtyBytes::default(), vec![false; PAGE_SIZE]);
            for _ in 0..30 {
                let start = choices.below(PAGE_SIZE as u64) as usize;
                let end = PAGE_SIZE.min(start + choices.below(300) as usize);
                dirty.add(start..end);
                plain[start..end].fill(true);
                let is_covered = |byte: usize| dirty.ranges().iter().any(|range| range.contains(&(byte as u16)));
                assert!((0..PAGE_SIZE).all(|byte| !plain[byte] || is_covered(byte)), "seed {seed}: {dirty:?}");
                assert!(dirty.ranges().len() <= DirtyBytes::RANGES_MAX, "seed {seed}");
                let apart = dirty.ranges().windows(2).all(|two| two[0].end < two[1].start);
                assert!(apart && dirty.ranges().iter().all(|range| !range.is_empty()), "seed {seed}: {dirty:?}");
                let written = plain.iter().filter(|byte| **byte).count();
                let runs = plain.windows(2).filter(|two| !two[0] && two[1]).count() + usize::from(plain[0]);
                let is_exact = dirty.ranges().len() < DirtyBytes::RANGES_MAX && runs < DirtyBytes::RANGES_MAX;
                assert!(dirty.count() >= written, "seed {seed}");
                // Joined ranges stay joined, so the count is exact only if there was room for all ranges.
                if dirty.count() == written && is_exact {
                    assert_eq!(dirty.ranges().len(), runs, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn changed_ranges_are_what_differs_and_small_gaps() {
        let (before, mut after) = ([0_u8; 30], [0_u8; 30]);
        [0, 1, 4, 20, 29].iter().for_each(|at| after[*at] = 1);
        assert_eq!(changed_ranges(&before, &after, 0), [0..2, 4..5, 20..21, 29..30]);
        assert_eq!(changed_ranges(&before, &after, 2), [0..5, 20..21, 29..30]);
        assert_eq!(changed_ranges(&before, &before, 9), []);
    }

    #[test]
    fn the_ninth_range_joins_the_nearest_two() {
        let mut dirty = DirtyBytes::default();
        (0..8).for_each(|at| dirty.add(at * 100..at * 100 + 10));
        assert_eq!(dirty.count(), 80);
        dirty.add(315..320);
        assert_eq!((dirty.ranges().len(), dirty.ranges()[3].clone()), (8, 300..320));
        dirty.add(0..PAGE_SIZE);
        assert_eq!((dirty.ranges().len(), dirty.count()), (1, PAGE_SIZE));
    }
}
