//! Claims: which draft may change a file; how drafts begin and end, and what they may reserve.

use std::ops::Deref;
use std::rc::Rc;

use super::host::{Claimable, DraftHost, FileOf, cost_of_all};
use super::table::{Cost, Draft, DraftFile, Origin};
use crate::api::{FsError, FsResult, Ino};
use crate::atomic::DraftId;
use crate::pages::PagedFile;

/// What drafts do on a file system.
pub(crate) struct Drafting<'a, H>(pub(crate) &'a H);

impl<H> Clone for Drafting<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Drafting<'_, H> {}

impl<H> Deref for Drafting<'_, H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.0
    }
}

/// Files and directories that a draft gave up.
#[must_use]
pub(crate) struct Left<F>(pub(crate) Vec<Rc<F>>);

impl<F> Left<F> {
    /// Ends the draft's open of each.
    ///
    /// # Errors
    /// The first error; tries all files.
    pub(crate) async fn release<H: DraftHost<File = F>>(self, host: &H) -> FsResult<()> {
        let mut outcome = Ok(());
        for node in self.0 {
            let released = host.end_open(&node).await;
            outcome = outcome.and(released);
        }
        outcome
    }
}

/// Marks drafts as being committed, until dropped.
pub(crate) struct Committing<'a, H: DraftHost> {
    host: &'a H,
    drafts: &'a [DraftId],
}

impl<'a, H: DraftHost> Committing<'a, H> {
    /// # Errors
    /// If a draft has ended or is being committed already.
    pub(crate) fn begin(host: &'a H, drafts: &'a [DraftId]) -> FsResult<Committing<'a, H>> {
        for (place, id) in drafts.iter().enumerate() {
            let marked = match drafts[..place].contains(id) {
                true => Err(FsError::Invalid(format!("draft {} is named twice", id.0))),
                false => host.drafts().change(*id, |draft| draft.is_committing = true),
            };
            if let Err(error) = marked {
                drop(Committing { host, drafts: &drafts[..place] });
                return Err(error);
            }
        }
        Ok(Committing { host, drafts })
    }
}

impl<H: DraftHost> Drop for Committing<'_, H> {
    fn drop(&mut self) {
        for id in self.drafts {
            self.host.drafts().change_committing(*id, |draft| draft.is_committing = false);
        }
    }
}

