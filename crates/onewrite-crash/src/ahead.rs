//! Ahead: what an explorer looked at before the turn of a workload had come, to be entered when it comes.
//!
//! # Invariants
//! - What is here depends on the workload alone, never on the ledger.
//! - It is in the order in which it is entered.

use std::collections::{BTreeMap, VecDeque};

use onewrite_block::{Lpn, Page};

use crate::action::Workload;
use crate::capturing::DeviceRun;
use crate::error::CrashError;
use crate::judge::Breach;
use crate::plan::{CrashPlan, Stage};
use crate::run::Run;
use crate::state_id::{DeviceCut, FaultId};
use crate::states::{Choice, Sum};
use crate::subject::Replayed;
use crate::turns::Turns;
use crate::walk::WalkPosition;

/// Workloads that wait for their turn, at most.
const WAITING_MAX: usize = 32;
/// States that are looked at before they can be entered; then the explorer waits. Some hundred bytes each.
const STATES_MAX: u64 = 16_384;

/// A state that was recovered and judged; whether it is new is for the ledger to say.
pub(crate) struct Looked {
    pub(crate) place: WalkPosition,
    pub(crate) choice: Choice,
    pub(crate) key: u64,
    /// What replaying the log did.
    pub(crate) replayed: Option<Replayed>,
    pub(crate) is_small: bool,
    pub(crate) tears_share: bool,
    pub(crate) tears_commit: bool,
    pub(crate) has_wrapped: bool,
    pub(crate) breach: Option<Breach>,
}

/// The same of a cut inside a device.
pub(crate) struct LookedInside {
    pub(crate) cut: DeviceCut,
    /// Events recorded by then.
    pub(crate) event: usize,
    /// What came of it, or how the device broke its contract.
    pub(crate) outcome: Result<Survivor, Breach>,
}

/// What a device kept its contract with, after a cut inside it.
pub(crate) struct Survivor {
    /// What differs from the durable content of the image.
    pub(crate) content: BTreeMap<Lpn, (Page, u64)>,
    /// The image's hash.
    pub(crate) sum: Sum,
    /// The hash of all of the device.
    pub(crate) key: u64,
    pub(crate) replayed: Option<Replayed>,
    pub(crate) logs_map: bool,
    pub(crate) collects: bool,
    /// Recoveries of the device that were cut.
    pub(crate) cut_again: u32,
    pub(crate) breach: Option<Breach>,
}

/// Faults that were looked at.
pub(crate) enum LookedFaults {
    /// A workload begins.
    Begin,
    /// Faults that are entered together, each with what it broke.
    Group(Vec<(FaultId, Option<Breach>)>),
}

/// What was looked at of a workload.
#[derive(Default)]
pub(crate) enum Ahead {
    /// Nothing that is of use.
    #[default]
    Nothing,
    /// All states at the door of the disk.
    Door(Run, Vec<Looked>),
    /// All cuts inside the device at so many points.
    Inside { points: u64, run: DeviceRun, states: Vec<LookedInside> },
    /// All faults.
    Faults(Vec<LookedFaults>),
}

impl Ahead {
    /// States, or runs with faults.
    fn count(&self) -> u64 {
        match self {
            Ahead::Nothing => 0,
            Ahead::Door(_, states) => states.len() as u64,
            Ahead::Inside { states, .. } => states.len() as u64,
            Ahead::Faults(groups) => groups.len() as u64,
        }
    }
}

/// A workload that waits for its turn.
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) workload: Workload,
    pub(crate) ahead: Ahead,
}

/// Why all explorers have to end.
pub(crate) enum End {
    /// A workload could not be run.
    Failed(CrashError),
    /// We are wrong somewhere.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// An explorer's place in line with others that share a ledger.
pub(crate) struct Line<'a> {
    pub(crate) turns: &'a Turns,
    pub(crate) plan: CrashPlan<'a>,
    /// Told what the exploration is at while this explorer has the ledger, and how it ended.
    pub(crate) tell: &'a dyn Fn(News),
    /// In the order of their numbers.
    pub(crate) waiting: VecDeque<Waiting>,
}

/// What an explorer tells the thread that waits for all of them.
pub(crate) enum News {
    /// It has nothing to do.
    Idle,
    /// The holder of the ledger is at this.
    Stage(Stage),
    /// Everything has to end.
    End(End),
}

impl Line<'_> {
    /// Whether enough waits, with `present` states of the present workload: more might be for nothing, for the ledger
    /// may be full before, and takes memory.
    pub(crate) fn is_far_ahead(&self, present: u64) -> bool {
        let states = present + self.waiting.iter().map(|waiting| waiting.ahead.count()).sum::<u64>();
        let most = STATES_MAX.min(self.plan.options.states_max.saturating_sub(self.turns.states()));
        self.waiting.len() >= WAITING_MAX || states >= most
    }
}
