//! Orphans: inodes that lost their last name, and inodes whose truncation is not finished. Mount finishes both.
//!
//! On the device the list is a chain: the superblock names the head, and `dtime` of each inode names the next.
//!
//! # Invariant
//! Wherever a task waits, [`Orphans`] holds the numbers of the chain.

mod change;
mod finish;

use std::cell::RefCell;

use super::format::InodeNo;

/// Blocks that a change of the orphan list may change: superblock, own table block, predecessor's.
pub(super) const ORPHAN_CREDITS: usize = 3;

/// The orphan list in memory.
#[derive(Default)]
pub(super) struct Orphans {
    /// Its head last.
    numbers: RefCell<Vec<InodeNo>>,
}

impl Orphans {
    /// Whether an inode is on the list.
    fn contains(&self, number: InodeNo) -> bool {
        self.numbers.borrow().contains(&number)
    }

    /// The numbers on the list.
    pub(super) fn all(&self) -> Vec<InodeNo> {
        self.numbers.borrow().clone()
    }

    /// Replaces the list by `chain`, its head first.
    fn set(&self, chain: impl DoubleEndedIterator<Item = InodeNo>) {
        *self.numbers.borrow_mut() = chain.rev().collect();
    }

    /// Adds a new head.
    fn push(&self, number: InodeNo) {
        self.numbers.borrow_mut().push(number);
    }

    /// The orphan whose `dtime` names the inode; `None` if the superblock names it.
    fn before(&self, number: InodeNo) -> Option<InodeNo> {
        let numbers = self.numbers.borrow();
        let at = numbers.iter().position(|other| *other == number);
        at.and_then(|at| numbers.get(at + 1).copied())
    }

    /// Takes an inode off the list.
    fn remove(&self, number: InodeNo) {
        self.numbers.borrow_mut().retain(|other| *other != number);
    }
}
