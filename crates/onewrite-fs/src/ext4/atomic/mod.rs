//! Drafts: what owners of atomic files changed and did not commit yet.
//!
//! A draft keeps whole pages as private pages of the page layer, and here what surrounds them: sizes, pages cut off,
//! changes of names. Nothing of it is in shared metadata before the commit, so no other commit can carry it along. The
//! commit (`commit`) takes all of it into one handle of the journal, that is, into one transaction.
//!
//! # Invariants
//! - A file has at most one draft ([`Node::claimant`]); while it has one, nobody else changes its content.
//! - `private` holds the pages that the page layer keeps for the owner. `new` and `unwritten` are parts of it: pages
//!   that need a block, and pages whose block reads as zeros. All others have a written block that nobody can take.
//! - Every page in `new` has one reserved block; so have [`NAME_BLOCKS`] blocks for each change of a name.
//! - All drafts together fit into one transaction of the log ([`Drafts::credits`]).

mod commit;
mod content;
mod names;
mod operations;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::balloc::ALLOCATION_CREDITS;
use super::dir::{ENTRY_CREDITS, REMOVE_CREDITS};
use super::format::InodeNo;
use super::inodes::Node;
use super::map::MAP_CREDITS;
use super::mode::Scope;
use super::orphans::ORPHAN_CREDITS;
use super::runs::Runs;
use super::truncate::FREE_CREDITS;
use super::views::Atomics;
use crate::api::{FsError, FsResult, Ino};
use crate::atomic::DraftId;
use names::NameChange;

/// Blocks that a directory may need for one more entry.
const NAME_BLOCKS: u64 = 3;
/// Credits of one change of a name: an entry added, another removed, two inodes and two directories, an orphan.
const NAME_CREDITS: usize = ENTRY_CREDITS + REMOVE_CREDITS + 4 + 2 * ORPHAN_CREDITS;

/// How a file came to a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It existed.
    Claimed,
    /// The draft created it; it has no name before the commit.
    Created,
}

/// A file as a draft has it.
#[derive(Clone)]
struct DraftFile {
    node: Rc<Node>,
    origin: Origin,
    /// Its size in the draft.
    size: u64,
    /// Pages that hold nothing of the committed content.
    cut: Runs,
    /// Extents that the commit frees for `cut`.
    cut_extents: usize,
    /// Pages with private content.
    private: Runs,
    /// Private pages that need a block.
    new: Runs,
    /// Private pages whose block the map calls unwritten.
    unwritten: Runs,
}

impl DraftFile {
    /// The file as it was committed.
    fn new(node: Rc<Node>, origin: Origin) -> DraftFile {
        let size = node.size();
        let (cut, private, new, unwritten) = <(Runs, Runs, Runs, Runs)>::default();
        DraftFile { node, origin, size, cut, cut_extents: 0, private, new, unwritten }
    }

    fn is_changed(&self) -> bool {
        self.size != self.node.size() || !self.cut.is_empty() || !self.private.is_empty()
    }

    /// Blocks that its commit may change in `group_count` groups.
    fn credits(&self, group_count: usize) -> usize {
        if !self.is_changed() {
            return 0;
        }
        let (private, new) = (self.private.count() as usize, self.new.count() as usize);
        let mapped_anew = new + self.unwritten.count() as usize;
        let runs = self.new.run_count() + self.unwritten.run_count();
        let map = runs * MAP_CREDITS + mapped_anew.div_ceil(64);
        1 + private + map + ALLOCATION_CREDITS * new.min(group_count) + self.cut_extents * FREE_CREDITS
    }
}

/// The changes of one owner.
#[derive(Default)]
struct Draft {
    files: BTreeMap<InodeNo, DraftFile>,
    /// In the order in which they were made.
    names: Vec<NameChange>,
    /// Whether a commit has begun: nothing changes until it has ended.
    is_committing: bool,
}

impl Draft {
    fn is_changed(&self) -> bool {
        !self.names.is_empty() || self.files.values().any(DraftFile::is_changed)
    }

