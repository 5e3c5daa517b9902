//! Driver: carries out the streams of a workload and measures them.
//!
//! Its one idea: one loop for everything. The workers of a task take operations from its stream one by one and carry
//! them out on a [`Target`]: a file system ([`Files`]) or a raw device ([`Raw`]). In virtual time the same loop gives
//! the same figures to the last digit.
//!
//! ```text
//!   layout of all files ──► group 1: its tasks together ──► group 2 ──► … ──► Measures
//!                              each task: `concurrency` workers on one stream
//! ```
//!
//! # Invariants
//! - A worker asks its stream only while it holds the task's `issue` lock, so a stream is never entered twice.
//! - The latency of an operation is the time from its beginning to its end. It includes waiting for cores and locks.
//! - After a failure no task begins another operation.

mod contents;
mod crew;
mod files;
mod layout;
mod ledger;
mod measure;
mod raw;
mod samples;

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Nanos, Runtime};

pub use contents::Contents;
use crew::Crew;
pub use files::Files;
pub use layout::LayoutWatch;
pub use ledger::{DurableFile, Ledger};
pub use measure::{JobMeasure, Latencies, Series};
pub use raw::Raw;
pub use samples::{Rates, SAMPLE, Samples};

use crate::error::LabError;
use crate::workload::{Operation, ReadBefore, Workload};

/// Where operations are carried out.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Target {
    /// Open files of one task.
    type Descriptors: Default;

    /// Makes and fills the files of `workload`, and counts them.
    async fn lay_out(&self, workload: &Workload, watch: &LayoutWatch<'_>) -> Result<(), LabError>;

    /// Makes everything durable, then empties the page cache of all that nothing needs.
    async fn drop_caches(&self) -> Result<(), LabError>;

    /// Reads `parts` into the cache, if the target has one.
    async fn read_before(&self, parts: &[ReadBefore]) -> Result<(), LabError>;

    /// Carries one operation out; returns the bytes it read or wrote.
    async fn carry_out(&self, descriptors: &RefCell<Self::Descriptors>, operation: &Operation) -> Result<u64, Failure>;
}

/// Why an operation failed; the driver adds the name of the job.
pub enum Failure {
    /// The file system refused.
    Fs(onewrite_fs::FsError),
    /// The device refused.
    Device(onewrite_block::DeviceError),
    /// The content differs from what was written.
    Content {
        /// Path of the file.
        file: String,
        /// First byte.
        offset: u64,
        /// The difference.
        problem: String,
    },
}

impl Failure {
    fn of(self, job: &str, operation: &Operation) -> LabError {
        let (job, operation) = (job.to_owned(), operation.name().to_owned());
        match self {
            Failure::Fs(source) => LabError::Operation { job, operation, source },
            Failure::Device(source) => LabError::Raw { job, operation, source },
            Failure::Content { file, offset, problem } => LabError::Verify { job, file, offset, problem },
        }
    }
}

impl Failure {
    /// The error number that a program would see.
    fn errno(&self) -> i32 {
        match self {
            Failure::Fs(error) => error.errno(),
            Failure::Device(_) => EIO,
            Failure::Content { .. } => EILSEQ,
        }
    }
}

const EIO: i32 = 5;
const EILSEQ: i32 = 84;

impl From<onewrite_fs::FsError> for Failure {
    fn from(error: onewrite_fs::FsError) -> Failure {
        Failure::Fs(error)
    }
}

impl From<onewrite_block::DeviceError> for Failure {
    fn from(error: onewrite_block::DeviceError) -> Failure {
        Failure::Device(error)
    }
}

/// Files and bytes laid out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaidOut {
    /// Files made, and filled if they should be.
    pub files: u64,
    /// Files in all.
    pub files_total: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes in all.
    pub bytes_total: u64,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Making a file system.
    Formatting,
    /// Making and filling files.
    LayingOut(LaidOut),
    /// Running the jobs.
    #[default]
    Jobs,
    /// Unmounting: everything in memory goes to its home block.
    Unmounting,
}

/// How far a run is, for a progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Current phase; the other fields concern the jobs.
    pub phase: Phase,
    /// Operations carried out.
    pub operations: u64,
    /// The clock of the run.
    pub now: Nanos,
    /// Share of the work that is done, from 0 to 1, if the workload knows it; never less than before. Groups that run
    /// one after the other count alike. Of jobs side by side, the slowest one counts.
    pub share: Option<f64>,
}

/// Called now and then with the progress of a run.
pub type Watcher = Rc<dyn Fn(Progress)>;

/// Operations between two calls of a [`Watcher`].
const WATCH_EVERY: u64 = 1024;

/// Options of a run besides its workload.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Called now and then with the progress.
    pub watcher: Option<Watcher>,
    /// Operations after which no task begins another.
    pub operations_max: Option<u64>,
    /// Whether each group of jobs begins with an empty page cache.
    pub drops_caches: bool,
}

impl RunOptions {
    /// Tells the watcher that a phase begins.
    pub(crate) fn enter(&self, phase: Phase, now: Nanos) {
        if let Some(watcher) = &self.watcher {
            watcher(Progress { phase, now, ..Progress::default() });
        }
    }
}

/// Carries out `workload` on `target`.
///
/// # Errors
/// The first failure of an operation, with its job; or a workload that could not go on.
pub async fn run<T: Target + 'static>(
    runtime: &Runtime,
    target: Rc<T>,
    workload: Workload,
    options: RunOptions,
) -> Result<Vec<JobMeasure>, LabError> {
    let watch = |phase| options.enter(phase, runtime.now());
    target.lay_out(&workload, &LayoutWatch::new(&workload, &watch)).await?;
    options.enter(Phase::Jobs, runtime.now());
    let (jobs, groups) = (workload.jobs, workload.groups);
    let crew = Rc::new(Crew::new(runtime, target, jobs, groups.len(), options));
    for group in groups {
        crew.run(group).await?;
    }
    Ok(crew.measures())
}
