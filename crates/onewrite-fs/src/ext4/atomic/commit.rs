//! Commits of drafts: everything that they changed goes into one transaction of the journal.
//!
//! What a draft has spilled is moved into the maps (`spill`).
//!
//! Lock order: directories by inode number, then files by inode number. Checks that can fail for a reason of the caller
//! come before the first change, except one: a directory whose hash tree is full. What fails after the first change
//! aborts the journal: the transaction, which holds a part of the changes, never becomes durable.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::api::{FsError, FsResult};
use crate::atomic::DraftId;
use crate::drafts::{Committing, Directories, DraftFile, DraftHost, Drafting, FileOf, Left, NameChange, Origin};
use crate::ext4::inodes::Node;
use crate::ext4::survey::Part;
use crate::ext4::sync::Synced;
use crate::ext4::views::Atomics;
use crate::ext4::volume::Volume;
use crate::ext4::write::NewBlocks;
use crate::journal::{Handle, TransactionId};
use crate::pages::page_key;

/// What one commit takes.
struct Work {
    drafts: Vec<DraftId>,
    names: Vec<NameChange>,
    directories: Directories<Node>,
    /// The files that change or lose a name, in lock order.
    nodes: BTreeMap<u64, Rc<Node>>,
}

impl<'a> Atomics<'a> {
    pub(super) fn drafting(&self) -> Drafting<'a, Volume> {
        Drafting(self.volume())
    }

    /// See [`AtomicFiles::commit_drafts`](crate::AtomicFiles::commit_drafts).
    pub(super) async fn commit(&self, drafts: &[DraftId]) -> FsResult<()> {
        self.check_writable()?;
        self.drafting().until_steps_end(drafts).await;
        let committing = Committing::begin(self.volume(), drafts)?;
        let is_changed = drafts.iter().any(|id| self.drafting().is_changed(*id) == Ok(true));
        if !is_changed {
            onewrite_block::reached!("commit of drafts without changes");
            drop(committing);
            return self.sync_files(drafts).await;
        }
        let mut work = self.work(drafts).await?;
        let directories: Vec<_> = work.directories.values().cloned().collect();
        let mut directories_held = Vec::with_capacity(directories.len());
        for directory in &directories {
            directories_held.push(directory.lock().write().await);
        }
        for node in self.drafting().check_names(&work.directories, &work.names).await? {
            work.nodes.insert(node.file_number(), node);
        }
        let nodes: Vec<_> = work.nodes.values().cloned().collect();
        let mut nodes_held = Vec::with_capacity(nodes.len());
        for node in &nodes {
            node.add_opener();
            nodes_held.push(node.lock().write().await);
        }
        let (outcome, mut left) = match self.publish(&work).await {
            Ok((tid, spills)) => (Ok(tid), spills),
            Err(error) => (Err(error), Vec::new()),
        };
        if outcome.is_ok() {
            left.extend(drafts.iter().flat_map(|id| self.take_directories(*id)));
        }
        drop((nodes_held, directories_held, committing));
        let durable = match outcome {
            Ok(tid) => self.make_durable(tid, &nodes).await,
            Err(error) => Err(error),
        };
        left.extend(nodes.iter().cloned());
        // What fails here is left to the next mount. The commit does not depend on it.
        let _ = Left(left).release(self.volume()).await;
        durable
    }

    async fn make_durable(&self, tid: TransactionId, nodes: &[Rc<Node>]) -> FsResult<()> {
        self.journal().request_shared_commit(tid);
        self.journal().wait_committed(tid).await?;
        nodes.iter().for_each(|node| node.note_committed(tid));
        Ok(())
    }

    /// Makes the files of drafts without changes durable.
    async fn sync_files(&self, drafts: &[DraftId]) -> FsResult<()> {
        for id in drafts {
            for node in self.drafting().nodes_of(*id)? {
                self.contents().sync_file(&node, Synced::Everything).await?;
            }
        }
        Ok(())
    }

    async fn work(&self, drafts: &[DraftId]) -> FsResult<Work> {
        let mut work = Work {
            drafts: drafts.to_vec(),
            names: Vec::new(),
            directories: Directories::default(),
            nodes: BTreeMap::new(),
        };
        for id in drafts {
            self.drafts().read(*id, |draft| {
                work.names.extend(draft.names.iter().cloned());
                work.nodes.extend(draft.files.iter().map(|(number, file)| (*number, Rc::clone(&file.node))));
            })?;
        }
        work.directories = self.drafting().directories_of(&work.names).await?;
        Ok(work)
    }

    /// Makes all changes in one transaction; returns it and the spill files, which nobody needs any more. The caller
    /// holds all locks.
    ///
    /// # Errors
    /// Before the first change: the drafts are as they were. After it: the journal is aborted.
    async fn publish(&self, work: &Work) -> FsResult<(TransactionId, Vec<Rc<Node>>)> {
        self.settle_spills(&work.drafts).await?;
        let mut credits = 0;
        for id in &work.drafts {
            credits += self.drafts().read(*id, |draft| draft.cost(self.volume()).changed)?;
        }
        onewrite_block::reached!("several drafts in one commit", work.drafts.len() > 1);
        let mut handle = self.journal().start(credits).await?;
        let made = self.make_changes(&mut handle, work).await;
        let spills = made.inspect_err(|error| {
            onewrite_block::reached!("drafts published in part");
            self.journal().abort(error);
        })?;
        Ok((handle.tid(), spills))
    }

    async fn make_changes(&self, handle: &mut Handle, work: &Work) -> FsResult<Vec<Rc<Node>>> {
        let mut spills = Vec::new();
        for id in &work.drafts {
            let names = self.drafts().change_committing(*id, |draft| std::mem::take(&mut draft.names));
            self.note_reserved(names.len() as u64 * Volume::NAME_COST.reserved, 0);
        }
        for change in &work.names {
            self.make_change(handle, &work.directories, change).await?;
        }
        for id in &work.drafts {
            let files = self.drafts().read(*id, |draft| draft.files.values().cloned().collect::<Vec<_>>())?;
            for file in files.into_iter().filter(DraftFile::is_changed) {
                self.publish_file(handle, *id, &file).await?;
            }
            self.pages().owned_pages().drop_private(id.owner());
            spills.extend(self.note_committed(*id));
        }
        Ok(spills)
    }

    /// The directories that a draft kept open for its changes of names, which are made now.
    fn take_directories(&self, id: DraftId) -> Vec<Rc<Node>> {
        self.drafts().change_committing(id, |draft| std::mem::take(&mut draft.directories))
    }

    /// Makes the draft's files those that were just committed, and gives back what their maps did not need. Returns
    /// their spill files.
    fn note_committed(&self, id: DraftId) -> Vec<Rc<Node>> {
        let (left, spills) = self.drafts().change_committing(id, |draft| {
            let left = draft.cost(self.volume()).reserved;
            let spills = draft.take_spills();
            draft.files.values_mut().for_each(|file| *file = DraftFile::new(Rc::clone(&file.node), Origin::Claimed));
            (left, spills)
        });
        self.note_reserved(left, 0);
        spills
    }

    /// Makes the draft's content of a file the file's content.
    async fn publish_file(&self, handle: &mut Handle, id: DraftId, file: &FileOf<Volume>) -> FsResult<()> {
        let node = &file.node;
        if let Some(spill) = &file.plan.spill {
            self.publish_spilled(handle, file, &spill.node).await?;
            return self.publish_inode(handle, file).await;
        }
        onewrite_block::reached!("draft drops pages", !file.dropped.is_empty());
        if super::credits::rewrites_map(file, self.groups().len() as usize) {
            self.rewrite_map(handle, node, &file.dropped, Vec::new()).await?;
        } else {
            for run in file.dropped.runs() {
                self.contents().free_range(handle, node, run).await?;
            }
        }
        for run in file.plan.new.runs() {
            onewrite_block::reached!("draft fills holes");
            self.hand_over(id, node, run);
        }
        for run in file.private.runs() {
            self.map_pages(handle, node, run.clone()).await?;
            self.publish_pages(handle, id, node, run).await?;
        }
        self.publish_inode(handle, file).await
    }

    /// Gives the inode the draft's size and the time of the commit, unless that leaves it as it is: an overwrite within
    /// one tick of the clock logs no inode.
    async fn publish_inode(&self, handle: &mut Handle, file: &FileOf<Volume>) -> FsResult<()> {
        let (node, stamp) = (&file.node, self.timestamp());
        let plan = &file.plan;
        let keeps_map = file.dropped.is_empty() && plan.new.is_empty() && plan.unwritten.is_empty();
        let changes_map = !keeps_map || plan.spill.is_some();
        let is_stamped = node.inode().mtime == stamp && node.inode().ctime == stamp;
        if changes_map || file.size != node.size() || !is_stamped {
            self.load_inode_block(node.number()).await?;
            if file.size != node.size() {
                node.set_size(file.size);
            }
            node.stamp_modified(stamp);
            self.save(handle, node);
        }
        node.note_content_change(handle.tid());
        Ok(())
    }

    /// Lets the reserved blocks of new pages be those of the node: allocation takes them from there. Does not wait.
    fn hand_over(&self, id: DraftId, node: &Node, pages: Range<u64>) {
        self.drafts().change_committing(id, |draft| {
            let file = draft.files.get_mut(&node.file_number()).expect("a file stays in its draft while it commits");
            file.plan.new.remove(pages.clone());
        });
        node.pending().delay(pages);
    }

    /// Gives all of `pages` blocks that the map calls written.
    async fn map_pages(&self, handle: &mut Handle, node: &Rc<Node>, pages: Range<u64>) -> FsResult<()> {
        let _map = node.map_lock().write().await;
        let survey = self.extents().survey(node, pages).await?;
        match survey.is_written() {
            true => Ok(()),
            false => self.contents().allocate_range(handle, node, survey, NewBlocks::Written).await.outcome,
        }
    }

    /// Moves private pages into the cache and the transaction.
    async fn publish_pages(&self, handle: &mut Handle, id: DraftId, node: &Node, pages: Range<u64>) -> FsResult<()> {
        for part in self.extents().survey(node, pages).await?.into_parts() {
            let Part::Mapped(extent) = part else {
                let place = format!("{}, a page of draft {}", node.ino(), id.0);
                return Err(FsError::Damaged { place, problem: "is a hole, though just allocated".into() });
            };
            for index in u64::from(extent.logical)..extent.logical_end() {
                let key = page_key(node, index);
                let page = self.pages().owned_pages().private_page(id.owner(), key);
                self.pages().insert(key, page.expect("the page layer keeps what `private` names"));
                self.pin(handle, extent.physical + (index - u64::from(extent.logical)), key);
            }
        }
        Ok(())
    }
}
