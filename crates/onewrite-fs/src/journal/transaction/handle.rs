//! Handles: how operations join the running transaction, and how it is sealed.

use std::rc::Rc;

use onewrite_block::Page;

use super::{Committing, Joined, Owner, Running, Sealed, TransactionId};
use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};
use crate::journal::{Encoding, Journal};

/// The right to change up to `credits` blocks in the running transaction. An open handle blocks sealing. So hold it
/// briefly, and do not wait for a commit, for cache room or for a lock while you hold it.
pub struct Handle {
    journal: Rc<Journal>,
    tid: TransactionId,
    credits: usize,
}

impl Journal {
    /// Joins the running transaction. The handle may change up to `credits` blocks.
    ///
    /// Waits while the transaction is being sealed, while it is full, and while the log has no room for it.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`] once the journal is aborted; [`FsError::Invalid`] if `credits` exceeds the largest
    /// transaction.
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

    /// Whether a handle can be opened now. If not, requests a commit or a checkpoint that makes room.
    fn admits(&self, credits: usize) -> bool {
        let running = self.running.borrow();
        if running.is_locked {
            onewrite_block::reached!("operation waits for a seal");
            return false;
        }
        let blocks_max = self.transaction_blocks_max();
        if running.blocks.len() + credits > blocks_max {
            let tid = running.tid;
            onewrite_block::reached!("transaction full");
            drop(running);
            self.request_commit(tid);
            return false;
        }
        if running.blocks.len() + running.credits + credits > blocks_max {
            onewrite_block::reached!("credits of others fill the transaction");
            return false;
        }
        let blocks = running.blocks.len() + running.credits + credits;
        drop(running);
        let needed = self.log_blocks_of(blocks) + self.revoke_blocks_max();
        self.has_room(needed + self.padding_blocks())
    }

    /// Maximum number of log blocks of a transaction of `blocks` blocks, without revokes. A frame is never larger than
    /// plain blocks, since a chunk that does not shrink is stored raw. A stream may grow by one part in 255.
    pub(in crate::journal) fn log_blocks_of(&self, blocks: usize) -> usize {
        let plain = blocks + blocks.div_ceil(self.log.style().tags_max()) + 2;
        match self.options.commit.encoding() {
            Encoding::Blocks | Encoding::Frames => plain,
            Encoding::Streams => plain + plain / 255 + 1,
        }
    }

    /// Maximum number of revoke blocks of the running transaction: it revokes only blocks that lie in the log when it
    /// does. A compressed log may hold many more of them than it has blocks.
    fn revoke_blocks_max(&self) -> usize {
        match self.options.commit.encoding() {
            Encoding::Blocks => self.revoke_blocks_of(self.live.borrow().ring_blocks() as usize),
            Encoding::Frames | Encoding::Streams => {
                // While it runs, no block joins those in the log.
                self.revoke_blocks_of(self.running.borrow().revokes.len() + self.live.borrow().logged_count())
            }
        }
    }

    /// Maximum number of log blocks that `revokes` revokes take.
    pub(in crate::journal) fn revoke_blocks_of(&self, revokes: usize) -> usize {
        let plain = revokes / self.log.style().revokes_max() + 1;
        match self.options.commit.encoding() {
            Encoding::Blocks | Encoding::Frames => plain,
            Encoding::Streams => plain + plain / 255 + 1,
        }
    }

    /// Whether the log has room for `needed` blocks. If not, requests a checkpoint, or a commit if no transaction is
    /// live; requests nothing while reclaimed space waits for TRIM.
    fn has_room(&self, needed: usize) -> bool {
        let live = self.live.borrow();
        if live.free_blocks() >= needed {
            return true;
        }
        let (nothing_to_checkpoint, is_trimming) = (live.is_empty(), live.is_trimming());
        drop(live);
        if is_trimming {
            onewrite_block::reached!("operation waits until the log is trimmed");
            return false;
        }
        if !nothing_to_checkpoint {
            onewrite_block::reached!("operation waits for room in the log");
            self.checkpoint_wanted.set(true);
            self.work.notify_all();
        } else if self.committing.borrow().is_none() {
            // The largest transaction fits into an empty log with as many revokes as the log has blocks. A compressed
            // log may ask for more, but LZ4 packs 255 blocks into one at best, whose revokes take half a block.
            debug_assert!(false, "an empty log has room for every transaction");
            self.request_commit(self.running_tid());
        }
        false
    }

