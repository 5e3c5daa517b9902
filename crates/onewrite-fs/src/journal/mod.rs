//! The jbd2 journal: blocks and opaque owners in, atomic and durable transactions out.
//!
//! Its one idea: a transaction is a set of home blocks. While it runs, their content lives in the owner's page cache;
//! when it is sealed, the journal takes a handle on each page, and the handle is the frozen copy.
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
//! 2. Every block of a live transaction is in `entries` under the newest live transaction that logged it, or is home.
//! 3. An entry is dropped only when it is home, or when the transaction that supersedes or frees it is durable.
//! 4. Log space is used again only when the superblock that names the new tail is durable, and that is written only
//!    when the blocks before the new tail are durably home.
//! 5. After an error of the device nothing commits any more ([`Journal::abort_reason`]).
//!
//! Who drives: the file system. It seals, writes its ordered data, commits and checkpoints from tasks of its own
//! ([`Journal::seal`], [`Journal::commit`], [`Journal::checkpoint`]); the journal holds no task and knows no inode.

mod check;
mod checkpoint;
mod commit;
pub mod format;
mod frames;
mod home;
mod live;
mod log;
mod padding;
mod place;
mod read_back;
mod recovery;
mod ring;
mod stored;
mod transaction;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use onewrite_block::sync::{RwLock, Signal};
use onewrite_block::{Cause, DevicePort, Nanos, Page};

use crate::api::{FsCounters, FsError, FsResult};
use crate::block::BlockRange;
pub use checkpoint::{CheckpointBy, Urgency};
pub use commit::{
    Barrier, Checksum, Commit, CommitFuture, Encoding, LogFeatures, PrepareFuture, Record, send_and_wait,
};
use format::JournalSuperblock;
pub use frames::{Compressed, Streams};
use live::Live;
pub use log::{Log, LogMap};
pub use padding::{Check, EvictionSpot, Padding, ZeroPadding, padding_warnings};
pub use recovery::{LogView, Prospect, Recovered, RecoveryOptions, recover};
pub use ring::LogBlock;
use ring::Ring;
use transaction::{Committing, Running};
pub use transaction::{Handle, Joined, Owner, Sealed, TransactionId};

/// Blocks of one transaction, at most, in any log: 2 GiB, for the 32 bits of an offset in a frame.
const TRANSACTION_BLOCKS_MAX: usize = 1 << 19;

/// What a journal is told when it is opened.
pub struct JournalOptions {
    /// How commits become durable.
    pub commit: Box<dyn Commit>,
    /// How committed blocks come home.
    pub checkpoint: CheckpointBy,
    /// Committed pages held in memory until they are home, at most, where the log gives them back.
    pub retained_pages_max: usize,
    /// Blocks go home only for their age or for want of log space, not for want of memory.
    pub lazy: bool,
    /// Log space is trimmed before it is used again.
    pub self_trimming: bool,
    /// Blocks of one transaction, at most; also bounded by a quarter of the log.
    pub transaction_blocks_max: usize,
    /// Age at which a committed block goes home by itself.
    pub checkpoint_age: Nanos,
    /// Age at which a running transaction commits by itself.
    pub commit_interval: Nanos,
    /// What was found out about the device's write buffer, if the strategy should not go by what the device states.
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
    /// Log space before the durable tail, as (start, length), that is not trimmed yet.
    to_trim: RefCell<Vec<(LogBlock, u32)>>,
    committed: Cell<TransactionId>,
    commit_wanted: Cell<Option<TransactionId>>,
    checkpoint_wanted: Cell<bool>,
    aborted: RefCell<Option<String>>,
    /// Notified when anything that a task may wait for has changed.
    changed: Signal,
    /// Notified when there is work for the commit task or the checkpoint task.
    work: Signal,
    /// RwGuard while blocks are on their way home.
    homeward: RwLock,
    /// RwGuard while the tail moves and while the log is closed, after which it does not move any more.
    tail: RwLock,
    is_closed: Cell<bool>,
    /// Where there is padding: held while blocks behind the head are written.
    behind_head: RwLock,
    /// Settle rounds started; the last round that succeeded.
    settling: Cell<u64>,
    settled: Cell<u64>,
    counters: RefCell<FsCounters>,
}

