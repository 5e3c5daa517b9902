//! Ledger: the findings so far. Only the explorer that holds the ledger counts.
//!
//! # Invariants
//! - A state counts once, even if it is reached or judged several times.
//! - Entries follow the order of the workloads for any number of explorers; see `turns`.

use rustc_hash::FxHashSet;

use crate::options::ExploreOptions;
use crate::report::Report;

/// The exploration ends after this many workloads in a row without a new state. Larger than the number of workloads of
/// `ace:2`, which ends by itself.
const IN_VAIN_MAX: u32 = 5_000;

/// See the module's head.
pub(crate) struct Ledger {
    /// Hashes of the counted states.
    pub(crate) seen: FxHashSet<u64>,
    /// Number of states whose recovery replayed something, by the number of cuts that led to them.
    pub(crate) replaying: Vec<u64>,
    pub(crate) report: Report,
    /// Number of states after which the exploration stops.
    pub(crate) states_max: u64,
    violations_max: usize,
    pub(crate) judged_inside_device: u64,
    /// Number of states when the count of the present workload began.
    states_before: u64,
    /// Workloads in a row without a new state.
    in_vain: u32,
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(options: &ExploreOptions) -> Ledger {
        Ledger {
            seen: FxHashSet::default(),
            replaying: vec![0; options.nested_depth as usize],
            report: Report::default(),
            states_max: options.states_max,
            violations_max: options.violations_max,
            judged_inside_device: 0,
            states_before: 0,
            in_vain: 0,
        }
    }

    /// Whether the wanted number of states or violations has been reached.
    pub(crate) fn is_done(&self) -> bool {
        self.report.states >= self.states_max || self.report.violations.len() >= self.violations_max
    }

    /// Whether there are as many judgements of faults as states were wanted, or as many violations.
    pub(crate) fn has_faults_enough(&self) -> bool {
        self.report.judged >= self.states_max || self.is_done()
    }

    /// Begins the count of a workload.
    pub(crate) fn begin_workload(&mut self) {
        self.states_before = self.report.states;
    }

    /// Ends the count of a workload; returns whether the exploration is done. `faults` give no states, so their runs
    /// count.
    pub(crate) fn end_workload(&mut self, faults: bool) -> bool {
        let is_in_vain = !faults && self.report.states == self.states_before;
        self.in_vain = if is_in_vain { self.in_vain + 1 } else { 0 };
        faults && self.has_faults_enough() || self.is_done() || self.in_vain >= IN_VAIN_MAX
    }
}
