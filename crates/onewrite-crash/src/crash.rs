//! Crash: explores workload after workload for `onewrite crash`, at the door of the disk and inside the device, until
//! there are enough states.

use crate::action::Workload;
use crate::cut::DeviceCuts;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::in_line::explore_side_by_side;
use crate::minimise::minimised;
use crate::options::ExploreOptions;
use crate::plan::{CrashPlan, Stage};
use crate::report::Report;
use crate::state_id::StateId;
use crate::subject::Subject;

/// Explores `workloads` on `subject` until they end, or there are [`crate::ExploreOptions::states_max`] states, or
/// nothing new turns up. Calls `progress` now and then with the present stage.
///
/// # Errors
/// If a workload cannot be run at all.
pub fn crash<S: Subject + Clone + Send>(
    subject: S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: impl Fn(Stage),
) -> Result<Report, CrashError> {
    match plan.jobs {
        0 | 1 => explore_alone(&subject, workloads, plan, &progress),
        _ => explore_side_by_side(&subject, workloads, plan, &progress),
    }
}

/// Makes each violation of `report` smaller, with at most `judged_max` judgements for each. Calls `progress` now and
/// then with the present stage.
///
/// # Errors
/// If a workload cannot be run at all.
pub fn minimise<S: Subject + Clone>(
    subject: &S,
    report: &mut Report,
    (plan, judged_max): (CrashPlan<'_>, u64),
    progress: impl Fn(Stage),
) -> Result<(), CrashError> {
    let count = report.violations.len();
    for (violation, number) in report.violations.iter_mut().zip(1..) {
        let watch = |judged| progress(Stage::Shrinking { number, count, judged, judged_max });
        *violation = minimised(subject, violation, (plan, judged_max), &watch)?;
    }
    Ok(())
}

fn explore_alone<S: Subject + Clone>(
    subject: &S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: &dyn Fn(Stage),
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject.clone(), plan.options);
    explorer.watch = Some(progress);
    for (workload, number) in workloads.into_iter().zip(0..) {
        explorer.number = number;
        explorer.ledger().begin_workload();
        explorer.one_workload(&workload, plan)?;
        explorer.tell();
        if explorer.ledger().end_workload(plan.faults) {
            break;
        }
    }
    Ok(explorer.into_report())
}

/// Judges one state of one workload again, as the command of a [`crate::Violation`] says. The foreign checker examines
/// it, too, unless the options say never.
///
/// # Errors
/// If there is no such state.
pub fn replay<S: Subject>(
    subject: S,
    workload: &Workload,
    state: &str,
    plan: CrashPlan<'_>,
) -> Result<Report, CrashError> {
    let options = ExploreOptions { e2fsck_every: plan.options.e2fsck_every.min(1), ..plan.options.clone() };
    let mut explorer = Explorer::new(subject, &options);
    match (state.parse()?, plan.device) {
        (StateId::Door(_) | StateId::Mounted, _) => explorer.replay(workload, state)?,
        (StateId::Fault { fault, then }, _) => explorer.replay_fault(workload, fault, &then)?,
        (StateId::Device { .. }, Some(make)) => {
            let cuts = DeviceCuts { points: 1, chances: 1, only: Some(state.into()) };
            explorer.explore_device(make, workload, &cuts)?;
        }
        (StateId::Device { .. }, None) => {
            let reason = "a cut inside a device needs the device: name it with --device".into();
            return Err(CrashError::State { text: state.into(), reason });
        }
    }
    Ok(explorer.into_report())
}
