//! Batch: a commit waits a moment for those who are about to sync, too.
//!
//! Tasks that sync again and again fall into two groups that take turns: while one group's commit waits for the
//! device, the other asks for the next, which begins when the first ends; those that it wakes come too late for it. So
//! each commit serves half of them, and each task waits for two commits. A commit that waits until the woken ones are
//! back serves all. Like Linux's jbd2 (`max_batch_time`) it does not wait longer than a commit takes; unlike there, it
//! knows how many it waits for, and goes on when they have come.

use std::cell::Cell;

use onewrite_block::Nanos;

use super::transaction::TransactionId;

/// After a wait in which nobody came, the next commits do not wait: 2, then 4, up to this many.
const REST_MAX: u32 = 64;

/// Who syncs, and whether it is worth waiting for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Longest wait; 0: commits begin at once.
    longest: Nanos,
    /// Tasks that wait for the running transaction.
    asked: Cell<usize>,
    /// Tasks that wait for the committing one.
    served: Cell<usize>,
    /// Tasks that were waiting for a commit when the last one ended.
    expected: Cell<usize>,
    /// Whether somebody asked for the running transaction who must not wait.
    is_urgent: Cell<bool>,
    /// When the last commit began.
    began: Cell<Nanos>,
    /// Smoothed duration of a commit.
    commit_time: Cell<Nanos>,
    /// Commits that do not wait, and how many it will be after the next wait in vain.
    rest: Cell<u32>,
    next_rest: Cell<u32>,
}

impl Batch {
    pub(super) fn new(longest: Nanos) -> Batch {
        Batch { longest, next_rest: Cell::new(2), ..Batch::default() }
    }

    /// A task waits for `tid`, and `running` takes changes.
    pub(super) fn note(&self, tid: TransactionId, running: TransactionId) {
        let count = if tid == running { &self.asked } else { &self.served };
        count.set(count.get() + 1);
    }

    /// The running transaction must commit without waiting for others.
    pub(super) fn hurry(&self) {
        self.is_urgent.set(true);
    }

    /// The running transaction begins to commit.
    pub(super) fn begin(&self, now: Nanos) {
        self.began.set(now);
        self.served.set(self.asked.replace(0));
        self.is_urgent.set(false);
    }

    /// The commit has ended.
    pub(super) fn end(&self, now: Nanos) {
        let time = now - self.began.get();
        self.expected.set(self.served.replace(0) + self.asked.get());
        let before = self.commit_time.get();
        let smoothed = if before == Nanos::ZERO { time } else { Nanos((3 * before.0 + time.0) / 4) };
        self.commit_time.set(smoothed);
    }

    /// Tasks that wait for the running transaction.
    pub(super) fn asked(&self) -> usize {
        self.asked.get()
    }

    /// How long the next commit may wait for others.
    pub(super) fn patience(&self) -> Nanos {
        self.longest.min(Nanos(self.commit_time.get().0 / 2))
    }

    /// Whether the running transaction waits for nobody.
    pub(super) fn is_complete(&self) -> bool {
        self.is_urgent.get() || self.asked.get() == 0 || self.asked.get() >= self.expected.get()
    }

    /// Whether to wait at all.
    pub(super) fn is_promising(&self) -> bool {
        if self.patience() == Nanos::ZERO || self.is_complete() {
            return false;
        }
        let rest = self.rest.get();
        self.rest.set(rest.saturating_sub(1));
        rest == 0
    }

    /// Learns from a wait in which as many `came`.
    pub(super) fn learn(&self, came: usize) {
        if came > 0 {
            self.next_rest.set(2);
            return;
        }
        self.rest.set(self.next_rest.get());
        self.next_rest.set((2 * self.next_rest.get()).min(REST_MAX));
    }
}
