//! Faults: makes requests fail. At each request of a workload in turn, the disk fails once, fails from then on, or is
//! full from then on. The workload also runs with every small number of free blocks (`room`).
//!
//! Each fault is a run of its own; long workloads are divided (`stretch`). After a run the image is mounted again, and
//! some states are judged that a power cut behind the failure would have left (`after`).
//!
//! # What must hold
//! 1. The error reaches somebody: an operation, the mount or the unmount. That of a TRIM need not.
//! 2. After an operation returns "read-only", no later one changes anything. A full disk does not make the file system
//!    read-only.
//! 3. After a remount, and after a power cut, acknowledged changes are there and the metadata is consistent.
//! 4. Nothing waits for ever, and nothing panics.

mod after;
mod room;
mod stretch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty, Recorded, RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};
use onewrite_block::{Executor, Image};
use onewrite_fs::FsError;

use crate::action::Workload;
use crate::ahead::{Ahead, LookedFault, LookedFaults};
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::history::{History, Operation};
use crate::judge::{Breach, Judge, Promise};
use crate::lives::prepare;
use crate::model::Tree;
use crate::plan::Stage;
use crate::player::Player;
use crate::read_tree::Extended;
use crate::state_id::{Cut, FaultId, StateId};
use crate::states::Sum;
use crate::subject::{Purpose, Subject};
use crate::walk::base_of;
use stretch::stretches;

/// The outcome of one run with a fault.
struct Outcome {
    history: History,
    image: Image,
    events: Vec<RecordedEvent>,
    /// The marks that the run reached.
    reached: Marks,
    /// Requests submitted in all, those of them before the tasks began if there is a warm-up, and those that failed and
    /// were no TRIM.
    requests: u64,
    warm_up: u64,
    failed: u64,
    /// Why mount or unmount failed.
    error: Option<FsError>,
    is_stuck: bool,
}

