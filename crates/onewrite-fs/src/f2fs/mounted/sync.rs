//! Sync: an fsync writes the file's content, then its changed nodes; recovery rolls them forward. Where that cannot do,
//! it makes a checkpoint.
//!
//! ```text
//!   content written ─► nodes placed ─┐ (the file is free again)
//!   content written ─► nodes placed ─┴─► round: FLUSH ─► nodes written ─► FLUSH ─► all return
//! ```
//!
//! The first FLUSH of a round comes before its nodes, so no node that recovery finds names content that is not there.
//! Linux leaves it out and may show old content of freed blocks after a power loss.
//!
//! # Invariants
//! - One round runs at a time. Nodes are written in the order in which they were placed, so no chain has a gap before
//!   a node of a sync that returned.
//! - A checkpoint waits until all placed nodes are written.

use std::rc::Rc;

use onewrite_block::{Cause, Request};

use super::file::File;
use super::node_batch::NodeBatch;
use super::nodes::NodesFor;
use super::views::Syncs;
use crate::api::{FileKind, FsError, FsResult};
use crate::f2fs::format::Nid;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::hash::name_hash;
use crate::pages::PagedFile;
use crate::transfer::Durability;

/// Nodes of fsyncs behind a checkpoint: recovery makes as many anew.
const CHAINED_MAX: usize = 1024;
/// Checkpoints after which an fsync gives up that finds no room for content.
const ATTEMPTS: usize = 8;

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// Its content and its inode.
    Everything,
    /// Its content, and what is needed to read it.
    Data,
}

