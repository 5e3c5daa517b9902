//! Runs: a set of page numbers that are mostly consecutive.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, stored as runs of consecutive numbers.
///
/// # Invariants
/// Runs are not empty and do not touch; `count` is the sum of their lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    /// The end of each run (exclusive) by its start.
    runs: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// How many numbers it holds.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many runs they form.
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in ascending order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|(start, end)| *start..*end)
    }

    /// The numbers that `other` lacks.
    pub(super) fn without(&self, other: &Runs) -> Runs {
        let mut rest = self.clone();
        for run in other.runs() {
            rest.remove(run);
        }
        rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.end_at(number).is_some()
    }

    /// End of the run that holds `number`, if there is one.
    pub(super) fn end_at(&self, number: u64) -> Option<u64> {
        self.runs.range(..=number).next_back().map(|(_, end)| *end).filter(|end| *end > number)
    }

    /// The first run that ends behind `from`, without its part before `from`.
    pub(super) fn first_from(&self, from: u64) -> Option<Range<u64>> {
        match self.end_at(from) {
            Some(end) => Some(from..end),
            None => self.runs.range(from..).next().map(|(start, end)| *start..*end),
        }
    }

    /// Adds the numbers of `range`; returns how many of them are new.
    pub(super) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.count;
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&at, &stop)) = self.runs.range(..=end).next_back().filter(|(_, stop)| **stop >= start) {
            self.runs.remove(&at);
            self.count -= stop - at;
            (start, end) = (start.min(at), end.max(stop));
        }
        self.runs.insert(start, end);
        self.count += end - start;
        self.count - before
    }

    /// Removes the numbers of `range`; returns how many of them were in the set.
    pub(super) fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.count;
        while let Some((&at, &stop)) = self.runs.range(..range.end).next_back().filter(|(_, stop)| **stop > range.start)
        {
            self.runs.remove(&at);
            self.count -= stop - at;
            for rest in [at..range.start.max(at), range.end.min(stop)..stop] {
                if !rest.is_empty() {
                    self.count += rest.end - rest.start;
                    self.runs.insert(rest.start, rest.end);
                }
            }
            if at <= range.start {
                break;
            }
        }
        before - self.count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn numbers(runs: &Runs) -> BTreeSet<u64> {
        runs.runs.iter().flat_map(|(start, end)| *start..*end).collect()
    }

    #[test]
    fn runs_are_the_set_that_a_plain_set_is() {
        let mut choices = onewrite_block::Choices::new(7);
        let (mut runs, mut plain) = (Runs::default(), BTreeSet::new());
        for step in 0..4_000 {
            let start = choices.below(60);
            let range = start..start + choices.below(12);
            let before = plain.len() as u64;
            if choices.below(2) == 0 {
                let added = runs.insert(range.clone());
                plain.extend(range);
                assert_eq!(added, plain.len() as u64 - before, "step {step}");
            } else {
                let removed = runs.remove(range.clone());
                plain.retain(|number| !range.contains(number));
                assert_eq!(removed, before - plain.len() as u64, "step {step}");
            }
            assert_eq!((numbers(&runs), runs.count()), (plain.clone(), plain.len() as u64), "step {step}");
            let touching = runs.runs.iter().zip(runs.runs.keys().skip(1)).any(|((_, end), next)| end >= next);
            assert!(!touching, "step {step}: {runs:?}");
            let from = choices.below(70);
            let first = plain.range(from..).next().copied();
            assert_eq!(runs.first_from(from).map(|run| run.start), first, "step {step}");
            assert_eq!(runs.contains(from), plain.contains(&from), "step {step}");
        }
    }
}
