//! History: what the operations of a run did, when each began and ended, and which steps each took.
//!
//! Each beginning and each end is a mark in the recording of requests, so that every place in the recording knows what
//! had ended before it.
//!
//! # Why the order of ends is the order of steps
//! An operation takes its steps with locks held and handles open, and after it lets the last handle go it ends without
//! waiting. So of two operations in different transactions, the one in the earlier transaction ends first, and of two
//! that touch the same thing, the one that had the lock first does. Operations of several steps may stand in between:
//! their steps may be done in part wherever they had begun and not ended. One that frees many pieces may go on in later
//! transactions after its last step; what ends meanwhile comes before it in this order, though its transaction may be
//! later.

use onewrite_fs::FsError;

use crate::action::Action;
use crate::model::{NodeId, Step, Tree};

/// A beginning or an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Begin(usize),
    End(usize),
}

/// What an operation makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    Nothing,
    /// All of a file or directory.
    Node(NodeId),
    /// Its content alone, and what is needed to read it.
    Content(NodeId),
    Everything,
}

/// One operation as it went.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) action: Action,
    /// Index of its beginning among the happenings.
    pub(crate) begin: usize,
    /// Index of its end; `None` if it failed halfway: its steps may then be done in part for ever.
    pub(crate) end: Option<usize>,
    /// Happenings before it was told of an error that leaves its steps in doubt.
    pub(crate) failed: Option<usize>,
    pub(crate) steps: Vec<Step>,
    pub(crate) syncs: Syncs,
    /// What the file system said, if it refused or failed.
    pub(crate) error: Option<FsError>,
}

impl Operation {
    /// Whether it was told that the file system takes no more changes.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.error, Some(FsError::ReadOnly(_)))
    }

    /// Whether it was told of a failing disk.
    pub(crate) fn is_fault(&self) -> bool {
        self.is_refused() || matches!(self.error, Some(FsError::Device(_)))
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The tree before the first operation.
    pub(crate) initial: Tree,
    pub(crate) happenings: Vec<Happening>,
    pub(crate) operations: Vec<Operation>,
    /// Rounds of checkpointing that somebody had to wait for, as of each happening.
    pub(crate) forced_checkpoints: Vec<u64>,
    /// Happenings of the warm-up: no cut falls into them.
    pub(crate) warm_up: usize,
}

impl History {
    /// A history in which nothing has happened to `initial` yet.
    pub(crate) fn new(initial: Tree) -> History {
        let (happenings, operations, forced_checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        History { initial, happenings, operations, forced_checkpoints, warm_up: 0 }
    }

    /// An operation begins; gives its index. The mark to record is the index of the happening.
    pub(crate) fn begin(&mut self, action: Action) -> usize {
        let operation = self.operations.len();
        let begin = self.happenings.len();
        self.happenings.push(Happening::Begin(operation));
        let (steps, syncs) = (Vec::new(), Syncs::Nothing);
        self.operations.push(Operation { action, begin, end: None, failed: None, steps, syncs, error: None });
        operation
    }

    /// An operation ends.
    pub(crate) fn end(&mut self, operation: usize) {
        self.operations[operation].end = Some(self.happenings.len());
        self.happenings.push(Happening::End(operation));
    }

    /// An operation is told of an error that leaves its steps in doubt.
    pub(crate) fn fail(&mut self, operation: usize) {
        self.operations[operation].failed = Some(self.happenings.len());
    }

    /// The number of the last happening, as a mark for the recording.
    pub(crate) fn last_mark(&self) -> u64 {
        self.happenings.len() as u64 - 1
    }

    /// Whether somebody had to wait for a checkpoint after the warm-up and before the happening number `count`.
    pub(crate) fn has_forced_checkpoint(&self, count: usize) -> bool {
        let rounds = |count: usize| count.checked_sub(1).and_then(|last| self.forced_checkpoints.get(last)).copied();
        rounds(count).unwrap_or(0) > rounds(self.warm_up).unwrap_or(0)
    }

    /// The operations that ended, in order.
    pub(crate) fn ended(&self) -> Vec<usize> {
        let end = |happening: &Happening| match happening {
            Happening::End(operation) => Some(*operation),
            Happening::Begin(_) => None,
        };
        self.happenings.iter().filter_map(end).collect()
    }
}
