//! Turns: passes one ledger from explorer to explorer, in the order of the workloads.
//!
//! # Invariants
//! - One explorer at a time has the ledger: first that of workload 0, then that of workload 1, and so on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::ledger::Ledger;
use crate::report::Report;

/// Number of the workload whose turn it is, and the ledger while no explorer has it.
struct Table {
    turn: u64,
    ledger: Option<Box<Ledger>>,
}

/// See the module's head.
pub(crate) struct Turns {
    table: Mutex<Table>,
    changed: Condvar,
    is_over: AtomicBool,
    /// Number of states entered so far, or a little fewer.
    states: AtomicU64,
}

impl Turns {
    pub(crate) fn new(ledger: Ledger) -> Turns {
        let table = Table { turn: 0, ledger: Some(Box::new(ledger)) };
        let (is_over, states) = (AtomicBool::new(false), AtomicU64::new(0));
        Turns { table: Mutex::new(table), changed: Condvar::new(), is_over, states }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the exploration is over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Number of states entered so far, or a little fewer.
    pub(crate) fn states(&self) -> u64 {
        self.states.load(Ordering::Relaxed)
    }

    /// Sets the number of states entered so far.
    pub(crate) fn note_states(&self, states: u64) {
        self.states.store(states, Ordering::Relaxed);
    }

    /// Waits for the turn of workload number `number`; `None` once the exploration is over.
    pub(crate) fn take(&self, number: u64) -> Option<Box<Ledger>> {
        let mut table = self.table();
        while table.turn != number && !self.is_over() {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        if self.is_over() { None } else { table.ledger.take() }
    }

    /// Like [`Turns::take`], without waiting.
    pub(crate) fn try_take(&self, number: u64) -> Option<Box<Ledger>> {
        let mut table = self.table();
        if table.turn == number && !self.is_over() { table.ledger.take() } else { None }
    }

    /// Returns the ledger for the next turn, or ends the exploration.
    pub(crate) fn give(&self, ledger: Box<Ledger>, is_over: bool) {
        let mut table = self.table();
        table.ledger = Some(ledger);
        table.turn += 1;
        self.is_over.fetch_or(is_over, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn into_report(self) -> Report {
        let table = self.table.into_inner().unwrap_or_else(PoisonError::into_inner);
        table.ledger.map(|ledger| ledger.report).unwrap_or_default()
    }
}
