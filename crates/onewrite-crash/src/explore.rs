//! Explore: every state of a run, recovered and judged.
//!
//! ```text
//!   workload ─► run, recorded ─► for each event: states ─► recovered ─► judged at that place
//!                                        │                     └─► cuts inside the recovery: states again
//!                                        └─ after each sync that ends: the same states again, more is promised now
//! ```
//!
//! # Invariants
//! - A state is counted once, however often it is reached or judged.
//! - The same workload, options and seed give the same report.

use std::rc::Rc;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Choices, Image, Lpn};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::action::Workload;
use crate::crash::Stage;
use crate::cut::Aged;
use crate::e2fsck::E2fsck;
use crate::error::CrashError;
use crate::hash::bytes_hash;
use crate::history::{Happening, History, Syncs};
use crate::judge::{Breach, Judge};
use crate::nested::record_recovery;
use crate::options::ExploreOptions;
use crate::recovery::{Found, Recoverer};
use crate::report::{Report, Violation};
use crate::run::{Run, run};
use crate::state_id::{Cut, DeviceCut, StateId};
use crate::states::{Choice, Sum, Walker, log_pages};
use crate::subject::{Sound, Subject};

/// States whose verdict is remembered; then memory starts anew.
const VERDICTS_MAX: usize = 200_000;

/// Explores workload after workload and counts.
pub struct Explorer<'a, S: Subject> {
    pub(crate) subject: Rc<S>,
    pub(crate) options: &'a ExploreOptions,
    pub(crate) recoverer: Recoverer<'a>,
    pub(crate) seen: FxHashSet<u64>,
    verdicts: FxHashMap<u64, Rc<Found>>,
    e2fsck: E2fsck,
    /// States that replayed something, by how many cuts led to them.
    replaying: Vec<u64>,
    pub(crate) report: Report,
    /// States after which one stops.
    pub(crate) states_max: u64,
    /// Only this state is judged, if one is named.
    pub(crate) only: Option<Vec<Cut>>,
    /// It was judged.
    pub(crate) has_met_only: bool,
    /// The emulated device that workloads begin on.
    pub(crate) aged: Option<Aged>,
    pub(crate) judged_inside_device: u64,
    /// Told now and then how far the exploration is.
    pub(crate) watch: Option<&'a dyn Fn(Stage)>,
}

/// Judgements between two reports of progress.
const WATCH_EVERY: u64 = 16;

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

/// Explores `workload` on the sound file system.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn explore(workload: &Workload, options: &ExploreOptions) -> Result<Report, CrashError> {
    explore_subject(Sound, workload, options)
}