impl<S: Subject> Explorer<'_, S> {
    /// Fails every `every`-th request of the run in turn, in each way; of a long workload, of the run of each stretch.
    /// Requests of a warm-up do not fail. Then leaves more and more blocks free, until they are enough. Counts each run
    /// and each cut after it as a judgement, up to [`crate::ExploreOptions::states_max`].
    ///
    /// # Errors
    /// If the workload cannot be run without a fault.
    pub fn explore_faults(&mut self, workload: &Workload, every: u64) -> Result<(), CrashError> {
        self.fault_backlog.push(LookedFaults::Begin);
        let stretches = stretches(workload);
        let count = stretches.len();
        for (stretch, number) in stretches.into_iter().zip(1..) {
            if self.explore_stretch(&Rc::new(stretch), (number, count), every)? {
                return Ok(());
            }
        }
        if self.ledger.is_none() {
            self.ahead = Ahead::Faults(std::mem::take(&mut self.fault_backlog));
        }
        Ok(())
    }

    /// Returns whether the exploration is done.
    fn explore_stretch(
        &mut self,
        workload: &Rc<Workload>,
        (number, count): (usize, usize),
        every: u64,
    ) -> Result<bool, CrashError> {
        let start = prepare(&self.subject, workload, self.options)?;
        let Outcome { requests, warm_up, .. } = self.run_with((&start.0, &start.1), workload, Fault::From(u64::MAX));
        self.recoverer.extended = Extended::of(workload);
        for request in (warm_up..requests).step_by(every.max(1) as usize) {
            self.tell_stage(Stage::Failing { stretch: number, stretches: count, request, requests });
            let group = [FaultId::Request(request), FaultId::From(request), FaultId::FullFrom(request)];
            let looked = group.map(|fault| self.one_fault(workload, (&start.0, &start.1), fault));
            self.fault_backlog.push(LookedFaults::Group(Rc::clone(workload), looked.into()));
            if self.enter_backlog() {
                return Ok(true);
            }
        }
        self.explore_want_of_room(workload, start, every)
    }

    /// Enters the judged faults if this explorer has or gets the ledger; returns whether the exploration is done.
    fn enter_backlog(&mut self) -> bool {
        if self.ledger.is_some() || self.has_turn_come() {
            let backlog = std::mem::take(&mut self.fault_backlog);
            self.enter_faults(backlog);
        }
        self.has_faults_enough()
    }

    fn has_faults_enough(&self) -> bool {
        self.ledger.as_ref().map_or_else(|| self.is_done(), |ledger| ledger.has_faults_enough())
    }

    /// Enters faults that were judged, until there are enough.
    pub(crate) fn enter_faults(&mut self, looked: Vec<LookedFaults>) {
        for looked in looked {
            if self.has_faults_enough() {
                return;
            }
            match looked {
                LookedFaults::Begin => self.ledger().report.workloads += 1,
                LookedFaults::Group(workload, group) => {
                    group.into_iter().for_each(|fault| self.enter_fault(&workload, fault));
                }
            }
        }
    }

    fn enter_fault(&mut self, workload: &Workload, looked: LookedFault) {
        self.count_judgement();
        self.ledger().report.marks.count(looked.reached, looked.recovered);
        let fault = looked.id;
        if let Some(breach) = looked.breach {
            self.note(workload, &StateId::Fault { fault, then: Vec::new() }, breach);
        }
        for (cut, breach) in looked.cuts {
            self.count_judgement();
            if let Some(breach) = breach {
                self.note(workload, &StateId::Fault { fault, then: vec![cut] }, breach);
            }
        }
    }

    /// Repeats the run with one fault; with a cut after it, judges only the state that the cut leaves.
    ///
    /// # Errors
    /// If the workload cannot be run without a fault, or there is no such fault or cut.
    pub(crate) fn replay_fault(&mut self, workload: &Workload, fault: FaultId, cuts: &[Cut]) -> Result<(), CrashError> {
        self.recoverer.extended = Extended::of(workload);
        let (image, tree) = prepare(&self.subject, workload, self.options)?;
        let looked = match (fault, cuts) {
            (FaultId::Room(blocks), []) => {
                let full = self.fill(image, tree)?;
                full.expect_room(blocks)?;
                self.one_room(workload, &full, blocks)?.0
            }
            (_, []) => {
                let outcome = self.run_with((&image, &tree), workload, fault_of(fault));
                outcome.expect_met(fault)?;
                LookedFault { cuts: Vec::new(), ..self.looked_at(workload, &image, &outcome, fault) }
            }
            _ => self.one_cut(workload, (&image, &tree), fault, cuts)?,
        };
        self.fault_backlog.push(LookedFaults::Group(Rc::new(workload.clone()), vec![looked]));
        self.enter_backlog();
        Ok(())
    }

    fn one_fault(&mut self, workload: &Workload, start: (&Image, &Tree), id: FaultId) -> LookedFault {
        let outcome = self.run_with(start, workload, fault_of(id));
        self.looked_at(workload, start.0, &outcome, id)
    }

    /// Judges a run that began with the image `base`.
    fn looked_at(&mut self, workload: &Workload, base: &Image, outcome: &Outcome, id: FaultId) -> LookedFault {
        let (reached, told) = (outcome.reached, |breach| named(id, breach));
        if let Some(breach) = broken_in_the_run(outcome) {
            return LookedFault { id, breach: Some(told(breach)), reached, recovered: Marks::NONE, cuts: Vec::new() };
        }
        let judge = Judge::new(&outcome.history, self.subject.promises(), self.options);
        let (breach, recovered) = self.judge_remount(workload, outcome, &judge);
        let cuts = self.cuts_after(workload, base, (outcome, &judge), id);
        LookedFault { id, breach: breach.map(told), reached, recovered, cuts }
    }

    fn run_with(&self, (base, tree): (&Image, &Tree), workload: &Workload, fault: Fault) -> Outcome {
        let (plan, recording) = (FaultPlan::of(fault), Rc::new(RefCell::new(Recording::default())));
        let medium = Medium::new(base.clone());
        let disk = Box::new(Disk::paced(&medium, &self.options.geometry, self.options.pace()));
        let faulty = Box::new(Faulty::new(disk, Rc::clone(&plan)));
        let device = self.subject.layer(Box::new(Recorded::new(faulty, Rc::clone(&recording))));
        let history = Rc::new(RefCell::new(History::new(tree.clone())));
        let executor = Executor::ideal();
        let runtime = executor.runtime();
        let port = runtime.attach(device);
        let (subject, mount, workload) =
            (Rc::clone(&self.subject), self.options.mounting(Purpose::Run), workload.clone());
        let (seen, marks) = (Rc::clone(&history), Rc::clone(&recording));
        let (counted, warm_up) = (Rc::clone(&plan), Rc::new(Cell::new(0)));
        let begun = Rc::clone(&warm_up);
        let work = async move {
            let fs = Rc::new(subject.mount(port, mount).await?);
            let player = Player::new((subject, Rc::clone(&fs)), runtime.clone(), seen.borrow().clone(), marks);
            player.bind_all().await?;
            if !workload.warm_up.is_empty() {
                player.play_warm_up(workload.warm_up).await;
                begun.set(counted.borrow().requests);
            }
            player.play_tasks(workload.tasks).await;
            let unmounted = player.unmount().await;
            seen.replace(player.history());
            unmounted
        };
        let (ended, at_last) = mark::during(|| executor.block_on(work));
        drop(executor);
        let image = medium.borrow().image.clone();
        let history = history.borrow().clone();
        let (requests, failed) = (plan.borrow().requests, plan.borrow().failed - plan.borrow().failed_trims);
        let Recording { events, marks } = std::mem::take(&mut *recording.borrow_mut());
        let reached = at_last.and(marks.into_iter().collect());
        let (error, is_stuck) = match ended {
            Ok(outcome) => (outcome.err(), false),
            Err(_) => (None, true),
        };
        Outcome { history, image, events, reached, requests, warm_up: warm_up.get(), failed, error, is_stuck }
    }

    /// Judges what a remount shows; also returns the marks that it reached.
    fn judge_remount(&mut self, workload: &Workload, outcome: &Outcome, judge: &Judge<'_>) -> (Option<Breach>, Marks) {
        let log = crate::states::log_pages(&outcome.events, self.subject.log_causes());
        // This content is not counted as a state, so its hash only has to be unique to this run.
        self.faults_tried += 1;
        let sum = Sum::of_base(base_of(workload) ^ self.faults_tried.rotate_left(40));
        let recovered = self.recoverer.recover(outcome.image.clone(), sum, &log);
        (judge.judge(&recovered.found, outcome.history.happenings.len()), recovered.reached)
    }
}

