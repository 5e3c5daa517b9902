//! Progress of a run, and the options that decide who hears of it and when the run ends.

use std::rc::Rc;

use onewrite_block::Nanos;

use crate::error::LabError;

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

/// Called now and then with the progress of a run. An error stops it.
pub type Watcher = Rc<dyn Fn(Progress) -> Result<(), LabError>>;

/// Operations between two calls of a [`Watcher`].
pub(super) const WATCH_EVERY: u64 = 1024;

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
    /// Tells the watcher that a phase begins; it may stop the run.
    pub(crate) fn enter(&self, phase: Phase, now: Nanos) -> Result<(), LabError> {
        let told = |watcher: &Watcher| watcher(Progress { phase, now, ..Progress::default() });
        self.watcher.as_ref().map_or(Ok(()), told)
    }
}
