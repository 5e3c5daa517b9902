//! Enter: puts judged states into the ledger, in order, and does what depends on the count: it runs the foreign checker
//! and cuts recoveries.
//!
//! # Invariants
//! - Only an explorer with the ledger enters.
//! - States after cuts inside a recovery are judged here, because the count decides which recoveries are cut.

use onewrite_block::Image;
use onewrite_block::layer::Recording;

use crate::action::Workload;
use crate::ahead::Looked;
use crate::error::CrashError;
use crate::explorer::Explorer;
use crate::judge::{Breach, Promise};
use crate::marks::{Recently, marks_of};
use crate::nested::record_recovery;
use crate::plan::Stage;
use crate::report::{Shrunk, Violation};
use crate::state_id::{Cut, StateId};
use crate::states::{Choice, Sum, Walker};
use crate::subject::Subject;
use crate::walk::{Walk, WalkPosition};

/// A state that the walk met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    /// Its recovery replays something.
    pub(crate) replays: bool,
    /// No state before was the same.
    pub(crate) is_new: bool,
}

impl<S: Subject> Explorer<'_, S> {
    /// Counts a judged state, and explores cuts inside its recovery.
    pub(crate) fn enter(&mut self, walk: &Walk<'_>, walker: &Walker<'_>, state: Looked) -> Result<(), CrashError> {
        self.has_met_only |= self.only.as_ref().is_some_and(|only| only.len() == walk.above.len() + 1);
        let (place, doors) = (state.place, walk.above.len() + 1);
        let is_new = self.ledger().seen.insert(state.key);
        if is_new {
            self.count(walk, &state);
            if self.is_stranger_asked() {
                self.ask_stranger(walk, walker, &state)?;
            }
        }
        if self.wants_nested(walk, doors, Met { replays: state.replayed.is_some(), is_new }) {
            let image = walker.image_of(&state.choice);
            self.nest(walk, (image, walker.sum_of(&state.choice)), place, &state.choice)?;
        }
        self.count_judgement();
        if let Some(breach) = state.breach {
            self.violate(walk, place, state.choice, breach);
        }
        Ok(())
    }

    /// Whether to cut the recovery of a state as well. `doors` cuts at the door of a disk led to the state, after at
    /// most one cut inside a device.
    pub(crate) fn wants_nested(&mut self, walk: &Walk<'_>, doors: usize, met: Met) -> bool {
        if let Some(only) = &self.only {
            return only.len() > doors;
        }
        let depth = doors + usize::from(walk.inside.is_some()) - 1;
        if !met.replays || !met.is_new || self.options.nested_every == 0 || depth >= self.options.nested_depth as usize
        {
            return false;
        }
        let every = self.options.nested_every;
        let replaying = &mut self.ledger().replaying[depth];
        *replaying += 1;
        replaying.is_multiple_of(every)
    }

    /// Explores cuts inside the recovery of a state.
    fn nest(
        &mut self,
        walk: &Walk<'_>,
        state: (Image, Sum),
        place: WalkPosition,
        choice: &Choice,
    ) -> Result<(), CrashError> {
        let mut above = walk.above.clone();
        above.push(Cut { event: place.event, choice: choice.clone() });
        self.cut_recovery(&Walk { above, ..*walk }, state, place)
    }

    /// Explores cuts inside the recovery of `image`, the state after the cuts of `walk`.
    pub(crate) fn cut_recovery(
        &mut self,
        walk: &Walk<'_>,
        (image, sum): (Image, Sum),
        place: WalkPosition,
    ) -> Result<(), CrashError> {
        let Recording { events, marks } = record_recovery(&self.subject, &image, self.options);
        let mut recently = Recently::default();
        let mut walker = Walker::new(image, sum, walk.log, &self.options.geometry);
        for (event, entry) in events.iter().enumerate() {
            let joined = walker.pass(entry);
            let reached = recently.pass(entry, marks_of(&marks, event));
            if joined > 0 {
                self.states_at(walk, &walker, WalkPosition { event, reached, ..place }, joined)?;
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
        report.marks.count(state.place.reached, state.recovered);
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

    /// Whether the foreign checker examines the state that was counted last.
    pub(crate) fn is_stranger_asked(&self) -> bool {
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

    /// What the foreign checker finds wrong with a recovered image.
    pub(crate) fn stranger_finding(&mut self, image: &Image) -> Result<Option<Breach>, CrashError> {
        // Frees orphans first: `e2fsck -n` does not, and complains about them.
        let Ok((_, image)) = self.recoverer.finish(image) else { return Ok(None) };
        self.ledger().report.e2fsck_runs += 1;
        let finding = self.subject.stranger_finding(&image)?;
        Ok(finding.map(|what| Breach { promise: Promise::Structure, what, difference: Vec::new() }))
    }

    fn violate(&mut self, walk: &Walk<'_>, place: WalkPosition, choice: Choice, breach: Breach) {
        let mut cuts = walk.above.clone();
        cuts.push(Cut { event: place.event, choice });
        let state = match walk.inside {
            Some(cut) => StateId::Device { cut, then: cuts },
            None => StateId::Door(cuts),
        };
        self.note(walk.workload, &state, breach);
    }

    /// Adds a broken promise to the report.
    pub(crate) fn note(&mut self, workload: &Workload, state: &StateId, breach: Breach) {
        let state = state.to_string();
        let replay = self.options.replay_command(workload, &state, self.subject.flags());
        let Breach { promise, what, difference } = breach;
        let workload = workload.to_string();
        let shrunk = Shrunk::Untried;
        let violation = Violation { promise, what, workload, state, difference, replay, shrunk };
        self.tell_stage(Stage::Broken(Box::new(violation.clone())));
        self.ledger().report.violations.push(violation);
    }
}
