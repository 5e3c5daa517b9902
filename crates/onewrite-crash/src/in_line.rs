//! In line: several explorers with workloads of their own share one ledger and pass it on.
//!
//! Its one idea: recovering and judging a state needs only the state, so an explorer does it at any time. Counting it
//! needs all earlier states, so that happens at the workload's turn, in the order of the workloads. An explorer does
//! not wait for a turn: it goes on with further workloads. It enters its waiting workloads as soon as it can have the
//! ledger for the first of them.
//!
//! ```text
//!   explorer 0:  workload 0: look, enter, look, enter … ─► ledger ─┐    workload 2: look, look …      ┌► enter 2 …
//!   explorer 1:  workload 1: look, look …  workload 3: look, look ─┴► enter 1 ─► ledger ─────────────┘   3: look …
//! ```
//!
//! # Invariants
//! - The report is the same for any number of explorers.
//! - No other module of this crate uses threads. Explorers share nothing but the ledger.
//! - An explorer waits only when it is as far ahead as allowed, and then for its own first waiting workload. The
//!   explorer of the workload whose turn it is does not wait, so one always makes progress.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use crate::action::Workload;
use crate::ahead::{Ahead, End, Line, News, Waiting};
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::ledger::Ledger;
use crate::plan::{CrashPlan, Stage};
use crate::report::Report;
use crate::subject::Subject;
use crate::turns::Turns;

/// Explores `workloads` with `plan.jobs` explorers; the report is the same as that of one explorer.
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
        Err(End::Failed(error)) => Err(error),
        Err(End::Panicked(panic)) => resume_unwind(panic),
    }
}

/// Hands out workloads in order, until none is left or no explorer asks.
fn feed(
    workloads: impl IntoIterator<Item = Workload>,
    give: Sender<(u64, Workload)>,
    news: &Receiver<News>,
    progress: &dyn Fn(Stage),
) -> Result<(), End> {
    let (mut workloads, mut give) = ((0..).zip(workloads), Some(give));
    let mut outcome = Ok(());
    for told in news {
        match told {
            News::Stage(stage) => progress(stage),
            News::Idle => match workloads.next() {
                // The send fails once all explorers have ended.
                Some(workload) => drop(give.as_ref().map(|give| give.send(workload))),
                None => give = None,
            },
            News::End(end) => outcome = Err(end),
        }
    }
    outcome
}

/// Runs one explorer: it asks for workloads, explores each or judges it ahead, and enters what it judged.
fn work_on<S: Subject>(
    subject: S,
    plan: CrashPlan<'_>,
    turns: &Turns,
    work: &Mutex<Receiver<(u64, Workload)>>,
    tell: &Sender<News>,
) {
    let tell = |news| drop(tell.send(news));
    let watch = |stage| tell(News::Stage(stage));
    let mut explorer = Explorer::in_line(subject, Line { turns, plan, tell: &tell, waiting: VecDeque::new() });
    explorer.watch = Some(&watch);
    while !turns.is_over() {
        tell(News::Idle);
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, workload)) = next else { break };
        explorer.begin_workload(number, workload, plan);
        explorer.enter_waiting(Explorer::is_far_ahead);
    }
    explorer.enter_waiting(|_| true);
}

impl<S: Subject> Explorer<'_, S> {
    /// Explores a workload, or judges it ahead of its turn. An error before the turn is dropped; it happens again at
    /// the turn, unless the exploration has ended by then.
    fn begin_workload(&mut self, number: u64, workload: Workload, plan: CrashPlan<'_>) {
        self.number = number;
        let end = self.attempt(|explorer| explorer.one_workload(&workload, plan)).err();
        if self.ledger.is_some() {
            return self.end_workload(end, plan);
        }
        let ahead = std::mem::take(&mut self.ahead);
        let ahead = if end.is_none() { ahead } else { self.forget() };
        let line = self.line.as_mut().expect("an explorer in line");
        line.waiting.push_back(Waiting { number, workload, ahead });
    }

    /// Enters waiting workloads whose turn has come. Waits for the next turn while `may_wait` returns true.
    pub(crate) fn enter_waiting(&mut self, may_wait: impl Fn(&Self) -> bool) {
        while let Some(number) = self.first_waiting() {
            let Some(ledger) = self.fetch(number, may_wait(self)) else { return };
            let line = self.line.as_mut().expect("somebody waits in it");
            let (plan, waiting) = (line.plan, line.waiting.pop_front().expect("just seen"));
            // Saves the present workload's own backlogs.
            let backlogs = (std::mem::take(&mut self.backlog), std::mem::take(&mut self.fault_backlog));
            let extended = self.recoverer.extended;
            let present = std::mem::replace(&mut self.number, number);
            self.ledger = Some(ledger);
            let end = self.attempt(|explorer| explorer.enter_one(&waiting.workload, plan, waiting.ahead)).err();
            self.end_workload(end, plan);
            (self.backlog, self.fault_backlog) = backlogs;
            self.recoverer.extended = extended;
            self.number = present;
        }
    }

    /// Whether the turn of the present workload has come. Waits for it only if too many states were judged ahead.
    /// Enters waiting workloads first.
    pub(crate) fn has_turn_come(&mut self) -> bool {
        if self.ledger.is_some() || self.line.is_none() {
            return false;
        }
        self.enter_waiting(Self::is_far_ahead);
        if self.first_waiting().is_none() {
            self.ledger = self.fetch(self.number, self.is_far_ahead());
        }
        self.ledger.is_some()
    }

    fn is_far_ahead(&self) -> bool {
        let present = self.backlog.len().max(self.fault_backlog.len()) as u64;
        self.line.as_ref().is_some_and(|line| line.is_far_ahead(present))
    }

    fn first_waiting(&self) -> Option<u64> {
        self.line.as_ref()?.waiting.front().map(|waiting| waiting.number)
    }

    /// Takes the ledger for the workload `number`.
    fn fetch(&self, number: u64, may_wait: bool) -> Option<Box<Ledger>> {
        let turns = self.line.as_ref()?.turns;
        let mut ledger = if may_wait { turns.take(number) } else { turns.try_take(number) }?;
        ledger.begin_workload();
        Some(ledger)
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Result<(), CrashError>) -> Result<(), End> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(outcome) => outcome.map_err(End::Failed),
            Err(panic) => Err(End::Panicked(panic)),
        }
    }

    /// Drops the states judged ahead and the remembered verdicts, after an error.
    fn forget(&mut self) -> Ahead {
        self.backlog.clear();
        self.fault_backlog.clear();
        self.verdicts.clear();
        Ahead::Nothing
    }

    /// Ends the workload whose turn it was and hands the ledger on.
    fn end_workload(&mut self, end: Option<End>, plan: CrashPlan<'_>) {
        self.tell();
        let mut ledger = self.ledger.take().expect("it was this workload's turn");
        let line = self.line.as_ref().expect("an explorer in line");
        let is_over = ledger.end_workload(plan.faults) || end.is_some();
        if let Some(end) = end {
            (line.tell)(News::End(end));
        }
        line.turns.give(ledger, is_over);
    }
}
