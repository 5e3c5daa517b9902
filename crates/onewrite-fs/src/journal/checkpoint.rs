//! Checkpoint: committed blocks go home, and log space becomes free.
//!
//! The checkpoint copies blocks or shares them. Sharing makes the device read each home block as its log block does, so
//! no block is written twice. A block that is escaped in the log is always copied. Source: `papers/000` §3.4.1;
//! docs/decisions/007.

use onewrite_block::{Cause, DeviceError, Nanos, PAGE_SIZE, Remap};

use super::home;
use super::live::{CheckpointBlock, Reclaimed};
use super::place::LogPlace;
use super::{CheckpointBy as By, Journal};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;

/// How a checkpoint brings committed blocks home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointBy {
    /// Writes them to their home blocks.
    Copy,
    /// Remaps each home block to its copy in the log (SHARE).
    Share,
}

/// When background checkpoints run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPace {
    /// For age and log space, and to free memory.
    Eager,
    /// Only for age and log space.
    Lazy,
}

/// What happens to log space before the journal uses it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimedSpace {
    /// Nothing: it is overwritten.
    Kept,
    /// The journal trims it.
    Trimmed,
}

/// Why blocks go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The log or memory holds too many blocks, or old ones. The tail moves with FLUSHes that other tasks send.
    Background,
    /// A task waits for log space. The round sends its own FLUSHes, so the space is free when it ends.
    Forced,
}

/// Approximate number of blocks that one round brings home.
const ROUND_BLOCKS: usize = 1024;

impl Journal {
    /// Waits until a checkpoint is due: a task waits for log space, the journal holds too many blocks, or a block is
    /// old.
    pub(crate) async fn checkpoint_due(&self) -> Urgency {
        loop {
            if self.abort_reason().is_some() {
                std::future::pending::<()>().await;
            }
            if self.checkpoint_wanted.get() {
                return Urgency::Forced;
            }
            let runtime = self.log.runtime();
            match self.background_due() {
                Some(due) if due <= runtime.now() => return Urgency::Background,
                Some(due) => onewrite_block::sync::either(self.work.wait(), runtime.sleep_until(due)).await,
                None => self.work.wait().await,
            }
        }
    }

    /// When the next background checkpoint is due; `None` if all blocks are home.
    fn background_due(&self) -> Option<Nanos> {
        let live = self.live.borrow();
        if live.entry_count() == 0 {
            return None;
        }
        let is_eager = self.options.checkpoint_pace == CheckpointPace::Eager;
        let is_full = live.burden_blocks() > (live.ring_blocks() - self.padding_blocks() as u32) / 2;
        onewrite_block::reached!("half of the log is not home", is_full);
        if is_full || is_eager && live.entry_count() > self.options.retained_pages_max / 2 {
            return Some(Nanos::ZERO);
        }
        live.oldest_commit().map(|committed| committed + self.options.checkpoint_age)
    }

    /// Brings about `blocks_max` blocks home, oldest transactions first, and moves the tail as far as is safe. Gives
    /// the number of blocks that went home.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted.
    pub async fn checkpoint(&self, blocks_max: usize, urgency: Urgency) -> FsResult<usize> {
        self.check_aborted()?;
        onewrite_block::reached!("forced checkpoint", urgency == Urgency::Forced);
        onewrite_block::reached!("checkpoint while a transaction commits", self.committing.borrow().is_some());
        let outcome = self.bring_home(blocks_max).await;
        let home = outcome.inspect_err(|error| self.abort(error))?;
        self.count_round(home, urgency);
        self.move_tail(urgency).await.inspect_err(|error| self.abort(error))?;
        if urgency == Urgency::Forced {
            self.checkpoint_wanted.set(false);
            self.changed.notify_all();
        }
        Ok(home)
    }

