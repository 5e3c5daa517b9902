//! Balance: checkpoints in time, before free segments, memory or the patience of users run out.

use onewrite_block::Nanos;
use onewrite_block::sync::either;

use super::views::Cleaner;
use crate::api::FsResult;
use crate::f2fs::space::Prepared;

/// Changed entries and names in memory that a checkpoint should not exceed.
const CHANGES_MAX: usize = 1 << 16;
/// Shortest interval of checkpoints: one of 0 would never let time pass.
const INTERVAL_MIN: Nanos = Nanos::from_millis(1);
/// Time until a checkpoint of the background is tried again that failed and did not end the file system.
const RETRY_INTERVAL: Nanos = Nanos::from_secs(1);

impl Cleaner<'_> {
    /// Makes a checkpoint if one is due, and prepares segments for the logs. The caller holds no `changes`.
    ///
    /// # Errors
    /// Device errors; the file system failed before.
    pub(super) async fn balance(&self) -> FsResult<()> {
        if self.is_checkpoint_due() {
            onewrite_block::reached!("operation makes a checkpoint first");
            Box::pin(self.checkpoints().checkpoint()).await?;
        }
        if self.space.borrow().is_short() {
            Box::pin(self.clean_if_short()).await?;
        }
        let is_unprepared = self.space.borrow().wants_prepared().is_some();
        match is_unprepared {
            true => Box::pin(self.prepare_threads()).await,
            false => Ok(()),
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let nodes = self.dirty_nodes.borrow().len() + self.files.unsaved_count();
        let changes = self.numbers.borrow().changed_count() + self.names_gone.borrow().len();
        let is_large = nodes > self.options.cache_pages / 4 || changes > CHANGES_MAX;
        is_large || self.stage_needs_room() || self.space.borrow().wants_checkpoint(nodes)
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
                onewrite_block::reached!("segment prepared for a threaded log");
                space.prepare(Prepared { segment, owners: Box::new(*page.bytes()) });
                space.look_again();
            }
        }
    }

    /// Makes a checkpoint when one is wanted, and in regular intervals; ends when the file system fails.
    pub(super) async fn checkpoint_task(&self) {
        loop {
            let interval = self.options.checkpoint_interval.max(INTERVAL_MIN);
            either(self.wanted.wait(), self.runtime.sleep(interval)).await;
            self.wanted.clear();
            // What pages cannot be written here, the checkpoint tries again, and says why.
            let _ = self.checkpoints().patch_pages().await;
            if self.checkpoints().checkpoint().await.is_err() || self.prepare_threads().await.is_err() {
                if self.check_failure().is_err() {
                    return;
                }
                self.runtime.sleep(RETRY_INTERVAL).await;
            }
        }
    }
}
