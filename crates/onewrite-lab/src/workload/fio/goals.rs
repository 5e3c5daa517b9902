//! Goals: limits of a job besides its amounts: latencies (`latency_target`, `max_latency`) and steadiness
//! (`steadystate`). Some end the job; missing others fails the run.

use onewrite_block::Nanos;

use super::depth::{DepthSearch, Verdict};
use super::steady::SharedDetector;
use crate::error::LabError;
use crate::job::{Direction, Options, PerDirection};
use crate::workload::{Ended, Findings, Operation};

/// The goals of one task.
pub(super) struct Goals {
    search: Option<DepthSearch>,
    /// The detector; with `group_reporting`, all tasks of a group share one.
    detector: Option<SharedDetector>,
    latency_most: PerDirection<Nanos>,
    /// When the task begins, on the clock of its group.
    delay: Nanos,
    forgets: bool,
    is_reached: bool,
    /// Why the run fails.
    failure: Option<String>,
}

impl Goals {
    /// The goals in `options`, for a task that begins after `delay`.
    pub(super) fn new(options: &Options, detector: Option<SharedDetector>, delay: Nanos) -> Goals {
        let searches = options.latency.target > Nanos::ZERO;
        Goals {
            search: searches.then(|| DepthSearch::new(options.latency, options.concurrency(), options.ramp_time)),
            detector,
            latency_most: options.latency_most.clone(),
            delay,
            forgets: false,
            is_reached: false,
            failure: None,
        }
    }

    /// Counts an access that has ended.
    pub(super) fn ended(&mut self, operation: &Operation, ended: Ended) {
        let Some(direction) = operation.direction() else { return };
        if let Some(detector) = &self.detector {
            detector.borrow_mut().count(self.delay + ended.now, ended.bytes);
        }
        self.hold_to_most(direction, ended.latency);
        let verdict = self.search.as_mut().map(|search| search.ended(ended.now, ended.latency));
        match verdict {
            None | Some(Verdict::GoesOn) => (),
            Some(Verdict::BeginsLast) => self.forgets = true,
            Some(Verdict::IsDone) => self.is_reached = true,
            Some(Verdict::IsImpossible) => self.fail("latency_target", operation.name(), ended.latency),
        }
    }

    fn hold_to_most(&mut self, direction: Direction, latency: Nanos) {
        let most = *self.latency_most.of(direction);
        if most > Nanos::ZERO && latency > most {
            let what = ["read", "write", "trim"][direction as usize];
            self.fail("max_latency", what, latency);
        }
    }

    /// Keeps the first failure.
    fn fail(&mut self, key: &str, what: &str, latency: Nanos) {
        let alone = if key == "latency_target" { " with nothing else under way" } else { "" };
        let told = || format!("{key} was not kept: a {what}{alone} took {latency}");
        self.failure.get_or_insert_with(told);
    }

    /// Whether the job has reached its goals. `now` is the time since the task began.
    ///
    /// # Errors
    /// If it can no longer reach them.
    pub(crate) fn are_reached(&mut self, now: Nanos) -> Result<bool, LabError> {
        if let Some(told) = &self.failure {
            return Err(LabError::Missed(told.clone()));
        }
        if let Some(detector) = &self.detector {
            let mut detector = detector.borrow_mut();
            detector.begin(self.delay);
            self.is_reached |= detector.is_steady(self.delay + now);
        }
        Ok(self.is_reached)
    }

    /// See [`Stream::depth`](crate::workload::Stream::depth).
    pub(super) fn depth(&self) -> u32 {
        self.search.as_ref().map_or(u32::MAX, DepthSearch::depth)
    }

    /// See [`Stream::forgets`](crate::workload::Stream::forgets).
    pub(super) fn forget(&mut self) -> bool {
        std::mem::take(&mut self.forgets)
    }

    /// The results so far.
    pub(super) fn findings(&self) -> Findings {
        Findings {
            depth: self.search.as_ref().map(DepthSearch::found),
            steady: self.detector.as_ref().map(|detector| detector.borrow().found()),
        }
    }
}
