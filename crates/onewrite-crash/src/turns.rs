//! Turns: several explorers, each with a workload of its own, and one ledger that goes from hand to hand.
//!
//! Its one idea: to recover and judge a state needs nothing but the state, so each explorer does it at any time; to
//! count it, and to say what follows from the count, needs all that came before, so that happens when the explorer's
//! turn has come, in the order of the workloads:
//!
//! ```text
//!   workload 0:  look, enter, look, enter … ─► ledger ─┐
//!   workload 1:  look, look, look … (backlog) ─────────┴► enter what was looked at, look, enter … ─► ledger ─┐
//!   workload 2:       look, look … (backlog) ────────────────────────────────────────────────────────────────┴► …
//! ```
//!
//! # Invariants
//! - The ledger is with one explorer at a time, first with that of workload 0, then 1, and so on.
//! - So the report is the same for any number of explorers.
//! - Threads are here and nowhere else in this crate. No explorer shares anything with another but the ledger.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::action::Workload;
use crate::crash::{CrashPlan, Stage, one};
use crate::error::CrashError;
use crate::explore::Explorer;
use crate::ledger::Ledger;
use crate::report::Report;
use crate::subject::Subject;

/// Whose turn it is, and the ledger while it lies on the table.
struct Table {
    turn: u64,
    ledger: Option<Box<Ledger>>,
}

/// See the module's head.
pub(crate) struct Turns {
    table: Mutex<Table>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl Turns {
    fn new(ledger: Ledger) -> Turns {
        let table = Table { turn: 0, ledger: Some(Box::new(ledger)) };
        Turns { table: Mutex::new(table), changed: Condvar::new(), is_over: AtomicBool::new(false) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has to count any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for the turn of workload number `number`; `None` once the exploration is over.
    pub(crate) fn take(&self, number: u64) -> Option<Box<Ledger>> {
        let mut table = self.table();
        while table.turn != number && !self.is_over() {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        if self.is_over() { None } else { table.ledger.take() }
    }

    /// The same without waiting.
    pub(crate) fn try_take(&self, number: u64) -> Option<Box<Ledger>> {
        let mut table = self.table();
        if table.turn == number && !self.is_over() { table.ledger.take() } else { None }
    }

    /// Gives the ledger to the next one, or says that nobody needs it any more.
    fn give(&self, ledger: Box<Ledger>, is_over: bool) {
        let mut table = self.table();
        table.ledger = Some(ledger);
        table.turn += 1;
        self.is_over.fetch_or(is_over, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn into_report(self) -> Report {
        let table = self.table.into_inner().unwrap_or_else(PoisonError::into_inner);
        table.ledger.map(|ledger| ledger.report).unwrap_or_default()
    }
}

/// What an explorer tells the thread that waits for all of them.
enum News {
    /// It has nothing to do.
    Idle,
    /// The holder of the ledger is at this.
    Stage(Stage),
    /// A workload could not be run.
    Failed(CrashError),
    /// We are wrong somewhere.
    Panicked(Box<dyn Any + Send>),
}

/// Explores `workloads` with as many explorers as `plan` has jobs; the report is that of one.
///
/// # Errors
/// If a workload cannot be run at all.
pub(crate) fn explore_side_by_side<S: Subject + Clone + Send>(
    subject: &S,
    workloads: impl IntoIterator<Item = Workload>,
    plan: CrashPlan<'_>,
    progress: &dyn Fn(Stage),
) -> Result<Report, CrashError> {
    let turns = Turns::new(Ledger::new(plan.options));
    let (tell, news) = channel();
    let (give, work) = channel();
    let work = Mutex::new(work);
    #[expect(clippy::disallowed_methods, reason = "explorers share nothing but the ledger, which has one order")]
    let outcome = std::thread::scope(|scope| {
        for _ in 0..plan.jobs {
            let (subject, tell, turns, work) = (subject.clone(), tell.clone(), &turns, &work);
            scope.spawn(move || work_on(subject, plan, turns, work, &tell));
        }
        drop(tell);
        feed(workloads, give, &news, progress)
    });
    match outcome {
        Ok(()) => Ok(turns.into_report()),
        Err(News::Failed(error)) => Err(error),
        Err(News::Panicked(panic)) => resume_unwind(panic),
        Err(News::Idle | News::Stage(_)) => unreachable!("no reason to end"),
    }
}

/// Hands workloads out in their order until there are none, or nobody asks.
fn feed(
    workloads: impl IntoIterator<Item = Workload>,
    give: Sender<(u64, Workload)>,
    news: &Receiver<News>,
    progress: &dyn Fn(Stage),
) -> Result<(), News> {
    let (mut workloads, mut give) = ((0..).zip(workloads), Some(give));
    let mut outcome = Ok(());
    for told in news {
        match told {
            News::Stage(stage) => progress(stage),
            News::Idle => match workloads.next() {
                // Nobody takes it once all explorers have ended.
                Some(workload) => drop(give.as_ref().map(|give| give.send(workload))),
                None => give = None,
            },
            end => outcome = Err(end),
        }
    }
    outcome
}

/// One explorer: asks for workloads, explores each, and hands the ledger on.
fn work_on<S: Subject>(
    subject: S,
    plan: CrashPlan<'_>,
    turns: &Turns,
    work: &Mutex<Receiver<(u64, Workload)>>,
    tell: &Sender<News>,
) {
    let watch = |stage| drop(tell.send(News::Stage(stage)));
    let mut explorer = Explorer::in_line(subject, plan.options, turns);
    explorer.watch = Some(&watch);
    while !turns.is_over() {
        if tell.send(News::Idle).is_err() {
            return;
        }
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, workload)) = next else { return };
        explorer.number = number;
        let end = explored(&mut explorer, &workload, plan);
        if !explorer.take_turn() {
            return;
        }
        explorer.tell();
        let mut ledger = explorer.ledger.take().expect("just taken");
        let is_enough = ledger.end_workload(plan.faults);
        let is_over = end.is_some() || is_enough;
        if let Some(end) = end {
            drop(tell.send(end));
        }
        turns.give(ledger, is_over);
    }
}

/// Explores one workload; gives why everything has to end, if so. What goes wrong before the explorer's turn has come
/// goes wrong again then, unless what comes before it ends the exploration.
fn explored<S: Subject>(explorer: &mut Explorer<'_, S>, workload: &Workload, plan: CrashPlan<'_>) -> Option<News> {
    loop {
        let is_early = explorer.ledger.is_none();
        let outcome = catch_unwind(AssertUnwindSafe(|| one(explorer, workload, plan)));
        let end = match outcome {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => News::Failed(error),
            Err(panic) => News::Panicked(panic),
        };
        if !is_early || explorer.ledger.is_some() || !explorer.start_again() {
            return Some(end);
        }
    }
}
