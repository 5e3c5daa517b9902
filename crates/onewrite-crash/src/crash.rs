//! Crash: what `onewrite crash` does: workload after workload, at the door of the disk and inside the device, until
//! there are enough states.

use crate::action::Workload;
use crate::cut::{DeviceCuts, MakeDevice};
use crate::error::CrashError;
use crate::explore::{DEVICE_SHARE, Explorer};
use crate::ledger::Ledger;
use crate::minimise::minimise_watched;
use crate::options::ExploreOptions;
use crate::report::Report;
use crate::state_id::StateId;
use crate::subject::Subject;
use crate::turns::explore_side_by_side;

/// Chances at each internal point: one with recovery cut, one without.
const CHANCES: u64 = 2;
/// Internal points that are worth two runs of a workload on a device.
const POINTS_MIN: u64 = 8;
/// Internal points of one run at most: as many copies of the device are held at once, a megabyte each.
const POINTS_MAX: u64 = 300;
/// How to explore.
#[derive(Clone, Copy)]
pub struct CrashPlan<'p> {
    /// On what, and how far.
    pub options: &'p ExploreOptions,
    /// The emulated device that a share of the cuts falls into.
    pub device: Option<&'p MakeDevice<'p>>,
    /// Whether requests fail instead, and space runs out, without a cut.
    pub faults: bool,
    /// Whether what is found is made as small as it gets.
    pub minimises: bool,
    /// Explorers side by side, each on a thread of its own; the report does not depend on it.
    pub jobs: usize,
}

impl<'p> CrashPlan<'p> {
    /// Cuts at the door of the modelled disk, one explorer; what is found stays as it is.
    pub fn new(options: &'p ExploreOptions) -> CrashPlan<'p> {
        CrashPlan { options, device: None, faults: false, minimises: false, jobs: 1 }
    }
}

/// What an exploration is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An emulated device is filled and aged, before the cuts inside it.
    Aging,
    /// States are made and judged.
    Judging {
        /// Distinct ones.
        states: u64,
        /// Judgements in all: the same state may be judged at several moments.
        judged: u64,
    },
    /// A violation is made smaller.
    Shrinking {
        /// Which one, from 1 on.
        number: usize,
        /// Of so many.
        count: usize,
        /// Smaller workloads that were tried.
        tries: usize,
        /// Most that are tried.
        tries_max: usize,
    },
}

/// Explores `workloads` on `subject` until they end, or [`ExploreOptions::states_max`] is reached, or nothing new turns
/// up. `progress` is told now and then what it is at.
///
/// # Errors
/// If a workload cannot be run at all.
pub fn crash<S: Subject + Clone + Send>(
    subject: S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: impl Fn(Stage),
) -> Result<Report, CrashError> {
    let mut report = match plan.jobs {
        0 | 1 => explore_alone(&subject, workloads, plan, &progress)?,
        _ => explore_side_by_side(&subject, workloads, plan, &progress)?,
    };
    if plan.minimises {
        let count = report.violations.len();
        for (violation, number) in report.violations.iter_mut().zip(1..) {
            let watch = |tries, tries_max| progress(Stage::Shrinking { number, count, tries, tries_max });
            *violation = minimise_watched(&subject, violation, plan, &watch)?;
        }
    }
    Ok(report)
}

fn explore_alone<S: Subject + Clone>(
    subject: &S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: &dyn Fn(Stage),
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject.clone(), plan.options);
    explorer.watch = Some(progress);
    for workload in workloads {
        explorer.ledger().begin_workload();
        one(&mut explorer, &workload, plan)?;
        explorer.tell();
        if explorer.ledger().end_workload(plan.faults) {
            break;
        }
    }
    Ok(explorer.into_report())
}

/// One workload, at the door and inside; inside alone where a mode pads, for then the device alone says what survives.
/// The explorer has the ledger afterwards, unless everything is over.
pub(crate) fn one<S: Subject>(
    explorer: &mut Explorer<'_, S>,
    workload: &Workload,
    plan: CrashPlan<'_>,
) -> Result<(), CrashError> {
    if plan.faults {
        return explorer.explore_faults(workload, 1);
    }
    let Some(make) = plan.device else { return explorer.explore(workload) };
    let most = plan.options.states_max;
    if explorer.subject.promises().pads {
        if !explorer.take_turn() {
            return Ok(());
        }
        let points = most.saturating_sub(explorer.report().states).clamp(POINTS_MIN, POINTS_MAX);
        explorer.ledger().report.workloads += 1;
        return explorer.explore_device(make, workload, &DeviceCuts { points, chances: CHANCES, only: None });
    }
    explorer.shared_with_device = Some(most);
    explorer.explore(workload)?;
    if !explorer.take_turn() {
        return Ok(());
    }
    let points = points_inside(explorer.ledger(), most);
    if points == 0 {
        return Ok(());
    }
    explorer.explore_device(make, workload, &DeviceCuts { points, chances: CHANCES, only: None })
}

/// Internal points to cut at after the states at the door, if it is worth it; of `most` states in all.
fn points_inside(ledger: &mut Ledger, most: u64) -> u64 {
    let is_full = ledger.is_done();
    ledger.states_max = most;
    let report = &ledger.report;
    let due = (report.judged / DEVICE_SHARE).saturating_sub(ledger.judged_inside_device) / CHANCES;
    let missing = if is_full { most - report.states.min(most) } else { 0 };
    let is_first = ledger.judged_inside_device == 0;
    let points = due.max(missing).max(if is_first { POINTS_MIN } else { 0 }).min(POINTS_MAX);
    if ledger.is_done() || !is_full && points < POINTS_MIN { 0 } else { points }
}

/// Judges one state of one workload again, as the command of a [`crate::Violation`] says.
///
/// # Errors
/// If there is no such state.
pub fn replay<S: Subject>(
    subject: S,
    workload: &Workload,
    state: &str,
    plan: CrashPlan<'_>,
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject, plan.options);
    match (state.parse()?, plan.device) {
        (StateId::Door(_), _) => explorer.replay(workload, state)?,
        (StateId::Fault(fault), _) => explorer.replay_fault(workload, fault)?,
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
