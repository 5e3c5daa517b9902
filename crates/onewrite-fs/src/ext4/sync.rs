//! Sync: makes changes durable before a caller goes on.

use std::rc::Rc;

use super::inodes::Node;
use super::mode::Scope;
use super::views::Contents;
use super::volume::Volume;
use crate::api::FsResult;

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// Its content and all of its metadata.
    Everything,
    /// Its content, and what is needed to read it.
    Data,
}

impl Contents<'_> {
    /// See `FileSystem::fsync` and `fdatasync`.
    pub(super) async fn sync_file(&self, node: &Rc<Node>, what: Synced) -> FsResult<()> {
        if self.scope() != Scope::Full {
            // The shared lock keeps truncations away: they would remove the blocks of pages that must be written.
            let _held = node.lock().read().await;
            self.pages().sync(self.volume(), node).await?;
            self.convert(node).await?;
        }
        let tid = match what {
            Synced::Everything => node.changed_in(),
            Synced::Data => node.data_changed_in(),
        };
        if self.journal().is_committed(tid) {
            self.journal().check_aborted()?;
            if self.scope() == Scope::Full && node.is_as_committed() {
                onewrite_block::reached!("fsync finds everything committed");
                // A draft's commit made everything durable; SQLite calls fsync after it.
                return Ok(());
            }
            onewrite_block::reached!("fsync without a transaction");
            return self.journal().settle().await;
        }
        let is_late = self.journal().has_flushed(tid);
        onewrite_block::reached!("fsync joins a commit behind its last FLUSH", is_late);
        self.journal().request_shared_commit(tid);
        self.journal().wait_committed(tid).await?;
        if is_late { self.journal().settle().await } else { Ok(()) }
    }

    /// Writes all dirty pages of all files.
    ///
    /// # Errors
    /// The first error. Tries to write all files, but stops converting at the first conversion error.
    pub(super) async fn write_everything(&self) -> FsResult<()> {
        let outcome = self.pages().dirty_files().sync_all(self.volume()).await;
        outcome.and(self.convert_everything().await)
    }

    /// Writes the file's dirty pages, waits for them, and updates the map and the size.
    pub(super) async fn write_and_convert(&self, node: &Node) -> FsResult<()> {
        self.pages().write_newest(self.volume(), node, 0..u64::MAX).await?;
        while self.scope() != Scope::Full && node.is_dirty() {
            // A write of the flusher failed meanwhile; this one tells why.
            self.pages().write_newest(self.volume(), node, 0..u64::MAX).await?;
        }
        self.convert(node).await
    }

    /// Writes the content of a file that is about to replace another by rename. So the name always shows the old or the
    /// new content (Linux's `auto_da_alloc`). A later fsync reports a write error.
    pub(super) async fn write_before_replacing(&self, node: &Rc<Node>) {
        if !self.delays() || node.is_directory() || !node.is_dirty() && !self.needs_conversion(node) {
            return;
        }
        onewrite_block::reached!("rename writes delayed content before it replaces");
        let _held = node.lock().read().await;
        let _ = self.write_and_convert(node).await;
    }
}

impl Volume {
    /// Commits the running transaction and waits; if it is empty, waits for the one before.
    ///
    /// # Errors
    /// If the journal is aborted before or during the wait.
    pub(super) async fn commit_now(&self) -> FsResult<()> {
        let tid = self.journal().running_tid();
        if !self.journal().is_running_empty() {
            self.journal().request_commit(tid);
            self.journal().wait_committed(tid).await?;
        }
        // An open handle may add nothing: then the running transaction stays empty while the one before it commits.
        self.journal().wait_committed(tid.previous()).await
    }
}
