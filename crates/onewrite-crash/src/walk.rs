//! Walk: a walk along the recording of a run or a recovery, and a position in it.

use onewrite_block::Lpn;
use onewrite_block::layer::RecordedEvent;
use onewrite_block::mark::Marks;
use rustc_hash::FxHashSet;

use crate::action::Workload;
use crate::hash::bytes_hash;
use crate::history::{Happening, History, Syncs};
use crate::judge::Judge;
use crate::run::Run;
use crate::state_id::{Cut, DeviceCut};

/// The context of a walk along one recording.
pub(crate) struct Walk<'w> {
    pub(crate) judge: &'w Judge<'w>,
    pub(crate) log: &'w FxHashSet<Lpn>,
    /// Distinguishes images of different setups.
    pub(crate) base: u64,
    pub(crate) workload: &'w Workload,
    /// The cut inside a device that led here; it came before all other cuts.
    pub(crate) inside: Option<DeviceCut>,
    /// The cuts at the door of a disk that led here; empty in the run itself.
    pub(crate) above: Vec<Cut>,
    /// The run, if this walk is along a run.
    pub(crate) run: Option<&'w Run>,
    /// Whether the run is judged at some places only.
    pub(crate) is_glance: bool,
}

impl<'w> Walk<'w> {
    /// A walk that no cut led to, at every place.
    pub(crate) fn of(workload: &'w Workload, judge: &'w Judge<'w>, log: &'w FxHashSet<Lpn>) -> Walk<'w> {
        let base = base_of(workload);
        Walk { judge, log, base, workload, inside: None, above: Vec::new(), run: None, is_glance: false }
    }

    /// Number of cuts that led here.
    pub(crate) fn depth(&self) -> usize {
        self.above.len() + usize::from(self.inside.is_some())
    }
}

/// A position in a walk.
#[derive(Clone, Copy, Default)]
pub(crate) struct WalkPosition {
    pub(crate) event: usize,
    pub(crate) happened: usize,
    pub(crate) has_forced: bool,
    /// The marks reached shortly before.
    pub(crate) reached: Marks,
}

impl WalkPosition {
    /// Visits event number `event`; returns whether a sync ended with it.
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

/// Distinguishes images of different setups.
pub(crate) fn base_of(workload: &Workload) -> u64 {
    let setup: Vec<String> = workload.setup.iter().map(ToString::to_string).collect();
    bytes_hash(setup.join(";").as_bytes())
}