    fn credits(&self, group_count: usize) -> usize {
        let files: usize = self.files.values().map(|file| file.credits(group_count)).sum();
        files + self.names.len() * NAME_CREDITS
    }

    fn reserved_blocks(&self) -> u64 {
        let files: u64 = self.files.values().map(|file| file.new.count()).sum();
        files + self.names.len() as u64 * NAME_BLOCKS
    }
}

/// All drafts of a volume.
#[derive(Default)]
pub(super) struct Drafts {
    last: Cell<u64>,
    all: RefCell<BTreeMap<DraftId, Draft>>,
}

impl Drafts {
    /// Blocks reserved for drafts.
    pub(super) fn reserved_blocks(&self) -> u64 {
        self.all.borrow().values().map(Draft::reserved_blocks).sum()
    }

    /// Blocks that the commit of all drafts together may change.
    fn credits(&self, group_count: usize) -> usize {
        self.all.borrow().values().map(|draft| draft.credits(group_count)).sum()
    }

    fn begin(&self) -> DraftId {
        let id = DraftId(self.last.get() + 1);
        self.last.set(id.0);
        self.all.borrow_mut().insert(id, Draft::default());
        id
    }

    fn ids(&self) -> Vec<DraftId> {
        self.all.borrow().keys().copied().collect()
    }

    /// Reads a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended.
    fn read<R>(&self, id: DraftId, read: impl FnOnce(&Draft) -> R) -> FsResult<R> {
        self.all.borrow().get(&id).map(read).ok_or_else(|| ended(id))
    }

    /// Changes a draft.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has ended; [`FsError::Busy`] while it commits.
    fn change<R>(&self, id: DraftId, change: impl FnOnce(&mut Draft) -> R) -> FsResult<R> {
        let mut all = self.all.borrow_mut();
        let draft = all.get_mut(&id).ok_or_else(|| ended(id))?;
        match draft.is_committing {
            true => Err(FsError::Busy(format!("draft {} is being committed; wait for that", id.0))),
            false => Ok(change(draft)),
        }
    }
}

fn ended(id: DraftId) -> FsError {
    FsError::NotFound(format!("draft {}: it has ended", id.0))
}

