//! Report: what an exploration found, for people and for JSON. The same for the same seed.

use serde::Serialize;

use crate::judge::Promise;

/// Distinct states by what they are. A state is counted under each line that fits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StatesByKind {
    /// Every subset of the unflushed writes was taken where these come from.
    pub subset: u64,
    /// Drawn, where the unflushed writes were too many for every subset.
    pub sampled: u64,
    /// With a page of which a part is new.
    pub torn_page: u64,
    /// With some, but not all, pairs of a SHARE done, on a disk whose SHARE is not atomic.
    pub torn_share: u64,
    /// After a cut at an internal point of an emulated device.
    pub inside_device: u64,
    /// Those with a SHARE under way at the cut.
    pub inside_share: u64,
    /// Those with a record of the device's map about to be programmed.
    pub inside_map_log: u64,
    /// Those with garbage being collected: pages moved, blocks erased.
    pub inside_collection: u64,
    /// Those whose power-off recovery was cut, once or twice.
    pub inside_device_recovery: u64,
    /// After a cut inside the recovery of another state.
    pub inside_recovery: u64,
    /// After a cut inside the recovery of a state that a cut inside recovery left.
    pub inside_nested_recovery: u64,
    /// Recovery replayed something.
    pub log_not_empty: u64,
    /// Some, but not all, log blocks of the commit under way survived.
    pub torn_commit: u64,
    /// The log had gone round its end.
    pub log_wrapped: u64,
    /// Somebody had had to wait for a checkpoint.
    pub forced_checkpoint: u64,
    /// Recovery honoured a revoke.
    pub revoke: u64,
}

/// A broken promise, ready to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What is wrong.
    pub what: String,
    /// The workload, minimised if that was asked for.
    pub workload: String,
    /// The state: event of the recording and surviving units; see `docs/crash-model.md`.
    pub state: String,
    /// Expected (`-`) against found (`+`, `!`).
    pub difference: Vec<String>,
    /// The command that replays it.
    pub replay: String,
}

/// What an exploration found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Distinct states, by content.
    pub states: u64,
    /// The same by kind.
    pub states_by_kind: StatesByKind,
    /// States judged, counting those judged again because more was promised by then.
    pub judged: u64,
    /// Workloads explored.
    pub workloads: u64,
    /// States that `e2fsck` judged, too.
    pub e2fsck_runs: u64,
    /// What was broken.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    /// The share of states in which recovery replayed something, in percent.
    pub fn replaying_percent(&self) -> f64 {
        100.0 * self.states_by_kind.log_not_empty as f64 / self.states.max(1) as f64
    }
}
