//! History: changes of the flash that were ordered and have not happened yet.
//!
//! Each program and erase waits here until its moment, with the data to undo it.
//!
//! Invariants:
//! - Changes happen in the order in which they were ordered; moments never decrease.
//! - A power cut leaves all changes that have happened and none of the others, except the one under way: that one is
//!   missing, torn or whole.

use std::collections::VecDeque;
use std::ops::Range;

use onewrite_block::Choices;

use super::area::Area;
use crate::address::{FlashBlock, Lpn, MapEntry, Ppn};

/// A change, and the moment at which it has happened.
#[derive(Clone, Debug)]
struct Ordered {
    moment: u64,
    change: Change,
}

/// A change of the flash.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A page is programmed.
    Program(Programmed),
    /// A block is erased.
    Erase(Box<Erased>),
    /// A block is marked as bad.
    Retire(Box<Erased>),
}

/// A page under program, and its state before.
#[derive(Clone, Debug)]
pub(crate) struct Programmed {
    pub(crate) page: Ppn,
    pub(crate) area: Area,
    pub(crate) version: u64,
    /// Filled pages of the block.
    pub(super) filled_before: u32,
    /// Old entries of the translation page, before this program changed them.
    pub(super) entries_before: Vec<(Lpn, MapEntry)>,
}

/// The state of a block before its erase, or before its mark.
#[derive(Clone, Debug)]
pub(crate) struct Erased {
    pub(super) block: FlashBlock,
    pub(super) words: Vec<u32>,
    pub(super) versions: Vec<u64>,
    pub(super) filled: u32,
    pub(super) records: Vec<(Ppn, Range<Lpn>)>,
}

impl Erased {
    /// Areas and versions of the pages that were programmed.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (Area, u64)> + '_ {
        let words = self.words[..self.filled as usize].iter().map(|word| Area::of(*word));
        words.zip(self.versions.iter().copied())
    }
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    ordered: VecDeque<Ordered>,
    /// The moment at which the last change has happened.
    last: u64,
    /// Changes ordered so far.
    count: u64,
}

impl History {
    /// Whether every ordered change has happened.
    pub(super) fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Changes ordered so far.
    pub(super) fn ordered(&self) -> u64 {
        self.count
    }

    /// Number of these changes that have happened.
    pub(super) fn happened(&self) -> u64 {
        self.count - self.ordered.len() as u64
    }

    /// The moment at which the next change has happened.
    #[inline]
    pub(super) fn next_moment(&self) -> Option<u64> {
        self.ordered.front().map(|ordered| ordered.moment)
    }

    /// The change that is under way.
    pub(super) fn under_way(&self) -> Option<&Change> {
        self.ordered.front().map(|ordered| &ordered.change)
    }

    /// Changes that were ordered after `count` others and have not happened.
    pub(super) fn since(&self, count: u64) -> impl Iterator<Item = &Change> {
        let skipped = count.saturating_sub(self.happened());
        self.ordered.iter().skip(skipped as usize).map(|one| &one.change)
    }

    /// Orders a change whose operation ends at `ended`.
    pub(super) fn order(&mut self, change: Change, ended: u64) {
        self.last = self.last.max(ended);
        self.count += 1;
        self.ordered.push_back(Ordered { moment: self.last, change });
    }

    /// The change ordered last, if it has not happened.
    pub(super) fn last_mut(&mut self) -> Option<&mut Change> {
        self.ordered.back_mut().map(|ordered| &mut ordered.change)
    }

    /// Lets the next change happen.
    ///
    /// # Panics
    /// If none is under way.
    pub(super) fn happen(&mut self) -> Change {
        self.ordered.pop_front().expect("a change is under way").change
    }

    /// Takes the changes that have not happened, in order, and begins anew.
    pub(super) fn lose(&mut self) -> Vec<Change> {
        let History { ordered, .. } = std::mem::take(self);
        ordered.into_iter().map(|one| one.change).collect()
    }
}

/// The effect of an operation that was cut.
pub(super) enum Remains {
    /// The state before.
    Nothing,
    /// A part, which cannot be read.
    Torn,
    /// The state after.
    All,
}

impl Remains {
    /// One of the three, all alike.
    pub(super) fn by_chance(choices: &mut Choices) -> Remains {
        match choices.below(3) {
            0 => Remains::Nothing,
            1 => Remains::Torn,
            _ => Remains::All,
        }
    }
}
