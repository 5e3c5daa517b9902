//! The drafts of a volume: what each changed, and what its commit takes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;
use std::rc::Rc;

use super::change::NameChange;
use crate::api::{FsError, FsResult};
use crate::atomic::DraftId;
use crate::pages::PagedFile;
use crate::runs::Runs;

/// What a commit takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Blocks that it may change.
    pub(crate) changed: usize,
    /// Free blocks that it needs.
    pub(crate) reserved: u64,
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { changed: self.changed + other.changed, reserved: self.reserved + other.reserved }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Add::add)
    }
}

/// How a file came to a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It existed.
    Claimed,
    /// The draft created it; it has no name before the commit.
    Created,
}

/// A file as a draft has it. `P` is what the file system notes of it.
pub(crate) struct DraftFile<F, P> {
    pub(crate) node: Rc<F>,
    pub(crate) origin: Origin,
    /// Its size in the draft.
    pub(crate) size: u64,
    /// Pages that hold nothing of the committed content.
    pub(crate) dropped: Runs,
    /// Pages with private content in memory.
    pub(crate) private: Runs,
    /// Pages with private content on the device; none of them is in `private`.
    pub(crate) spilled: Runs,
    pub(crate) plan: P,
}

impl<F, P: Clone> Clone for DraftFile<F, P> {
    fn clone(&self) -> Self {
        let DraftFile { node, origin, size, dropped, private, spilled, plan } = self;
        let (node, dropped, private, spilled) = (Rc::clone(node), dropped.clone(), private.clone(), spilled.clone());
        DraftFile { node, origin: *origin, size: *size, dropped, private, spilled, plan: plan.clone() }
    }
}

impl<F: PagedFile, P: Default> DraftFile<F, P> {
    /// The file as it was committed.
    pub(crate) fn new(node: Rc<F>, origin: Origin) -> Self {
        let (size, none) = (node.size(), Runs::default);
        DraftFile { node, origin, size, dropped: none(), private: none(), spilled: none(), plan: P::default() }
    }

    pub(crate) fn is_changed(&self) -> bool {
        let has_pages = [&self.dropped, &self.private, &self.spilled].iter().any(|pages| !pages.is_empty());
        has_pages || self.size != self.node.size()
    }
}

/// The changes of one owner.
pub(crate) struct Draft<F, P> {
    /// By number, which is lock order.
    pub(crate) files: BTreeMap<u64, DraftFile<F, P>>,
    /// In the order in which they were made.
    pub(crate) names: Vec<NameChange>,
    /// Directories of `names`, kept open: their numbers cannot come to name others.
    pub(crate) directories: Vec<Rc<F>>,
    /// Whether a commit has begun: nothing changes until it has ended.
    pub(crate) is_committing: bool,
}

impl<F: PagedFile, P: Default> Draft<F, P> {
    fn new() -> Self {
        Draft { files: BTreeMap::new(), names: Vec::new(), directories: Vec::new(), is_committing: false }
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.names.is_empty() || self.files.values().any(DraftFile::is_changed)
    }
}

/// All drafts of a volume.
pub(crate) struct Drafts<F, P> {
    last: Cell<u64>,
    pub(super) all: RefCell<BTreeMap<DraftId, Draft<F, P>>>,
}

impl<F, P> Default for Drafts<F, P> {
    fn default() -> Self {
        Drafts { last: Cell::new(0), all: RefCell::default() }
    }
}

impl<F: PagedFile, P: Default> Drafts<F, P> {
    pub(super) fn begin(&self) -> DraftId {
        let id = DraftId(self.last.get() + 1);
        self.last.set(id.0);
        self.all.borrow_mut().insert(id, Draft::new());
        id
    }

    pub(super) fn ids(&self) -> Vec<DraftId> {
        self.all.borrow().keys().copied().collect()
    }

    /// Reads a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended.
    pub(crate) fn read<R>(&self, id: DraftId, read: impl FnOnce(&Draft<F, P>) -> R) -> FsResult<R> {
        self.all.borrow().get(&id).map(read).ok_or_else(|| ended(id))
    }

    /// Changes a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended; [`FsError::Busy`] while it commits.
    pub(crate) fn change<R>(&self, id: DraftId, change: impl FnOnce(&mut Draft<F, P>) -> R) -> FsResult<R> {
        let mut all = self.all.borrow_mut();
        let draft = all.get_mut(&id).ok_or_else(|| ended(id))?;
        onewrite_block::reached!("draft changed while it commits", draft.is_committing);
        match draft.is_committing {
            true => Err(FsError::Busy(format!("draft {} is being committed; wait for that", id.0))),
            false => Ok(change(draft)),
        }
    }

    /// Changes a draft that is being committed, or one of whose files the caller has locked.
    ///
    /// # Panics
    /// If it has ended: it cannot meanwhile.
    pub(crate) fn change_committing<R>(&self, id: DraftId, change: impl FnOnce(&mut Draft<F, P>) -> R) -> R {
        let mut all = self.all.borrow_mut();
        change(all.get_mut(&id).expect("a draft cannot end while it commits"))
    }

    /// Removes a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended.
    pub(super) fn remove(&self, id: DraftId) -> FsResult<Draft<F, P>> {
        self.all.borrow_mut().remove(&id).ok_or_else(|| ended(id))
    }
}

fn ended(id: DraftId) -> FsError {
    FsError::NotFound(format!("draft {}: it has ended", id.0))
}