impl Atomics<'_> {
    /// See [`AtomicFiles::begin_draft`](crate::AtomicFiles::begin_draft).
    fn begin_draft(&self) -> FsResult<DraftId> {
        self.check_writable()?;
        match self.scope() {
            Scope::Full => Ok(self.drafts().begin()),
            _ => Err(FsError::Unsupported(format!(
                "atomic files in mode `{}`, which writes content in place; mount with data, data+async, ldj, or with \
                 sdj on a device with SHARE",
                self.options().mode
            ))),
        }
    }

    /// See [`AtomicFiles::claim`](crate::AtomicFiles::claim).
    async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        self.check_writable()?;
        let node = self.node(ino).await?;
        node.expect_file()?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        self.adopt(draft, &node, Origin::Claimed)
    }

    /// Makes the draft the only one that changes the node's content. Does not wait.
    fn adopt(&self, draft: DraftId, node: &Rc<Node>, origin: Origin) -> FsResult<()> {
        match node.claimant() {
            Some(owner) if owner == draft => return self.drafts().read(draft, |_| ()),
            Some(owner) => return Err(claimed(node, owner)),
            None => (),
        }
        let file = DraftFile::new(Rc::clone(node), origin);
        self.drafts().change(draft, |draft| draft.files.insert(node.number(), file))?;
        node.set_claimant(Some(draft));
        node.add_opener();
        Ok(())
    }

    /// The file as the draft has it.
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the draft did not claim it.
    fn file(&self, draft: DraftId, ino: Ino) -> FsResult<DraftFile> {
        let number = InodeNo::from_ino(ino);
        let found = self.drafts().read(draft, |draft| draft.files.get(&number).cloned())?;
        found.ok_or_else(|| FsError::Invalid(format!("{ino} does not belong to draft {}: claim it first", draft.0)))
    }

    /// Replaces a file of a draft; reserves or gives back blocks. Does not wait.
    ///
    /// # Errors
    /// [`FsError::TooManyChanges`], [`FsError::NoSpace`]: nothing has changed then.
    fn put_file(&self, id: DraftId, file: DraftFile) -> FsResult<()> {
        let before = self.file(id, file.node.ino())?;
        let groups = self.group_count();
        let more_credits = file.credits(groups).saturating_sub(before.credits(groups));
        self.check_room(more_credits, file.new.count().saturating_sub(before.new.count()))?;
        let (old, new) = (before.new.count(), file.new.count());
        self.drafts().change(id, |draft| draft.files.insert(file.node.number(), file))?;
        self.groups().reserve(self.groups().reserved_blocks() + new - old);
        Ok(())
    }

    /// # Errors
    /// If drafts cannot have so many credits or reserved blocks more.
    fn check_room(&self, more_credits: usize, more_blocks: u64) -> FsResult<()> {
        let (blocks, blocks_max) =
            (self.drafts().credits(self.group_count()) + more_credits, self.journal().transaction_blocks_max());
        if more_credits > 0 && blocks > blocks_max {
            return Err(FsError::TooManyChanges { blocks, blocks_max });
        }
        match more_blocks == 0 || self.contents().can_reserve(more_blocks) {
            true => Ok(()),
            false => {
                let free = self.groups().available_blocks().saturating_sub(self.contents().kept_blocks());
                Err(FsError::NoSpace { what: "blocks", needed: more_blocks, free })
            }
        }
    }

    /// Groups whose bitmaps a commit may change.
    fn group_count(&self) -> usize {
        self.groups().len() as usize
    }

    /// Drops the changes of a draft. Returns the files that it had created and that have no name: the caller releases
    /// them. Does not wait.
    fn drop_changes(&self, id: DraftId) -> FsResult<Vec<Rc<Node>>> {
        let reserved = self.drafts().read(id, Draft::reserved_blocks)?;
        let created = self.drafts().change(id, |draft| {
            draft.names.clear();
            let created = draft.files.extract_if(.., |_, file| file.origin == Origin::Created);
            let created: Vec<Rc<Node>> = created.map(|(_, file)| file.node).collect();
            draft.files.values_mut().for_each(|file| *file = DraftFile::new(Rc::clone(&file.node), file.origin));
            created
        })?;
        self.groups().reserve(self.groups().reserved_blocks() - reserved);
        self.pages().owned_pages().drop_private(id.owner());
        created.iter().for_each(|node| node.set_claimant(None));
        self.pages().progress().notify_all();
        Ok(created)
    }

    /// See [`AtomicFiles::abort_drafts`](crate::AtomicFiles::abort_drafts).
    async fn abort(&self, ids: &[DraftId]) -> FsResult<()> {
        for id in ids {
            for node in self.drop_changes(*id)? {
                self.contents().release(&node).await?;
            }
        }
        Ok(())
    }

    /// See [`AtomicFiles::end_draft`](crate::AtomicFiles::end_draft).
    async fn end(&self, id: DraftId) -> FsResult<()> {
        let mut nodes = self.drop_changes(id)?;
        let ended = self.drafts().all.borrow_mut().remove(&id).ok_or_else(|| ended(id))?;
        for file in ended.files.into_values() {
            file.node.set_claimant(None);
            nodes.push(file.node);
        }
        for node in nodes {
            self.contents().release(&node).await?;
        }
        Ok(())
    }

    /// Ends all drafts, at unmount.
    pub(super) async fn end_all(&self) -> FsResult<()> {
        for id in self.drafts().ids() {
            self.end(id).await?;
        }
        Ok(())
    }
}

/// The error of a change to a file that a draft has.
pub(super) fn claimed(node: &Node, owner: DraftId) -> FsError {
    FsError::Busy(format!(
        "{} belongs to draft {} of atomic files; change it there, or end the draft",
        node.ino(),
        owner.0
    ))
}
