//! History: the operations of a run, with the beginning, the end and the steps of each.
//!
//! Each beginning and each end is a mark in the recording of requests. So every place in the recording tells which
//! operations had ended before it.
//!
//! # Why the order of ends is the order of steps
//! An operation takes its steps while it holds locks and handles. After it drops the last handle, it ends without
//! waiting. So of two operations in different transactions, the one in the earlier transaction ends first. Of two that
//! touch the same object, the first to hold the lock ends first. An operation of several steps is an exception: between
//! its beginning and its end, any part of its steps may be done. An operation that frees many pieces may continue in
//! later transactions after its last step. Operations that end meanwhile come before it in this order, though their
//! transactions may be later.
//!
//! A commit of drafts waits after it dropped its handle, so it is two operations: the first ends when the drafts are
//! empty, the second when the commit returns. A share may wait for a commit, too. It stays one operation, for only its
//! own task changes its files meanwhile.

use onewrite_block::Page;
use onewrite_fs::FsError;

use crate::action::Action;
use crate::model::{NodeId, Step, Tree};

/// The beginning or the end of an operation, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    Begin(usize),
    End(usize),
}

/// What an operation makes durable when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    Nothing,
    /// All of a file or directory.
    Node(NodeId),
    /// The content of a file, and the metadata needed to read it.
    Content(NodeId),
    Everything,
    /// The steps of this operation, which ended before.
    Operation(usize),
    /// All of a file whose content this operation committed, which ended before.
    Commit(usize, NodeId),
    /// The pages that its own steps share.
    Shares,
}

/// What a read returned.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) node: NodeId,
    /// Size of the file just before, in bytes.
    pub(crate) size: u64,
    /// Pages by number; those of holes may be missing.
    pub(crate) pages: Vec<(u64, Page)>,
}

/// One operation of a run.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) action: Action,
    /// Index of its beginning among the happenings.
    pub(crate) begin: usize,
    /// Index of its end. `None` if it failed halfway; any part of its steps may then be done, for good. If a later
    /// operation shows that all of them were done, that is its end.
    pub(crate) end: Option<usize>,
    /// Number of happenings before it got an error that leaves its steps in doubt.
    pub(crate) failed: Option<usize>,
    pub(crate) steps: Vec<Step>,
    /// What it was asked to make durable. If it failed, it may have done so.
    pub(crate) sought: Syncs,
    pub(crate) syncs: Syncs,
    /// Files that it may have made durable beside that, as a commit without changes does.
    pub(crate) touched: Vec<NodeId>,
    /// The error that it got.
    pub(crate) error: Option<FsError>,
    /// What it read, if it succeeded.
    pub(crate) read: Option<Read>,
}

impl Operation {
    /// Whether it got the error that the file system is read-only.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.error, Some(FsError::ReadOnly(_)))
    }

    /// Whether it is a commit of drafts for which there was no room.
    pub(crate) fn is_commit_without_room(&self) -> bool {
        matches!((&self.action, &self.error), (Action::Commit(_), Some(FsError::NoSpace { .. })))
    }

    /// Whether it got the error of a failing disk.
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
    /// Checkpoint rounds that an operation had to wait for, counted up to each happening.
    pub(crate) forced_checkpoints: Vec<u64>,
    /// Happenings of the warm-up; no power cut falls into it.
    pub(crate) warm_up: usize,
}

impl History {
    /// An empty history that begins with `initial`.
    pub(crate) fn new(initial: Tree) -> History {
        let (happenings, operations, forced_checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        History { initial, happenings, operations, forced_checkpoints, warm_up: 0 }
    }

    /// Begins an operation and returns its index. The mark to record is the index of the happening.
    pub(crate) fn begin(&mut self, action: Action) -> usize {
        let operation = self.operations.len();
        let begin = self.happenings.len();
        self.happenings.push(Happening::Begin(operation));
        let (steps, sought, syncs) = (Vec::new(), Syncs::Nothing, Syncs::Nothing);
        let (end, failed, touched, error, read) = (None, None, Vec::new(), None, None);
        self.operations.push(Operation { action, begin, end, failed, steps, sought, syncs, touched, error, read });
        operation
    }

    /// Ends an operation.
    pub(crate) fn end(&mut self, operation: usize) {
        self.operations[operation].end = Some(self.happenings.len());
        self.happenings.push(Happening::End(operation));
    }

    /// Notes that an operation got an error that leaves its steps in doubt.
    pub(crate) fn fail(&mut self, operation: usize) {
        self.operations[operation].failed = Some(self.happenings.len());
    }

    /// The number of the last happening, as a mark for the recording.
    pub(crate) fn last_mark(&self) -> u64 {
        self.happenings.len() as u64 - 1
    }

    /// Whether an operation had to wait for a checkpoint after the warm-up, within the first `count` happenings.
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
