//! Explore: recovers and judges every state of a run.
//!
//! ```text
//!   workload ─► run, recorded ─► for each event: states ─► recovered ─► judged at that place ─► entered in the ledger
//!                                        │                     └─► cuts inside the recovery: states again
//!                                        └─ after each sync that ends: the same states again, more is promised now
//! ```
//!
//! # Invariants
//! - The same workload, options and seed give the same report.
//! - An explorer without the ledger judges states and keeps the outcome. It enters them in order as soon as it has the
//!   ledger.

use onewrite_block::Choices;

use crate::action::Workload;
use crate::ahead::{Ahead, Looked};
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::glance::{self, Glance};
use crate::judge::{Breach, Judge};
use crate::marks::{Recently, marks_of};
use crate::mounted;
use crate::options::ExploreOptions;
use crate::plan::DEVICE_SHARE;
use crate::read_tree::Extended;
use crate::report::Report;
use crate::run::{Run, run};
use crate::state_id::{Cut, StateId};
use crate::states::{Choice, Sum, Walker, log_pages};
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::walk::{Walk, WalkPosition};

/// The foreign checker looks at the unmount of one workload of so many: it takes longer than a short workload's states.
const STRANGER_EVERY: u64 = 15;

/// Explores `workload` on `subject`.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn explore<S: Subject>(subject: S, workload: &Workload, options: &ExploreOptions) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject, options);
    explorer.explore(workload)?;
    Ok(explorer.into_report())
}