impl<H: DraftHost> Drafting<'_, H> {
    /// See [`AtomicFiles::begin_draft`](crate::AtomicFiles::begin_draft).
    pub(crate) fn begin_draft(&self) -> FsResult<DraftId> {
        self.expect_writable()?;
        self.expect_drafts()?;
        Ok(self.drafts().begin())
    }

    /// See [`AtomicFiles::claim`](crate::AtomicFiles::claim).
    pub(crate) async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        self.expect_writable()?;
        let node = self.existing(ino).await?;
        node.expect_regular()?;
        let _held = node.lock().write().await;
        node.expect_undeleted()?;
        self.prepare_claim(&node).await?;
        self.adopt(draft, &node, Origin::Claimed)
    }

    /// Makes the draft the only one that changes the node's content. Does not wait.
    pub(super) fn adopt(&self, draft: DraftId, node: &Rc<H::File>, origin: Origin) -> FsResult<()> {
        onewrite_block::reached!("file belongs to another draft", node.claimant().is_some_and(|owner| owner != draft));
        match node.claimant() {
            Some(owner) if owner == draft => return self.drafts().read(draft, |_| ()),
            Some(owner) => return Err(claimed(&**node, owner)),
            None => (),
        }
        let file = DraftFile::new(Rc::clone(node), origin);
        self.drafts().change(draft, |draft| draft.files.insert(node.number(), file))?;
        node.set_claimant(Some(draft));
        node.add_opener();
        Ok(())
    }

    /// See [`AtomicFiles::is_draft_changed`](crate::AtomicFiles::is_draft_changed).
    pub(crate) fn is_changed(&self, draft: DraftId) -> FsResult<bool> {
        self.drafts().read(draft, Draft::is_changed)
    }

    /// The file as the draft has it.
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the draft did not claim it.
    pub(crate) fn file(&self, draft: DraftId, ino: Ino) -> FsResult<FileOf<H>> {
        let found = self.drafts().read(draft, |draft| draft.files.get(&ino.0).cloned())?;
        found.ok_or_else(|| FsError::Invalid(format!("{ino} does not belong to draft {}: claim it first", draft.0)))
    }

    /// Replaces a file of a draft; reserves or gives back blocks. Does not wait.
    ///
    /// # Errors
    /// [`FsError::TooManyChanges`], [`FsError::NoSpace`]: nothing has changed then.
    pub(crate) fn put_file(&self, id: DraftId, file: FileOf<H>) -> FsResult<()> {
        let before = self.file(id, file.node.ino())?;
        self.check_growth(&file, &before)?;
        let (old, new) = (self.cost(&before), self.cost(&file));
        self.drafts().change(id, |draft| draft.files.insert(file.node.number(), file))?;
        self.note_reserved(old.reserved, new.reserved);
        Ok(())
    }

    /// # Errors
    /// If drafts cannot take what `file` takes more than `before`.
    pub(crate) fn check_growth(&self, file: &FileOf<H>, before: &FileOf<H>) -> FsResult<()> {
        let (old, new) = (self.cost(before), self.cost(file));
        let changed = new.changed.saturating_sub(old.changed);
        self.check_room(Cost { changed, reserved: new.reserved.saturating_sub(old.reserved) })
    }

    /// # Errors
    /// If drafts cannot take as much more.
    pub(super) fn check_room(&self, more: Cost) -> FsResult<()> {
        let (blocks, blocks_max) = (cost_of_all(self.0).changed + more.changed, self.changed_max());
        if more.changed > 0 && blocks > blocks_max {
            onewrite_block::reached!("drafts too large for one transaction");
            return Err(FsError::TooManyChanges { blocks, blocks_max });
        }
        if more.reserved == 0 { Ok(()) } else { self.expect_room(more.reserved) }
    }

    /// Blocks that all drafts reserve.
    pub(crate) fn reserved_blocks(&self) -> u64 {
        cost_of_all(self.0).reserved
    }

    /// Drops the changes of a draft whose files the caller has locked. Returns the files that it had created and that
    /// have no name, and the directories that it kept. Does not wait.
    fn drop_changes(&self, id: DraftId) -> FsResult<Left<H::File>> {
        let (reserved, spills, created, directories) = self.drafts().change(id, |draft| {
            let reserved = draft.cost(self.0).reserved;
            draft.names.clear();
            let spills = draft.take_spills();
            let created = draft.files.extract_if(.., |_, file| file.origin == Origin::Created);
            let created: Vec<Rc<H::File>> = created.map(|(_, file)| file.node).collect();
            draft.files.values_mut().for_each(|file| *file = DraftFile::new(Rc::clone(&file.node), file.origin));
            (reserved, spills, created, std::mem::take(&mut draft.directories))
        })?;
        onewrite_block::reached!("created files dropped with their draft", !created.is_empty());
        onewrite_block::reached!("spilled pages dropped with their draft", !spills.is_empty());
        self.note_reserved(reserved, 0);
        self.page_layer().owned_pages().drop_private(id.owner());
        created.iter().for_each(|node| node.set_claimant(None));
        self.page_layer().progress().notify_all();
        Ok(Left([created, directories, spills].concat()))
    }

    /// See [`AtomicFiles::abort_drafts`](crate::AtomicFiles::abort_drafts).
    pub(crate) async fn abort(&self, ids: &[DraftId]) -> FsResult<()> {
        ids.iter().try_for_each(|id| self.drafts().read(*id, |_| ()))?;
        self.until_steps_end(ids).await;
        for id in ids {
            self.with_files_locked(*id, || self.drop_changes(*id)).await?.release(self.0).await?;
        }
        Ok(())
    }

    /// See [`AtomicFiles::end_draft`](crate::AtomicFiles::end_draft).
    pub(crate) async fn end(&self, id: DraftId) -> FsResult<()> {
        self.until_steps_end(&[id]).await;
        let end = || {
            let mut left = self.drop_changes(id)?;
            for file in self.drafts().remove(id)?.files.into_values() {
                file.node.set_claimant(None);
                left.0.push(file.node);
            }
            Ok(left)
        };
        self.with_files_locked(id, end).await?.release(self.0).await
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
            if self.has_steps(id) {
                drop(held);
                self.until_steps_end(&[id]).await;
                continue;
            }
            let now = self.nodes_of(id)?;
            if now.len() == nodes.len() && now.iter().zip(&nodes).all(|(one, other)| Rc::ptr_eq(one, other)) {
                return work();
            }
        }
    }

    /// The files of a draft, in lock order.
    pub(crate) fn nodes_of(&self, id: DraftId) -> FsResult<Vec<Rc<H::File>>> {
        self.drafts().read(id, |draft| draft.files.values().map(|file| Rc::clone(&file.node)).collect())
    }

    /// Ends all drafts, at unmount.
    pub(crate) async fn end_all(&self) -> FsResult<()> {
        for id in self.drafts().ids() {
            onewrite_block::reached!("unmount ends a draft");
            self.end(id).await?;
        }
        Ok(())
    }
}

/// The error of a change to a file that a draft has.
fn claimed(file: &impl Claimable, owner: DraftId) -> FsError {
    FsError::Busy(format!(
        "{} belongs to draft {} of atomic files; change it there, or end the draft",
        file.ino(),
        owner.0
    ))
}

/// # Errors
/// [`FsError::Busy`] if a draft has the file: only its owner may change the content.
pub(crate) fn expect_unclaimed(file: &impl Claimable) -> FsResult<()> {
    onewrite_block::reached!("claimed file changed outside its draft", file.claimant().is_some());
    match file.claimant() {
        Some(draft) => Err(claimed(file, draft)),
        None => Ok(()),
    }
}
