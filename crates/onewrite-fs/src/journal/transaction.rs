//! Transactions while they gather blocks: the running one, the handles on it, and what is sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use onewrite_block::{Nanos, Page};

use super::{Encoding, Journal};
use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};

/// Number of a transaction; grows by one for each. The log holds its lower 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u64);

impl TransactionId {
    /// As the log holds it.
    pub const fn on_disk(self) -> u32 {
        self.0 as u32
    }

    /// The one after it.
    pub const fn next(self) -> TransactionId {
        TransactionId(self.0 + 1)
    }

    /// The one before it.
    pub const fn previous(self) -> TransactionId {
        TransactionId(self.0.wrapping_sub(1))
    }
}

/// Names a page of the owner's cache; opaque to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// File, or 0 for metadata blocks.
    pub file: u64,
    /// Page of the file.
    pub index: u64,
}

/// Whether a block was in the running transaction before it was joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It was not; the owner now has to keep the page in memory until the commit.
    First,
    /// It was.
    Again,
}

/// The transaction that takes changes.
pub(super) struct Running {
    pub(super) tid: TransactionId,
    pub(super) started: Nanos,
    pub(super) blocks: BTreeMap<BlockNo, Owner>,
    revokes: BTreeSet<BlockNo>,
    ordered: BTreeSet<u64>,
    freed: Vec<BlockRange>,
    handles: usize,
    /// Blocks that open handles may still join.
    credits: usize,
    is_locked: bool,
}

impl Running {
    pub(super) fn new(tid: TransactionId, now: Nanos) -> Running {
        Running {
            tid,
            started: now,
            blocks: BTreeMap::new(),
            revokes: BTreeSet::new(),
            ordered: BTreeSet::new(),
            freed: Vec::new(),
            handles: 0,
            credits: 0,
            is_locked: false,
        }
    }

    /// Verifies what is counted of the handles.
    ///
    /// # Errors
    /// The first count that is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.handles == 0 && self.credits > 0 {
            true => Err(format!("{} credits without a handle in {:?}", self.credits, self.tid)),
            false => match self.blocks.keys().find(|block| self.revokes.contains(block)) {
                Some(block) => Err(format!("block {block} is both logged and revoked in {:?}", self.tid)),
                None => Ok(()),
            },
        }
    }

    /// Breaks the count.
    #[cfg(test)]
    pub(super) fn lose_a_handle(&mut self) {
        self.credits += 1;
    }

    /// Nothing in it would have to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revokes.is_empty() && self.freed.is_empty() && self.handles == 0
    }
}

/// What is known of the transaction that commits.
pub(super) struct Committing {
    pub(super) tid: TransactionId,
    pub(super) ordered: BTreeSet<u64>,
}

/// A transaction that takes no more changes: frozen content, ready for the log.
#[derive(Debug)]
pub struct Sealed {
    /// Its number.
    pub tid: TransactionId,
    /// Home blocks in ascending order, each with its frozen content.
    pub blocks: Vec<(BlockNo, Page)>,
    /// The owners of all blocks that joined.
    pub owners: Vec<Owner>,
    /// Blocks whose earlier copies must not be replayed.
    pub revokes: Vec<BlockNo>,
    /// Files whose data has to be written first.
    pub ordered: Vec<u64>,
    /// Blocks that it frees: free for use once it is durable.
    pub freed: Vec<BlockRange>,
}

/// The right to change up to so many blocks in the running transaction. While one is open the transaction is not
/// sealed, so hold it briefly and never wait for a commit, for room in the cache or for a lock with it.
pub struct Handle {
    journal: Rc<Journal>,
    tid: TransactionId,
    credits: usize,
}

impl Journal {
    /// Joins the running transaction with the right to change `credits` blocks.
    ///
    /// Waits while the transaction is being sealed, is full, or the log has no room for it.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] once the journal is aborted; [`FsError::Invalid`] if no transaction could hold so much.
    pub async fn start(self: &Rc<Self>, credits: usize) -> FsResult<Handle> {
        let blocks_max = self.transaction_blocks_max();
        if credits > blocks_max {
            let message =
                format!("an operation needs {credits} blocks in one transaction, the log allows {blocks_max}");
            return Err(FsError::Invalid(message + "; make a larger log"));
        }
        loop {
            self.check_aborted()?;
            if self.admits(credits) {
                return Ok(self.open_handle(credits));
            }
            self.changed.wait().await;
        }
    }

    fn open_handle(self: &Rc<Self>, credits: usize) -> Handle {
        let mut running = self.running.borrow_mut();
        if running.is_empty() {
            running.started = self.log.runtime().now();
            drop(running);
            self.work.notify_all();
            running = self.running.borrow_mut();
        }
        running.handles += 1;
        running.credits += credits;
        Handle { journal: Rc::clone(self), tid: running.tid, credits }
    }

    /// Whether a handle can be opened now; if not, sees to it that it can be later.
    fn admits(&self, credits: usize) -> bool {
        let running = self.running.borrow();
        if running.is_locked {
            return false;
        }
        let blocks_max = self.transaction_blocks_max();
        if running.blocks.len() + credits > blocks_max {
            let tid = running.tid;
            drop(running);
            self.request_commit(tid);
            return false;
        }
        if running.blocks.len() + running.credits + credits > blocks_max {
            return false;
        }
        let blocks = running.blocks.len() + running.credits + credits;
        drop(running);
        let needed = self.log_blocks_of(blocks) + self.revoke_blocks_max();
        self.has_room(needed + self.padding_blocks())
    }

