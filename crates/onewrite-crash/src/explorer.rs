//! Explorer: the state of one explorer, and the ledger while this explorer has it.
//!
//! Its methods are in the modules named after them: `explore` walks along a run, `look` recovers and judges, `enter`
//! counts, `cut` cuts the power inside a device, `faults` makes requests fail without a cut, `one` takes a workload
//! through all of that, `in_line` waits for its turn.

use std::rc::Rc;

use onewrite_block::mark::{Listener, Marks};
use rustc_hash::FxHashMap;

use crate::aged::Aged;
use crate::ahead::{Ahead, Line, Looked, LookedFaults};
use crate::ledger::Ledger;
use crate::options::ExploreOptions;
use crate::plan::Stage;
use crate::recovery::{Found, Recoverer};
use crate::report::Report;
use crate::state_id::Cut;
use crate::subject::{Replayed, Subject};

/// Judgements between two reports of progress.
const WATCH_EVERY: u64 = 16;

/// Explores workload after workload and counts.
pub struct Explorer<'a, S: Subject> {
    pub(crate) subject: Rc<S>,
    pub(crate) options: &'a ExploreOptions,
    pub(crate) recoverer: Recoverer<'a, S>,
    /// What recovery found in each state, by its hash, what it replayed, and which marks it reached.
    pub(crate) verdicts: FxHashMap<u64, (Rc<Found>, Option<Replayed>, Marks)>,
    /// `None` while another explorer has the ledger.
    pub(crate) ledger: Option<Box<Ledger>>,
    /// Where the ledger comes from, if several explorers share it.
    pub(crate) line: Option<Line<'a>>,
    /// Number of the present workload; decides its turn.
    pub(crate) number: u64,
    /// States of the present workload that were judged without the ledger.
    pub(crate) backlog: Vec<Looked>,
    /// Faults that were judged without the ledger.
    pub(crate) fault_backlog: Vec<LookedFaults>,
    /// The outcome of the present workload, once all of it was judged without the ledger.
    pub(crate) ahead: Ahead,
    /// Number of faults tried.
    pub(crate) faults_tried: u64,
    /// Most states in all, if a share of them is reserved for cuts inside the device.
    pub(crate) shared_with_device: Option<u64>,
    /// The only state to judge, if one is named.
    pub(crate) only: Option<Vec<Cut>>,
    /// Whether the named state was judged.
    pub(crate) has_met_only: bool,
    /// The emulated device that workloads begin on.
    pub(crate) aged: Option<Aged>,
    /// Receives progress now and then.
    pub(crate) watch: Option<&'a dyn Fn(Stage)>,
    /// Makes the marks heard that this thread reaches.
    _listener: Listener,
}

impl<'a, S: Subject> Explorer<'a, S> {
    /// An explorer that has seen nothing, with a ledger of its own.
    pub fn new(subject: S, options: &'a ExploreOptions) -> Explorer<'a, S> {
        Explorer::with(subject, options, Some(Box::new(Ledger::new(options))), None)
    }

    /// One of several explorers that share a ledger.
    pub(crate) fn in_line(subject: S, line: Line<'a>) -> Explorer<'a, S> {
        Explorer::with(subject, line.plan.options, None, Some(line))
    }

    fn with(
        subject: S,
        options: &'a ExploreOptions,
        ledger: Option<Box<Ledger>>,
        line: Option<Line<'a>>,
    ) -> Explorer<'a, S> {
        let subject = Rc::new(subject);
        Explorer {
            recoverer: Recoverer::new(&subject, options),
            subject,
            options,
            verdicts: FxHashMap::default(),
            ledger,
            line,
            number: 0,
            backlog: Vec::new(),
            fault_backlog: Vec::new(),
            ahead: Ahead::Nothing,
            faults_tried: 0,
            shared_with_device: None,
            only: None,
            has_met_only: false,
            aged: None,
            watch: None,
            _listener: Listener::new(),
        }
    }

    /// The findings so far.
    pub fn report(&self) -> &Report {
        &self.ledger.as_ref().expect("the ledger is here").report
    }

    /// The final findings.
    pub fn into_report(self) -> Report {
        self.ledger.expect("the ledger is here").report
    }

    /// The ledger.
    ///
    /// # Panics
    /// If another explorer has it.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        self.ledger.as_mut().expect("the ledger is here")
    }

    /// Counts a judged state or fault.
    pub(crate) fn count_judgement(&mut self) {
        self.ledger().report.judged += 1;
        if self.report().judged.is_multiple_of(WATCH_EVERY) {
            self.tell();
        }
    }

    /// Reports progress.
    pub(crate) fn tell(&self) {
        let Report { states, judged, .. } = *self.report();
        if let Some(line) = &self.line {
            line.turns.note_states(states);
        }
        self.tell_stage(Stage::Judging { states, judged });
    }

    /// Reports the present stage, if this explorer has the ledger.
    pub(crate) fn tell_stage(&self, stage: Stage) {
        if self.ledger.is_some()
            && let Some(watch) = self.watch
        {
            watch(stage);
        }
    }

    /// Whether the wanted number of states or violations has been reached.
    pub fn is_done(&self) -> bool {
        match (&self.ledger, &self.line) {
            (Some(ledger), _) => ledger.is_done(),
            (None, line) => line.as_ref().is_none_or(|line| line.turns.is_over()),
        }
    }
}
