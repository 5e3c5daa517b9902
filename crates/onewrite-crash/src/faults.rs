//! Faults: makes requests fail, without a power cut. At each request of a workload in turn, the disk fails once, fails
//! from then on, or is full from then on. The workload also runs with every small number of free blocks.
//!
//! # What must hold
//! 1. The error reaches somebody: an operation, the mount or the unmount.
//! 2. After an operation returns "read-only", no later one changes anything. A full disk does not make the file system
//!    read-only.
//! 3. After a remount, acknowledged changes are there and the metadata is consistent.
//! 4. Nothing waits for ever, and nothing panics.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty, Recorded, RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};
use onewrite_block::{Choices, Executor, Image, PAGE_SIZE};
use onewrite_fs::{Allocation, AttributeChanges, FileSystem, FileView, FsError, FsResult, NewNode};

use crate::action::Workload;
use crate::ahead::{Ahead, LookedFault, LookedFaults};
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::history::{History, Operation};
use crate::judge::{Breach, Judge, Promise};
use crate::model::{NewKind, NodeId, Step, Tree};
use crate::player::Player;
use crate::recovery::Extended;
use crate::run::prepare;
use crate::state_id::{FaultId, StateId};
use crate::states::Sum;
use crate::subject::{Purpose, Subject};
use crate::walk::base_of;

/// The file that fills the file system.
const FILLER: &str = "filler";
const FILLER_NODE: NodeId = NodeId(1 << 15);
/// Most blocks left free: more than a workload of some dozens of operations uses.
const ROOM_MAX: u64 = 2000;

/// A file system without a free block.
struct Full {
    image: Image,
    tree: Tree,
    /// Size of the filler file in bytes; `tree` does not have this size.
    size: u64,
}

/// The outcome of one run with a fault.
struct Outcome {
    history: History,
    image: Image,
    events: Vec<RecordedEvent>,
    /// The marks that the run reached.
    reached: Marks,
    /// Requests submitted, and requests that failed.
    requests: u64,
    failed: u64,
    /// Why mount or unmount failed.
    error: Option<FsError>,
    is_stuck: bool,
}

