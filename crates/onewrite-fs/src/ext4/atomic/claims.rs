//! Claims: which draft may change a file; how drafts begin and end, and what they may reserve.

use std::rc::Rc;

use super::drafts::{Draft, DraftFile, Origin};
use crate::api::{FsError, FsResult, Ino};
use crate::atomic::DraftId;
use crate::ext4::format::InodeNo;
use crate::ext4::inodes::Node;
use crate::ext4::mode::Scope;
use crate::ext4::views::Atomics;

/// Files and directories that a draft gave up.
#[must_use]
pub(super) struct Left(pub(super) Vec<Rc<Node>>);

impl Left {
    /// Ends the draft's open of each.
    ///
    /// # Errors
    /// The first error; tries all files.
    pub(super) async fn release(self, atomics: &Atomics<'_>) -> FsResult<()> {
        let mut outcome = Ok(());
        for node in self.0 {
            let released = atomics.contents().release(&node).await;
            outcome = outcome.and(released);
        }
        outcome
    }
}

impl Atomics<'_> {
    /// See [`AtomicFiles::begin_draft`](crate::AtomicFiles::begin_draft).
    pub(super) fn begin_draft(&self) -> FsResult<DraftId> {
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
    pub(super) async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        self.check_writable()?;
        let node = self.node(ino).await?;
        node.expect_file()?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        self.adopt(draft, &node, Origin::Claimed)
    }

    /// Makes the draft the only one that changes the node's content. Does not wait.
    pub(super) fn adopt(&self, draft: DraftId, node: &Rc<Node>, origin: Origin) -> FsResult<()> {
        onewrite_block::reached!("file belongs to another draft", node.claimant().is_some_and(|owner| owner != draft));
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

    /// See [`AtomicFiles::is_draft_changed`](crate::AtomicFiles::is_draft_changed).
    pub(super) fn is_changed(&self, draft: DraftId) -> FsResult<bool> {
        self.drafts().read(draft, Draft::is_changed)
    }

    /// The file as the draft has it.
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the draft did not claim it.
    pub(super) fn file(&self, draft: DraftId, ino: Ino) -> FsResult<DraftFile> {
        let number = InodeNo::from_ino(ino);
        let found = self.drafts().read(draft, |draft| draft.files.get(&number).cloned())?;
        found.ok_or_else(|| FsError::Invalid(format!("{ino} does not belong to draft {}: claim it first", draft.0)))
    }

    /// Replaces a file of a draft; reserves or gives back blocks. Does not wait.
    ///
    /// # Errors
    /// [`FsError::TooManyChanges`], [`FsError::NoSpace`]: nothing has changed then.
    pub(super) fn put_file(&self, id: DraftId, file: DraftFile) -> FsResult<()> {
        let before = self.file(id, file.node.ino())?;
        let groups = self.group_count();
        let more_credits = file.credits(groups).saturating_sub(before.credits(groups));
        let (old, new) = (before.reserved_blocks(), file.reserved_blocks());
        self.check_room(more_credits, new.saturating_sub(old))?;
        self.drafts().change(id, |draft| draft.files.insert(file.node.number(), file))?;
        self.groups().reserve(self.groups().reserved_blocks() + new - old);
        Ok(())
    }

    /// # Errors
    /// If drafts cannot have so many credits or reserved blocks more.
    pub(super) fn check_room(&self, more_credits: usize, more_blocks: u64) -> FsResult<()> {
        let (blocks, blocks_max) =
            (self.drafts().credits(self.group_count()) + more_credits, self.journal().transaction_blocks_max());
        if more_credits > 0 && blocks > blocks_max {
            onewrite_block::reached!("drafts too large for one transaction");
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
    pub(super) fn group_count(&self) -> usize {
        self.groups().len() as usize
    }

    /// Drops the changes of a draft whose files the caller has locked. Returns the files that it had created and that
    /// have no name, and the directories that it kept. Does not wait.
    fn drop_changes(&self, id: DraftId) -> FsResult<Left> {
        let (reserved, created, directories) = self.drafts().change(id, |draft| {
            let reserved = draft.reserved_blocks();
            draft.names.clear();
            let created = draft.files.extract_if(.., |_, file| file.origin == Origin::Created);
            let created: Vec<Rc<Node>> = created.map(|(_, file)| file.node).collect();
            draft.files.values_mut().for_each(|file| *file = DraftFile::new(Rc::clone(&file.node), file.origin));
            (reserved, created, std::mem::take(&mut draft.directories))
        })?;
        onewrite_block::reached!("created files dropped with their draft", !created.is_empty());
        self.groups().reserve(self.groups().reserved_blocks() - reserved);
        self.pages().owned_pages().drop_private(id.owner());
        created.iter().for_each(|node| node.set_claimant(None));
        self.pages().progress().notify_all();
        Ok(Left([created, directories].concat()))
    }

    /// See [`AtomicFiles::abort_drafts`](crate::AtomicFiles::abort_drafts).
    pub(super) async fn abort(&self, ids: &[DraftId]) -> FsResult<()> {
        ids.iter().try_for_each(|id| self.drafts().read(*id, |_| ()))?;
        for id in ids {
            self.with_files_locked(*id, || self.drop_changes(*id)).await?.release(self).await?;
        }
        Ok(())
    }

    /// See [`AtomicFiles::end_draft`](crate::AtomicFiles::end_draft).
    pub(super) async fn end(&self, id: DraftId) -> FsResult<()> {
        let end = || {
            let mut left = self.drop_changes(id)?;
            for file in self.drafts().remove(id)?.files.into_values() {
                file.node.set_claimant(None);
                left.0.push(file.node);
            }
            Ok(left)
        };
        self.with_files_locked(id, end).await?.release(self).await
    }

    /// Does something to a draft while no task reads or changes its files: a read or write under way relies on what the
    /// draft had when it began.
    async fn with_files_locked<R>(&self, id: DraftId, work: impl FnOnce() -> FsResult<R>) -> FsResult<R> {
        loop {
            let nodes = self.nodes_of(id)?;
            let mut held = Vec::with_capacity(nodes.len());
            for node in &nodes {
                held.push(node.lock().write().await);
            }
            let now = self.nodes_of(id)?;
            if now.len() == nodes.len() && now.iter().zip(&nodes).all(|(one, other)| Rc::ptr_eq(one, other)) {
                return work();
            }
        }
    }

    /// The files of a draft, in lock order.
    pub(super) fn nodes_of(&self, id: DraftId) -> FsResult<Vec<Rc<Node>>> {
        self.drafts().read(id, |draft| draft.files.values().map(|file| Rc::clone(&file.node)).collect())
    }

    /// Ends all drafts, at unmount.
    pub(in crate::ext4) async fn end_all(&self) -> FsResult<()> {
        for id in self.drafts().ids() {
            onewrite_block::reached!("unmount ends a draft");
            self.end(id).await?;
        }
        Ok(())
    }
}

/// The error of a change to a file that a draft has.
pub(in crate::ext4) fn claimed(node: &Node, owner: DraftId) -> FsError {
    FsError::Busy(format!(
        "{} belongs to draft {} of atomic files; change it there, or end the draft",
        node.ino(),
        owner.0
    ))
}
