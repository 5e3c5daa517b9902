//! Ledger: what was found so far. Whoever holds it counts; nobody else does.
//!
//! # Invariants
//! - A state is counted once, however often it is reached or judged.
//! - What is written into it follows the order of the workloads, however many explorers work: see `turns`.

use rustc_hash::FxHashSet;

use crate::options::ExploreOptions;
use crate::report::Report;

/// Workloads in a row without a new state after which there is nothing left to find: more than `ace:2` has in all, for
/// it ends by itself.
const IN_VAIN_MAX: u32 = 5_000;

/// See the module's head.
pub(crate) struct Ledger {
    /// Hashes of the states that were counted.
    pub(crate) seen: FxHashSet<u64>,
    /// States that replayed something, by how many cuts led to them.
    pub(crate) replaying: Vec<u64>,
    pub(crate) report: Report,
    /// States after which one stops.
    pub(crate) states_max: u64,
    violations_max: usize,
    pub(crate) judged_inside_device: u64,
    /// States when the present workload began to be counted.
    states_before: u64,
    /// Workloads in a row without a new state.
    in_vain: u32,
}

impl Ledger {
    /// Nothing was found yet.
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

    /// Whether as many states or violations were found as were asked for.
    pub(crate) fn is_done(&self) -> bool {
        self.report.states >= self.states_max || self.report.violations.len() >= self.violations_max
    }

    /// The states of a workload begin.
    pub(crate) fn begin_workload(&mut self) {
        self.states_before = self.report.states;
    }

    /// A workload is over; gives whether that was enough. Of `faults` no states come, so their runs count.
    pub(crate) fn end_workload(&mut self, faults: bool) -> bool {
        let is_in_vain = !faults && self.report.states == self.states_before;
        self.in_vain = if is_in_vain { self.in_vain + 1 } else { 0 };
        let is_enough = faults && self.report.judged >= self.states_max;
        is_enough || self.is_done() || self.in_vain >= IN_VAIN_MAX
    }
}