impl<S: Subject> Explorer<'_, S> {
    /// Fails every `every`-th request of the run in turn, in each way. Then leaves more and more blocks free, until
    /// they are enough. Counts each run as a judged state.
    ///
    /// # Errors
    /// If the workload cannot be run without a fault.
    pub fn explore_faults(&mut self, workload: &Workload, every: u64) -> Result<(), CrashError> {
        let start = prepare(&self.subject, workload, self.options)?;
        let requests = self.run_with((&start.0, &start.1), workload, Fault::From(u64::MAX)).requests;
        self.recoverer.extended = Extended::of(workload);
        self.fault_backlog.push(LookedFaults::Begin);
        for request in (0..requests).step_by(every.max(1) as usize) {
            let group = [FaultId::Request(request), FaultId::From(request), FaultId::FullFrom(request)];
            let looked = group.map(|fault| self.one_fault(workload, (&start.0, &start.1), fault));
            self.fault_backlog.push(LookedFaults::Group(looked.into()));
            if self.enter_backlog(workload) {
                return Ok(());
            }
        }
        self.explore_want_of_room(workload, start, every)?;
        if self.ledger.is_none() {
            self.ahead = Ahead::Faults(std::mem::take(&mut self.fault_backlog));
        }
        Ok(())
    }

    /// Enters the judged faults if this explorer has or gets the ledger; returns whether the exploration is done.
    fn enter_backlog(&mut self, workload: &Workload) -> bool {
        if self.ledger.is_some() || self.has_turn_come() {
            let backlog = std::mem::take(&mut self.fault_backlog);
            self.enter_faults(workload, backlog);
        }
        self.is_done()
    }

    /// Enters faults that were judged, until there are enough.
    pub(crate) fn enter_faults(&mut self, workload: &Workload, looked: Vec<LookedFaults>) {
        for looked in looked {
            if self.is_done() {
                return;
            }
            match looked {
                LookedFaults::Begin => self.ledger().report.workloads += 1,
                LookedFaults::Group(group) => group.into_iter().for_each(|fault| self.enter_fault(workload, fault)),
            }
        }
    }

    fn enter_fault(&mut self, workload: &Workload, fault: LookedFault) {
        self.count_judgement();
        self.ledger().report.marks.count(fault.reached, fault.recovered);
        if let Some(breach) = fault.breach {
            self.note(workload, &StateId::Fault(fault.id), breach);
        }
    }

    /// Repeats the run with one fault.
    ///
    /// # Errors
    /// If the workload cannot be run without a fault.
    pub(crate) fn replay_fault(&mut self, workload: &Workload, fault: FaultId) -> Result<(), CrashError> {
        self.recoverer.extended = Extended::of(workload);
        let (image, tree) = prepare(&self.subject, workload, self.options)?;
        match fault {
            FaultId::Room(blocks) => {
                let full = self.fill(image, tree)?;
                let (looked, _) = self.one_room(workload, &full, blocks)?;
                self.fault_backlog.push(LookedFaults::Group(vec![looked]));
            }
            _ => {
                let looked = self.one_fault(workload, (&image, &tree), fault);
                self.fault_backlog.push(LookedFaults::Group(vec![looked]));
            }
        }
        self.enter_backlog(workload);
        Ok(())
    }

    fn one_fault(&mut self, workload: &Workload, start: (&Image, &Tree), id: FaultId) -> LookedFault {
        let fault = match id {
            FaultId::Request(request) => Fault::Request(request),
            FaultId::From(request) => Fault::From(request),
            FaultId::FullFrom(request) => Fault::FullFrom(request),
            FaultId::Room(_) => Fault::From(u64::MAX),
        };
        let outcome = self.run_with(start, workload, fault);
        self.looked_at(workload, &outcome, id)
    }

    fn looked_at(&mut self, workload: &Workload, outcome: &Outcome, id: FaultId) -> LookedFault {
        let (breach, recovered) = match broken_in_the_run(outcome) {
            Some(breach) => (Some(breach), Marks::NONE),
            None => self.judge_remount(workload, outcome),
        };
        let breach = breach.map(|breach| Breach { what: format!("{id:?}: {}", breach.what), ..breach });
        LookedFault { id, breach, reached: outcome.reached, recovered }
    }

    fn explore_want_of_room(
        &mut self,
        workload: &Workload,
        (image, tree): (Image, Tree),
        every: u64,
    ) -> Result<(), CrashError> {
        let full = self.fill(image, tree)?;
        for blocks in (0..ROOM_MAX).step_by(every.max(1) as usize) {
            let (looked, were_too_few) = self.one_room(workload, &full, blocks)?;
            self.fault_backlog.push(LookedFaults::Group(vec![looked]));
            if self.enter_backlog(workload) || !were_too_few {
                break;
            }
        }
        Ok(())
    }

    /// Runs with `blocks` blocks free; also returns whether they were too few.
    fn one_room(&mut self, workload: &Workload, full: &Full, blocks: u64) -> Result<(LookedFault, bool), CrashError> {
        let (image, tree) = self.leave(full, blocks)?;
        let outcome = self.run_with((&image, &tree), workload, Fault::From(u64::MAX));
        let is_short = |operation: &Operation| matches!(operation.error, Some(FsError::NoSpace { .. }));
        let were_too_few = outcome.history.operations.iter().any(is_short);
        Ok((self.looked_at(workload, &outcome, FaultId::Room(blocks)), were_too_few))
    }

    /// Fills the file system with one file of zeros.
    fn fill(&self, image: Image, mut tree: Tree) -> Result<Full, CrashError> {
        let change = async |fs: &S::Fs| {
            let ino = fs.create(fs.root(), FILLER.as_bytes(), NewNode::FILE).await?;
            let mut size = 0;
            for length in [1024, 256, 64, 16, 4, 1].map(|blocks| blocks * PAGE_SIZE as u64) {
                loop {
                    match fs.allocate(ino, size, length, Allocation::Extend).await {
                        Ok(()) => size += length,
                        Err(FsError::NoSpace { .. }) => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(size)
        };
        let (image, size) = self.changed(&image, change)?;
        let create =
            Step::Create { directory: Tree::ROOT, name: FILLER.into(), node: FILLER_NODE, kind: NewKind::File };
        tree.apply(&create);
        Ok(Full { image, tree, size })
    }

    /// Shortens the filler file by `blocks` blocks.
    fn leave(&self, full: &Full, blocks: u64) -> Result<(Image, Tree), CrashError> {
        let size = full.size.saturating_sub(blocks * PAGE_SIZE as u64);
        let change = async move |fs: &S::Fs| {
            let ino = fs.lookup(fs.root(), FILLER.as_bytes()).await?;
            fs.set_attributes(ino, AttributeChanges { size: Some(size), ..AttributeChanges::default() }).await
        };
        let (image, ()) = self.changed(&full.image, change)?;
        let mut tree = full.tree.clone();
        tree.apply(&Step::Truncate { node: FILLER_NODE, size });
        Ok((image, tree))
    }

    /// Mounts an image, changes it, unmounts it.
    fn changed<T: 'static>(
        &self,
        image: &Image,
        change: impl AsyncFnOnce(&S::Fs) -> FsResult<T> + 'static,
    ) -> Result<(Image, T), CrashError> {
        let medium = Medium::new(image.clone());
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &self.options.geometry)));
        let (subject, mount) = (Rc::clone(&self.subject), self.options.mounting(Purpose::Run));
        let work = async move {
            let fs = subject.mount(port, mount).await?;
            let changed = change(&fs).await;
            fs.unmount().await?;
            changed
        };
        let what = || "filling the file system".to_owned();
        let ended = executor.block_on(work).map_err(|halt| CrashError::Halted { what: what(), halt })?;
        drop(executor);
        let changed = ended.map_err(|error| CrashError::FileSystem { what: what(), error })?;
        let image = medium.borrow().image.clone();
        Ok((image, changed))
    }

    fn run_with(&self, (base, tree): (&Image, &Tree), workload: &Workload, fault: Fault) -> Outcome {
        let (plan, recording) = (FaultPlan::of(fault), Rc::new(RefCell::new(Recording::default())));
        let medium = Medium::new(base.clone());
        let pace = Choices::new(self.options.seed).stream("pace", 0);
        let disk = Box::new(Disk::paced(&medium, &self.options.geometry, pace));
        let faulty = Box::new(Faulty::new(disk, Rc::clone(&plan)));
        let device = self.subject.layer(Box::new(Recorded::new(faulty, Rc::clone(&recording))));
        let history = Rc::new(RefCell::new(History::new(tree.clone())));
        let executor = Executor::ideal();
        let runtime = executor.runtime();
        let port = runtime.attach(device);
        let (subject, mount, workload) =
            (Rc::clone(&self.subject), self.options.mounting(Purpose::Run), workload.clone());
        let (seen, marks) = (Rc::clone(&history), Rc::clone(&recording));
        let work = async move {
            let fs = Rc::new(subject.mount(port, mount).await?);
            let player = Player::new((subject, Rc::clone(&fs)), runtime.clone(), seen.borrow().clone(), marks);
            player.bind_all().await?;
            player.play_all(workload).await;
            let unmounted = player.unmount().await;
            seen.replace(player.history());
            unmounted
        };
        let (ended, at_last) = mark::during(|| executor.block_on(work));
        drop(executor);
        let image = medium.borrow().image.clone();
        let history = history.borrow().clone();
        let (requests, failed) = (plan.borrow().requests, plan.borrow().failed);
        let Recording { events, marks } = std::mem::take(&mut *recording.borrow_mut());
        let reached = at_last.and(marks.into_iter().collect());
        let (error, is_stuck) = match ended {
            Ok(outcome) => (outcome.err(), false),
            Err(_) => (None, true),
        };
        Outcome { history, image, events, reached, requests, failed, error, is_stuck }
    }

    /// Judges what a remount shows; also returns the marks that it reached.
    fn judge_remount(&mut self, workload: &Workload, outcome: &Outcome) -> (Option<Breach>, Marks) {
        let history = &outcome.history;
        let judge = Judge::new(history, self.subject.promises(), self.options);
        let log = crate::states::log_pages(&outcome.events, self.subject.log_causes());
        // This content is not counted as a state, so its hash only has to be unique to this run.
        self.faults_tried += 1;
        let sum = Sum::of_base(base_of(workload) ^ self.faults_tried.rotate_left(40));
        let recovered = self.recoverer.recover(outcome.image.clone(), sum, &log);
        (judge.judge(&recovered.found, history.happenings.len()), recovered.reached)
    }
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
