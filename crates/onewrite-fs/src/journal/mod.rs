//! The jbd2 journal: blocks and opaque owners in, atomic and durable transactions out.
//!
//! Its one idea: a transaction is a set of home blocks. While it runs, their content lives in the owner's page cache.
//! Sealing takes a handle on each page, and the handle is the frozen copy.
//!
//! ```text
//!   start ─► Handle: join, revoke, free ─► drop
//!              │ running ──seal (no handle open)──► committing ──Commit::commit──► live ──home──► reclaimed
//!              │    ▲                                                               │
//!              └────┘ one at a time                 one at a time        checkpoint writes the newest version home
//! ```
//!
//! # Invariants
//! 1. At most one transaction runs and at most one commits; they commit in the order of their numbers.
//! 2. Each block that a live transaction logged is home, or has an entry in `entries`. The entry names the newest live
//!    transaction that logged the block.
//! 3. The journal drops an entry only when the block is home, or when a later transaction that logs or frees the block
//!    is durable.
//! 4. The journal reuses log space only when the superblock that names the new tail is durable. It writes that
//!    superblock only when the blocks before the new tail are durably home.
//! 5. After a device error, that of a checkpoint or of the tail included, the journal begins no commit
//!    ([`Journal::abort_reason`]).
//!
//! The file system drives the journal: its own tasks seal, write ordered data, commit and checkpoint
//! ([`Journal::seal`], [`Journal::commit`], [`Journal::checkpoint`]). The journal owns no task and knows no inode.

mod batch;
mod check;
mod checkpoint;
mod commit;
mod eviction_spot;
pub mod format;
mod frames;
mod home;
mod live;
mod log;
mod log_map;
mod padding;
mod place;
mod read_back;
mod recovery;
mod ring;
mod stored;
mod transaction;
mod unpacked;
mod views;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::sync::{RwLock, Signal};
use onewrite_block::{Cause, DevicePort, Nanos, Page};

use crate::api::{FsCounters, FsError, FsResult};
use crate::block::BlockRange;
use batch::Batch;
pub use checkpoint::{CheckpointBy, CheckpointPace, ReclaimedSpace, Urgency};
pub use commit::{
    Barrier, Checksum, Commit, CommitFuture, Encoding, LogFeatures, PrepareFuture, Record, send_and_wait,
};
pub use eviction_spot::EvictionSpot;
use format::JournalSuperblock;
pub use frames::{Compressed, Streams};
use live::{Live, Reclaimed};
pub use log::Log;
pub use log_map::LogMap;
pub use padding::{Check, Padding, ZeroPadding, padding_warnings};
pub use recovery::{LogView, Prospect, Recovered, RecoveryOptions, recover};
pub use ring::LogBlock;
use ring::Ring;
use transaction::{Committing, Running};
pub use transaction::{Handle, Joined, Owner, Sealed, TransactionId};
pub use unpacked::UnpackedChunks;

/// Maximum number of blocks of one transaction in any log: 2 GiB, because an offset in a frame has 32 bits.
const TRANSACTION_BLOCKS_MAX: usize = 1 << 19;

/// Options for opening a journal.
pub struct JournalOptions {
    /// How commits become durable.
    pub commit: Box<dyn Commit>,
    /// How the checkpoint brings committed blocks home.
    pub checkpoint: CheckpointBy,
    /// Maximum number of committed pages kept in memory until they are home. Pages of [`Streams`] do not count: the log
    /// cannot give them back.
    pub retained_pages_max: usize,
    /// When background checkpoints run.
    pub checkpoint_pace: CheckpointPace,
    /// What happens to log space before the journal uses it again.
    pub reclaimed_space: ReclaimedSpace,
    /// Maximum number of blocks of one transaction; a quarter of the log is a second limit.
    pub transaction_blocks_max: usize,
    /// Age at which the background checkpoint brings a committed block home.
    pub checkpoint_age: Nanos,
    /// Age at which the commit task commits the running transaction.
    pub commit_interval: Nanos,
    /// Longest time for which a commit waits for others that sync; 0: for nobody.
    pub max_batch_time: Nanos,
    /// Measured properties of the device's write buffer; `None`: the strategy uses what the device states.
    pub eviction_spot: Option<EvictionSpot>,
}

