//! Explore: every state of a run, recovered and judged.
//!
//! ```text
//!   workload ─► run, recorded ─► for each event: states ─► recovered ─► judged at that place ─► entered in the ledger
//!                                        │                     └─► cuts inside the recovery: states again
//!                                        └─ after each sync that ends: the same states again, more is promised now
//! ```
//!
//! # Invariants
//! - The same workload, options and seed give the same report.
//! - An explorer without the ledger looks at states and keeps what it saw; it enters them, in their order, when it has
//!   the ledger. What cuts inside a recovery leave is looked at only then, for which recoveries are cut hangs on the
//!   count.

use std::rc::Rc;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Choices, Image, Lpn};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::action::Workload;
use crate::crash::Stage;
use crate::cut::Aged;
use crate::error::CrashError;
use crate::faults::LookedFaults;
use crate::hash::bytes_hash;
use crate::history::{Happening, History, Syncs};
use crate::judge::{Breach, Judge, Promise};
use crate::ledger::Ledger;
use crate::nested::record_recovery;
use crate::options::ExploreOptions;
use crate::recovery::{Extended, Found, Recoverer};
use crate::report::{Report, Violation};
use crate::run::{Run, run};
use crate::state_id::{Cut, DeviceCut, StateId};
use crate::states::{Choice, Sum, Walker, log_pages};
use crate::subject::{Replayed, Subject};
use crate::turns::Turns;

/// States whose verdict is remembered; then memory starts anew.
const VERDICTS_MAX: usize = 200_000;
/// States that are looked at before they can be entered; then the explorer waits. Some hundred bytes each.
const BACKLOG_MAX: u64 = 16_384;

/// Explores workload after workload and counts.
pub struct Explorer<'a, S: Subject> {
    pub(crate) subject: Rc<S>,
    pub(crate) options: &'a ExploreOptions,
    pub(crate) recoverer: Recoverer<'a, S>,
    /// What states hold, and what was replayed to see it.
    verdicts: FxHashMap<u64, (Rc<Found>, Option<Replayed>)>,
    /// `None` while another explorer has it.
    pub(crate) ledger: Option<Box<Ledger>>,
    /// Where the ledger comes from, if several explorers share it.
    turns: Option<&'a Turns>,
    /// Number of the present workload: when its turn is.
    pub(crate) number: u64,
    /// States that were looked at without the ledger.
    backlog: Vec<Looked>,
    /// Faults that were looked at without it.
    pub(crate) fault_backlog: Vec<LookedFaults>,
    /// Faults that were tried.
    pub(crate) faults_tried: u64,
    /// Of so many states in all, a share is left for cuts inside the device.
    pub(crate) shared_with_device: Option<u64>,
    /// Only this state is judged, if one is named.
    pub(crate) only: Option<Vec<Cut>>,
    /// It was judged.
    pub(crate) has_met_only: bool,
    /// The emulated device that workloads begin on.
    pub(crate) aged: Option<Aged>,
    /// Told now and then how far the exploration is.
    pub(crate) watch: Option<&'a dyn Fn(Stage)>,
}

/// Judgements between two reports of progress.
const WATCH_EVERY: u64 = 16;

/// One judged state in so many is cut inside the device, where there is one.
pub(crate) const DEVICE_SHARE: u64 = 10;

/// A state that was recovered and judged; whether it is new is for the ledger to say.
struct Looked {
    place: Place,
    choice: Choice,
    key: u64,
    /// What replaying the log did.
    replayed: Option<Replayed>,
    is_small: bool,
    tears_share: bool,
    tears_commit: bool,
    has_wrapped: bool,
    breach: Option<Breach>,
}

/// What a walk along one recording needs to know.
pub(crate) struct Walk<'w> {
    pub(crate) judge: &'w Judge<'w>,
    pub(crate) log: &'w FxHashSet<Lpn>,
    /// Tells images of different setups apart.
    pub(crate) base: u64,
    pub(crate) workload: &'w Workload,
    /// The cut inside a device that led here, before all others.
    pub(crate) inside: Option<DeviceCut>,
    /// The cuts at the door of a disk that led here: none in the run itself.
    pub(crate) above: Vec<Cut>,
    /// The run, if the walk is along it.
    pub(crate) run: Option<&'w Run>,
}

