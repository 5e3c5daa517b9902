//! Crash: what `onewrite crash` does: workloads by name, one after another, until there are enough states.

use crate::action::Workload;
use crate::error::CrashError;
use crate::explore::Explorer;
use crate::minimise::minimise;
use crate::options::ExploreOptions;
use crate::report::Report;
use crate::subject::Subject;
use crate::workload::WorkloadSpec;

/// Explores `spec` on `subject` until it or [`ExploreOptions::states_max`] is reached. `progress` is told after every
/// workload. What is found is made as small as it gets if `minimised` says so.
///
/// # Errors
/// If a workload cannot be run at all.
pub fn crash<S: Subject + Clone>(
    subject: S,
    spec: &WorkloadSpec,
    options: &ExploreOptions,
    minimised: bool,
    mut progress: impl FnMut(&Report),
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject.clone(), options);
    for workload in spec.workloads(options.seed) {
        explorer.explore(&workload)?;
        progress(explorer.report());
        if explorer.is_done() {
            break;
        }
    }
    let mut report = explorer.into_report();
    if minimised {
        for violation in &mut report.violations {
            *violation = minimise(&subject, violation, options)?;
        }
    }
    Ok(report)
}

/// Judges one state of one workload again, as the command of a [`crate::Violation`] says.
///
/// # Errors
/// If there is no such state.
pub fn replay<S: Subject>(
    subject: S,
    workload: &Workload,
    state: &str,
    options: &ExploreOptions,
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject, options);
    explorer.replay(workload, state)?;
    Ok(explorer.into_report())
}