/// See the module's head.
pub struct Journal {
    log: Log,
    options: JournalOptions,
    superblock: RefCell<JournalSuperblock>,
    superblock_page: RefCell<Page>,
    running: RefCell<Running>,
    committing: RefCell<Option<Committing>>,
    live: RefCell<Live>,
    /// Log space before the durable tail that waits for TRIM.
    to_trim: RefCell<Vec<Reclaimed>>,
    committed: Cell<TransactionId>,
    commit_wanted: Cell<Option<TransactionId>>,
    batch: Batch,
    checkpoint_wanted: Cell<bool>,
    aborted: RefCell<Option<String>>,
    /// Notified when something changes that a task may wait for, other than the end of a commit.
    changed: Signal,
    /// Notified when a commit has ended and when nothing is left to commit.
    ended: Signal,
    /// Notified when there is work for the commit task or the checkpoint task.
    work: Signal,
    /// Locked while blocks are on their way home.
    homeward: RwLock,
    /// Locked while the tail moves and while the journal closes. After closing the tail never moves.
    tail: RwLock,
    is_closed: Cell<bool>,
    /// With padding: locked while a task writes blocks behind the head.
    behind_head: RwLock,
    /// Settle rounds started; the last round that succeeded.
    settling: Cell<u64>,
    settled: Cell<u64>,
    counters: RefCell<FsCounters>,
}

impl Journal {
    /// Opens an empty (recovered) log. Writes the superblock so that replay starts at the first block.
    ///
    /// # Errors
    /// Device errors.
    pub async fn open(
        port: DevicePort,
        map: LogMap,
        mut superblock: JournalSuperblock,
        superblock_page: Page,
        options: JournalOptions,
    ) -> FsResult<Rc<Journal>> {
        let features = options.commit.features();
        superblock.compat = features.compat;
        superblock.incompat = features.incompat;
        // The log holds only the lower 32 bits. Starting above 2^32 leaves numbers below the first one, whatever its
        // sequence.
        let first_tid = TransactionId((1 << 32) + u64::from(superblock.sequence.0));
        let runtime = port.runtime().clone();
        let style = superblock.style();
        let live = Live::new(Ring::new(LogBlock(superblock.first), LogBlock(superblock.length)));
        let journal = Rc::new(Journal {
            log: Log::new(port, map, style),
            batch: Batch::new(options.max_batch_time),
            options,
            superblock: RefCell::new(superblock),
            superblock_page: RefCell::new(superblock_page),
            running: RefCell::new(Running::new(first_tid, runtime.now())),
            committing: RefCell::new(None),
            live: RefCell::new(live),
            to_trim: RefCell::default(),
            committed: Cell::new(first_tid.previous()),
            commit_wanted: Cell::new(None),
            checkpoint_wanted: Cell::new(false),
            aborted: RefCell::default(),
            changed: Signal::new(&runtime),
            ended: Signal::new(&runtime),
            work: Signal::new(&runtime),
            homeward: RwLock::new(&runtime),
            tail: RwLock::new(&runtime),
            is_closed: Cell::new(false),
            behind_head: RwLock::new(&runtime),
            settling: Cell::new(0),
            settled: Cell::new(0),
            counters: RefCell::default(),
        });
        let start = journal.live.borrow().head();
        journal.write_superblock(Some(start), first_tid).await?;
        journal.log.flush().await?;
        let free = journal.live.borrow().free_runs();
        journal.options.commit.prepare(&journal.log, journal.options.eviction_spot, free).await?;
        Ok(journal)
    }

