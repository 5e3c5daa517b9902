//! Gate: content gets new addresses only while it is open. A checkpoint closes it, so that it sees one state of all
//! nodes.

use std::cell::Cell;

use onewrite_block::sync::Signal;

/// The gate, and the runs of content that passed it and are under way.
#[derive(Default)]
pub(super) struct Gate {
    is_closed: Cell<bool>,
    under_way: Cell<usize>,
}

impl Gate {
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Whether nothing that passed is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.get() == 0
    }

    /// Notes a run that passes.
    pub(super) fn begin_run(&self) {
        self.under_way.set(self.under_way.get() + 1);
    }

    /// Notes the end of a run, good or bad.
    pub(super) fn end_run(&self) {
        self.under_way.set(self.under_way.get() - 1);
    }
}

/// Opens the gate when dropped, and lets those go on who wait for it.
pub(super) struct ClosedGate<'a> {
    gate: &'a Gate,
    progress: &'a Signal,
}

impl<'a> ClosedGate<'a> {
    /// Closes `gate`; who waits for it waits on `progress`.
    pub(super) fn close(gate: &'a Gate, progress: &'a Signal) -> ClosedGate<'a> {
        gate.is_closed.set(true);
        ClosedGate { gate, progress }
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.gate.is_closed.set(false);
        self.progress.notify_all();
    }
}