    /// Log blocks of a transaction of so many blocks, at most, revokes not counted. A frame never takes more than the
    /// plain blocks would, since a chunk that does not shrink is kept as it is; a stream may grow by one part in 255.
    pub(super) fn log_blocks_of(&self, blocks: usize) -> usize {
        let plain = blocks + blocks.div_ceil(self.log.style.tags_max()) + 2;
        match self.options.commit.encoding() {
            Encoding::Blocks | Encoding::Frames => plain,
            Encoding::Streams => plain + plain / 255 + 1,
        }
    }

    /// Revoke blocks of one transaction, at most: only blocks that lie in the log are revoked.
    pub(super) fn revoke_blocks_max(&self) -> usize {
        self.live.borrow().ring_blocks() as usize / self.log.style.revokes_max() + 1
    }

    /// Whether the log has room for `needed` blocks; if not, and no space is on its way to being free, asks for a
    /// checkpoint.
    fn has_room(&self, needed: usize) -> bool {
        let live = self.live.borrow();
        if live.free_blocks() >= needed {
            return true;
        }
        let (nothing_to_checkpoint, is_trimming) = (live.is_empty(), live.is_trimming());
        drop(live);
        if is_trimming {
            return false;
        }
        if !nothing_to_checkpoint {
            self.checkpoint_wanted.set(true);
            self.work.notify_all();
        } else if self.committing.borrow().is_none() {
            self.request_commit(self.running_tid());
        }
        false
    }

    /// Ends the running transaction once no handle is open, and opens the next one.
    ///
    /// `content` gives the page of an owner as it is now; a block whose owner has dropped the page (a file cut while
    /// its blocks are not all free yet) is left out. `None` if there is nothing to commit.
    pub async fn seal(&self, content: impl Fn(Owner) -> Option<Page>) -> Option<Sealed> {
        self.running.borrow_mut().is_locked = true;
        self.changed.until(|| self.running.borrow().handles == 0).await;
        self.changed.until(|| self.committing.borrow().is_none()).await;
        let mut running = self.running.borrow_mut();
        running.is_locked = false;
        if running.is_empty() {
            drop(running);
            self.changed.notify_all();
            return None;
        }
        let next = Running::new(running.tid.next(), self.log.runtime().now());
        let ended = std::mem::replace(&mut *running, next);
        drop(running);
        self.committing.replace(Some(Committing { tid: ended.tid, ordered: ended.ordered.clone() }));
        let log_blocks = self.log_blocks_of(ended.blocks.len()) + self.revoke_blocks_max();
        let freeze = |(&block, &owner): (&BlockNo, &Owner)| Some((block, content(owner)?));
        // A block whose page was dropped is not logged.
        let frozen: Vec<(BlockNo, Page)> = ended.blocks.iter().filter_map(freeze).collect();
        let blocks = frozen.iter().map(|(block, _)| *block);
        self.live.borrow_mut().note_logged(ended.tid, blocks, log_blocks as u32);
        self.log.begin_commit();
        self.changed.notify_all();
        Some(Sealed {
            tid: ended.tid,
            blocks: frozen,
            owners: ended.blocks.into_values().collect(),
            revokes: ended.revokes.into_iter().collect(),
            ordered: ended.ordered.into_iter().collect(),
            freed: ended.freed,
        })
    }
}

impl Handle {
    /// The transaction.
    pub fn tid(&self) -> TransactionId {
        self.tid
    }

    /// Makes `block` part of the transaction; its content is the page of `owner` when the transaction is sealed.
    ///
    /// # Panics
    /// If more blocks join than the handle was opened for.
    pub fn join(&mut self, block: BlockNo, owner: Owner) -> Joined {
        let mut running = self.journal.running.borrow_mut();
        debug_assert_eq!(running.tid, self.tid, "an open handle keeps its transaction running");
        if running.blocks.insert(block, owner).is_some() {
            return Joined::Again;
        }
        assert!(self.credits > 0, "block {block} exceeds the credits of its handle");
        self.credits -= 1;
        running.credits -= 1;
        running.revokes.remove(&block);
        Joined::First
    }

    /// Says that `blocks` are free from this transaction on: their copies in it are forgotten, earlier ones revoked.
    /// They may be used again only when [`Sealed::freed`] gives them back.
    pub fn free(&mut self, blocks: BlockRange) {
        let mut running = self.journal.running.borrow_mut();
        let live = self.journal.live.borrow();
        for block in blocks.blocks() {
            running.blocks.remove(&block);
            if live.is_logged(block) {
                running.revokes.insert(block);
            }
        }
        running.freed.push(blocks);
    }

    /// Orders data of `file` before the commit.
    pub fn order(&mut self, file: u64) {
        self.journal.running.borrow_mut().ordered.insert(file);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut running = self.journal.running.borrow_mut();
        running.handles -= 1;
        running.credits -= self.credits;
        let is_last = running.handles == 0;
        drop(running);
        if is_last || self.credits > 0 {
            self.journal.changed.notify_all();
        }
    }
}