impl Journal {
    /// Opens an empty (recovered) log and marks its first block as the place where replay begins.
    ///
    /// # Errors
    /// What the device says.
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
        // The log holds the lower half: so no number is below that of the first transaction, whatever its sequence is.
        let first_tid = TransactionId((1 << 32) + u64::from(superblock.sequence));
        let runtime = port.runtime().clone();
        let style = superblock.style();
        let live = Live::new(Ring::new(LogBlock(superblock.first), LogBlock(superblock.length)));
        let journal = Rc::new(Journal {
            log: Log::new(port, map, style),
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

    /// Writes everything home and leaves an empty log. The caller has committed what ran.
    ///
    /// # Errors
    /// What the device says, or why the journal was aborted before.
    pub async fn close(&self) -> FsResult<()> {
        assert!(self.running.borrow().is_empty(), "a journal is closed after its last commit");
        while self.checkpoint(usize::MAX, Urgency::Background).await? > 0 {}
        self.check_aborted()?;
        let _alone = self.tail.write().await;
        self.is_closed.set(true);
        self.log.flush().await?;
        let plain = self.superblock.borrow().plain();
        self.superblock.replace(plain);
        self.write_superblock(None, self.running_tid()).await?;
        self.log.flush().await?;
        if self.options.self_trimming {
            self.trim_rest().await?;
        }
        Ok(())
    }

    /// The number of the running transaction.
    pub fn running_tid(&self) -> TransactionId {
        self.running.borrow().tid
    }

    /// Whether the running transaction holds nothing.
    pub fn is_running_empty(&self) -> bool {
        self.running.borrow().is_empty()
    }

    /// Blocks of the log, its superblock included.
    pub fn log_blocks(&self) -> u64 {
        u64::from(self.superblock.borrow().length)
    }

    /// Whether `tid` is durable.
    pub fn is_committed(&self, tid: TransactionId) -> bool {
        tid <= self.committed.get()
    }

    /// Whether `tid` is committing and has sent its last FLUSH, so that later writes are not covered by it.
    pub fn has_flushed(&self, tid: TransactionId) -> bool {
        self.committing.borrow().as_ref().is_some_and(|committing| committing.tid == tid) && self.log.has_flushed()
    }

    /// Whether the transaction that commits now orders data of `owner` before itself.
    pub fn is_ordering(&self, owner: u64) -> bool {
        self.committing.borrow().as_ref().is_some_and(|committing| committing.ordered.contains(&owner))
    }

    /// Asks the commit task to commit up to `tid`.
    pub fn request_commit(&self, tid: TransactionId) {
        if self.commit_wanted.get().is_none_or(|wanted| wanted < tid) {
            self.commit_wanted.set(Some(tid));
        }
        self.work.notify_all();
    }

    /// Waits until `tid` is durable, or turns out to hold nothing; somebody must have asked for it.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] if the journal is aborted before.
    pub async fn wait_committed(&self, tid: TransactionId) -> FsResult<()> {
        let holds_nothing = || {
            let running = self.running.borrow();
            running.tid == tid && running.is_empty()
        };
        while !self.is_committed(tid) && !holds_nothing() {
            self.check_aborted()?;
            self.changed.wait().await;
        }
        Ok(())
    }

    /// Waits until the running transaction has to be committed: somebody asked, or it is old.
    pub async fn commit_due(&self) {
        loop {
            let due = {
                let running = self.running.borrow();
                let asked = self.commit_wanted.get().is_some_and(|wanted| wanted >= running.tid);
                if asked && !running.is_empty() {
                    return;
                }
                (!running.is_empty()).then(|| running.started + self.options.commit_interval)
            };
            let runtime = self.log.runtime();
            match due {
                Some(due) if due <= runtime.now() => return,
                Some(due) => onewrite_block::sync::either(self.work.wait(), runtime.sleep_until(due)).await,
                None => self.work.wait().await,
            }
        }
    }

    /// Remembers that data has been written to its place, if the strategy wants to know.
    pub fn note_data(&self, place: BlockRange) {
        if self.options.commit.rereads_data() {
            self.log.note_data(place);
        }
    }

    /// Why nothing can be changed any more, if so.
    pub fn abort_reason(&self) -> Option<String> {
        self.aborted.borrow().clone()
    }

    /// Stops the journal: nothing commits any more, everybody who waits is told why.
    pub fn abort(&self, reason: &FsError) {
        self.aborted.borrow_mut().get_or_insert_with(|| format!("{reason}; unmount and run `onewrite fsck`"));
        self.changed.notify_all();
        self.work.notify_all();
    }

    /// # Errors
    /// [`FsError::ReadOnly`] with the reason, once the journal is aborted.
    pub fn check_aborted(&self) -> FsResult<()> {
        match &*self.aborted.borrow() {
            Some(reason) => Err(FsError::ReadOnly(reason.clone())),
            None => Ok(()),
        }
    }

    /// What was counted.
    pub fn counters(&self) -> FsCounters {
        *self.counters.borrow()
    }

    /// Starts counting anew.
    pub fn reset_counters(&self) {
        self.counters.replace(FsCounters::default());
    }

    /// Blocks that one transaction may hold; so few that it fits the empty log with everything around them.
    fn transaction_blocks_max(&self) -> usize {
        let ring_blocks = self.live.borrow().ring_blocks() as usize;
        let most = ring_blocks.div_ceil(4).min(self.options.transaction_blocks_max).min(TRANSACTION_BLOCKS_MAX);
        let around = self.log_blocks_of(most) - most + self.revoke_blocks_max();
        most.min(ring_blocks.saturating_sub(around + self.padding_blocks()))
    }

    /// Log blocks that have to be free behind every record.
    fn padding_blocks(&self) -> usize {
        self.options.commit.padding_blocks() as usize
    }

    /// Puts tail (`None`: the log is empty) and sequence into the superblock and writes it; it is durable after the
    /// next FLUSH.
    async fn write_superblock(&self, start: Option<LogBlock>, sequence: TransactionId) -> FsResult<()> {
        let page = {
            let mut superblock = self.superblock.borrow_mut();
            superblock.start = start.map_or(0, |start| start.0);
            superblock.sequence = sequence.on_disk();
            let mut page = self.superblock_page.borrow_mut();
            superblock.encode_into(page.bytes_mut());
            debug_assert_eq!(JournalSuperblock::decode(&page.bytes()).as_ref(), Ok(&*superblock), "read back");
            page.clone()
        };
        Ok(self.log.write(LogBlock::SUPERBLOCK, vec![page], Cause::LogTail).await?)
    }
}
