//! After: cuts the power after a request has failed.
//!
//! A request that fails never reaches the disk, so nothing of it survives: it is left out of the recording. The rest is
//! walked along like the run of an exploration; its events are numbered without the failed requests.

use onewrite_block::layer::RecordedEvent;
use onewrite_block::mark::Marks;
use onewrite_block::{Choices, Image, Token};

use super::{Outcome, fault_of, named};
use crate::action::Workload;
use crate::ahead::LookedFault;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::judge::{Breach, Judge};
use crate::model::Tree;
use crate::state_id::{Cut, FaultId};
use crate::states::{Choice, Sum, Walker, log_pages};
use crate::subject::Subject;
use crate::walk::{Walk, WalkPosition, base_of};

/// Most places of a run at which the power is cut.
const PLACES_MAX: usize = 6;

/// What happened at the door of the disk, but for the requests that failed.
struct Passed {
    events: Vec<RecordedEvent>,
    /// Number of events before the first request that failed.
    first_failure: usize,
}

impl<S: Subject> Explorer<'_, S> {
    /// Judges states that a power cut behind the failure may leave; none if no request failed.
    pub(super) fn cuts_after(
        &mut self,
        workload: &Workload,
        base: &Image,
        (outcome, judge): (&Outcome, &Judge<'_>),
        id: FaultId,
    ) -> Vec<(Cut, Option<Breach>)> {
        if outcome.failed == 0 {
            return Vec::new();
        }
        let passed = passed(&outcome.events);
        let mut chance =
            Choices::new(self.options.seed ^ base_of(workload)).stream("cuts after faults", outcome.requests);
        let places = self.places(base, (&passed, outcome), &mut chance);
        let log = log_pages(&passed.events, self.subject.log_causes());
        let base_sum = Sum::of_base(base_of(workload));
        let walk = Walk::of(workload, judge, &log);
        let mut walker = Walker::new(base.clone(), base_sum, &log, &self.options.geometry);
        let (mut place, mut looked) = (WalkPosition::default(), Vec::new());
        for (event, entry) in passed.events.iter().enumerate() {
            walker.pass(entry);
            place.pass(event, entry, &outcome.history);
            if places.contains(&event) {
                for choice in choices(walker.pending.len(), &mut chance) {
                    let state = self.look(&walk, &walker, place, (choice.clone(), true));
                    looked.push((Cut { event, choice }, state.breach.map(|breach| named(id, breach))));
                }
            }
        }
        looked
    }

    /// Events at which to cut: that before the first failure, and some behind it with which a unit joined or a sync
    /// ended.
    fn places(&self, base: &Image, (passed, outcome): (&Passed, &Outcome), chance: &mut Choices) -> Vec<usize> {
        let log = log_pages(&[], self.subject.log_causes());
        let mut walker = Walker::new(base.clone(), Sum::of_base(0), &log, &self.options.geometry);
        let (mut place, mut places) = (WalkPosition::default(), Vec::new());
        for (event, entry) in passed.events.iter().enumerate() {
            let joined = walker.pass(entry);
            let ends = place.pass(event, entry, &outcome.history);
            if event + 1 >= passed.first_failure && (joined > 0 || ends || event + 1 == passed.first_failure) {
                places.push(event);
            }
        }
        while places.len() > PLACES_MAX {
            places.remove(chance.index(places.len()));
        }
        places
    }

    /// Judges the state after one cut behind a fault.
    ///
    /// # Errors
    /// If there is no such cut.
    pub(super) fn one_cut(
        &mut self,
        workload: &Workload,
        start: (&Image, &Tree),
        id: FaultId,
        cuts: &[Cut],
    ) -> Result<LookedFault, CrashError> {
        let outcome = self.run_with(start, workload, fault_of(id));
        outcome.expect_met(id)?;
        let judge = Judge::new(&outcome.history, self.subject.promises(), self.options);
        let Passed { events, .. } = passed(&outcome.events);
        let [cut] = cuts else { return Err(no_such_cut(cuts)) };
        let log = log_pages(&events, self.subject.log_causes());
        let base = base_of(workload);
        let walk = Walk::of(workload, &judge, &log);
        let mut walker = Walker::new(start.0.clone(), Sum::of_base(base), &log, &self.options.geometry);
        let mut place = WalkPosition::default();
        for (event, entry) in events.iter().enumerate().take(cut.event + 1) {
            walker.pass(entry);
            place.pass(event, entry, &outcome.history);
        }
        let kept = &cut.choice.kept;
        if cut.event >= events.len() || kept.last().is_some_and(|unit| *unit >= walker.pending.len()) {
            return Err(no_such_cut(cuts));
        }
        let state = self.look(&walk, &walker, place, (cut.choice.clone(), true));
        let cuts = vec![(cut.clone(), state.breach.map(|breach| named(id, breach)))];
        Ok(LookedFault { id, breach: None, reached: outcome.reached, recovered: Marks::NONE, cuts })
    }
}

/// Nothing survives, everything does, and a draw.
fn choices(pending: usize, chance: &mut Choices) -> Vec<Choice> {
    let kept = |kept: Vec<usize>| Choice { kept, torn: None };
    if pending == 0 {
        return vec![kept(Vec::new())];
    }
    let drawn = (0..pending).filter(|_| chance.chance(1, 2)).collect();
    vec![kept(Vec::new()), kept((0..pending).collect()), kept(drawn)]
}

fn passed(events: &[RecordedEvent]) -> Passed {
    let (mut kept, mut first_failure) = (vec![true; events.len()], events.len());
    for (at, event) in events.iter().enumerate() {
        if let RecordedEvent::Failed(token) = event {
            kept[at] = false;
            if let Some(begin) = submission(&events[..at], *token) {
                kept[begin] = false;
                first_failure = first_failure.min(begin);
            }
        }
    }
    let first_failure = kept[..first_failure].iter().filter(|kept| **kept).count();
    let events = events.iter().zip(kept).filter(|(_, kept)| *kept).map(|(event, _)| event.clone()).collect();
    Passed { events, first_failure }
}

/// The last submission with this token: tokens are used again.
fn submission(events: &[RecordedEvent], token: Token) -> Option<usize> {
    events.iter().rposition(|event| matches!(event, RecordedEvent::Submitted(other, _) if *other == token))
}

fn no_such_cut(cuts: &[Cut]) -> CrashError {
    let text = cuts.iter().map(Cut::to_string).collect::<Vec<_>>().join(">");
    CrashError::State { text, reason: "the run with this fault has no such cut behind it".into() }
}