impl Walk<'_> {
    /// How many cuts led here.
    fn depth(&self) -> usize {
        self.above.len() + usize::from(self.inside.is_some())
    }
}

/// A place of a walk.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) event: usize,
    pub(crate) happened: usize,
    pub(crate) has_forced: bool,
}

impl Place {
    /// Goes past event number `event`; gives whether a sync ended with it.
    pub(crate) fn pass(&mut self, event: usize, entry: &RecordedEvent, history: &History) -> bool {
        self.event = event;
        let RecordedEvent::Mark(mark) = entry else { return false };
        self.happened = *mark as usize + 1;
        self.has_forced = history.has_forced_checkpoint(self.happened);
        match history.happenings[*mark as usize] {
            Happening::End(operation) => history.operations[operation].syncs != Syncs::Nothing,
            Happening::Begin(_) => false,
        }
    }
}

/// Explores `workload` on `subject`.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn explore<S: Subject>(subject: S, workload: &Workload, options: &ExploreOptions) -> Result<Report, CrashError> {
    let mut explorer = Explorer::new(subject, options);
    explorer.explore(workload)?;
    Ok(explorer.into_report())
}

/// A state was named that a run does not have.
pub(crate) fn no_such_state(state: &str) -> CrashError {
    CrashError::State { text: state.into(), reason: "there is no such state in this run".into() }
}

/// Tells images of different setups apart.
pub(crate) fn base_of(workload: &Workload) -> u64 {
    let setup: Vec<String> = workload.setup.iter().map(ToString::to_string).collect();
    bytes_hash(setup.join(";").as_bytes())
}

impl<'a, S: Subject> Explorer<'a, S> {
    /// An explorer that has seen nothing, with a ledger of its own.
    pub fn new(subject: S, options: &'a ExploreOptions) -> Explorer<'a, S> {
        Explorer::with(subject, options, Some(Box::new(Ledger::new(options))), None)
    }

    /// One of several explorers that share a ledger.
    pub(crate) fn in_line(subject: S, options: &'a ExploreOptions, turns: &'a Turns) -> Explorer<'a, S> {
        Explorer::with(subject, options, None, Some(turns))
    }