impl Syncs<'_> {
    /// See `FileSystem::fsync` and `fdatasync`.
    pub(super) async fn sync_file(&self, file: &Rc<File>, what: Synced) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        if let Some(stage) = &self.stage {
            return self.stage_file(stage, file).await;
        }
        self.check_writable()?;
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let before = self.pages.dirty_count();
            let held = file.lock().read().await;
            let in_place = self.is_small(file).then(|| file.begin_in_place());
            self.pages.sync(self.volume(), file).await?;
            drop(in_place);
            if file.pages().is_dirty() {
                onewrite_block::reached!("fsync finds no segment for a page");
                drop(held);
                self.checkpoints().checkpoint().await?;
                self.cleaner().clean_if_short().await?;
                attempts = if self.pages.dirty_count() < before { 0 } else { attempts + 1 };
                continue;
            }
            let changes = self.changes.read().await;
            self.check_writable()?;
            // While this waited, cleaning may have moved pages of the file, and their writes may be under way.
            self.pages.wait_for_writes(&**file).await;
            if file.pages().is_dirty() {
                onewrite_block::reached!("fsync finds pages that cleaning moved");
                continue;
            }
            let round = self.place(file, what).await?;
            drop((changes, held));
            return self.finish(round).await;
        }
        Err(FsError::NoSpace { what: "segments for content", needed: 1, free: 0 })
    }

    /// Gives the changed nodes of a file without dirty pages their addresses. Returns the round that writes them;
    /// `None` if it takes a checkpoint. The caller holds the file's lock, and `changes`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn place(&self, file: &Rc<File>, what: Synced) -> FsResult<Option<u64>> {
        if self.needs_checkpoint(file, what) {
            return Ok(None);
        }
        match self.place_for_sync(file, what).await {
            Err(FsError::NoSpace { .. }) => Ok(None),
            placed => placed.map(Some),
        }
    }

    /// Makes durable what [`Syncs::place`] placed. The caller holds no `changes`.
    pub(super) async fn finish(&self, round: Option<u64>) -> FsResult<()> {
        match round {
            Some(round) => self.wait_for_round(round).await,
            None => self.checkpoints().checkpoint().await,
        }
    }

    /// Whether a sync of the file has so few pages that they go over their blocks.
    fn is_small(&self, file: &File) -> bool {
        let limit = self.options.in_place_below as usize;
        limit > 0 && file.kind() == FileKind::Regular && !self.pages.has_dirty_pages(file, limit)
    }

    /// Whether recovery could not roll an fsync of the file forward.
    fn needs_checkpoint(&self, file: &File, what: Synced) -> bool {
        let has_changed = file.is_changed() || what == Synced::Everything && file.is_unsaved();
        let nodes = self.nodes().dirty_nodes_of(file.number());
        if !has_changed && nodes.is_empty() {
            return false;
        }
        // Only inodes have a checksum.
        let may_tear = self.port.geometry().atomic_write_pages == 0 && nodes.iter().any(|nid| *nid != file.number());
        onewrite_block::reached!("fsync of nodes that may tear makes a checkpoint", may_tear);
        let raw = file.raw();
        let parent = Nid(raw.i_pino.get());
        let is_new = self.numbers.borrow().is_new(file.number());
        let name = &raw.i_name[..(raw.i_namelen.get() as usize).min(raw.i_name.len())];
        let is_taken_over = || self.names_gone.borrow().contains(&(parent, name_hash(name)));
        let finds_room = self.space.borrow().has_room_for_recovery() && self.chained.get() < CHAINED_MAX;
        onewrite_block::reached!("fsync of a bound file makes a checkpoint", file.is_bound_to(self.version()));
        onewrite_block::reached!("fsync of a file with two names makes a checkpoint", raw.i_links.get() != 1);
        onewrite_block::reached!(
            "fsync in a new directory makes a checkpoint",
            is_new && self.numbers.borrow().is_new(parent)
        );
        onewrite_block::reached!("fsync under a taken over name makes a checkpoint", is_new && is_taken_over());
        onewrite_block::reached!("fsync finds no room for its chain", !finds_room);
        file.kind() != FileKind::Regular
            || may_tear
            || !finds_room
            || raw.i_links.get() != 1
            || file.is_bound_to(self.version())
            || self.checkpoint.borrow().has(flags::UMOUNT)
            || is_new && (self.numbers.borrow().is_new(parent) || is_taken_over())
    }

    /// Gives the file's changed nodes their addresses. Returns the round that writes them.
    async fn place_for_sync(&self, file: &Rc<File>, what: Synced) -> FsResult<u64> {
        if what == Synced::Everything || file.is_changed() {
            self.nodes().save_inode(file).await?;
        }
        let mut nids = self.nodes().dirty_nodes_of(file.number());
        // The mark has to be on a node of the chain; cleaning may have moved another alone. The next checkpoint has it.
        nids.retain(|nid| self.nodes().is_in_chain(*nid));
        if nids.is_empty() {
            onewrite_block::reached!("fsync has no nodes to write");
            // What was written over its block is durable behind a FLUSH.
            let has_content = self.options.in_place_below > 0 && self.is_unflushed.get();
            return Ok(if has_content { self.sync_line.next() } else { self.sync_line.last() });
        }
        let has_new_name = self.numbers.borrow().is_new(file.number());
        self.chained.set(self.chained.get() + nids.len());
        let mut batch = self.sync_line.batch();
        let placed = self.nodes().place_nodes(&mut batch, file.number(), &nids, NodesFor::Fsync { has_new_name });
        // Half a file's nodes without a mark are nothing to recovery, but the next checkpoint must come first.
        placed.inspect_err(|_| file.bind_to(self.version()))?;
        Ok(self.sync_line.next())
    }

    /// Waits until a round has ended; runs it if nobody does.
    async fn wait_for_round(&self, round: u64) -> FsResult<()> {
        while !self.sync_line.has_ended(round) {
            onewrite_block::reached!("fsync waits for the round of others", self.sync_line.is_running());
            match self.sync_line.is_running() {
                true => self.pages.progress().wait().await,
                false => self.run_round().await?,
            }
        }
        self.check_failure()
    }

    async fn run_round(&self) -> FsResult<()> {
        let outcome = self.write_round(self.sync_line.begin()).await;
        self.sync_line.end();
        self.pages.progress().notify_all();
        outcome.inspect_err(|error| self.fail(error))
    }

    async fn write_round(&self, batch: NodeBatch) -> FsResult<()> {
        if self.is_unflushed.replace(false) {
            onewrite_block::reached!("content flushed before nodes");
            self.flush().await?;
        }
        if batch.run_count() == 0 {
            onewrite_block::reached!("fsync of content alone");
            return Ok(());
        }
        let is_one = batch.run_count() == 1 && self.port.geometry().fua;
        onewrite_block::reached!("nodes of fsyncs in several runs", batch.run_count() > 1);
        let durability = if is_one { Durability::Fua } else { Durability::Volatile };
        self.nodes().write_nodes(batch, durability, Cause::Journal).await?;
        self.count(|counters| counters.commits += 1);
        if is_one { Ok(()) } else { self.flush().await }
    }

    pub(super) async fn flush(&self) -> FsResult<()> {
        let outcome = self.port.request(Request::flush(Cause::Journal)).await;
        outcome.map(drop).inspect_err(|error| self.fail(&error.clone().into()))?;
        Ok(())
    }

    /// Waits until all placed nodes are written.
    pub(super) async fn wait_for_rounds(&self) -> FsResult<()> {
        self.wait_for_round(self.sync_line.last()).await
    }
}
