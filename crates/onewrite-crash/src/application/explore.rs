//! Explore: recovers the states of a program's run and gives each new tree to the check.
//!
//! # Invariants
//! - The same recording, options and verdicts give the same report.
//! - If there are more states than the bound, those taken are spread over the whole run.

use std::collections::BTreeSet;
use std::rc::Rc;

use onewrite_block::layer::RecordedEvent;
use onewrite_block::{Choices, Lpn};
use rustc_hash::FxHashSet;

use super::{Application, ApplicationFailure, ApplicationReport, RecoveredTree};
use crate::error::CrashError;
use crate::options::ExploreOptions;
use crate::read_tree::Extended;
use crate::recovery::{Problem, Recoverer};
use crate::sampling;
use crate::state_id::{Cut, StateId};
use crate::states::{Choice, Sum, Walker, log_pages};
use crate::subject::Subject;

/// Most checks that minimising a failure takes.
const SHRINKS_MAX: usize = 200;

/// What a check says: `Err` has its complaint.
pub type Verdict = Result<(), String>;

/// Judges a recovered tree, given what was acknowledged before the cut. It fails only if it cannot judge.
pub type Check<'c> = dyn FnMut(&RecoveredTree, &[String]) -> Result<Verdict, CrashError> + 'c;

/// Recovers the states of a run and gives each new tree to `check`. Calls `watch` with the numbers of states taken and
/// of checks made.
///
/// # Errors
/// The first error of `check`.
pub fn explore_application<S: Subject>(
    subject: S,
    application: &Application,
    options: &ExploreOptions,
    check: &mut Check<'_>,
    watch: &dyn Fn(u64, u64),
) -> Result<ApplicationReport, CrashError> {
    let subject = Rc::new(subject);
    let (log, whole) = (log_pages(&application.events, subject.log_causes()), subject.whole_page());
    let choices = |walker: &Walker<'_>, moment| choices(walker, whole, moment, options);
    let mut recoverer = Recoverer::new(&subject, options);
    recoverer.extended = Extended::Some;
    let possible = walk(application, options, &log, |walker, moment| Ok(choices(walker, moment).len() as u64))?;
    let mut exploration = Exploration {
        recoverer,
        application,
        options,
        check,
        watch,
        seen: FxHashSet::default(),
        judged: BTreeSet::new(),
        report: ApplicationReport { possible, ..ApplicationReport::default() },
    };
    let wanted = options.states_max.min(possible);
    let mut chance = Choices::new(options.seed).stream("application", 0);
    walk(application, options, &log, |walker, moment| {
        for choice in choices(walker, moment) {
            if exploration.is_done() {
                break;
            }
            if chance.chance(wanted, possible.max(1)) {
                exploration.take(walker, moment, choice)?;
            }
        }
        Ok(0)
    })?;
    Ok(exploration.report)
}

/// A moment of the run.
#[derive(Clone, Copy)]
struct Moment {
    event: usize,
    /// Units that joined the pending ones with the event; 0: what must survive has changed.
    joined: usize,
    /// Number of tokens acknowledged so far.
    acknowledged: usize,
}

/// Visits the events at which states are new, with the walker there; returns the sum of what `visit` returns.
fn walk(
    application: &Application,
    options: &ExploreOptions,
    log: &FxHashSet<Lpn>,
    mut visit: impl FnMut(&Walker<'_>, Moment) -> Result<u64, CrashError>,
) -> Result<u64, CrashError> {
    let mut walker = Walker::new(application.base.clone(), Sum::of_base(0), log, &options.geometry);
    let (mut acknowledged, mut sum) = (0, 0);
    for (event, entry) in application.events.iter().enumerate() {
        let joined = walker.pass(entry);
        let is_mark = matches!(entry, RecordedEvent::Mark(_));
        acknowledged += usize::from(is_mark);
        if joined > 0 || is_mark || event == 0 {
            sum += visit(&walker, Moment { event, joined, acknowledged })?;
        }
    }
    Ok(sum)
}

/// The states at a moment: only those with something new, unless what must survive has changed. The page `whole` never
/// tears.
fn choices(walker: &Walker<'_>, whole: Option<Lpn>, moment: Moment, options: &ExploreOptions) -> Vec<Choice> {
    let count = walker.pending.len();
    let mut chance = Choices::new(options.seed).stream("states", moment.event as u64);
    let mut choices = match count <= options.exhaustive_writes_max {
        true => sampling::subsets(count, moment.joined),
        false => sampling::samples(count, moment.joined, options.samples, &mut chance),
    };
    if options.tears() {
        choices.extend(sampling::torn(&choices, |unit| walker.may_tear(unit, whole), &mut chance));
    }
    choices
}

struct Exploration<'e, S: Subject> {
    recoverer: Recoverer<'e, S>,
    application: &'e Application,
    options: &'e ExploreOptions,
    check: &'e mut Check<'e>,
    watch: &'e dyn Fn(u64, u64),
    /// States of the disk, with the number of tokens.
    seen: FxHashSet<(u64, usize)>,
    /// Recovered trees, with the number of tokens.
    judged: BTreeSet<(u64, usize)>,
    report: ApplicationReport,
}