    /// Writes all blocks home and leaves an empty log. The caller has committed the running transaction.
    ///
    /// # Errors
    /// Device errors; [`FsError::ReadOnly`] if the journal is aborted.
    pub async fn close(&self) -> FsResult<()> {
        assert!(self.running.borrow().is_empty(), "a journal is closed after its last commit");
        onewrite_block::reached!("unmount with blocks that are not home", self.live.borrow().entry_count() > 0);
        while self.checkpoint(usize::MAX, Urgency::Background).await? > 0 {}
        self.check_aborted()?;
        let _alone = self.tail.write().await;
        self.is_closed.set(true);
        self.log.flush().await?;
        let plain = self.superblock.borrow().plain();
        self.superblock.replace(plain);
        self.write_superblock(None, self.running_tid()).await?;
        self.log.flush().await?;
        if self.options.reclaimed_space == ReclaimedSpace::Trimmed {
            self.trim_rest().await?;
        }
        Ok(())
    }

    /// The number of the running transaction.
    pub(crate) fn running_tid(&self) -> TransactionId {
        self.running.borrow().tid()
    }

    /// Whether the running transaction holds nothing.
    pub(crate) fn is_running_empty(&self) -> bool {
        self.running.borrow().is_empty()
    }

    /// Blocks of the log, its superblock included.
    pub fn log_blocks(&self) -> u64 {
        u64::from(self.superblock.borrow().length)
    }

    /// Whether `tid` is durable.
    pub(crate) fn is_committed(&self, tid: TransactionId) -> bool {
        tid <= self.committed.get()
    }

    /// Whether `tid` is committing and has started its last FLUSH. This FLUSH does not cover later writes.
    pub(crate) fn has_flushed(&self, tid: TransactionId) -> bool {
        self.committing.borrow().as_ref().is_some_and(|committing| committing.tid() == tid) && self.log.has_flushed()
    }

    /// Whether the committing transaction has to wait for data of `owner`.
    pub(crate) fn is_ordering(&self, owner: u64) -> bool {
        self.committing.borrow().as_ref().is_some_and(|committing| committing.orders(owner))
    }

    /// Asks the commit task to commit all transactions up to `tid`, without waiting for others.
    pub(crate) fn request_commit(&self, tid: TransactionId) {
        self.batch.hurry();
        self.want_commit(tid);
    }

    /// Asks the commit task to commit all transactions up to `tid`, for a task that is going to wait for it and may
    /// wait a little longer, so that others share the commit.
    pub(crate) fn request_shared_commit(&self, tid: TransactionId) {
        self.batch.note(tid, self.running_tid());
        self.want_commit(tid);
    }

    /// Before a commit that was asked for: waits until those have asked for it who were waiting for a commit when the
    /// last one ended, at most half as long as a commit takes.
    pub(crate) async fn gather(&self) {
        if !self.batch.is_promising() {
            return;
        }
        let (runtime, before) = (self.log.runtime(), self.batch.asked());
        self.wake_synced().await;
        let until = runtime.now() + self.batch.patience();
        while !self.batch.is_complete() && runtime.now() < until && self.abort_reason().is_none() {
            onewrite_block::sync::either(self.work.wait(), runtime.sleep_until(until)).await;
        }
        self.batch.learn(self.batch.asked() - before);
    }

    fn want_commit(&self, tid: TransactionId) {
        if self.commit_wanted.get().is_none_or(|wanted| wanted < tid) {
            self.commit_wanted.set(Some(tid));
        }
        self.work.notify_all();
    }

    /// Waits until `tid` is durable, or is found to be empty and all before it are durable. Another call must have
    /// requested the commit.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if the journal aborts first.
    pub(crate) async fn wait_committed(&self, tid: TransactionId) -> FsResult<()> {
        let holds_nothing = || {
            let running = self.running.borrow();
            running.tid() == tid && running.is_empty() && self.is_committed(tid.previous())
        };
        while !self.is_committed(tid) && !holds_nothing() {
            self.check_aborted()?;
            self.ended.wait().await;
        }
        Ok(())
    }

    /// Wakes the tasks that wait for the end of a commit, one after another in the order in which they came.
    pub(crate) async fn wake_synced(&self) {
        self.ended.notify_in_turn().await;
    }