    fn with(
        subject: S,
        options: &'a ExploreOptions,
        ledger: Option<Box<Ledger>>,
        turns: Option<&'a Turns>,
    ) -> Explorer<'a, S> {
        let subject = Rc::new(subject);
        Explorer {
            recoverer: Recoverer::new(&subject, options),
            subject,
            options,
            verdicts: FxHashMap::default(),
            ledger,
            turns,
            number: 0,
            backlog: Vec::new(),
            fault_backlog: Vec::new(),
            faults_tried: 0,
            shared_with_device: None,
            only: None,
            has_met_only: false,
            aged: None,
            watch: None,
        }
    }

    /// What was found so far.
    pub fn report(&self) -> &Report {
        &self.ledger.as_ref().expect("the ledger is here").report
    }

    /// What was found.
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

    /// Waits for the ledger; gives whether there is anything left to enter.
    pub(crate) fn take_turn(&mut self) -> bool {
        if let (None, Some(turns)) = (&self.ledger, self.turns) {
            self.ledger = turns.take(self.number);
            self.ledger.iter_mut().for_each(|ledger| ledger.begin_workload());
        }
        self.ledger.is_some()
    }

    /// Forgets what was looked at, waits for the ledger and gives whether there is anything left to enter.
    pub(crate) fn start_again(&mut self) -> bool {
        self.backlog.clear();
        self.fault_backlog.clear();
        self.verdicts.clear();
        self.take_turn()
    }

    /// Whether the ledger has to be fetched now: it lies ready, or too much waits for it.
    fn is_due(&mut self) -> bool {
        let Some(turns) = self.turns.filter(|_| self.ledger.is_none()) else { return false };
        if self.backlog.len() as u64 >= BACKLOG_MAX.min(self.options.states_max) {
            return true;
        }
        self.ledger = turns.try_take(self.number);
        self.ledger.iter_mut().for_each(|ledger| ledger.begin_workload());
        self.ledger.is_some()
    }

    /// A state, or a fault, is judged.
    pub(crate) fn count_judgement(&mut self) {
        self.ledger().report.judged += 1;
        if self.report().judged.is_multiple_of(WATCH_EVERY) {
            self.tell();
        }
    }

    /// Tells how far the exploration is.
    pub(crate) fn tell(&self) {
        if let Some(watch) = self.watch {
            let report = self.report();
            watch(Stage::Judging { states: report.states, judged: report.judged });
        }
    }

    /// Whether as many states or violations were found as were asked for.
    pub fn is_done(&self) -> bool {
        match (&self.ledger, self.turns) {
            (Some(ledger), _) => ledger.is_done(),
            (None, turns) => turns.is_none_or(Turns::is_over),
        }
    }

    /// Explores one workload; does nothing if that is done already ([`Explorer::is_done`]).
    ///
    /// # Errors
    /// If it cannot be run at all.
    pub fn explore(&mut self, workload: &Workload) -> Result<(), CrashError> {
        let run = run(&self.subject, workload, self.options)?;
        self.explore_run(workload, &run)
    }

    /// Judges one state of one workload.
    ///
    /// # Errors
    /// If there is no such state.
    pub fn replay(&mut self, workload: &Workload, state: &str) -> Result<(), CrashError> {
        let StateId::Door(cuts) = state.parse()? else {
            let reason = "only a cut at the door of a disk is replayed so".into();
            return Err(CrashError::State { text: state.into(), reason });
        };
        self.only = Some(cuts);
        let outcome = self.explore(workload);
        self.only = None;
        if self.has_met_only { outcome } else { outcome.and(Err(no_such_state(state))) }
    }

    pub(crate) fn explore_run(&mut self, workload: &Workload, run: &Run) -> Result<(), CrashError> {
        self.walk_run(workload, run, &Judge::new(&run.history, self.subject.promises(), self.options))
    }

    /// Explores a run of which only the requests are known.
    pub(crate) fn explore_without_model(&mut self, run: &Run) -> Result<(), CrashError> {
        let judge = Judge::without_model(&run.history, self.subject.promises(), self.options);
        self.walk_run(&Workload::default(), run, &judge)
    }

    fn walk_run(&mut self, workload: &Workload, run: &Run, judge: &Judge<'_>) -> Result<(), CrashError> {
        if self.ledger.is_some() {
            self.open_door();
        }
        self.recoverer.extended = Extended::of(workload);
        let log = log_pages(&run.events);
        let base = base_of(workload);
        let walk = Walk { judge, log: &log, base, workload, inside: None, above: Vec::new(), run: Some(run) };
        let mut walker = Walker::new(run.base.clone(), Sum::of_base(base), &log, &self.options.geometry);
        let mut place = Place::default();
        for (event, entry) in run.events.iter().enumerate() {
            if self.is_done() {
                break;
            }
            let joined = walker.pass(entry);
            let again = place.pass(event, entry, &run.history);
            if place.happened < run.history.warm_up {
                continue;
            }
            if joined > 0 || again || event == 0 {
                self.states_at(&walk, &walker, place, if again { 0 } else { joined })?;
            }
        }
        if self.ledger.is_none() && self.take_turn() { self.catch_up(&walk) } else { Ok(()) }
    }

    /// The states of a workload's run begin to be entered.
    fn open_door(&mut self) {
        let share = self.shared_with_device;
        let ledger = self.ledger();
        if let Some(most) = share {
            let inside = ledger.report.states_by_kind.inside_device;
            ledger.states_max = most - (most / DEVICE_SHARE).saturating_sub(inside);
        }
        ledger.report.workloads += u64::from(!ledger.is_done());
    }

    /// Enters what was looked at before the ledger was here.
    fn catch_up(&mut self, walk: &Walk<'_>) -> Result<(), CrashError> {
        self.open_door();
        let run = walk.run.expect("without the ledger nothing but runs is walked");
        let mut walker = Walker::new(run.base.clone(), Sum::of_base(walk.base), walk.log, &self.options.geometry);
        let mut passed = 0;
        for state in std::mem::take(&mut self.backlog) {
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

    /// The states of one place; those only that hold one of the last `joined` units, unless that is 0.
    fn states_at(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: Place,
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
        let is_small = walker.pending.len() <= self.options.exhaustive_writes_max;
        for choice in self.choices(walk, walker, place, joined) {
            self.one(walk, walker, place, (choice, is_small))?;
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    fn one_named(&mut self, walk: &Walk<'_>, walker: &Walker<'_>, place: Place, cut: Cut) -> Result<(), CrashError> {
        if cut.choice.kept.iter().any(|unit| *unit >= walker.pending.len()) {
            return Ok(());
        }
        self.one(walk, walker, place, (cut.choice, true))
    }

    fn choices(&self, walk: &Walk<'_>, walker: &Walker<'_>, place: Place, joined: usize) -> Vec<Choice> {
        let count = walker.pending.len();
        let depth = walk.depth() as u64;
        let mut chance = Choices::new(self.options.seed ^ walk.base).stream("states", place.event as u64 ^ depth << 48);
        let (limit, samples) = match depth {
            0 => (self.options.exhaustive_writes_max, self.options.samples),
            _ => (2, 3),
        };
        let mut choices = match count <= limit {
            true => crate::sampling::subsets(count, joined),
            false => crate::sampling::samples(count, joined, samples, &mut chance),
        };
        if self.options.tears() && depth == 0 {
            choices.extend(crate::sampling::torn(&choices, &mut chance));
        }
        choices
    }

    fn one(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: Place,
        (choice, is_small): (Choice, bool),
    ) -> Result<(), CrashError> {
        let state = self.look(walk, walker, place, (choice, is_small));
        if self.is_due() && self.take_turn() {
            self.catch_up(walk)?;
            // What came before may have been enough.
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

    /// Recovers a state and judges it.
    fn look(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: Place,
        (choice, is_small): (Choice, bool),
    ) -> Looked {
        let sum = walker.sum_of(&choice);
        let key = sum.all;
        let remembered = self.verdicts.get(&key).filter(|_| self.only.is_none()).cloned();
        let (found, replayed) = remembered.unwrap_or_else(|| {
            let outcome = self.recoverer.recover(walker.image_of(&choice), sum, walk.log);
            if self.verdicts.len() >= VERDICTS_MAX {
                self.verdicts.clear();
            }
            self.verdicts.insert(key, (Rc::clone(&outcome.found), outcome.replayed));
            (outcome.found, outcome.replayed)
        });
        Looked {
            place,
            key,
            replayed,
            is_small,
            tears_share: walker.tears_share(&choice),
            tears_commit: walker.tears_commit(&choice),
            has_wrapped: walker.has_wrapped,
            breach: walk.judge.judge(&found, place.happened),
            choice,
        }
    }

    /// Counts a state that was looked at, and goes on from it.
    fn enter(&mut self, walk: &Walk<'_>, walker: &Walker<'_>, state: Looked) -> Result<(), CrashError> {
        self.has_met_only |= self.only.as_ref().is_some_and(|only| only.len() == walk.above.len() + 1);
        let (place, doors) = (state.place, walk.above.len() + 1);
        let is_new = self.ledger().seen.insert(state.key);
        if is_new {
            self.count(walk, &state);
            if self.is_stranger_asked() {
                self.ask_stranger(walk, walker, &state)?;
            }
        }
        if self.wants_nested(walk, doors, state.replayed.is_some(), is_new) {
            let image = walker.image_of(&state.choice);
            self.nest(walk, (image, walker.sum_of(&state.choice)), place, &state.choice)?;
        }
        self.count_judgement();
        if let Some(breach) = state.breach {
            self.violate(walk, place, state.choice, breach);
        }
        Ok(())
    }

    /// Whether the recovery of a state is cut, too, to which `doors` cuts at the door of a disk led, after one inside a
    /// device or none.
    pub(crate) fn wants_nested(&mut self, walk: &Walk<'_>, doors: usize, replays: bool, is_new: bool) -> bool {
        if let Some(only) = &self.only {
            return only.len() > doors;
        }
        let depth = doors + usize::from(walk.inside.is_some()) - 1;
        if !replays || !is_new || self.options.nested_every == 0 || depth >= self.options.nested_depth as usize {
            return false;
        }
        let every = self.options.nested_every;
        let replaying = &mut self.ledger().replaying[depth];
        *replaying += 1;
        replaying.is_multiple_of(every)
    }

    /// Cuts inside the recovery of a state.
    fn nest(&mut self, walk: &Walk<'_>, state: (Image, Sum), place: Place, choice: &Choice) -> Result<(), CrashError> {
        let mut above = walk.above.clone();
        above.push(Cut { event: place.event, choice: choice.clone() });
        self.cut_recovery(&Walk { above, ..*walk }, state, place)
    }

    /// Cuts inside the recovery of `image`, which the cuts of `walk` left.
    pub(crate) fn cut_recovery(
        &mut self,
        walk: &Walk<'_>,
        (image, sum): (Image, Sum),
        place: Place,
    ) -> Result<(), CrashError> {
        let events = record_recovery(&self.subject, &image, self.options);
        let mut walker = Walker::new(image, sum, walk.log, &self.options.geometry);
        for (event, entry) in events.iter().enumerate() {
            let joined = walker.pass(entry);
            if joined > 0 {
                self.states_at(walk, &walker, Place { event, ..place }, joined)?;
            }
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    fn count(&mut self, walk: &Walk<'_>, state: &Looked) {
        let depth = walk.depth();
        let report = &mut self.ledger().report;
        report.states += 1;
        let kinds = &mut report.states_by_kind;
        match (depth, state.is_small) {
            (0, true) => kinds.subset += 1,
            (0, false) => kinds.sampled += 1,
            (1, _) => kinds.inside_recovery += 1,
            _ => kinds.inside_nested_recovery += 1,
        }
        let replayed = state.replayed.filter(|replayed| replayed.transactions > 0);
        kinds.torn_page += u64::from(state.choice.torn.is_some());
        kinds.torn_share += u64::from(state.tears_share);
        kinds.log_not_empty += u64::from(replayed.is_some());
        kinds.torn_commit += u64::from(state.tears_commit);
        kinds.log_wrapped += u64::from(depth == 0 && state.has_wrapped);
        kinds.forced_checkpoint += u64::from(state.place.has_forced);
        kinds.revoke += u64::from(replayed.is_some_and(|replayed| replayed.revoked_blocks > 0));
    }

    /// Whether a stranger is asked about the state that was counted just now.
    fn is_stranger_asked(&self) -> bool {
        let every = self.options.e2fsck_every;
        every > 0 && self.report().states.is_multiple_of(every)
    }

    fn ask_stranger(&mut self, walk: &Walk<'_>, walker: &Walker<'_>, state: &Looked) -> Result<(), CrashError> {
        let (image, sum) = (walker.image_of(&state.choice), walker.sum_of(&state.choice));
        let recovered = self.recoverer.recover(image, sum, walk.log).image;
        if let Some(breach) = self.stranger_finding(&recovered)? {
            self.violate(walk, state.place, state.choice.clone(), breach);
        }
        Ok(())
    }

    /// What somebody else's checker finds wrong with a recovered image.
    fn stranger_finding(&mut self, image: &Image) -> Result<Option<Breach>, CrashError> {
        // Orphans are finished first: `e2fsck -n` cannot, and complains of them.
        let Ok((_, image)) = self.recoverer.finish(image) else { return Ok(None) };
        self.ledger().report.e2fsck_runs += 1;
        let finding = self.subject.stranger_finding(&image)?;
        Ok(finding.map(|what| Breach { promise: Promise::Structure, what, difference: Vec::new() }))
    }

    /// The same of every so-many-th state, counted just now.
    pub(crate) fn stranger_finding_now_and_then(&mut self, image: &Image) -> Result<Option<Breach>, CrashError> {
        if self.is_stranger_asked() { self.stranger_finding(image) } else { Ok(None) }
    }

    fn violate(&mut self, walk: &Walk<'_>, place: Place, choice: Choice, breach: Breach) {
        let mut cuts = walk.above.clone();
        cuts.push(Cut { event: place.event, choice });
        let state = match walk.inside {
            Some(cut) => StateId::Device { cut, then: cuts },
            None => StateId::Door(cuts),
        };
        self.note(walk.workload, &state, breach);
    }

    /// Puts a broken promise into the report.
    pub(crate) fn note(&mut self, workload: &Workload, state: &StateId, breach: Breach) {
        let state = state.to_string();
        let replay = self.options.replay_command(workload, &state, self.subject.flags());
        let Breach { promise, what, difference } = breach;
        let workload = workload.to_string();
        self.ledger().report.violations.push(Violation { promise, what, workload, state, difference, replay });
    }
}
