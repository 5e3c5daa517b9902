//! Patch: brings into the image what only the log has, and begins the log anew behind the checkpoint.

use std::collections::BTreeSet;

use onewrite_block::Page;

use super::super::file::File;
use super::super::views::Checkpoints;
use super::super::volume::Volume;
use super::Stage;
use crate::api::{FsError, FsResult};
use crate::f2fs::format::Nid;
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::stage::format::{End, Head, Transaction};
use crate::pages::PagedFile;
use crate::transfer::Durability;

/// Checkpoints after which a sync gives up that finds no room for content.
const ATTEMPTS: usize = 8;

impl Volume {
    /// Pages that only the staging area has; the next checkpoint takes as many blocks.
    pub(in crate::f2fs::mounted) fn staged_pages(&self) -> usize {
        self.stage.as_ref().map_or(0, |stage| stage.pending.borrow().staged.len())
    }

    /// Whether only the staging area has a page, so that the next checkpoint brings it in.
    pub(in crate::f2fs::mounted) fn is_staged(&self, file: &File, index: u64) -> bool {
        let of = |stage: &Stage| stage.pending.borrow().staged.contains_key(&(file.number(), index));
        self.stage.as_ref().is_some_and(of)
    }

    /// Whether the logs of a file's content go on. If they do, a page that is dirty behind a sync was written to again.
    fn has_room_for_content(&self, file: &File) -> bool {
        let space = self.space.borrow();
        [Volume::log_of_content(file), LogKind::ColdData].into_iter().all(|kind| space.next_block(kind).is_some())
    }

    /// Whether they need nearly all the room that is left, so that the next checkpoint should not wait.
    pub(in crate::f2fs::mounted) fn stage_needs_room(&self) -> bool {
        let staged = self.staged_pages();
        staged >= SEGMENT_BLOCKS as usize && 2 * staged > self.space.borrow().open_blocks()
    }

    /// Whether the dirty pages would need more room than there is, if they were staged, too, or recovery would.
    pub(in crate::f2fs::mounted) fn would_stage_too_much(&self) -> bool {
        let pages = self.staged_pages() + self.pages.dirty_count();
        // A checkpoint gives content a part of the reserve.
        let space = self.space.borrow();
        pages > space.open_blocks() + SEGMENT_BLOCKS as usize || !space.counts().has_room_for_recovery()
    }
}

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
            self.pages.write_ready_runs(self.volume(), &file, &runs).await?;
            self.pages.wait_for_writes(&*file).await;
        }
        Ok(())
    }

    /// Whether the image lacks pages that the log has.
    pub(in crate::f2fs::mounted) fn lacks_staged(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| !stage.pending.borrow().staged.is_empty())
    }

    /// Brings the content of files into the image, with a checkpoint, for the log has no room for it.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there is no room in the image, either; device errors.
    pub(super) async fn patch_files(&self, files: &BTreeSet<Nid>) -> FsResult<()> {
        for _ in 0..ATTEMPTS {
            let mut is_written = true;
            for nid in files {
                if let Some(file) = self.file_in_memory(*nid).filter(|file| !file.is_deleted()) {
                    self.pages.sync(self.volume(), &file).await?;
                    is_written &= !file.pages().is_dirty() || self.has_room_for_content(&file);
                }
            }
            self.checkpoint().await?;
            if is_written {
                return Ok(());
            }
            onewrite_block::reached!("patched file finds no segment for a page");
            self.cleaner().clean_if_short().await?;
        }
        Err(FsError::NoSpace { what: "segments for content", needed: 1, free: 0 })
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