    /// Whether a task has requested the commit of the running transaction, and there is something to commit.
    pub(crate) fn is_commit_requested(&self) -> bool {
        let running = self.running.borrow();
        self.commit_wanted.get().is_some_and(|wanted| wanted >= running.tid()) && !running.is_empty()
    }

    /// Waits until the running transaction is due: a task requested the commit, or the transaction is old enough.
    pub(crate) async fn commit_due(&self) {
        loop {
            let due = {
                if self.is_commit_requested() {
                    return;
                }
                let running = self.running.borrow();
                (!running.is_empty()).then(|| running.started() + self.options.commit_interval)
            };
            let runtime = self.log.runtime();
            match due {
                Some(due) if due <= runtime.now() => return,
                Some(due) => onewrite_block::sync::either(self.work.wait(), runtime.sleep_until(due)).await,
                None => self.work.wait().await,
            }
        }
    }

    /// Notes that data was written to its place, if the commit strategy re-reads data.
    pub(crate) fn note_data(&self, place: BlockRange) {
        if self.options.commit.rereads_data() {
            self.log.note_data(place);
        }
    }

    /// Why the journal aborted; `None` if it has not.
    pub(crate) fn abort_reason(&self) -> Option<String> {
        self.aborted.borrow().clone()
    }

    /// Stops the journal: it commits nothing more, and all waiting tasks get the reason.
    pub(crate) fn abort(&self, reason: &FsError) {
        onewrite_block::reached!("journal aborted");
        self.aborted.borrow_mut().get_or_insert_with(|| format!("{reason}; unmount and run `onewrite fsck`"));
        self.changed.notify_all();
        self.ended.notify_all();
        self.work.notify_all();
    }

    /// # Errors
    /// [`FsError::ReadOnly`] with the reason, once the journal is aborted.
    pub(crate) fn check_aborted(&self) -> FsResult<()> {
        match &*self.aborted.borrow() {
            Some(reason) => Err(FsError::ReadOnly(reason.clone())),
            None => Ok(()),
        }
    }

    /// Counters since the journal opened or since the last reset.
    pub fn counters(&self) -> FsCounters {
        *self.counters.borrow()
    }

    /// Sets all counters to zero.
    pub fn reset_counters(&self) {
        self.counters.replace(FsCounters::default());
    }

    /// Maximum number of blocks that one transaction may hold. The transaction fits into an empty log together with its
    /// descriptors, revokes and padding.
    pub(crate) fn transaction_blocks_max(&self) -> usize {
        let ring_blocks = self.live.borrow().ring_blocks() as usize;
        let most = ring_blocks.div_ceil(4).min(self.options.transaction_blocks_max).min(TRANSACTION_BLOCKS_MAX);
        let around = self.log_blocks_of(most) - most + self.revoke_blocks_of(ring_blocks);
        most.min(ring_blocks.saturating_sub(around + self.padding_blocks()))
    }

    /// Number of log blocks that must stay free behind every record.
    fn padding_blocks(&self) -> usize {
        self.options.commit.padding_blocks() as usize
    }

    /// Writes a superblock with this tail (`None`: the log is empty) and sequence. The next FLUSH makes it durable. The
    /// journal names the old tail until the write is done, and keeps naming it if the write fails.
    ///
    /// # Errors
    /// Device errors. The device may hold either superblock then, so no log space behind the old tail may be reused.
    async fn write_superblock(&self, start: Option<LogBlock>, sequence: TransactionId) -> FsResult<()> {
        let (start, sequence) = (start.map_or(0, |start| start.0), sequence.on_disk());
        let superblock = JournalSuperblock { start, sequence, ..*self.superblock.borrow() };
        let page = {
            let mut page = self.superblock_page.borrow_mut();
            superblock.encode_into(page.bytes_mut());
            debug_assert_eq!(JournalSuperblock::decode(&page.bytes()).as_ref(), Ok(&superblock), "read back");
            page.clone()
        };
        self.log.write(LogBlock::SUPERBLOCK, vec![page], Cause::LogTail).await?;
        self.superblock.replace(superblock);
        Ok(())
    }
}
