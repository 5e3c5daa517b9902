//! Logged: explores runs that were recorded as a write log.

use std::rc::Rc;

use crate::action::Workload;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::options::ExploreOptions;
use crate::run::{Run, run};
use crate::subject::Subject;
use crate::write_log;

/// Runs `workload` and returns its requests as a write log in the format of dm-log-writes.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn record<S: Subject>(subject: S, workload: &Workload, options: &ExploreOptions) -> Result<Vec<u8>, CrashError> {
    Ok(write_log::written(&run(&Rc::new(subject), workload, options)?.events))
}

impl<S: Subject> Explorer<'_, S> {
    /// Explores a write log that [`record`] made of this workload with these options. The verdicts are the same. For
    /// tests, which hold the log to what the explorer saw.
    ///
    /// # Errors
    /// If `log` is not a write log, or the workload cannot be run.
    pub fn explore_log(&mut self, workload: &Workload, log: &[u8]) -> Result<(), CrashError> {
        let run = run(&self.subject, workload, self.options)?;
        let events = write_log::read(log, &run.base)?;
        self.explore_run(workload, &Run { events, ..run })
    }
}