impl<S: Subject> Exploration<'_, S> {
    fn is_done(&self) -> bool {
        self.report.refused >= self.options.violations_max as u64
    }

    fn take(&mut self, walker: &Walker<'_>, moment: Moment, choice: Choice) -> Result<(), CrashError> {
        let sum = walker.sum_of(&choice);
        if !self.seen.insert((sum.all, moment.acknowledged)) {
            return Ok(());
        }
        self.report.states += 1;
        (self.watch)(self.report.states, self.report.checks);
        let Err(complaint) = self.verdict(walker, moment, &choice)? else { return Ok(()) };
        self.report.refused += 1;
        if self.report.failure.is_none() {
            let failure = self.smallest(walker, moment, (choice, complaint))?;
            self.report.failure = Some(failure);
        }
        Ok(())
    }

    /// Judges a state; a tree that was accepted before with the same tokens is accepted at once.
    fn verdict(&mut self, walker: &Walker<'_>, moment: Moment, choice: &Choice) -> Result<Verdict, CrashError> {
        let sum = walker.sum_of(choice);
        let found = self.recoverer.recover(walker.image_of(choice), sum, walker.log()).found;
        match &found.problem {
            Some(Problem::Recovery(text)) => return Ok(Err(format!("the file system cannot be recovered: {text}"))),
            Some(Problem::Structure(text)) => return Ok(Err(format!("the file system is damaged: {text}"))),
            Some(Problem::View(text)) => return Ok(Err(format!("the file system is read wrongly: {text}"))),
            None => (),
        }
        let key = (found.full, moment.acknowledged);
        if self.judged.contains(&key) {
            return Ok(Ok(()));
        }
        self.report.checks += 1;
        let tree = RecoveredTree(Rc::clone(&found.listing));
        let verdict = (self.check)(&tree, &self.application.tokens[..moment.acknowledged])?;
        if verdict.is_ok() {
            self.judged.insert(key);
        }
        Ok(verdict)
    }

    /// The same failure with fewer lost writes: each lost unit is put back, if the check still complains.
    fn smallest(
        &mut self,
        walker: &Walker<'_>,
        moment: Moment,
        (mut choice, mut complaint): (Choice, String),
    ) -> Result<ApplicationFailure, CrashError> {
        for unit in (0..walker.pending.len()).take(SHRINKS_MAX) {
            let Err(place) = choice.kept.binary_search(&unit) else { continue };
            let mut fuller = choice.clone();
            fuller.kept.insert(place, unit);
            if let Err(text) = self.verdict(walker, moment, &fuller)? {
                (choice, complaint) = (fuller, text);
            }
        }
        let whole = Choice { torn: None, ..choice.clone() };
        if choice.torn.is_some()
            && let Err(text) = self.verdict(walker, moment, &whole)?
        {
            (choice, complaint) = (whole, text);
        }
        let sum = walker.sum_of(&choice);
        let found = self.recoverer.recover(walker.image_of(&choice), sum, walker.log()).found;
        let is_read = !matches!(found.problem, Some(Problem::Recovery(_)));
        Ok(ApplicationFailure {
            lost: walker.lost(&choice),
            image: walker.image_of(&choice),
            acknowledged: self.application.tokens[..moment.acknowledged].to_vec(),
            complaint,
            tree: is_read.then(|| RecoveredTree(Rc::clone(&found.listing))),
            state: StateId::Door(vec![Cut { event: moment.event, choice }]).to_string(),
        })
    }
}
