//! Minimise: finds the same broken promise with fewer operations and fewer lost writes.
//!
//! Operations come first: parts of the workload are removed, halves before single operations, while some state still
//! breaks the same promise. Then the state (`state`): cuts inside recovery are left out, torn units and lost ones put
//! back, if the promise still breaks. Both searches are greedy and bounded by judgements, not by time: the result is
//! small, not always the smallest, and the same each time. A violation says whether its search met the bound.

mod state;

use crate::action::{Action, Workload};
use crate::cut::DeviceCuts;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::options::ExploreOptions;
use crate::plan::{CrashPlan, MakeDevice};
use crate::report::{Report, Shrunk, Violation};
use crate::state_id::StateId;
use crate::subject::Subject;

/// Most explorations spent on removing operations.
const TRIES_MAX: usize = 300;
/// Of the judgements, one in this many is kept for the state.
const STATE_SHARE: u64 = 20;
/// Most states of each exploration.
const STATES_MAX: u64 = 3_000;
/// What the judgement of a foreign checker costs: it starts a program on a saved image.
const STRANGER_PRICE: u64 = 30;
/// Cuts inside a device in each exploration.
const DEVICE_CUTS: DeviceCuts = DeviceCuts { points: 200, chances: 2, only: None };

/// A smaller violation of the same promise; `violation` itself if none is found. Of a fault only the workload becomes
/// smaller. Spends `judged_max` judgements, hardly more. Calls `watch` with the number of judgements spent.
///
/// # Errors
/// If a workload cannot be run at all.
pub(crate) fn minimised<S: Subject + Clone>(
    subject: &S,
    violation: &Violation,
    (plan, judged_max): (CrashPlan<'_>, u64),
    watch: &dyn Fn(u64),
) -> Result<Violation, CrashError> {
    let (e2fsck_every, price) = if violation.is_of_stranger() { (1, STRANGER_PRICE) } else { (0, 1) };
    let (kind, tries, left) = (violation.state.parse()?, 0, judged_max);
    let reads_mounted = kind == StateId::Mounted;
    let (states_max, violations_max) = (STATES_MAX, 1);
    let options = ExploreOptions { states_max, violations_max, e2fsck_every, reads_mounted, ..plan.options.clone() };
    let (device, best, spent_max, is_bounded) = (plan.device, violation.clone(), judged_max, false);
    let mut search = Search { subject, options, device, kind, best, tries, left, spent_max, price, watch, is_bounded };
    search.leave_tasks_out()?;
    search.leave_actions_out()?;
    search.shrink_state()?;
    let shrunk = if search.is_bounded { Shrunk::ToTheBound } else { Shrunk::Fully };
    Ok(Violation { shrunk, ..search.best })
}

struct Search<'s, S> {
    subject: &'s S,
    options: ExploreOptions,
    device: Option<&'s MakeDevice<'s>>,
    /// The state in which the violation was found.
    kind: StateId,
    best: Violation,
    tries: usize,
    /// Judgements left to spend, and all.
    left: u64,
    spent_max: u64,
    /// What one judgement costs.
    price: u64,
    watch: &'s dyn Fn(u64),
    /// Whether something was left untried.
    is_bounded: bool,
}

impl<S: Subject + Clone> Search<'_, S> {
    fn workload(&self) -> Workload {
        self.best.workload.parse().expect("a workload's text is its own")
    }

    /// Keeps `workload` if it breaks the same promise.
    fn try_workload(&mut self, workload: &Workload) -> Result<bool, CrashError> {
        let reserved = self.spent_max / STATE_SHARE;
        if self.tries >= TRIES_MAX || self.left <= reserved {
            self.is_bounded = true;
            return Ok(false);
        }
        self.watch_left();
        self.tries += 1;
        self.options.states_max = (STATES_MAX.min(self.left - reserved) / self.price).max(1);
        let mut explorer = Explorer::new(self.subject.clone(), &self.options);
        match (&self.kind, self.device) {
            (StateId::Device { .. }, Some(make)) => explorer.explore_device(make, workload, &DEVICE_CUTS)?,
            (StateId::Fault { .. }, _) => explorer.explore_faults(workload, 1)?,
            (StateId::Mounted, _) => match explorer.replay_mounted(workload) {
                Ok(()) | Err(CrashError::State { .. }) => (),
                Err(error) => return Err(error),
            },
            _ => explorer.explore(workload)?,
        }
        let found = self.spend(explorer.into_report());
        let is_found = found.is_some();
        if let Some(found) = found {
            self.best = found;
        }
        Ok(is_found)
    }

    fn watch_left(&self) {
        (self.watch)(self.spent_max - self.left);
    }

    /// Counts what an exploration cost. Returns its violation of the same promise.
    fn spend(&mut self, report: Report) -> Option<Violation> {
        self.left = self.left.saturating_sub(self.price * report.judged.max(1));
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
}
