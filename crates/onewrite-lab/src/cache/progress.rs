//! Progress of a study.

/// Stage of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The trace is read for the first time.
    Reading,
    /// A device is filled once.
    Filling,
    /// A device is aged.
    Aging,
    /// Requests go through the caches.
    Requests,
}

/// A progress report of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyProgress {
    /// The current stage; cells on other cores may be in another one.
    pub stage: Stage,
    /// Pages done in this stage since its last report.
    pub done: u64,
    /// Pages of this stage in all cells; zero if unknown.
    pub total: u64,
}

impl StudyProgress {
    /// The beginning of a stage.
    pub(super) const fn begin(stage: Stage) -> StudyProgress {
        StudyProgress { stage, done: 0, total: 0 }
    }
}
