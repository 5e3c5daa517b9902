//! Tasks: the background work of a mounted volume, from mount to unmount.

use std::rc::Rc;

use onewrite_block::sync::either;
use onewrite_cache::PageKey;

use super::inodes::Node;
use super::truncate::DELETE_CREDITS;
use super::volume::Volume;
use crate::api::{FsError, FsResult};
use crate::ext4::format::InodeNo;
use crate::journal::{Owner, Sealed};
use crate::pages::{Backing, PAGE_BYTES};

/// Cache key of a page that a transaction changed.
fn key_of(owner: Owner) -> PageKey {
    PageKey { file: owner.file, index: owner.index }
}

/// Starts all tasks.
pub(super) fn start_tasks(volume: &Rc<Volume>) {
    let (committer, checkpointer, flusher) = (Rc::clone(volume), Rc::clone(volume), Rc::clone(volume));
    let (converter, evictor, trimmer) = (Rc::clone(volume), Rc::clone(volume), Rc::clone(volume));
    start_task(volume, async move { committer.commit_task().await });
    start_task(volume, async move { checkpointer.checkpoint_task().await });
    start_task(volume, async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    start_task(volume, async move { converter.contents().conversion_task().await });
    start_task(volume, async move { evictor.pages.eviction_task(&*evictor).await });
    start_task(volume, async move { trimmer.trimming_task().await });
}

/// Starts a task that ends with the mount.
fn start_task(volume: &Rc<Volume>, task: impl Future<Output = ()> + 'static) {
    let owner = Rc::clone(volume);
    volume.runtime.spawn(async move { either(owner.stopped.wait(), task).await });
}

impl Volume {
    /// Commits due transactions, one after another; ends when the journal is aborted.
    async fn commit_task(self: &Rc<Volume>) {
        while self.journal.abort_reason().is_none() {
            self.journal.commit_due().await;
            let content = |owner: Owner| self.pages.peek(key_of(owner)).map(|page| page.clone());
            let Some(sealed) = self.journal.seal(content).await else { continue };
            if let Err(error) = self.write_ordered(&sealed.ordered).await {
                self.journal.abort(&error);
                return;
            }
            let Ok(sealed) = self.journal.commit(sealed).await else { return };
            self.after_commit(sealed);
        }
    }

    async fn write_ordered(&self, files: &[u64]) -> FsResult<()> {
        for file in files {
            if let Some(node) = self.file(*file) {
                self.pages.write_ready(self, &node, 0..u64::MAX).await?;
                self.pages.wait_for_writes(&*node).await;
            }
        }
        Ok(())
    }

    fn after_commit(self: &Rc<Volume>, sealed: Sealed) {
        self.pages.unpin(sealed.owners.iter().copied().map(key_of), sealed.tid.0);
        self.pages.progress().notify_all();
        self.allocator().debug_check();
        self.contents().debug_check_delayed();
        if !sealed.freed.is_empty() {
            let volume = Rc::clone(self);
            self.runtime.spawn(async move {
                volume.journal.homeward_writes_done().await;
                volume.allocator().release_blocks(&sealed.freed);
            });
        }
    }

    async fn checkpoint_task(&self) {
        loop {
            let urgency = self.journal.checkpoint_due().await;
            if self.journal.checkpoint_round(urgency).await.is_err() {
                return;
            }
        }
    }

    async fn trimming_task(&self) {
        loop {
            self.journal.trimming_due().await;
            if self.journal.trim_freed().await.is_err() {
                return;
            }
        }
    }

    /// Finishes the deletions and truncations that were interrupted when the image was last in use.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the list of orphans is wrong; device errors.
    pub(super) async fn finish_orphans(self: &Rc<Volume>) -> FsResult<()> {
        let nodes = self.read_orphans().await?;
        *self.inodes.orphans.borrow_mut() = nodes.iter().rev().map(|node| node.number()).collect();
        for node in &nodes {
            let handle = self.journal.start(DELETE_CREDITS).await?;
            if node.inode().links == 0 {
                self.contents().delete(handle, node).await?;
            } else {
                drop(handle);
                self.truncate_behind_end(node).await?;
            }
        }
        Ok(())
    }

    /// The inodes of the orphan list, its head first.
    async fn read_orphans(&self) -> FsResult<Vec<Rc<Node>>> {
        let mut nodes = Vec::new();
        let mut next = InodeNo(self.superblock().last_orphan.get());
        while next.is_some() {
            if nodes.len() as u32 >= self.layout.inode_count {
                let problem = "the orphan list runs in a circle".into();
                return Err(FsError::Damaged { place: format!("inode {next}"), problem });
            }
            let node = match self.node_or_orphan(next.into()).await {
                Err(FsError::NotFound(_)) => {
                    let place = format!("orphan list, inode {next}");
                    return Err(FsError::Damaged { place, problem: "there is no such inode".into() });
                }
                outcome => outcome?,
            };
            next = node.inode().next_orphan();
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Finishes an interrupted truncation: frees the blocks behind the end of the file.
    async fn truncate_behind_end(&self, node: &Rc<Node>) -> FsResult<()> {
        let _held = node.lock().write().await;
        let first = node.size().div_ceil(PAGE_BYTES);
        self.contents().free_behind(node, first).await
    }
}