/// Explores `workload` on `subject`.
///
/// # Errors
/// If the workload cannot be run at all.
pub fn explore_subject<S: Subject>(
    subject: S,
    workload: &Workload,
    options: &ExploreOptions,
) -> Result<Report, CrashError> {
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
    /// An explorer that has seen nothing.
    pub fn new(subject: S, options: &'a ExploreOptions) -> Explorer<'a, S> {
        Explorer {
            subject: Rc::new(subject),
            options,
            recoverer: Recoverer::new(options),
            seen: FxHashSet::default(),
            verdicts: FxHashMap::default(),
            e2fsck: E2fsck::new(options.e2fsck_every),
            replaying: vec![0; options.nested_depth as usize],
            report: Report::default(),
            states_max: options.states_max,
            only: None,
            has_met_only: false,
            aged: None,
            judged_inside_device: 0,
            watch: None,
        }
    }

    /// What was found so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What was found.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// A state, or a fault, is judged.
    pub(crate) fn count_judgement(&mut self) {
        self.report.judged += 1;
        if self.report.judged.is_multiple_of(WATCH_EVERY) {
            self.tell();
        }
    }

    /// Tells how far the exploration is.
    pub(crate) fn tell(&self) {
        if let Some(watch) = self.watch {
            watch(Stage::Judging { states: self.report.states, judged: self.report.judged });
        }
    }

    /// Whether as many states or violations were found as were asked for.
    pub fn is_done(&self) -> bool {
        self.report.states >= self.states_max || self.report.violations.len() >= self.options.violations_max
    }

    /// Explores one workload.
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
        self.walk_run(workload, run, &Judge::new(&run.history, self.options))
    }

    /// Explores a run of which only the requests are known.
    pub(crate) fn explore_without_model(&mut self, run: &Run) -> Result<(), CrashError> {
        self.walk_run(&Workload::default(), run, &Judge::without_model(&run.history, self.options))
    }

    fn walk_run(&mut self, workload: &Workload, run: &Run, judge: &Judge<'_>) -> Result<(), CrashError> {
        self.report.workloads += 1;
        let log = log_pages(&run.events);
        let base = base_of(workload);
        let walk = Walk { judge, log: &log, base, workload, inside: None, above: Vec::new() };
        let mut walker = Walker::new(run.base.clone(), Sum::of_base(base), &log, &self.options.geometry);
        let mut place = Place::default();
        for (event, entry) in run.events.iter().enumerate() {
            let joined = walker.pass(entry);
            let again = place.pass(event, entry, &run.history);
            if place.happened < run.history.warm_up {
                continue;
            }
            if joined > 0 || again || event == 0 {
                self.states_at(&walk, &walker, place, if again { 0 } else { joined })?;
            }
            if self.is_done() {
                break;
            }
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
        self.has_met_only |= self.only.as_ref().is_some_and(|only| only.len() == walk.above.len() + 1);
        let sum = walker.sum_of(&choice);
        let key = sum.all;
        let is_new = self.seen.insert(key);
        let found = match self.verdicts.get(&key) {
            Some(found) if !is_new && self.only.is_none() => Rc::clone(found),
            _ => {
                let image = walker.image_of(&choice);
                let outcome = self.recoverer.recover(image.clone(), sum, walk.log);
                if is_new {
                    self.count(walk, walker, place, (&choice, is_small), &outcome);
                }
                if self.verdicts.len() >= VERDICTS_MAX {
                    self.verdicts.clear();
                }
                self.verdicts.insert(key, Rc::clone(&outcome.found));
                if is_new && self.e2fsck.is_asked(self.report.states) {
                    self.ask_e2fsck(walk, place, &choice, &outcome.image)?;
                }
                if self.wants_nested(walk, walk.above.len() + 1, outcome.replayed.is_some(), is_new) {
                    self.nest(walk, (image, sum), place, &choice)?;
                }
                outcome.found
            }
        };
        self.count_judgement();
        if let Some(breach) = walk.judge.judge(&found, place.happened) {
            self.violate(walk, place, choice, breach);
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
        self.replaying[depth] += 1;
        self.replaying[depth].is_multiple_of(self.options.nested_every)
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

    fn count(
        &mut self,
        walk: &Walk<'_>,
        walker: &Walker<'_>,
        place: Place,
        (choice, is_small): (&Choice, bool),
        outcome: &crate::recovery::Outcome,
    ) {
        self.report.states += 1;
        let kinds = &mut self.report.states_by_kind;
        match (walk.depth(), is_small) {
            (0, true) => kinds.subset += 1,
            (0, false) => kinds.sampled += 1,
            (1, _) => kinds.inside_recovery += 1,
            _ => kinds.inside_nested_recovery += 1,
        }
        let replayed = outcome.replayed.filter(|replayed| replayed.transactions > 0);
        kinds.torn_page += u64::from(choice.torn.is_some());
        kinds.torn_share += u64::from(walker.tears_share(choice));
        kinds.log_not_empty += u64::from(replayed.is_some());
        kinds.torn_commit += u64::from(walker.tears_commit(choice));
        kinds.log_wrapped += u64::from(walk.depth() == 0 && walker.has_wrapped);
        kinds.forced_checkpoint += u64::from(place.has_forced);
        kinds.revoke += u64::from(replayed.is_some_and(|replayed| replayed.revoked_blocks > 0));
    }

    fn ask_e2fsck(&mut self, walk: &Walk<'_>, place: Place, choice: &Choice, image: &Image) -> Result<(), CrashError> {
        if let Some(breach) = self.e2fsck_finding(image)? {
            self.violate(walk, place, choice.clone(), breach);
        }
        Ok(())
    }

    /// What e2fsck finds wrong with a recovered image.
    fn e2fsck_finding(&mut self, image: &Image) -> Result<Option<Breach>, CrashError> {
        // Orphans are finished first: `e2fsck -n` cannot, and complains of them.
        let Ok((_, image)) = self.recoverer.finish(image) else { return Ok(None) };
        self.report.e2fsck_runs += 1;
        let promise = crate::judge::Promise::Structure;
        Ok(self.e2fsck.finding(&image)?.map(|what| Breach { promise, what, difference: Vec::new() }))
    }

    /// The same of every so-many-th state, counted just now.
    pub(crate) fn e2fsck_finding_now_and_then(&mut self, image: &Image) -> Result<Option<Breach>, CrashError> {
        if self.e2fsck.is_asked(self.report.states) { self.e2fsck_finding(image) } else { Ok(None) }
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
        let replay = self.options.replay_command(workload, &state);
        let Breach { promise, what, difference } = breach;
        let workload = workload.to_string();
        self.report.violations.push(Violation { promise, what, workload, state, difference, replay });
    }
}