    /// Brings `sources` home, and `targets` so that no recovery writes them any more: the log behind the durable tail
    /// holds none of their versions. The running transaction holds none of either, and nobody adds one meanwhile.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted. [`FsError::ReadOnly`] if it closes.
    pub async fn bring_home_for_good(&self, targets: &[BlockNo], sources: &[BlockNo]) -> FsResult<()> {
        let is_done = || {
            let live = self.live.borrow();
            !targets.iter().any(|block| live.is_logged(*block))
                && sources.iter().all(|block| live.newest(*block).is_none())
        };
        while !is_done() {
            onewrite_block::reached!("share of pages waits for a checkpoint");
            self.check_aborted()?;
            if self.is_closed.get() {
                return Err(FsError::ReadOnly("it is being unmounted".into()));
            }
            if self.checkpoint(usize::MAX, Urgency::Forced).await? == 0 && !is_done() {
                // A transaction that is committing holds one of them.
                onewrite_block::reached!("share of pages waits for a commit under way");
                self.changed.wait().await;
            }
        }
        Ok(())
    }

    fn count_round(&self, home: usize, urgency: Urgency) {
        let mut counters = self.counters.borrow_mut();
        counters.checkpoints += u64::from(home > 0);
        counters.forced_checkpoints += u64::from(home > 0 && urgency == Urgency::Forced);
    }

    /// One round of the checkpoint task.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted.
    pub(crate) async fn checkpoint_round(&self, urgency: Urgency) -> FsResult<usize> {
        self.checkpoint(ROUND_BLOCKS, urgency).await
    }

    async fn bring_home(&self, blocks_max: usize) -> FsResult<usize> {
        let _homeward = self.homeward.write().await;
        let batch = self.live.borrow().batch(blocks_max);
        let can_share = |homeward: &CheckpointBlock| {
            self.options.checkpoint == By::Share && matches!(homeward.place, LogPlace::Exact(_))
        };
        let (shared, mut copied): (Vec<CheckpointBlock>, Vec<CheckpointBlock>) = batch.into_iter().partition(can_share);
        onewrite_block::reached!(
            "checkpoint reads blocks back from the log",
            copied.iter().any(|it| it.page.is_none())
        );
        onewrite_block::reached!("some blocks shared home, others copied", !shared.is_empty() && !copied.is_empty());
        self.copies().read_back(&mut copied).await?;
        self.copy_home(&copied).await?;
        self.share_home(&shared).await?;
        let mut counters = self.counters.borrow_mut();
        counters.shared_bytes += (shared.len() * PAGE_SIZE) as u64;
        counters.checkpoint_bytes += ((shared.len() + copied.len()) * PAGE_SIZE) as u64;
        Ok(shared.len() + copied.len())
    }

    async fn copy_home(&self, blocks: &[CheckpointBlock]) -> Result<(), DeviceError> {
        let page = |homeward: &CheckpointBlock| homeward.page.clone().expect("read back before");
        let pages: Vec<_> = blocks.iter().map(|homeward| (homeward.home_block, page(homeward))).collect();
        home::copy_home(self.log.port(), &pages, Cause::Checkpoint).await?;
        self.note_home(blocks, self.log.next_flush());
        Ok(())
    }

    /// Makes the home blocks read as their log blocks do. Each request is durable when it completes.
    async fn share_home(&self, blocks: &[CheckpointBlock]) -> Result<(), DeviceError> {
        let pair = |homeward: &CheckpointBlock| {
            let LogPlace::Exact(source) = homeward.place else { unreachable!("only such are shared") };
            Remap { source: self.log.page_of(source), target: homeward.home_block.page() }
        };
        let pairs: Vec<Remap> = blocks.iter().map(pair).collect();
        onewrite_block::reached!("blocks shared home", !pairs.is_empty());
        onewrite_block::reached!(
            "several SHAREs bring one batch home",
            pairs.len() > self.log.port().geometry().share_pairs_max as usize
        );
        home::share_home(self.log.port(), &pairs, Cause::Checkpoint).await?;
        self.note_home(blocks, 0);
        Ok(())
    }

    fn note_home(&self, blocks: &[CheckpointBlock], home_flush: u64) {
        let mut live = self.live.borrow_mut();
        blocks.iter().for_each(|homeward| live.is_home(homeward.home_block, homeward.tid, home_flush));
    }

    fn abort_with(&self, error: DeviceError) -> FsError {
        let error = FsError::from(error);
        self.abort(&error);
        error
    }

