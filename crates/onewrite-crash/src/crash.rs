//! Crash: what `onewrite crash` does: workload after workload, at the door of the disk and inside the device, until there
//! are enough states.

use crate::action::Workload;
use crate::cut::{DeviceCuts, MakeDevice};
use crate::error::CrashError;
use crate::explore::Explorer;
use crate::minimise::minimise_watched;
use crate::options::ExploreOptions;
use crate::report::Report;
use crate::state_id::StateId;
use crate::subject::Subject;

/// One judged state in so many is cut inside the device, where there is one.
const DEVICE_SHARE: u64 = 10;
/// Chances at each internal point: one with recovery cut, one without.
const CHANCES: u64 = 2;
/// Internal points that are worth two runs of a workload on a device.
const POINTS_MIN: u64 = 8;
/// Internal points of one run at most: as many copies of the device are held at once, a megabyte each.
const POINTS_MAX: u64 = 300;
/// Workloads in a row without a new state after which there is nothing left to find: more than `ace:2` has in all, for it
/// ends by itself.
const IN_VAIN_MAX: u32 = 5_000;

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
}

impl<'p> CrashPlan<'p> {
    /// Cuts at the door of the modelled disk; what is found stays as it is.
    pub fn new(options: &'p ExploreOptions) -> CrashPlan<'p> {
        CrashPlan { options, device: None, faults: false, minimises: false }
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
pub fn crash<S: Subject + Clone>(
    subject: S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: impl Fn(Stage),
) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject.clone(), plan.options);
    explorer.watch = Some(&progress);
    let mut in_vain = 0;
    for workload in workloads {
        let before = explorer.report().states;
        one(&mut explorer, &workload, plan)?;
        explorer.tell();
        let report = explorer.report();
        in_vain = if plan.faults || report.states > before { 0 } else { in_vain + 1 };
        let is_enough = plan.faults && report.judged >= plan.options.states_max;
        if is_enough || explorer.is_done() || in_vain >= IN_VAIN_MAX {
            break;
        }
    }
    let mut report = explorer.into_report();
    if plan.minimises {
        let count = report.violations.len();
        for (violation, number) in report.violations.iter_mut().zip(1..) {
            let watch = |tries, tries_max| progress(Stage::Shrinking { number, count, tries, tries_max });
            *violation = minimise_watched(&subject, violation, plan, &watch)?;
        }
    }
    Ok(report)
}

/// One workload, at the door and inside; inside alone where a mode pads, for then the device alone says what survives.
fn one<S: Subject>(explorer: &mut Explorer<'_, S>, workload: &Workload, plan: CrashPlan<'_>) -> Result<(), CrashError> {
    if plan.faults {
        return explorer.explore_faults(workload, 1);
    }
    let Some(make) = plan.device else { return explorer.explore(workload) };
    let most = plan.options.states_max;
    if plan.options.pads() {
        let points = most.saturating_sub(explorer.report().states).clamp(POINTS_MIN, POINTS_MAX);
        explorer.report.workloads += 1;
        return explorer.explore_device(make, workload, &DeviceCuts { points, chances: CHANCES, only: None });
    }
    explorer.states_max = most - (most / DEVICE_SHARE).saturating_sub(explorer.report().states_by_kind.inside_device);
    let is_full = explorer.is_done();
    if !is_full {
        explorer.explore(workload)?;
    }
    let is_full = is_full || explorer.is_done();
    explorer.states_max = most;
    let due = (explorer.report().judged / DEVICE_SHARE).saturating_sub(explorer.judged_inside_device) / CHANCES;
    let missing = if is_full { most - explorer.report().states.min(most) } else { 0 };
    let is_first = explorer.judged_inside_device == 0;
    let points = due.max(missing).max(if is_first { POINTS_MIN } else { 0 }).min(POINTS_MAX);
    if explorer.is_done() || !is_full && points < POINTS_MIN {
        return Ok(());
    }
    explorer.explore_device(make, workload, &DeviceCuts { points, chances: CHANCES, only: None })
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
