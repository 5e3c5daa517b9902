//! State of a staging area in use.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::f2fs::format::Nid;
use crate::f2fs::format::checkpoint::StageMark;
use crate::f2fs::stage::area::Area;
use crate::f2fs::stage::format::{Head, Transaction};
use crate::f2fs::stage::pending::Pending;

/// A staging area in use.
pub(in crate::f2fs) struct Stage {
    pub(in crate::f2fs::mounted) area: Area,
    /// Whether the area holds what continues a newer checkpoint than the image's.
    pub(in crate::f2fs::mounted) has_newer: Cell<bool>,
    pub(super) pending: RefCell<Pending>,
    /// The page of the log that is written next.
    next: Cell<u64>,
    /// The number of the last transaction, and of the last one that is durable.
    last: Cell<u32>,
    durable: Cell<u32>,
    /// Whether a transaction is under way.
    is_writing: Cell<bool>,
    /// Rounds that began, and that ended.
    begun: Cell<u64>,
    ended: Cell<u64>,
    /// Files that the next round syncs.
    wanted: RefCell<BTreeSet<Nid>>,
}

/// Where a transaction goes.
pub(super) struct Placed {
    pub(super) first: u64,
    pub(super) head: Head,
}

impl Stage {
    pub(in crate::f2fs) fn new(area: Area) -> Stage {
        Stage {
            area,
            has_newer: Cell::new(false),
            pending: RefCell::default(),
            next: Cell::new(0),
            last: Cell::new(0),
            durable: Cell::new(0),
            is_writing: Cell::new(false),
            begun: Cell::new(0),
            ended: Cell::new(0),
            wanted: RefCell::default(),
        }
    }

    /// What a checkpoint says of the area that continues it.
    pub(in crate::f2fs::mounted) fn mark(&self) -> StageMark {
        self.area.mark()
    }

    /// Gives a transaction its place behind the last one; `None` if the log has no room for it. It is under way from
    /// then on.
    pub(super) fn place(&self, transaction: &Transaction, version: u64) -> Option<Placed> {
        let end = self.next.get() + transaction.page_count();
        if end > self.area.pages {
            return None;
        }
        self.is_writing.set(true);
        let (first, transaction) = (self.next.replace(end), self.last.get() + 1);
        self.last.set(transaction);
        let head = Head { version, transaction, durable: self.durable.get(), index: 0, is_last: false };
        Some(Placed { first, head })
    }

    /// Notes that the transaction under way is durable.
    pub(super) fn note_durable(&self) {
        self.durable.set(self.last.get());
    }

    /// Notes that no transaction is under way.
    pub(super) fn end_writing(&self) {
        self.is_writing.set(false);
    }

    /// Whether a transaction is under way.
    pub(in crate::f2fs::mounted) fn is_writing(&self) -> bool {
        self.is_writing.get()
    }

    /// Whether less than a quarter of the log is left.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.next.get() * 4 > self.area.pages * 3
    }

    /// The log begins anew, behind a checkpoint.
    pub(super) fn begin_anew(&self) {
        self.pending.take();
        self.next.set(0);
        self.last.set(0);
        self.durable.set(0);
    }

    /// Enters a file into the next round; gives the round.
    pub(super) fn join(&self, nid: Nid) -> u64 {
        self.wanted.borrow_mut().insert(nid);
        self.begun.get() + 1
    }

    /// Whether a round has ended.
    pub(super) fn has_ended(&self, round: u64) -> bool {
        self.ended.get() >= round
    }

    /// Whether a round is under way.
    pub(super) fn is_running(&self) -> bool {
        self.begun.get() > self.ended.get()
    }

    /// Begins a round.
    pub(super) fn begin_round(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// The files that the round under way syncs. Nobody joins it any more.
    pub(super) fn take_wanted(&self) -> BTreeSet<Nid> {
        self.wanted.take()
    }

    /// Ends the round under way.
    pub(super) fn end_round(&self) {
        self.ended.set(self.begun.get());
    }
}
