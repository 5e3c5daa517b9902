//! Checkpoint: makes everything that changed durable at once.
//!
//! ```text
//!   operations stop ─► directories and links written ─► inodes saved ─► gate closed ─► content under way arrives
//!     ─► nodes, NAT, SIT, SSA, pack without its end ─► FLUSH ─► end of the pack, FUA ─► gate open
//! ```
//!
//! NAT and SIT are written to the copies of their blocks that are not valid; the bitmaps in the pack make them so. The
//! pack is the one that the last checkpoint did not use.

use onewrite_block::{Cause, Page, Request};

use super::gate::ClosedGate;
use super::node_batch::{NodeBatch, OwnedNode};
use super::nodes::NodesFor;
use super::pack::Reason;
use super::views::Checkpoints;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::sit::LogKind;
use crate::f2fs::space::{Prepared, Reserve};
use crate::transfer::{Durability, send_run, wait_all};

/// Rounds of writing names after which a checkpoint gives up: only writeback changes anything meanwhile.
const ATTEMPTS: usize = 8;

impl Checkpoints<'_> {
    /// Makes all that changed before the call durable. The caller holds no `changes`.
    ///
    /// # Errors
    /// Device errors, after which nothing changes any more; the file system failed before.
    pub(super) async fn checkpoint(&self) -> FsResult<()> {
        self.checkpoint_for(Reason::Running).await
    }

    /// As [`Checkpoints::checkpoint`]; for an unmount, the pack says so.
    pub(super) async fn checkpoint_for(&self, reason: Reason) -> FsResult<()> {
        let wanted = self.version();
        let _alone = self.changes.write().await;
        self.check_failure()?;
        let is_made = self.version() != wanted && reason == Reason::Running;
        if is_made || !self.has_changes() && reason == Reason::Running {
            onewrite_block::reached!("checkpoint made by somebody else", is_made);
            return self.syncs().wait_for_rounds().await;
        }
        let outcome = self.make_checkpoint(reason).await;
        outcome.inspect_err(|error| self.fail(error))
    }

    /// Makes all that changed durable. The caller holds `changes` alone.
    ///
    /// # Errors
    /// As [`Checkpoints::checkpoint`].
    pub(super) async fn checkpoint_alone(&self) -> FsResult<()> {
        self.make_checkpoint(Reason::Running).await.inspect_err(|error| self.fail(error))
    }

    /// Whether anything differs from the last checkpoint.
    fn has_changes(&self) -> bool {
        !self.dirty_nodes.borrow().is_empty()
            || self.files.unsaved_count() > 0
            || self.numbers.borrow().changed_count() > 0
            || self.orphans.has_changed()
            || self.space.borrow().has_changes()
            // Content that went over its blocks; its nodes may be as they were.
            || self.options.in_place_below > 0 && self.is_unflushed.get()
    }

    async fn make_checkpoint(&self, reason: Reason) -> FsResult<()> {
        self.cleaner().note_age();
        self.syncs().wait_for_rounds().await?;
        self.wait_for_stage().await;
        self.space.borrow_mut().open_reserve(match reason {
            Reason::Mount => Reserve::ForAll,
            _ if self.stage.is_some() => Reserve::ForStaged,
            _ => Reserve::ForNodes,
        });
        self.bring_in_names().await?;
        let gate = ClosedGate::close(&self.gate, self.pages.progress());
        onewrite_block::reached!("checkpoint waits for content under way", !self.gate.is_quiet());
        self.pages.progress().until(|| self.gate.is_quiet()).await;
        let mut batch = NodeBatch::default();
        for OwnedNode { owner, nid } in self.nodes().all_dirty_nodes() {
            self.nodes().place_nodes(&mut batch, owner, &[nid], NodesFor::Checkpoint)?;
        }
        self.nodes().write_nodes(batch, Durability::Volatile, Cause::Checkpoint).await?;
        self.place_full_logs().await?;
        let (numbers, segments) = (self.plan_nat().await?, self.plan_sit().await?);
        onewrite_block::reached!("NAT blocks written, the journal is too small", !numbers.blocks.is_empty());
        onewrite_block::reached!("SIT blocks written, the journal is too small", !segments.blocks.is_empty());
        let mut blocks: Vec<(BlockNo, Page)> = self.space.borrow().full_summaries().collect();
        blocks.extend(numbers.blocks.iter().cloned());
        blocks.extend(segments.blocks.iter().cloned());
        let pack = self.plan_pack(&numbers, &segments, reason);
        let (end, rest) = pack.blocks.split_last().expect("a pack has a head and an end");
        blocks.extend(rest.iter().cloned());
        self.write_blocks(&blocks).await?;
        self.end_stage(&pack.blocks[0].1).await?;
        self.is_unflushed.set(false);
        self.syncs().flush().await?;
        self.write_end(end).await?;
        let bytes = (blocks.len() as u64 + 1) * 4096;
        self.count(|counters| {
            counters.checkpoints += 1;
            counters.checkpoint_bytes += bytes;
        });
        for (block, page) in blocks {
            self.keep_meta_block(block, page);
        }
        *self.checkpoint.borrow_mut() = pack.checkpoint;
        self.numbers.borrow_mut().note_checkpoint(numbers.journal, self.layout.nat_blocks);
        *self.sit_journal.borrow_mut() = segments.journal;
        self.names_gone.borrow_mut().clear();
        self.orphans.note_checkpoint();
        self.chained.set(0);
        let chain = self.checkpoint.borrow().log(LogKind::WarmNode);
        self.chain_end.set(Some(self.layout.segment_start(chain.segment) + u64::from(chain.next)));
        let freed = self.space.borrow_mut().note_checkpoint();
        self.space.borrow_mut().look_again();
        self.begin_stage().await?;
        // Before anybody takes the blocks: a TRIM that came later would drop what was written to them.
        onewrite_block::reached!("checkpoint frees segments", !freed.is_empty());
        self.trim(&freed).await;
        drop(gate);
        Ok(())
    }

    /// Writes changed directories and links, and pages that only the staging area has, and puts the fields of changed
    /// inodes into their nodes, until none is left. Does not wait between the last look and its return.
    async fn bring_in_names(&self) -> FsResult<()> {
        for _ in 0..ATTEMPTS {
            for file in self.files.with_dirty_names() {
                self.pages.sync(self.volume(), &file).await?;
            }
            self.patch_pages().await?;
            while let Some(file) = self.files.first_unsaved() {
                self.nodes().save_inode(&file).await?;
            }
            let is_done = self.files.with_dirty_names().is_empty() && !self.lacks_staged();
            if is_done && self.files.unsaved_count() == 0 {
                return Ok(());
            }
        }
        Err(FsError::NoSpace { what: "blocks for directories", needed: 1, free: 0 })
    }

    /// Lets no log stand at the end of its segment: readers of a checkpoint take that for damage.
    async fn place_full_logs(&self) -> FsResult<()> {
        loop {
            let Some(kind) = self.space.borrow_mut().move_full_logs() else { return Ok(()) };
            let nothing = || FsError::NoSpace { what: "blocks for the logs", needed: 1, free: 0 };
            let (segment, block) = self.space.borrow().emptiest(kind).ok_or_else(nothing)?;
            onewrite_block::reached!("full log moves to the emptiest segment");
            let known = self.space.borrow().full_summary(block);
            let page = match known {
                Some(page) => page,
                None => self.read_block(block).await?,
            };
            let prepared = Prepared { segment, owners: Box::new(*page.bytes()) };
            if !self.space.borrow_mut().move_log(kind, prepared) {
                return Err(nothing());
            }
        }
    }

    /// Writes single blocks, neighbours together, and waits.
    async fn write_blocks(&self, blocks: &[(BlockNo, Page)]) -> FsResult<()> {
        let mut sorted: Vec<&(BlockNo, Page)> = blocks.iter().collect();
        sorted.sort_by_key(|(block, _)| *block);
        let mut under_way = Vec::new();
        for run in sorted.chunk_by(|one, next| one.0 + 1 == next.0) {
            let pages = run.iter().map(|(_, page)| page.clone());
            under_way
                .extend(send_run(&self.port, run[0].0.page(), pages, Durability::Volatile, Cause::Checkpoint).await);
        }
        Ok(wait_all(under_way).await?)
    }

    /// Writes the end of a pack, durably.
    async fn write_end(&self, (block, page): &(BlockNo, Page)) -> FsResult<()> {
        let pages = vec![page.clone()];
        if self.port.geometry().fua {
            self.port.request(Request::write_fua(block.page(), pages, Cause::Checkpoint)).await?;
            return Ok(());
        }
        onewrite_block::reached!("checkpoint ends without FUA");
        self.port.request(Request::write(block.page(), pages, Cause::Checkpoint)).await?;
        self.syncs().flush().await
    }

    /// On a device with zones, before anything is written: resets all free ones, for a power cut may have left
    /// something in them, and moves the logs to blank ones, unless they were written in order up to an unmount.
    pub(super) async fn enter_zones(&self) {
        let free = self.space.borrow().free_runs();
        self.trim(&free).await;
        let was_unmounted = self.checkpoint.borrow().has(flags::UMOUNT);
        self.space.borrow_mut().leave_zones(!was_unmounted);
    }

    /// Tells the device which blocks hold nothing any more. A device that refuses loses nothing.
    pub(super) async fn trim(&self, freed: &[crate::block::BlockRange]) {
        for run in freed {
            let _ = self.port.request(Request::trim(run.start.page(), run.count, Cause::Checkpoint)).await;
        }
    }
}
