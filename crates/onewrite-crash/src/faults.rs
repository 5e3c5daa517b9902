//! Faults without a cut: at each request of a workload in turn the disk fails, once or from then on.
//!
//! # What is held
//! 1. The error reaches somebody: an operation, the mount or the unmount.
//! 2. Once an operation is told that the file system is read-only, no later one changes anything.
//! 3. What was acknowledged is there after a remount of what the disk then holds, and its structure is whole.
//! 4. Nothing waits for ever, and nothing panics.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Fault, FaultPlan, Faulty, Recorded, RecordedEvent, Recording};
use onewrite_block::{Choices, Executor, Image};
use onewrite_fs::{FileSystem, FsError};

use crate::action::Workload;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::explore::{Explorer, base_of};
use crate::history::{History, Operation};
use crate::judge::{Breach, Judge, Promise};
use crate::model::Tree;
use crate::player::Player;
use crate::run::prepare;
use crate::state_id::StateId;
use crate::states::Sum;
use crate::subject::Subject;

/// What came of one run with a fault.
struct Outcome {
    history: History,
    image: Image,
    events: Vec<RecordedEvent>,
    /// Requests that came by, and those that failed.
    requests: u64,
    failed: u64,
    /// Why mount or unmount failed.
    error: Option<FsError>,
    is_stuck: bool,
}

impl<S: Subject> Explorer<'_, S> {
    /// Lets every `every`-th request of the run fail in turn, alone and with all that follow. Each run is counted as a
    /// state that was judged.
    ///
    /// # Errors
    /// If the workload cannot be run without a fault.
    pub fn explore_faults(&mut self, workload: &Workload, every: u64) -> Result<(), CrashError> {
        let (base, tree) = prepare(&self.subject, workload, self.options)?;
        let requests = self.run_with(&base, &tree, workload, Fault::From(u64::MAX)).requests;
        self.report.workloads += 1;
        for request in (0..requests).step_by(every.max(1) as usize) {
            for fault in [Fault::Request(request), Fault::From(request)] {
                let outcome = self.run_with(&base, &tree, workload, fault);
                self.report.judged += 1;
                if let Some(breach) = self.judge_fault(workload, &outcome) {
                    let breach = Breach { what: format!("{fault:?}: {}", breach.what), ..breach };
                    self.note(
                        workload,
                        &StateId::Fault { request, is_lasting: fault != Fault::Request(request) },
                        breach,
                    );
                }
                if self.is_done() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn run_with(&self, base: &Image, tree: &Tree, workload: &Workload, fault: Fault) -> Outcome {
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
        let (subject, mount, tasks) = (Rc::clone(&self.subject), self.options.mount(), workload.tasks.clone());
        let (seen, marks) = (Rc::clone(&history), Rc::clone(&recording));
        let work = async move {
            let fs = Rc::new(subject.mount(port, mount).await?);
            let player = Player::new((subject, Rc::clone(&fs)), runtime.clone(), seen.borrow().clone(), marks);
            player.bind_all().await?;
            let start = |actions| {
                let player = Rc::clone(&player);
                runtime.start(async move { player.play(actions).await })
            };
            let started: Vec<_> = tasks.into_iter().map(start).collect();
            for task in started {
                task.await;
            }
            seen.replace(player.history());
            fs.unmount().await
        };
        let ended = executor.block_on(work);
        drop(executor);
        let image = medium.borrow().image.clone();
        let history = history.borrow().clone();
        let (requests, failed) = (plan.borrow().requests, plan.borrow().failed);
        let events = std::mem::take(&mut recording.borrow_mut().events);
        let (error, is_stuck) = match ended {
            Ok(outcome) => (outcome.err(), false),
            Err(_) => (None, true),
        };
        Outcome { history, image, events, requests, failed, error, is_stuck }
    }

    fn judge_fault(&mut self, workload: &Workload, outcome: &Outcome) -> Option<Breach> {
        let breach = |what: &str| Some(Breach { promise: Promise::Faults, what: what.into(), difference: Vec::new() });
        if outcome.is_stuck {
            return breach("everybody waits for ever");
        }
        let history = &outcome.history;
        let told = outcome.error.is_some() || history.operations.iter().any(|operation| operation.is_fault());
        if outcome.failed > 0 && !told {
            return breach("a request failed and nobody was told");
        }
        if let Some(late) = changed_after_read_only(history) {
            return breach(&format!("`{late}` succeeded after the file system had turned read-only"));
        }
        let judge = Judge::new(history, self.options);
        let log = crate::states::log_pages(&outcome.events);
        // The content is not counted as a state: a hash that stands for this run alone will do.
        let sum = Sum::of_base(base_of(workload) ^ self.report.judged.rotate_left(40));
        let found = self.recoverer.recover(outcome.image.clone(), sum, &log).found;
        judge.judge(&found, history.happenings.len())
    }
}

/// The first operation with steps that began after another was told "read-only", and succeeded.
fn changed_after_read_only(history: &History) -> Option<String> {
    let refused = history.operations.iter().filter(|operation| operation.is_refused());
    let told = refused.filter_map(|operation| operation.failed).min()?;
    let is_late =
        |operation: &&Operation| operation.begin >= told && operation.error.is_none() && !operation.steps.is_empty();
    history.operations.iter().find(is_late).map(|operation| operation.action.to_string())
}
