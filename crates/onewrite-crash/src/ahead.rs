//! Ahead: states that an explorer judged before their workload's turn, kept until the turn comes.
//!
//! # Invariants
//! - The content depends on the workload alone, never on the ledger.
//! - States are in the order in which they are entered.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use onewrite_block::mark::Marks;
use onewrite_block::{Lpn, Page};

use crate::action::Workload;
use crate::capturing::DeviceRun;
use crate::error::CrashError;
use crate::judge::Breach;
use crate::plan::{CrashPlan, Stage};
use crate::run::Run;
use crate::state_id::{Cut, DeviceCut, FaultId};
use crate::states::{Choice, Sum};
use crate::subject::Replayed;
use crate::turns::Turns;
use crate::walk::WalkPosition;

/// Most workloads that may wait for their turn.
const WAITING_MAX: usize = 32;
/// Most states that an explorer judges ahead; then it waits. A state takes some hundred bytes.
const STATES_MAX: u64 = 16_384;

/// A state that was recovered and judged. Only the ledger knows whether it is new.
pub(crate) struct Looked {
    pub(crate) place: WalkPosition,
    pub(crate) choice: Choice,
    pub(crate) key: u64,
    /// What replaying the log did.
    pub(crate) replayed: Option<Replayed>,
    /// The marks that its recovery reached.
    pub(crate) recovered: Marks,
    pub(crate) is_small: bool,
    pub(crate) tears_share: bool,
    pub(crate) tears_commit: bool,
    pub(crate) has_wrapped: bool,
    pub(crate) breach: Option<Breach>,
}

/// A power cut inside a device that was recovered and judged.
pub(crate) struct LookedInside {
    pub(crate) cut: DeviceCut,
    /// Events recorded before the cut.
    pub(crate) event: usize,
    /// The marks reached behind the last of them.
    pub(crate) reached: Marks,
    /// The recovered content, or how the device broke its contract.
    pub(crate) outcome: Result<Survivor, Breach>,
}

/// The content of a device that kept its contract after a power cut.
pub(crate) struct Survivor {
    /// Pages that differ from the durable content of the image, each with its hash.
    pub(crate) content: BTreeMap<Lpn, (Page, u64)>,
    /// The image's hash.
    pub(crate) sum: Sum,
    /// The hash of the whole device.
    pub(crate) key: u64,
    pub(crate) replayed: Option<Replayed>,
    /// The marks that the recoveries of device and file system reached.
    pub(crate) recovered: Marks,
    pub(crate) logs_map: bool,
    pub(crate) collects: bool,
    /// Recoveries of the device that a further power cut interrupted.
    pub(crate) cut_again: u32,
    pub(crate) breach: Option<Breach>,
}

/// Faults that were judged ahead.
pub(crate) enum LookedFaults {
    /// A workload begins.
    Begin,
    /// Faults of a stretch of it that are entered together.
    Group(Rc<Workload>, Vec<LookedFault>),
}

/// A run with a fault.
pub(crate) struct LookedFault {
    pub(crate) id: FaultId,
    pub(crate) breach: Option<Breach>,
    /// The marks that the run reached.
    pub(crate) reached: Marks,
    /// The marks that the mount behind it reached.
    pub(crate) recovered: Marks,
    /// Power cuts behind the failure, and what each broke.
    pub(crate) cuts: Vec<(Cut, Option<Breach>)>,
}

/// The part of a workload that was judged ahead.
#[derive(Default)]
pub(crate) enum Ahead {
    /// Nothing useful.
    #[default]
    Nothing,
    /// All states at the door of the disk.
    Door(Run, Vec<Looked>),
    /// All power cuts inside the device, at `points` internal points.
    Inside { points: u64, run: Box<DeviceRun>, states: Vec<LookedInside> },
    /// All faults.
    Faults(Vec<LookedFaults>),
}

impl Ahead {
    /// Number of states, or of groups of faults.
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
    /// A bug in this program.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// An explorer's place in line with others that share a ledger.
pub(crate) struct Line<'a> {
    pub(crate) turns: &'a Turns,
    pub(crate) plan: CrashPlan<'a>,
    /// Receives the progress while this explorer has the ledger, and how the explorer ended.
    pub(crate) tell: &'a dyn Fn(News),
    /// Sorted by number.
    pub(crate) waiting: VecDeque<Waiting>,
}

/// What an explorer tells the thread that waits for all of them.
pub(crate) enum News {
    /// The explorer has nothing to do.
    Idle,
    /// The explorer with the ledger has reached this stage.
    Stage(Stage),
    /// All explorers have to end.
    End(End),
}

impl Line<'_> {
    /// Whether enough states wait, counting `present` states of the present workload. More would take memory, and would
    /// be wasted if the ledger fills up first.
    pub(crate) fn is_far_ahead(&self, present: u64) -> bool {
        let states = present + self.waiting.iter().map(|waiting| waiting.ahead.count()).sum::<u64>();
        let most = STATES_MAX.min(self.plan.options.states_max.saturating_sub(self.turns.states()));
        self.waiting.len() >= WAITING_MAX || states >= most
    }
}
