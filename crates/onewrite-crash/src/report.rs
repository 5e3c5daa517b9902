//! Report: the findings of an exploration, for people and as JSON. The same seed gives the same report.

use serde::Serialize;

use crate::judge::Promise;
use crate::marks::MarkCounts;

/// Number of distinct states by kind. A state counts in each kind that fits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StatesByKind {
    /// From places where every subset of the unflushed writes was taken.
    pub subset: u64,
    /// Drawn at random, from places with too many unflushed writes, or at a glance.
    pub sampled: u64,
    /// With a torn page: a part of it is new.
    pub torn_page: u64,
    /// With some, but not all, pairs of a SHARE done; only on a disk whose SHARE is not atomic.
    pub torn_share: u64,
    /// After a cut at an internal point of an emulated device.
    pub inside_device: u64,
    /// Cut inside the device with a SHARE under way.
    pub inside_share: u64,
    /// Cut inside the device just before it programmed a record of its map.
    pub inside_map_log: u64,
    /// Cut inside the device while it collected garbage: moved pages, erased blocks.
    pub inside_collection: u64,
    /// Cut inside the device, then once or twice inside its recovery.
    pub inside_device_recovery: u64,
    /// After a cut inside the recovery of another state.
    pub inside_recovery: u64,
    /// After a cut inside a recovery from a cut inside a recovery.
    pub inside_nested_recovery: u64,
    /// Recovery replayed the log.
    pub log_not_empty: u64,
    /// With some, but not all, log blocks of the commit under way.
    pub torn_commit: u64,
    /// The log had wrapped around its end.
    pub log_wrapped: u64,
    /// An operation had waited for a checkpoint.
    pub forced_checkpoint: u64,
    /// Recovery honoured a revoke.
    pub revoke: u64,
}

/// A broken promise, in text form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// What is wrong.
    pub what: String,
    /// The workload, minimised if requested.
    pub workload: String,
    /// The state: event of the recording and surviving units; see `docs/crash-model.md`.
    pub state: String,
    /// Lines expected (`-`) and found (`+`, `!`).
    pub difference: Vec<String>,
    /// The command that replays the violation.
    pub replay: String,
    /// Whether a smaller violation of the same promise was looked for.
    pub shrunk: Shrunk,
}

impl Violation {
    /// Whether a foreign checker found it: `e2fsck` or `fsck.f2fs`, whose name the text begins with.
    pub(crate) fn is_of_stranger(&self) -> bool {
        ["e2fsck: ", "fsck.f2fs: "].iter().any(|name| self.what.starts_with(name))
    }
}

/// How the search for a smaller violation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shrunk {
    /// There was none.
    #[default]
    Untried,
    /// Nothing was left to try.
    Fully,
    /// It had spent what it was given: there may be a smaller one.
    ToTheBound,
}

/// The findings of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Number of states with distinct content.
    pub states: u64,
    /// Number of distinct states by kind.
    pub states_by_kind: StatesByKind,
    /// Number of judgements. A state is judged again when more has been promised.
    pub judged: u64,
    /// Number of workloads explored.
    pub workloads: u64,
    /// Of these, how many were judged at some places only.
    pub glances: u64,
    /// Of all, how many had the tree of their mounted file system judged.
    pub mounted: u64,
    /// Number of operations in all runs, a last `sync` for each unmount included.
    pub operations: u64,
    /// Of these, how many got an error: a name that is not there, say, or no space.
    pub operations_with_errors: u64,
    /// Number of states, and of images behind an unmount, that `e2fsck` or `fsck.f2fs` also checked.
    pub e2fsck_runs: u64,
    /// In how many distinct states each mark was reached; see `docs/marks.md`.
    pub marks: MarkCounts,
    /// The broken promises.
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
