//! One: explores one workload completely, at the door of the disk and inside the device.

use crate::action::Workload;
use crate::ahead::Ahead;
use crate::cut::DeviceCuts;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::ledger::Ledger;
use crate::plan::{CrashPlan, DEVICE_SHARE, MakeDevice};
use crate::state_id::StateId;
use crate::subject::Subject;

/// Random outcomes tried at each internal point: one with recovery cut, one without.
const CHANCES: u64 = 2;
/// Fewest internal points that justify two runs of a workload on a device.
const POINTS_MIN: u64 = 8;
/// Most internal points of one run. Memory holds a copy of the device for each, about a megabyte.
const POINTS_MAX: u64 = 300;

impl<S: Subject> Explorer<'_, S> {
    /// Explores one workload, at the door and inside. Explores only inside the device if a mode pads, because then the
    /// device alone decides what survives. If the explorer does not get the ledger, the judged states are in
    /// [`Explorer::ahead`] afterwards, for [`Explorer::enter_one`].
    ///
    /// # Errors
    /// If the workload cannot be run at all.
    pub(crate) fn one_workload(&mut self, workload: &Workload, plan: CrashPlan<'_>) -> Result<(), CrashError> {
        let (options, flags) = (self.options, self.subject.flags());
        let _named = NamedOnPanic(|| options.replay_command(workload, &StateId::Mounted.to_string(), flags.clone()));
        match (plan.faults, plan.device) {
            (true, _) => self.explore_faults(workload, 1),
            (false, None) => self.explore(workload),
            (false, Some(make)) if self.subject.promises().pads => self.only_inside(workload, make, plan),
            (false, Some(make)) => {
                self.shared_with_device = Some(plan.options.states_max);
                self.explore(workload)?;
                if self.ledger.is_some() { self.inside(workload, make, plan) } else { Ok(()) }
            }
        }
    }

    /// Enters the states judged ahead, and does the work that needs the ledger.
    ///
    /// # Errors
    /// If the workload cannot be run at all.
    pub(crate) fn enter_one(
        &mut self,
        workload: &Workload,
        plan: CrashPlan<'_>,
        ahead: Ahead,
    ) -> Result<(), CrashError> {
        match ahead {
            Ahead::Nothing => self.one_workload(workload, plan),
            Ahead::Door(run, states) => {
                self.enter_run(workload, &run, states)?;
                plan.device.map_or(Ok(()), |make| self.inside(workload, make, plan))
            }
            Ahead::Inside { points, run, states } if points == self.points_of_all(plan) => {
                self.ledger().report.workloads += 1;
                self.enter_inside(workload, &run, states)
            }
            Ahead::Inside { .. } => self.one_workload(workload, plan),
            Ahead::Faults(faults) => {
                self.enter_faults(faults);
                Ok(())
            }
        }
    }

    /// Explores only cuts inside the device; without the ledger, estimates the number of points.
    fn only_inside(
        &mut self,
        workload: &Workload,
        make: &MakeDevice<'_>,
        plan: CrashPlan<'_>,
    ) -> Result<(), CrashError> {
        let cuts = DeviceCuts { points: self.points_of_all(plan), chances: CHANCES, only: None };
        if self.ledger.is_none() {
            return self.look_inside(make, workload, &cuts);
        }
        self.ledger().report.workloads += 1;
        self.explore_device(make, workload, &cuts)
    }

    /// Number of internal points to cut at if all cuts are inside the device; an estimate without the ledger.
    fn points_of_all(&self, plan: CrashPlan<'_>) -> u64 {
        let known = self.line.as_ref().map_or(0, |line| line.turns.states());
        let states = self.ledger.as_ref().map_or(known, |ledger| ledger.report.states);
        plan.options.states_max.saturating_sub(states).clamp(POINTS_MIN, POINTS_MAX)
    }

    /// Explores the share of cuts inside the device, after those at its door; at a glance only those that are missing
    /// once there are enough at the door, for the two runs on a device cost more than all else of it.
    fn inside(&mut self, workload: &Workload, make: &MakeDevice<'_>, plan: CrashPlan<'_>) -> Result<(), CrashError> {
        if self.is_glance() && !self.ledger().is_done() {
            self.ledger().states_max = plan.options.states_max;
            return Ok(());
        }
        let points = points_inside(self.ledger(), plan.options.states_max);
        if points == 0 {
            return Ok(());
        }
        self.explore_device(make, workload, &DeviceCuts { points, chances: CHANCES, only: None })
    }
}

/// Prints, if a panic ends the workload, the command that runs it again.
struct NamedOnPanic<F: Fn() -> String>(F);

impl<F: Fn() -> String> Drop for NamedOnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("onewrite: a workload panicked; this runs it again: {}", (self.0)());
        }
    }
}

/// Number of internal points to cut at after the states at the door; 0 if too few to justify the runs. `most` is the
/// wanted number of states in all.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn only_a_panic_has_the_workload_named() {
        let asked = Cell::new(0);
        let name = || {
            asked.set(asked.get() + 1);
            "its command".to_owned()
        };
        drop(NamedOnPanic(name));
        assert_eq!(asked.get(), 0);
        let panicking = AssertUnwindSafe(|| {
            let _named = NamedOnPanic(name);
            panic!("as a file system with a bug");
        });
        assert!(catch_unwind(panicking).is_err() && asked.get() == 1);
    }
}
