//! Opened: what a task has open: files by descriptor, and drafts of atomic files by number.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_fs::{DraftId, FsError, FsResult, Ino};

use crate::model::{NodeId, Step};

/// Drafts from this number on belong to all tasks.
const SHARED_FROM: u32 = 100;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) files: BTreeMap<u32, (Ino, NodeId)>,
    pub(crate) drafts: Drafts,
}

/// Drafts by number.
pub(crate) type DraftTable = Rc<RefCell<BTreeMap<u32, Draft>>>;

/// The drafts that a task can name: its own, and those of all tasks.
#[derive(Default)]
pub(crate) struct Drafts {
    own: DraftTable,
    shared: DraftTable,
}

/// A draft.
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
    /// Nothing of a task's own, beside the drafts of all tasks.
    pub(crate) fn beside(shared: &DraftTable) -> Opened {
        Opened { drafts: Drafts { shared: Rc::clone(shared), ..Drafts::default() }, ..Opened::default() }
    }
}

impl Drafts {
    fn table(&self, slot: u32) -> &DraftTable {
        if slot < SHARED_FROM { &self.own } else { &self.shared }
    }

    /// The number by which the file system knows a draft; `None` if there is none.
    pub(crate) fn id(&self, slot: u32) -> Option<DraftId> {
        self.table(slot).borrow().get(&slot).map(|draft| draft.id)
    }

    /// [`Drafts::id`] of several.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if one of them is not there.
    pub(crate) fn ids(&self, slots: &[u32]) -> FsResult<Vec<DraftId>> {
        slots.iter().map(|slot| self.id(*slot).ok_or_else(|| no_draft(*slot))).collect()
    }

    /// Notes a draft that was begun.
    pub(crate) fn insert(&self, slot: u32, id: DraftId) {
        let draft = Draft { id, paths: BTreeMap::new(), steps: Vec::new(), claimed: BTreeSet::new() };
        self.table(slot).borrow_mut().insert(slot, draft);
    }

    /// What `of` says about a draft; `None` if another task has ended it.
    pub(crate) fn with<T>(&self, slot: u32, of: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.table(slot).borrow_mut().get_mut(&slot).map(of)
    }

    /// Forgets a draft, and says how the file system knew it.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it is not there.
    pub(crate) fn remove(&self, slot: u32) -> FsResult<DraftId> {
        self.table(slot).borrow_mut().remove(&slot).map(|draft| draft.id).ok_or_else(|| no_draft(slot))
    }

    /// The task's own.
    pub(crate) fn own(&self) -> &DraftTable {
        &self.own
    }
}

impl Draft {
    /// Forgets what waited.
    pub(crate) fn forget(&mut self) {
        self.paths.clear();
        self.steps.clear();
    }
}

fn no_draft(slot: u32) -> FsError {
    FsError::NotFound(format!("draft {slot} of this task"))
}