impl Outcome {
    /// # Errors
    /// If the run ended before it came to the request that was to fail.
    fn expect_met(&self, fault: FaultId) -> Result<(), CrashError> {
        match fault {
            FaultId::Request(at) | FaultId::From(at) | FaultId::FullFrom(at) if at >= self.requests => {
                Err(CrashError::no_such_state(&fault.to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn fault_of(id: FaultId) -> Fault {
    match id {
        FaultId::Request(request) => Fault::Request(request),
        FaultId::From(request) => Fault::From(request),
        FaultId::FullFrom(request) => Fault::FullFrom(request),
        FaultId::Room(_) => Fault::From(u64::MAX),
    }
}

/// Names the fault that led to a broken promise.
fn named(id: FaultId, breach: Breach) -> Breach {
    Breach { what: format!("{id:?}: {}", breach.what), ..breach }
}

/// What a run with a fault broke, as far as it shows before a remount.
fn broken_in_the_run(outcome: &Outcome) -> Option<Breach> {
    let breach = |what: &str| Some(Breach { promise: Promise::Faults, what: what.into(), difference: Vec::new() });
    if outcome.is_stuck {
        return breach("everybody waits for ever");
    }
    let history = &outcome.history;
    let told = outcome.error.is_some() || history.operations.iter().any(|operation| operation.is_fault());
    if outcome.failed > 0 && !told {
        return breach("a request failed and nobody was told");
    }
    if outcome.failed == 0 && history.operations.iter().any(Operation::is_refused) {
        return breach("read-only although no request failed");
    }
    if history.operations.iter().any(Operation::is_commit_without_room) {
        return breach("a commit of drafts found no room, though each change of theirs had been given it");
    }
    let late = changed_after_read_only(history)?;
    breach(&format!("`{late}` succeeded after the file system had turned read-only"))
}

/// The first operation that changed something although an earlier one had returned "read-only".
fn changed_after_read_only(history: &History) -> Option<String> {
    let refused = history.operations.iter().filter(|operation| operation.is_refused());
    let told = refused.filter_map(|operation| operation.failed).min()?;
    let is_late =
        |operation: &&Operation| operation.begin >= told && operation.error.is_none() && !operation.steps.is_empty();
    history.operations.iter().find(is_late).map(|operation| operation.action.to_string())
}