impl<S: Subject> Explorer<'_, S> {
    /// Explores one workload. No-op if the exploration is done ([`Explorer::is_done`]).
    ///
    /// # Errors
    /// If it cannot be run at all.
    pub fn explore(&mut self, workload: &Workload) -> Result<(), CrashError> {
        let mut run = run(&self.subject, workload, self.options)?;
        if self.options.reads_mounted && self.only.is_none() {
            run.mounted = mounted::judged(&self.subject, (workload, &run), self.options, self.asks_stranger())?;
        }
        self.explore_run(workload, &run)?;
        if self.ledger.is_none() {
            self.ahead = Ahead::Door(run, std::mem::take(&mut self.backlog));
        }
        Ok(())
    }

    /// Judges one state of one workload.
    ///
    /// # Errors
    /// If there is no such state.
    pub fn replay(&mut self, workload: &Workload, state: &str) -> Result<(), CrashError> {
        let cuts = match state.parse()? {
            StateId::Door(cuts) => cuts,
            StateId::Mounted => return self.replay_mounted(workload),
            _ => {
                let reason = "only a cut at the door of a disk is replayed so".into();
                return Err(CrashError::State { text: state.into(), reason });
            }
        };
        self.only = Some(cuts);
        let outcome = self.explore(workload);
        self.only = None;
        if self.has_met_only { outcome } else { outcome.and(Err(CrashError::no_such_state(state))) }
    }

    /// Judges the mounted tree alone.
    ///
    /// # Errors
    /// [`CrashError::State`] if it cannot be judged.
    pub(crate) fn replay_mounted(&mut self, workload: &Workload) -> Result<(), CrashError> {
        let run = run(&self.subject, workload, self.options)?;
        let mounted = mounted::judged(&self.subject, (workload, &run), self.options, true)?;
        if let Verdict::Unknown = mounted {
            let reason = "an operation fails halfway, so that nobody knows what the tree should be".into();
            return Err(CrashError::State { text: StateId::Mounted.to_string(), reason });
        }
        self.count_judgement();
        self.open_door(workload, &Run { mounted, ..run });
        Ok(())
    }

    pub(crate) fn explore_run(&mut self, workload: &Workload, run: &Run) -> Result<(), CrashError> {
        self.walk_run(workload, run, &Judge::new(&run.history, self.subject.promises(), self.options))
    }

    /// Enters the states of a run that were judged ahead.
    pub(crate) fn enter_run(&mut self, workload: &Workload, run: &Run, states: Vec<Looked>) -> Result<(), CrashError> {
        let judge = Judge::new(&run.history, self.subject.promises(), self.options);
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events, self.subject.log_causes());
        let walk = Walk { run: Some(run), ..Walk::of(workload, &judge, &log) };
        self.catch_up(&walk, states)
    }

    fn walk_run(&mut self, workload: &Workload, run: &Run, judge: &Judge<'_>) -> Result<(), CrashError> {
        if self.ledger.is_some() {
            self.open_door(workload, run);
        }
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events, self.subject.log_causes());
        let walk = Walk { run: Some(run), is_glance: self.is_glance(), ..Walk::of(workload, judge, &log) };
        let glance = walk.is_glance.then(|| Glance::at(run, self.options.seed ^ walk.base, self.number));
        let mut walker = Walker::new(run.base.clone(), Sum::of_base(walk.base), &log, &self.options.geometry);
        let (mut place, mut recently) = (WalkPosition::default(), Recently::default());
        for (event, entry) in run.events.iter().enumerate() {
            if self.is_done() {
                break;
            }
            let joined = walker.pass(entry);
            let again = place.pass(event, entry, &run.history);
            place.reached = recently.pass(entry, marks_of(&run.marks, event));
            if place.happened < run.history.warm_up {
                continue;
            }
            let (is_place, joined) = match &glance {
                Some(glance) => (glance.has(event), 0),
                None => (joined > 0 || again || event == 0, if again { 0 } else { joined }),
            };
            // A state that is named may have been found at a glance, behind any event.
            if is_place || self.only.is_some() {
                self.states_at(&walk, &walker, place, joined)?;
            }
        }
        Ok(())
    }

    /// Whether the foreign checker looks at what the unmount of the present workload leaves.
    fn asks_stranger(&self) -> bool {
        let is_unmount_judged = self.options.reads_mounted && self.only.is_none();
        is_unmount_judged && self.options.e2fsck_every > 0 && self.number.is_multiple_of(STRANGER_EVERY)
    }

    /// Whether the present workload is judged at some places only. One that is replayed is the first, so it is not.
    pub(crate) fn is_glance(&self) -> bool {
        !glance::is_thorough(self.number, self.options)
    }

    /// Prepares the ledger for the states of one workload's run, and enters what its mounted file system read as.
    fn open_door(&mut self, workload: &Workload, run: &Run) {
        let (share, is_glance) = (self.shared_with_device, self.is_glance());
        let asks_stranger = self.asks_stranger();
        let ledger = self.ledger();
        if let Some(most) = share {
            let inside = ledger.report.states_by_kind.inside_device;
            ledger.states_max = most - (most / DEVICE_SHARE).saturating_sub(inside);
        }
        if ledger.is_done() {
            return;
        }
        ledger.report.workloads += 1;
        ledger.report.glances += u64::from(is_glance);
        ledger.report.e2fsck_runs += u64::from(asks_stranger);
        let with_errors = run.history.operations.iter().filter(|operation| operation.error.is_some());
        ledger.report.operations += run.history.operations.len() as u64;
        ledger.report.operations_with_errors += with_errors.count() as u64;
        ledger.report.mounted += u64::from(!matches!(run.mounted, Verdict::Unknown));
        if let Verdict::Broken(breach) = &run.mounted {
            self.note(workload, &StateId::Mounted, Breach::clone(breach));
        }
    }

    /// Enters the states that were judged without the ledger.
    fn catch_up(&mut self, walk: &Walk<'_>, states: Vec<Looked>) -> Result<(), CrashError> {
        let run = walk.run.expect("without the ledger nothing but runs is walked");
        self.open_door(walk.workload, run);
        let mut walker = Walker::new(run.base.clone(), Sum::of_base(walk.base), walk.log, &self.options.geometry);
        let mut passed = 0;
        for state in states {
            if self.is_done() {
                break;
            }
            while passed <= state.place.event {
                walker.pass(&run.events[passed]);
                passed += 1;
            }
            self.enter(walk, &walker, state)?;
        }
        Ok(())
    }

    /// Explores the states at one place. If `joined` is not 0: only states that keep one of the last `joined` units.
    pub(crate) fn states_at(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: WalkPosition,
        joined: usize,
    ) -> Result<(), CrashError> {
        if let Some(only) = &self.only {
            let depth = walk.above.len();
            return match only.get(depth) {
                Some(cut) if cut.event == place.event => {
                    let cut = cut.clone();
                    self.one_named(walk, walker, place, cut)
                }
                _ => Ok(()),
            };
        }
        let is_small = !walk.is_glance && walker.pending.len() <= self.options.exhaustive_writes_max;
        for choice in self.choices(walk, walker, place, joined) {
            self.one(walk, walker, place, (choice, is_small))?;
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    fn one_named(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: WalkPosition,
        cut: Cut,
    ) -> Result<(), CrashError> {
        if cut.choice.kept.iter().any(|unit| *unit >= walker.pending.len()) {
            return Ok(());
        }
        self.one(walk, walker, place, (cut.choice, true))
    }

    fn choices(&self, walk: &Walk<'_>, walker: &Walker<'_>, place: WalkPosition, joined: usize) -> Vec<Choice> {
        let count = walker.pending.len();
        let depth = walk.depth() as u64;
        let mut chance = Choices::new(self.options.seed ^ walk.base).stream("states", place.event as u64 ^ depth << 48);
        let (limit, samples) = match depth {
            0 if walk.is_glance => (1, glance::STATES),
            0 => (self.options.exhaustive_writes_max, self.options.samples),
            _ => (2, 3),
        };
        let mut choices = match count <= limit {
            true => crate::sampling::subsets(count, joined),
            false => crate::sampling::samples(count, joined, samples, &mut chance),
        };
        if self.options.tears() && depth == 0 {
            let whole = self.subject.whole_page();
            choices.extend(crate::sampling::torn(&choices, |unit| walker.may_tear(unit, whole), &mut chance));
        }
        choices
    }

    fn one(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: WalkPosition,
        (choice, is_small): (Choice, bool),
    ) -> Result<(), CrashError> {
        let state = self.look(walk, walker, place, (choice, is_small));
        if self.has_turn_come() {
            let states = std::mem::take(&mut self.backlog);
            self.catch_up(walk, states)?;
            // The states entered just now may have been enough.
            if self.is_done() {
                return Ok(());
            }
        }
        match self.ledger {
            None => self.backlog.push(state),
            Some(_) => self.enter(walk, walker, state)?,
        }
        Ok(())
    }
}
