//! Opened: what a task has open: files by descriptor, and drafts of atomic files by number.

use std::collections::{BTreeMap, BTreeSet};

use onewrite_fs::{DraftId, Ino};

use crate::model::{NodeId, Step};

/// See the module's head.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) files: BTreeMap<u32, (Ino, NodeId)>,
    pub(crate) drafts: Drafts,
}

/// The drafts of a task, by number.
pub(crate) type Drafts = BTreeMap<u32, Draft>;

/// A draft of a task.
pub(crate) struct Draft {
    pub(crate) id: DraftId,
    /// Files under names that they have only in the draft.
    pub(crate) paths: BTreeMap<String, (Ino, NodeId)>,
    /// What the next commit does.
    pub(crate) steps: Vec<Step>,
    /// Files that it has, or asked for.
    pub(crate) claimed: BTreeSet<NodeId>,
}

impl Opened {
    /// The draft of this number, which exists.
    pub(crate) fn draft(&mut self, slot: u32) -> &mut Draft {
        self.drafts.get_mut(&slot).expect("the action has begun it")
    }
}

impl Draft {
    /// A draft without changes.
    pub(crate) fn new(id: DraftId) -> Draft {
        Draft { id, paths: BTreeMap::new(), steps: Vec::new(), claimed: BTreeSet::new() }
    }

    /// Forgets what waited.
    pub(crate) fn forget(&mut self) {
        self.paths.clear();
        self.steps.clear();
    }
}