    /// Waits until no handle is open, ends the running transaction, and starts the next one. The caller has committed
    /// what it sealed before.
    ///
    /// `content` gives the current page of an owner. It gives `None` if the owner has dropped the page, as when a file
    /// is truncated before all its blocks are free; then the block is not logged. Returns `None` if there is nothing to
    /// commit.
    pub async fn seal(&self, content: impl Fn(Owner) -> Option<Page>) -> Option<Sealed> {
        self.running.borrow_mut().is_locked = true;
        onewrite_block::reached!("forced checkpoint during a seal", self.checkpoint_wanted.get());
        if self.running.borrow().handles > 0 {
            onewrite_block::reached!("seal waits for open handles");
            // The owner of a handle may wait for a task that waits for the last commit.
            self.wake_synced().await;
        }
        self.changed.until(|| self.running.borrow().handles == 0).await;
        debug_assert!(self.committing.borrow().is_none(), "the task that seals has committed what it sealed before");
        let mut running = self.running.borrow_mut();
        running.is_locked = false;
        if running.is_empty() {
            onewrite_block::reached!("nothing left to seal");
            drop(running);
            self.changed.notify_all();
            self.ended.notify_all();
            return None;
        }
        let next = Running::new(running.tid.next(), self.log.runtime().now());
        let ended = std::mem::replace(&mut *running, next);
        drop(running);
        self.committing.replace(Some(Committing { tid: ended.tid, ordered: ended.ordered.clone() }));
        let log_blocks = self.log_blocks_of(ended.blocks.len()) + self.revoke_blocks_of(ended.revokes.len());
        let freeze = |(&block, &owner): (&BlockNo, &Owner)| Some((block, content(owner)?));
        let frozen: Vec<(BlockNo, Page)> = ended.blocks.iter().filter_map(freeze).collect();
        onewrite_block::reached!("logged page gone at its seal", frozen.len() < ended.blocks.len());
        let blocks = frozen.iter().map(|(block, _)| *block);
        self.live.borrow_mut().note_logged(ended.tid, blocks, log_blocks as u32);
        self.batch.begin(self.log.runtime().now());
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
    pub(crate) fn tid(&self) -> TransactionId {
        self.tid
    }

    /// Adds `block` to the transaction. Sealing takes its content from the page of `owner`.
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
        let was_freed = running.revokes.remove(&block);
        debug_assert!(!was_freed, "freed block {block} is used again before its transaction commits");
        Joined::First
    }

    /// Frees `blocks` in this transaction: removes them from it and revokes their earlier copies in the log. They may
    /// be reused only after the commit, when [`Sealed::freed`] gives them back.
    pub fn free(&mut self, blocks: BlockRange) {
        let mut running = self.journal.running.borrow_mut();
        let live = self.journal.live.borrow();
        for block in blocks.blocks() {
            onewrite_block::reached!(
                "block freed in the transaction that changed it",
                running.blocks.contains_key(&block)
            );
            running.blocks.remove(&block);
            if live.is_logged(block) {
                onewrite_block::reached!("freed block revoked");
                running.revokes.insert(block);
            }
        }
        running.freed.push(blocks);
    }

    /// Requires that data of `file` is written before the commit.
    pub fn order(&mut self, file: u64) {
        self.journal.running.borrow_mut().ordered.insert(file);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut running = self.journal.running.borrow_mut();
        running.handles -= 1;
        running.credits -= self.credits;
        let (is_last, is_empty) = (running.handles == 0, running.is_empty());
        drop(running);
        if is_empty {
            self.journal.ended.notify_all();
        }
        if is_last || self.credits > 0 {
            self.journal.changed.notify_all();
        }
    }
}
