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
mod progress;
mod raw;
mod samples;
mod target;

use std::rc::Rc;

use onewrite_block::Runtime;

pub use contents::Contents;
use crew::Crew;
pub use files::Files;
pub use layout::LayoutWatch;
pub use ledger::{DurableFile, Ledger};
pub(crate) use measure::Moment;
pub use measure::{JobMeasure, Latencies, Series, Span};
pub use progress::{LaidOut, Phase, Progress, RunOptions, Watcher};
pub use raw::Raw;
pub use samples::{Rates, SAMPLE, Samples};
pub use target::{Failure, Target};

use crate::error::LabError;
use crate::workload::Workload;

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
    target.lay_out(&workload, &LayoutWatch::new(&workload, &watch)?).await?;
    options.enter(Phase::Jobs, runtime.now())?;
    let (jobs, groups) = (workload.jobs, workload.groups);
    let crew = Rc::new(Crew::new(runtime, target, jobs, groups.len(), options));
    for group in groups {
        crew.run(group).await?;
    }
    Ok(crew.measures())
}
