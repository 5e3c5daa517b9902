//! The drafts of a volume: what each changed, and the blocks that its commit takes. `credits` says what room that
//! commit needs in the log.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::change::NameChange;
use crate::api::{FsError, FsResult};
use crate::atomic::DraftId;
use crate::ext4::format::InodeNo;
use crate::ext4::inodes::Node;
use crate::ext4::runs::Runs;

/// Blocks that a directory may need for one more entry.
pub(super) const NAME_BLOCKS: u64 = 3;
/// Nodes of a map that a split of an extent may add: a leaf and its parent.
const SPLIT_BLOCKS: u64 = 2;

/// How a file came to a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It existed.
    Claimed,
    /// The draft created it; it has no name before the commit.
    Created,
}

/// A file as a draft has it.
#[derive(Clone)]
pub(super) struct DraftFile {
    pub(super) node: Rc<Node>,
    pub(super) origin: Origin,
    /// Its size in the draft.
    pub(super) size: u64,
    /// Pages that hold nothing of the committed content.
    pub(super) dropped: Runs,
    /// Extents that the commit frees for `dropped`.
    pub(super) dropped_extents: usize,
    /// Pages with private content.
    pub(super) private: Runs,
    /// Private pages that need a block.
    pub(super) new: Runs,
    /// Private pages whose block the map calls unwritten.
    pub(super) unwritten: Runs,
}

impl DraftFile {
    /// The file as it was committed.
    pub(super) fn new(node: Rc<Node>, origin: Origin) -> DraftFile {
        let size = node.size();
        let (dropped, private, new, unwritten) = <(Runs, Runs, Runs, Runs)>::default();
        DraftFile { node, origin, size, dropped, dropped_extents: 0, private, new, unwritten }
    }

    /// Blocks that its commit takes: for new pages, and for nodes of the map where extents split.
    pub(super) fn reserved_blocks(&self) -> u64 {
        let splits = self.unwritten.run_count() + self.dropped_extents;
        self.new.count() + splits as u64 * SPLIT_BLOCKS
    }

    pub(super) fn is_changed(&self) -> bool {
        self.size != self.node.size() || !self.dropped.is_empty() || !self.private.is_empty()
    }
}

/// The changes of one owner.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) files: BTreeMap<InodeNo, DraftFile>,
    /// In the order in which they were made.
    pub(super) names: Vec<NameChange>,
    /// Directories of `names`, kept open: their numbers cannot come to name others.
    pub(super) directories: Vec<Rc<Node>>,
    /// Whether a commit has begun: nothing changes until it has ended.
    pub(super) is_committing: bool,
}

impl Draft {
    pub(super) fn is_changed(&self) -> bool {
        !self.names.is_empty() || self.files.values().any(DraftFile::is_changed)
    }

    pub(super) fn reserved_blocks(&self) -> u64 {
        let files: u64 = self.files.values().map(DraftFile::reserved_blocks).sum();
        files + self.names.len() as u64 * NAME_BLOCKS
    }
}

/// All drafts of a volume.
#[derive(Default)]
pub(in crate::ext4) struct Drafts {
    last: Cell<u64>,
    all: RefCell<BTreeMap<DraftId, Draft>>,
}

impl Drafts {
    /// Blocks reserved for drafts.
    pub(in crate::ext4) fn reserved_blocks(&self) -> u64 {
        self.all.borrow().values().map(Draft::reserved_blocks).sum()
    }

    /// The sum of a number of each draft.
    pub(super) fn sum(&self, of: impl Fn(&Draft) -> usize) -> usize {
        self.all.borrow().values().map(of).sum()
    }

    pub(super) fn begin(&self) -> DraftId {
        let id = DraftId(self.last.get() + 1);
        self.last.set(id.0);
        self.all.borrow_mut().insert(id, Draft::default());
        id
    }

    pub(super) fn ids(&self) -> Vec<DraftId> {
        self.all.borrow().keys().copied().collect()
    }

    /// Reads a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended.
    pub(super) fn read<R>(&self, id: DraftId, read: impl FnOnce(&Draft) -> R) -> FsResult<R> {
        self.all.borrow().get(&id).map(read).ok_or_else(|| ended(id))
    }

    /// Changes a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended; [`FsError::Busy`] while it commits.
    pub(super) fn change<R>(&self, id: DraftId, change: impl FnOnce(&mut Draft) -> R) -> FsResult<R> {
        let mut all = self.all.borrow_mut();
        let draft = all.get_mut(&id).ok_or_else(|| ended(id))?;
        onewrite_block::reached!("draft changed while it commits", draft.is_committing);
        match draft.is_committing {
            true => Err(FsError::Busy(format!("draft {} is being committed; wait for that", id.0))),
            false => Ok(change(draft)),
        }
    }

    /// Changes a draft that is being committed.
    ///
    /// # Panics
    /// If it has ended: it cannot while it commits.
    pub(super) fn change_committing<R>(&self, id: DraftId, change: impl FnOnce(&mut Draft) -> R) -> R {
        let mut all = self.all.borrow_mut();
        change(all.get_mut(&id).expect("a draft cannot end while it commits"))
    }

    /// Removes a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended.
    pub(super) fn remove(&self, id: DraftId) -> FsResult<Draft> {
        self.all.borrow_mut().remove(&id).ok_or_else(|| ended(id))
    }
}

fn ended(id: DraftId) -> FsError {
    FsError::NotFound(format!("draft {}: it has ended", id.0))
}
