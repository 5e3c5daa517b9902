//! Workloads: what runs, as streams of operations.
//!
//! Its one idea: a fio job, a filebench thread and (later) a trace are the same thing, a [`Stream`] that gives one
//! [`Operation`] after the other. Whoever drives them (the benchmark driver, the crash explorer) needs to know nothing
//! of where they come from.
//!
//! ```text
//!   job file ──┐                       groups, one after the other (stonewall)
//!   varmail … ─┴─► Workload { files, groups } ──► Task { stream, concurrency } ──► Operation, Operation, …
//! ```
//!
//! # Invariants
//! - A stream draws chance from its own [`Choices`](onewrite_block::Choices) only, so one seed gives one run.
//! - Streams of one workload may share state (a file set); they change it only in [`Stream::next`] and
//!   [`Stream::completed`], so its order is that of the run.

mod block_map;
mod distribution;
pub mod filebench;
mod findings;
pub mod fio;
mod operation;
pub mod postmark;

use std::ops::Range;

use onewrite_block::Nanos;

pub use block_map::BlockMap;
pub use distribution::{Gamma, Normal, Pareto, Zipf};
pub use findings::{DepthFound, Findings, SteadyFound};
pub use operation::{FileId, Operation, Reservation, Slot, WriteManner};

use crate::error::LabError;
use crate::job::Fallocate;

/// What runs: files and groups of tasks.
pub struct Workload {
    /// The name for reports.
    pub name: String,
    /// Directories to be made, parents first, without a leading slash.
    pub directories: Vec<String>,
    /// Files, by [`FileId`].
    pub files: Vec<FilePlan>,
    /// What reports tell apart.
    pub jobs: Vec<JobPlan>,
    /// Groups of tasks; one group ends before the next begins.
    pub groups: Vec<Vec<Task>>,
}

/// A file that tasks use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    /// Its path, without a leading slash.
    pub path: String,
    /// What is done to it before the tasks begin.
    pub layout: Layout,
    /// Whether reads are checked against what was written.
    pub verified: bool,
    /// Bytes that it grows to, where that is known before.
    pub bytes: u64,
}

/// What is done to a file before the tasks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Nothing: it comes into being when it is opened.
    None,
    /// It is made, and room is reserved for it.
    Reserved {
        /// Bytes.
        size: u64,
        /// How.
        fallocate: Fallocate,
    },
    /// It is made, filled and synced.
    Filled {
        /// Bytes.
        size: u64,
        /// How room is reserved first.
        fallocate: Fallocate,
        /// Bytes in each write.
        chunk: u64,
        /// Content.
        seed: u64,
        /// Share of the content that compresses.
        compressible_percent: u8,
        /// Whether an fsync follows.
        synced: bool,
    },
}

/// What a report shows as one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Its name.
    pub name: String,
    /// The group it runs in.
    pub group: usize,
    /// Whether more than reads, writes and syncs are reported: creations, deletions and the like.
    pub operations_count: bool,
    /// What its section of the job file sets, as it stands there; settings without a value are left out, as fio does.
    pub options: Vec<(String, String)>,
}

/// One thread of a workload.
pub struct Task {
    /// Index of the job that its measurements belong to.
    pub job: usize,
    /// Its operations.
    pub stream: Box<dyn Stream>,
    /// How many of them may be under way at once.
    pub concurrency: u32,
    /// Time that it waits before it begins.
    pub start_delay: Nanos,
    /// Time from its beginning on that is not measured.
    pub ramp_time: Nanos,
    /// What is read before its group begins, so that it is in memory.
    pub read_before: Vec<ReadBefore>,
}

/// A part of a file that is read before a task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBefore {
    /// The file.
    pub file: FileId,
    /// Its bytes.
    pub range: Range<u64>,
    /// Bytes in each read.
    pub chunk: u64,
}

/// A sequence of operations.
pub trait Stream {
    /// The next operation; `None` at the end. `now` is the time since the task began.
    ///
    /// # Errors
    /// If the workload cannot go on, for example because no file is left.
    fn next(&mut self, now: Nanos) -> Result<Option<Step>, LabError>;

    /// Tells that `operation` is done, and how it went.
    fn completed(&mut self, operation: &Operation, ended: Ended) {
        let _ = (operation, ended);
    }

    /// The part of it that has begun, 0 to 1, never less than before; `None` if that is not known. `now` is the time
    /// since the task began.
    fn share(&self, now: Nanos) -> Option<f64> {
        let _ = now;
        None
    }

    /// How many of its operations may be under way at once now, one at least; [`Task::concurrency`] is the limit.
    fn depth(&self) -> u32 {
        u32::MAX
    }

    /// Whether all that was measured of the task so far is to be forgotten; asked once after each operation. Only a
    /// stream that has a depth among its findings may say so.
    fn forgets(&mut self) -> bool {
        false
    }

    /// What it found out.
    fn findings(&self) -> Findings {
        Findings::default()
    }

    /// Tells that `operation` failed with this error number; whether the task goes on all the same.
    fn failed(&mut self, operation: &Operation, errno: i32) -> bool {
        let _ = (operation, errno);
        false
    }
}

/// How an operation went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its end, as time since the task began.
    pub now: Nanos,
    /// From its beginning to its end.
    pub latency: Nanos,
    /// Bytes that it moved.
    pub bytes: u64,
}

/// An operation and how it relates to the others of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub operation: Operation,
    /// What of the same task may be under way with it.
    pub order: Order,
}

impl Step {
    /// An operation that may overlap with others.
    pub const fn overlapping(operation: Operation) -> Step {
        Step { operation, order: Order::Overlapping }
    }

    /// An operation that waits for those before it and lets none begin before its end.
    pub const fn alone(operation: Operation) -> Step {
        Step { operation, order: Order::Alone }
    }
}

/// What of the same task may be under way with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Anything.
    Overlapping,
    /// What began before it; nothing begins before its end.
    Blocking,
    /// Nothing.
    Alone,
}