    /// Moves the tail past transactions whose blocks are home.
    ///
    /// A forced call moves it at once. A background call moves it only if this frees at least a quarter of the log, and
    /// only after FLUSHes of other tasks made it safe. With padding no other task sends FLUSHes, so this call sends its
    /// own.
    async fn move_tail(&self, urgency: Urgency) -> FsResult<()> {
        let _alone = self.tail.write().await;
        if self.is_closed.get() {
            onewrite_block::reached!("tail left to the unmount");
            return Ok(());
        }
        let is_forced = urgency == Urgency::Forced;
        let may_flush = is_forced || self.padding_blocks() > 0;
        self.reclaim_if_flushed();
        if self.live.borrow().pending_flush().is_some() {
            onewrite_block::reached!("tail before it is not durable yet");
            if !may_flush {
                return Ok(());
            }
            self.log.flush().await?;
            self.reclaim_if_flushed();
        }
        let candidate = self.live.borrow().tail_candidate(self.next_unlogged());
        let Some(candidate) = candidate else { return Ok(()) };
        let usable_blocks = self.live.borrow().ring_blocks() - self.padding_blocks() as u32;
        if !is_forced && candidate.log_blocks < usable_blocks / 4 {
            return Ok(());
        }
        onewrite_block::reached!(
            "tail waits until home blocks are flushed",
            !self.log.is_flushed(candidate.home_flush)
        );
        if !self.log.is_flushed(candidate.home_flush) {
            if !may_flush {
                return Ok(());
            }
            self.log.flush().await?;
        }
        onewrite_block::reached!("tail passes the wrap", candidate.start.0 < self.superblock.borrow().start);
        onewrite_block::reached!("tail at the first log block", candidate.start == self.live.borrow().ring().first());
        onewrite_block::reached!("tail moves while a transaction commits", self.committing.borrow().is_some());
        self.write_superblock(Some(candidate.start), candidate.tid).await?;
        self.live.borrow_mut().tail_written(&candidate, self.log.next_flush());
        if may_flush {
            self.log.flush().await?;
            self.reclaim_if_flushed();
        }
        Ok(())
    }

    /// The transaction that follows the last committed one. Its log blocks start at the head if no transaction is live.
    pub(super) fn next_unlogged(&self) -> super::TransactionId {
        self.committed.get().next()
    }

    /// Frees the log space before a tail that has become durable. With self-trimming, queues the space for TRIM
    /// instead.
    pub(super) fn reclaim_if_flushed(&self) {
        let mut live = self.live.borrow_mut();
        if !live.pending_flush().is_some_and(|flush| self.log.is_flushed(flush)) {
            return;
        }
        let Some(reclaimed) = live.reclaim() else { return };
        if self.options.reclaimed_space == ReclaimedSpace::Trimmed {
            self.to_trim.borrow_mut().push(reclaimed);
            self.work.notify_all();
        } else {
            live.release(reclaimed.length);
            drop(live);
            self.changed.notify_all();
        }
    }

    /// Waits until log space is queued for TRIM.
    pub(crate) async fn trimming_due(&self) {
        while self.to_trim.borrow().is_empty() || self.abort_reason().is_some() {
            self.work.wait().await;
        }
    }

    /// Self-trimming: drops the log's content before its durable tail, then frees the space. Source: `papers/001` §4.3.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted.
    pub(crate) async fn trim_freed(&self) -> FsResult<()> {
        let freed = self.to_trim.take();
        for Reclaimed { start, length } in freed {
            let ring = self.live.borrow().ring();
            onewrite_block::reached!("freed log blocks trimmed over the wrap", ring.runs(start, length).len() > 1);
            for run in ring.runs(start, length) {
                self.log.clear(run).await.map_err(|error| self.abort_with(error))?;
            }
            self.live.borrow_mut().release(length);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Drops the content of all log blocks that still count as used; the log is empty.
    pub(super) async fn trim_rest(&self) -> FsResult<()> {
        let in_use = self.live.borrow().in_use();
        for run in in_use {
            onewrite_block::reached!("log trimmed at the unmount");
            self.log.clear(run).await?;
        }
        Ok(())
    }
}
