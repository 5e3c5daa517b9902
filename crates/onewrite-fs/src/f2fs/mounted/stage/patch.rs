//! Patch: brings into the image what only the log has, and begins the log anew behind the checkpoint.

use std::rc::Rc;

use onewrite_block::Page;

use super::super::views::Checkpoints;
use super::Stage;
use crate::api::{FsError, FsResult};
use crate::f2fs::stage::format::{End, Head, Transaction};
use crate::transfer::Durability;

impl Checkpoints<'_> {
    /// Writes pages that the log has and the image lacks: file by file, the hottest first.
    ///
    /// # Errors
    /// Why pages could not be written.
    pub(in crate::f2fs::mounted) async fn patch_pages(&self) -> FsResult<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        let files = stage.pending.borrow().staged_files();
        for nid in files {
            let Some(file) = self.file_in_memory(nid) else { continue };
            let runs = stage.pending.borrow().staged_runs(nid);
            for run in runs {
                self.pages.write_pages(self.volume(), &Rc::clone(&file), run).await?;
            }
            self.pages.wait_for_writes(&*file).await;
        }
        Ok(())
    }

    /// Whether the image lacks pages that the log has.
    pub(in crate::f2fs::mounted) fn lacks_staged(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| !stage.pending.borrow().staged.is_empty())
    }

    /// Waits until no transaction is under way. The caller holds `changes` alone, so none begins.
    pub(in crate::f2fs::mounted) async fn wait_for_stage(&self) {
        if let Some(stage) = &self.stage {
            self.pages.progress().until(|| !stage.is_writing()).await;
        }
    }

    /// Says in the area which checkpoint is about to hold all that its log says: the one with this head. The caller
    /// makes that durable before the checkpoint ends.
    ///
    /// # Errors
    /// A failed write: the image lacks pages that the log has; device errors.
    pub(in crate::f2fs::mounted) async fn end_stage(&self, head: &Page) -> FsResult<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        if self.lacks_staged() {
            return Err(FsError::NoSpace { what: "blocks for staged pages", needed: 1, free: 0 });
        }
        stage.area.write_end(End { version: self.version(), digest: head.digest() }).await?;
        if stage.area.is_apart { stage.area.flush().await } else { Ok(()) }
    }

    /// Begins the log anew behind the checkpoint that was just made, with a transaction without changes. That need not
    /// be durable: the area says which checkpoint holds what the log says without it.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs::mounted) async fn begin_stage(&self) -> FsResult<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        stage.begin_anew();
        stage.area.write(0, empty(stage, self.version()), Durability::Volatile).await
    }

    /// Makes durable that the log holds nothing, for an unmount.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::f2fs::mounted) async fn close_stage(&self) -> FsResult<()> {
        match &self.stage {
            Some(stage) if stage.area.is_apart => stage.area.flush().await,
            Some(_) => self.syncs().flush().await,
            None => Ok(()),
        }
    }
}

/// A transaction without changes.
fn empty(stage: &Stage, version: u64) -> Vec<Page> {
    let head = Head { version, transaction: 0, durable: 0, index: 0, is_last: false };
    Transaction::default().pages(head, stage.area.seed)
}
