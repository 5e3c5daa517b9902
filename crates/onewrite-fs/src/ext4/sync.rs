//! Sync: what has to be durable before a caller goes on.

use std::rc::Rc;

use super::inodes::Node;
use super::mode::Scope;
use super::volume::Volume;
use crate::api::FsResult;
use crate::pages::PagedFile;

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// The file.
    Everything,
    /// Its content, and what is needed to read it.
    Data,
}

impl Volume {
    /// See `FileSystem::fsync` and `fdatasync`.
    pub(super) async fn sync_file(&self, node: &Rc<Node>, what: Synced) -> FsResult<()> {
        if self.scope != Scope::Full {
            // Shared, so that no hole is being cut around pages that have to be written.
            let _held = node.lock.read().await;
            self.pages.sync(self, node).await?;
            self.contents().convert(node).await?;
        }
        let tid = match what {
            Synced::Everything => node.changed_in.get(),
            Synced::Data => node.data_changed_in.get(),
        };
        if self.journal.is_committed(tid) {
            self.journal.check_aborted()?;
            return self.journal.settle().await;
        }
        let is_late = self.journal.has_flushed(tid);
        self.journal.request_commit(tid);
        self.journal.wait_committed(tid).await?;
        if is_late { self.journal.settle().await } else { Ok(()) }
    }

    /// Writes all dirty pages of all files.
    ///
    /// # Errors
    /// The first error; all files are tried.
    pub(super) async fn write_everything(&self) -> FsResult<()> {
        let outcome = self.pages.sync_all(self).await;
        outcome.and(self.contents().convert_everything().await)
    }

    /// Commits what runs, and waits.
    ///
    /// # Errors
    /// If the journal is or gets aborted.
    pub(super) async fn commit_now(&self) -> FsResult<()> {
        let tid = self.journal.running_tid();
        if self.journal.is_running_empty() {
            let before = tid.previous();
            return self.journal.wait_committed(before).await;
        }
        self.journal.request_commit(tid);
        self.journal.wait_committed(tid).await
    }

    /// Writes what the file has dirty and waits for it, and makes the map and the size say so.
    pub(super) async fn write_and_convert(&self, node: &Node) -> FsResult<()> {
        self.pages.write_pages(self, node, 0..u64::MAX).await?;
        self.pages.wait_for_writes(node).await;
        self.contents().convert(node).await
    }

    /// Before a file takes the name of another: its content goes out, so that the name never shows less than one of
    /// the two (Linux's `auto_da_alloc`). What cannot be written, fsync tells.
    pub(super) async fn write_before_replacing(&self, node: &Rc<Node>) {
        if !self.contents().delays()
            || node.is_directory()
            || !node.pages().is_dirty() && !self.contents().needs_conversion(node)
        {
            return;
        }
        let _held = node.lock.read().await;
        let _ = self.write_and_convert(node).await;
    }
}
