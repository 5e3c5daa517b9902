//! Minimise: finds the same broken promise with fewer operations and fewer lost writes.
//!
//! Operations come first: parts of the workload are removed, halves before single operations, while some state still
//! breaks the same promise. Then the state: each lost unit is put back, if the promise still breaks. Both searches are
//! greedy and bounded by judgements, not by time: the result is small, not always the smallest, and the same each time.

use crate::action::{Action, Workload};
use crate::cut::DeviceCuts;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::options::ExploreOptions;
use crate::plan::{CrashPlan, MakeDevice};
use crate::report::{Report, Violation};
use crate::state_id::StateId;
use crate::subject::Subject;

/// Most explorations spent on removing operations.
const TRIES_MAX: usize = 300;
/// Most states of each exploration.
const STATES_MAX: u64 = 3_000;
/// Cuts inside a device in each exploration.
const DEVICE_CUTS: DeviceCuts = DeviceCuts { points: 200, chances: 2, only: None };

/// A smaller violation of the same promise; `violation` itself if none is found. For a cut inside a device or a fault,
/// only the workload becomes smaller. Spends `judged_max` judgements, hardly more. Calls `watch` with the number of
/// smaller workloads tried, and the most to try.
///
/// # Errors
/// If a workload cannot be run at all.
pub(crate) fn minimised<S: Subject + Clone>(
    subject: &S,
    violation: &Violation,
    (plan, judged_max): (CrashPlan<'_>, u64),
    watch: &dyn Fn(usize, usize),
) -> Result<Violation, CrashError> {
    let quick = ExploreOptions { states_max: STATES_MAX, violations_max: 1, e2fsck_every: 0, ..plan.options.clone() };
    let (kind, tries, left) = (violation.state.parse()?, 0, judged_max);
    let (device, best) = (plan.device, violation.clone());
    let mut search = Search { subject, options: quick, device, kind, best, tries, left, watch };
    search.leave_tasks_out()?;
    search.leave_actions_out()?;
    search.put_units_back()?;
    Ok(search.best)
}

struct Search<'s, S> {
    subject: &'s S,
    options: ExploreOptions,
    device: Option<&'s MakeDevice<'s>>,
    /// The state in which the violation was found.
    kind: StateId,
    best: Violation,
    tries: usize,
    /// Judgements left to spend.
    left: u64,
    watch: &'s dyn Fn(usize, usize),
}

impl<S: Subject + Clone> Search<'_, S> {
    fn workload(&self) -> Workload {
        self.best.workload.parse().expect("a workload's text is its own")
    }

    /// Keeps `workload` if it breaks the same promise.
    fn try_workload(&mut self, workload: &Workload) -> Result<bool, CrashError> {
        if self.tries >= TRIES_MAX || self.left == 0 {
            return Ok(false);
        }
        (self.watch)(self.tries, TRIES_MAX);
        self.tries += 1;
        self.options.states_max = STATES_MAX.min(self.left);
        let mut explorer = Explorer::new(self.subject.clone(), &self.options);
        match (&self.kind, self.device) {
            (StateId::Device { .. }, Some(make)) => explorer.explore_device(make, workload, &DEVICE_CUTS)?,
            (StateId::Fault(_), _) => explorer.explore_faults(workload, 1)?,
            _ => explorer.explore(workload)?,
        }
        let found = self.spend(explorer.into_report());
        let is_found = found.is_some();
        if let Some(found) = found {
            self.best = found;
        }
        Ok(is_found)
    }

    /// Counts what an exploration cost. Returns its violation of the same promise.
    fn spend(&mut self, report: Report) -> Option<Violation> {
        self.left = self.left.saturating_sub(report.judged.max(1));
        report.violations.into_iter().find(|other| other.promise == self.best.promise)
    }

    fn leave_tasks_out(&mut self) -> Result<(), CrashError> {
        let mut task = 0;
        while self.workload().tasks.len() > 1 && task < self.workload().tasks.len() {
            let mut smaller = self.workload();
            smaller.tasks.remove(task);
            task += usize::from(!self.try_workload(&smaller)?);
        }
        Ok(())
    }

    fn leave_actions_out(&mut self) -> Result<(), CrashError> {
        for task in 0..self.workload().tasks.len() {
            self.shorten(|workload| &mut workload.tasks[task])?;
        }
        self.shorten(|workload| &mut workload.warm_up)?;
        self.shorten(|workload| &mut workload.setup)
    }

    fn shorten(&mut self, list: impl Fn(&mut Workload) -> &mut Vec<Action>) -> Result<(), CrashError> {
        let mut size = list(&mut self.workload()).len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < list(&mut self.workload()).len() {
                let mut smaller = self.workload();
                let actions = list(&mut smaller);
                actions.drain(start..actions.len().min(start + size));
                start += if self.try_workload(&smaller)? { 0 } else { size };
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        Ok(())
    }

    /// Reduces the lost units of the last cut.
    fn put_units_back(&mut self) -> Result<(), CrashError> {
        let workload = self.workload();
        let mut unit = 0;
        while let StateId::Door(mut cuts) = self.best.state.parse()? {
            if self.left == 0 {
                break;
            }
            let last = cuts.last_mut().expect("a state has a cut");
            if last.choice.torn.is_some() || unit > last.choice.kept.iter().max().copied().unwrap_or(0) + 64 {
                break;
            }
            if let Err(place) = last.choice.kept.binary_search(&unit) {
                last.choice.kept.insert(place, unit);
                self.try_state(&workload, &StateId::Door(cuts).to_string())?;
            }
            unit += 1;
        }
        Ok(())
    }

    fn try_state(&mut self, workload: &Workload, state: &str) -> Result<(), CrashError> {
        let mut explorer = Explorer::new(self.subject.clone(), &self.options);
        match explorer.replay(workload, state) {
            Ok(()) => (),
            // This unit does not exist.
            Err(CrashError::State { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let found = self.spend(explorer.into_report());
        if let Some(found) = found {
            self.best = found;
        }
        Ok(())
    }
}
