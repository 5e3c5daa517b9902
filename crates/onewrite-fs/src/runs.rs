//! Runs: a set of page numbers that are mostly consecutive.
//!
//! Most files have one run of delayed pages or none, so one run takes no memory of its own. Many runs are a persistent
//! map: a copy of a set is free, and a change of one of both takes no more than the logarithm of their number. Drafts
//! copy their sets before each change, to have them again if it is refused.

use std::ops::Range;

use rpds::RedBlackTreeMap;

/// A set of numbers, stored as runs of consecutive numbers.
///
/// # Invariants
/// Runs are not empty and do not touch. [`Stored::Many`] holds two or more; a set has one form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(Stored);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stored {
    /// A run from the first number to before the second; none if they are 0.
    One(u64, u64),
    Many(Box<Many>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Many {
    /// The end of each run (exclusive) by its start.
    runs: RedBlackTreeMap<u64, u64>,
    /// The sum of their lengths.
    count: u64,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored::one(0..0)
    }
}

impl Stored {
    fn one(run: Range<u64>) -> Stored {
        if run.is_empty() { Stored::One(0, 0) } else { Stored::One(run.start, run.end) }
    }
}

impl Runs {
    /// How many numbers it holds.
    pub(crate) fn count(&self) -> u64 {
        match &self.0 {
            Stored::One(start, end) => end - start,
            Stored::Many(many) => many.count,
        }
    }

    /// How many runs they form.
    pub(crate) fn run_count(&self) -> usize {
        match &self.0 {
            Stored::One(..) => usize::from(!self.is_empty()),
            Stored::Many(many) => many.runs.size(),
        }
    }

    /// The runs, in ascending order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        let (one, many) = match &self.0 {
            Stored::One(start, end) => ((start < end).then_some(*start..*end), None),
            Stored::Many(many) => (None, Some(&many.runs)),
        };
        one.into_iter().chain(many.into_iter().flatten().map(|(start, end)| *start..*end))
    }

    /// The numbers that `other` lacks.
    pub(crate) fn without(&self, other: &Runs) -> Runs {
        let mut rest = self.clone();
        for run in other.runs() {
            rest.remove(run);
        }
        rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == Stored::One(0, 0)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.end_at(number).is_some()
    }

    /// End of the run that holds `number`, if there is one.
    pub(crate) fn end_at(&self, number: u64) -> Option<u64> {
        match &self.0 {
            Stored::One(start, end) => (*start..*end).contains(&number).then_some(*end),
            Stored::Many(many) => many.end_at(number),
        }
    }

    /// The first run that ends behind `from`, without its part before `from`.
    pub(crate) fn first_from(&self, from: u64) -> Option<Range<u64>> {
        match &self.0 {
            Stored::One(start, end) => (from < *end).then_some(from.max(*start)..*end),
            Stored::Many(many) => match many.end_at(from) {
                Some(end) => Some(from..end),
                None => many.runs.range(from..).next().map(|(start, end)| *start..*end),
            },
        }
    }

    /// Adds the numbers of `range`; returns how many of them are new.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.count();
        match &self.0 {
            Stored::One(0, 0) => self.0 = Stored::one(range),
            Stored::One(start, end) if range.start <= *end && *start <= range.end => {
                self.0 = Stored::one(range.start.min(*start)..range.end.max(*end));
            }
            _ => self.change_many(|many| many.insert(range)),
        }
        self.count() - before
    }

    /// Removes the numbers of `range`; returns how many of them were in the set.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.count();
        match self.0 {
            Stored::One(start, end) if range.end <= start || end <= range.start => (),
            Stored::One(start, end) if range.start <= start => self.0 = Stored::one(range.end.min(end)..end),
            Stored::One(start, end) if end <= range.end => self.0 = Stored::one(start..range.start),
            _ => self.change_many(|many| many.remove(range)),
        }
        before - self.count()
    }

    /// Changes the set in the form of many runs.
    fn change_many(&mut self, change: impl FnOnce(&mut Many)) {
        let mut many = match std::mem::take(&mut self.0) {
            Stored::One(start, end) => {
                Box::new(Many { runs: [(start, end)].into_iter().collect(), count: end - start })
            }
            Stored::Many(many) => many,
        };
        change(&mut many);
        self.0 = match many.runs.size() {
            0 | 1 => many.runs.first().map_or_else(Stored::default, |(start, end)| Stored::one(*start..*end)),
            _ => Stored::Many(many),
        };
    }
}

impl Many {
    fn end_at(&self, number: u64) -> Option<u64> {
        self.runs.range(..=number).next_back().map(|(_, end)| *end).filter(|end| *end > number)
    }

    fn insert(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&at, &stop)) = self.runs.range(..=end).next_back().filter(|(_, stop)| **stop >= start) {
            self.runs.remove_mut(&at);
            self.count -= stop - at;
            (start, end) = (start.min(at), end.max(stop));
        }
        self.runs.insert_mut(start, end);
        self.count += end - start;
    }

    fn remove(&mut self, range: Range<u64>) {
        while let Some((&at, &stop)) = self.runs.range(..range.end).next_back().filter(|(_, stop)| **stop > range.start)
        {
            self.runs.remove_mut(&at);
            self.count -= stop - at;
            for rest in [at..range.start.max(at), range.end.min(stop)..stop] {
                if !rest.is_empty() {
                    self.count += rest.end - rest.start;
                    self.runs.insert_mut(rest.start, rest.end);
                }
            }
            if at <= range.start {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn numbers(runs: &Runs) -> BTreeSet<u64> {
        runs.runs().flatten().collect()
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
            let touching = runs.runs().zip(runs.runs().skip(1)).any(|(run, next)| run.end >= next.start);
            assert!(!touching, "step {step}: {runs:?}");
            assert_eq!(matches!(runs.0, Stored::Many(_)), runs.run_count() > 1, "step {step}: {runs:?}");
            let from = choices.below(70);
            let first = plain.range(from..).next().copied();
            assert_eq!(runs.first_from(from).map(|run| run.start), first, "step {step}");
            assert_eq!(runs.contains(from), plain.contains(&from), "step {step}");
        }
    }
}
