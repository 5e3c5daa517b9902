//! Balance: checkpoints in time, before free segments, memory or the patience of users run out.

use std::rc::Rc;

use onewrite_block::sync::either;

use super::volume::Volume;
use crate::api::FsResult;
use crate::f2fs::space::Prepared;

/// Changed entries and names in memory that a checkpoint should not exceed.
const CHANGES_MAX: usize = 1 << 16;

impl Volume {
    /// Makes a checkpoint if one is due, and prepares segments for the logs. The caller holds no `changes`.
    ///
    /// # Errors
    /// Device errors; the file system failed before.
    pub(super) async fn balance(&self) -> FsResult<()> {
        if self.is_checkpoint_due() {
            self.checkpoint().await?;
        }
        self.clean_if_short().await?;
        self.prepare_threads().await
    }

    fn is_checkpoint_due(&self) -> bool {
        let nodes = self.dirty_nodes.borrow().len() + self.files.unsaved_count();
        let changes = self.numbers.borrow().changed_count() + self.names_gone.borrow().len();
        let is_large = nodes > self.options.cache_pages / 4 || changes > CHANGES_MAX;
        is_large || self.space.borrow().wants_checkpoint(nodes)
    }

    /// Reads the summaries of segments that logs may enter soon.
    pub(super) async fn prepare_threads(&self) -> FsResult<()> {
        loop {
            let Some((segment, block)) = self.space.borrow().wants_prepared() else { return Ok(()) };
            let _changes = self.changes.read().await;
            let known = self.space.borrow().full_summary(block);
            let page = match known {
                Some(page) => page,
                None => self.meta_block(block).await?,
            };
            let mut space = self.space.borrow_mut();
            if space.wants_prepared().is_some_and(|(still, _)| still == segment) {
                space.prepare(Prepared { segment, owners: Box::new(*page.bytes()) });
                space.look_again();
            }
        }
    }

    /// Asks for a checkpoint soon.
    pub(super) fn want_checkpoint(&self) {
        self.is_wanted.set(true);
        self.wanted.notify_all();
    }

    /// Starts the background tasks; they end with the mount.
    pub(super) fn start_tasks(self: &Rc<Volume>) {
        let (flusher, evictor, keeper) = (Rc::clone(self), Rc::clone(self), Rc::clone(self));
        let cleaner = Rc::clone(self);
        self.start_task(async move { cleaner.cleaning_task().await });
        self.start_task(async move { flusher.pages.dirty_files().flusher(&*flusher).await });
        self.start_task(async move { evictor.pages.eviction_task(&*evictor).await });
        self.start_task(async move { keeper.checkpoint_task().await });
    }

    fn start_task(self: &Rc<Volume>, task: impl Future<Output = ()> + 'static) {
        let owner = Rc::clone(self);
        self.runtime.spawn(async move { either(owner.stopped.wait(), task).await });
    }

    /// Makes a checkpoint when one is wanted, and in regular intervals; ends when the file system fails.
    async fn checkpoint_task(&self) {
        loop {
            let interval = self.options.checkpoint_interval;
            either(self.wanted.until(|| self.is_wanted.get()), self.runtime.sleep(interval)).await;
            self.is_wanted.set(false);
            if self.checkpoint().await.is_err() || self.prepare_threads().await.is_err() {
                return;
            }
        }
    }
}
