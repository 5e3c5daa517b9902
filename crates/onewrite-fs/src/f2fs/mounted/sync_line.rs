//! The line of syncs: nodes that wait for a round, and the rounds.

use std::cell::{Cell, RefCell, RefMut};

use super::node_batch::NodeBatch;

/// Nodes that wait for a round, and the rounds.
#[derive(Default)]
pub(super) struct SyncLine {
    batch: RefCell<NodeBatch>,
    /// Rounds that began.
    begun: Cell<u64>,
    /// Rounds that ended.
    ended: Cell<u64>,
}

impl SyncLine {
    /// The nodes that the next round writes.
    pub(super) fn batch(&self) -> RefMut<'_, NodeBatch> {
        self.batch.borrow_mut()
    }

    /// The next round.
    pub(super) fn next(&self) -> u64 {
        self.begun.get() + 1
    }

    /// The last round that has anything to write.
    pub(super) fn last(&self) -> u64 {
        self.begun.get() + u64::from(self.batch.borrow().run_count() > 0)
    }

    /// Whether a round has ended.
    pub(super) fn has_ended(&self, round: u64) -> bool {
        self.ended.get() >= round
    }

    /// Whether a round is under way.
    pub(super) fn is_running(&self) -> bool {
        self.begun.get() > self.ended.get()
    }

    /// Begins a round; gives the nodes that it writes.
    pub(super) fn begin(&self) -> NodeBatch {
        self.begun.set(self.begun.get() + 1);
        self.batch.take()
    }

    /// Ends the round that is under way.
    pub(super) fn end(&self) {
        self.ended.set(self.begun.get());
    }
}
