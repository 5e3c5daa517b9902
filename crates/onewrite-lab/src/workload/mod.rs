//! Workloads: what runs, as streams of operations.
//!
//! Its one idea: a fio job, a filebench thread and (later) a trace are the same thing, a [`Stream`] that gives one
//! [`Operation`] after the other. The benchmark driver and the crash explorer need not know where the operations come
//! from.
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
pub use operation::{FileId, Operation, Reservation, TaskDescriptor, WriteManner};

use crate::error::LabError;
use crate::job::Fallocate;

/// A workload: files and groups of tasks.
pub struct Workload {
    /// Name for reports.
    pub name: String,
    /// Directories to make, parents first, without a leading slash.
    pub directories: Vec<String>,
    /// Files, by [`FileId`].
    pub files: Vec<FilePlan>,
    /// Jobs that reports distinguish.
    pub jobs: Vec<JobPlan>,
    /// Groups of tasks; one group ends before the next begins.
    pub groups: Vec<Vec<Task>>,
}

/// A file that tasks use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    /// Its path, without a leading slash.
    pub path: String,
    /// How it is laid out before the tasks begin.
    pub layout: Layout,
    /// Whether reads are checked against what was written.
    pub verified: bool,
    /// Bytes that it grows to, if known beforehand.
    pub bytes: u64,
}

/// How a file is laid out before the tasks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Not at all: opening it makes it.
    None,
    /// Made, with reserved space.
    Reserved {
        /// Reserved bytes.
        size: u64,
        /// How space is reserved.
        fallocate: Fallocate,
    },
    /// Made, filled and synced.
    Filled {
        /// Size in bytes.
        size: u64,
        /// How space is reserved first.
        fallocate: Fallocate,
        /// Bytes in each write.
        chunk: u64,
        /// Selects the content.
        seed: u64,
        /// Percent of the content that compresses.
        compressible_percent: u8,
        /// Whether an fsync follows.
        synced: bool,
    },
}

/// A job as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Its name.
    pub name: String,
    /// Number of its group.
    pub group: usize,
    /// Whether reports have more than reads, writes and syncs: creations, deletions and the like.
    pub operations_count: bool,
    /// Settings of its section of the job file, as written there; as in fio, settings without a value are left out.
    pub options: Vec<(String, String)>,
}

/// One thread of a workload.
pub struct Task {
    /// Index of the job that its measurements belong to.
    pub job: usize,
    /// Its operations.
    pub stream: Box<dyn Stream>,
    /// Most operations under way at once.
    pub concurrency: u32,
    /// Time to wait before it begins.
    pub start_delay: Nanos,
    /// Time from its beginning that is not measured.
    pub ramp_time: Nanos,
    /// Parts of files to read into memory before its group begins.
    pub read_before: Vec<ReadBefore>,
}

/// A part of a file to read before a task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBefore {
    /// The file.
    pub file: FileId,
    /// Range in bytes.
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
    fn next(&mut self, now: Nanos) -> Result<Option<OrderedOperation>, LabError>;

    /// Called when `operation` has ended.
    fn completed(&mut self, operation: &Operation, ended: Ended) {
        let _ = (operation, ended);
    }

    /// The share of the stream that has begun, from 0 to 1, never less than before; `None` if unknown. `now` is the
    /// time since the task began.
    fn share(&self, now: Nanos) -> Option<f64> {
        let _ = now;
        None
    }

    /// Most operations that may be under way now, at least one; [`Task::concurrency`] is the limit.
    fn depth(&self) -> u32 {
        u32::MAX
    }

    /// Whether to forget all measures of the task so far; asked once after each operation. Only a stream with a depth
    /// among its findings may return true.
    fn forgets(&mut self) -> bool {
        false
    }

    /// The findings of the stream.
    fn findings(&self) -> Findings {
        Findings::default()
    }

    /// Called when `operation` failed with this error number. Returns whether the task goes on.
    fn failed(&mut self, operation: &Operation, errno: i32) -> bool {
        let _ = (operation, errno);
        false
    }
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Time of its end since the task began.
    pub now: Nanos,
    /// Time from its beginning to its end.
    pub latency: Nanos,
    /// Bytes that it moved.
    pub bytes: u64,
}

/// An operation and its order among the others of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedOperation {
    /// What to do.
    pub operation: Operation,
    /// Which operations of the same task may be under way with it.
    pub order: Order,
}

impl OrderedOperation {
    /// An operation that may overlap with others.
    pub const fn overlapping(operation: Operation) -> OrderedOperation {
        OrderedOperation { operation, order: Order::Overlapping }
    }

    /// An operation that waits for all before it; none may begin before its end.
    pub const fn alone(operation: Operation) -> OrderedOperation {
        OrderedOperation { operation, order: Order::Alone }
    }
}

/// Which operations of the same task may be under way with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Overlapping,
    /// Those that began before it; none may begin before its end.
    Blocking,
    /// None.
    Alone,
}
