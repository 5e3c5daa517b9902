//! Orphans: inodes without a name that somebody has open. A checkpoint lists them; the next mount deletes them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::f2fs::format::Nid;

/// The inodes without a name that are open.
#[derive(Default)]
pub(super) struct Orphans {
    numbers: RefCell<BTreeSet<Nid>>,
    /// Whether they differ from those of the last checkpoint.
    has_changed: Cell<bool>,
}

impl Orphans {
    /// Notes those of the last checkpoint.
    pub(super) fn load(&self, found: &[Nid]) {
        self.numbers.borrow_mut().extend(found);
    }

    pub(super) fn insert(&self, nid: Nid) {
        self.numbers.borrow_mut().insert(nid);
        self.has_changed.set(true);
    }

    /// Notes that an orphan is gone; no-op for others.
    pub(super) fn remove(&self, nid: Nid) {
        if self.numbers.borrow_mut().remove(&nid) {
            self.has_changed.set(true);
        }
    }

    pub(super) fn contains(&self, nid: Nid) -> bool {
        self.numbers.borrow().contains(&nid)
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> Vec<Nid> {
        self.numbers.borrow().iter().copied().collect()
    }

    /// Whether they differ from those of the last checkpoint.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Notes that a checkpoint lists them.
    pub(super) fn note_checkpoint(&self) {
        self.has_changed.set(false);
    }
}
