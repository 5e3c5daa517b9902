//! Check: verifies the invariants at the head of `mod.rs`, and the counts in `live.rs`.
//!
//! Debug builds check at each commit; the crash explorer checks after every recovery. Costs one pass over the blocks of
//! all live transactions.

use super::Journal;
use super::live::Live;
use super::transaction::{Committing, Running};

impl Journal {
    /// Verifies the invariants in memory. They hold at every point where a task waits.
    ///
    /// # Errors
    /// The first violated invariant, with its numbers.
    pub fn check(&self) -> Result<(), String> {
        let (running, committing, live) = (self.running.borrow(), self.committing.borrow(), self.live.borrow());
        running.check()?;
        self.check_order(&running, committing.as_ref(), &live)?;
        live.check(committing.as_ref().map(|committing| committing.tid()))?;
        self.check_trimming(&live)?;
        self.check_tail(&live, committing.as_ref())
    }

    /// [`Journal::check`] in debug builds.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub(super) fn debug_check(&self) {
        if cfg!(debug_assertions)
            && let Err(broken) = self.check()
        {
            panic!("journal: {broken}");
        }
    }

    /// Invariant 1: at most one transaction runs and one commits, in the order of their numbers.
    fn check_order(&self, running: &Running, committing: Option<&Committing>, live: &Live) -> Result<(), String> {
        let (committed, newest) = (self.committed.get(), live.newest_transaction());
        let last = committing.map_or(committed, |committing| committing.tid());
        if last.next() != running.tid() {
            return Err(format!("{:?} runs after {last:?}", running.tid()));
        }
        if committing.is_some() && committed.next() != last {
            return Err(format!("{last:?} commits after {committed:?}"));
        }
        match newest.filter(|newest| *newest != committed) {
            Some(newest) => Err(format!("{newest:?} is the newest in the log; {committed:?} committed last")),
            None => Ok(()),
        }
    }

    /// Log space that waits for TRIM counts as used.
    fn check_trimming(&self, live: &Live) -> Result<(), String> {
        let waiting: u32 = self.to_trim.borrow().iter().map(|run| run.length).sum();
        match waiting <= live.trimming_blocks() {
            true => Ok(()),
            false => Err(format!("{waiting} log blocks wait for trimming; counted {}", live.trimming_blocks())),
        }
    }

    /// Invariant 4: the superblock names the oldest transaction whose blocks may not be home.
    fn check_tail(&self, live: &Live, committing: Option<&Committing>) -> Result<(), String> {
        if self.is_closed.get() || committing.is_some() || !self.tail.is_free() {
            return Ok(());
        }
        let superblock = self.superblock.borrow();
        let (start, tid) = live.named_tail(self.next_unlogged());
        if (superblock.start, superblock.sequence) == (start.0, tid.on_disk()) {
            return Ok(());
        }
        let (named, sequence) = (superblock.start, superblock.sequence);
        Err(format!("the superblock names log block {named}, sequence {sequence}; the tail is {start}, {tid:?}"))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use onewrite_block::layer::{Fault, FaultPlan, Faulty};
    use onewrite_block::{Device, Executor, Page, RamDisk};

    use super::*;
    use crate::api::{FsError, FsResult};
    use crate::block::BlockNo;
    use crate::journal::format::JournalSuperblock;
    use crate::journal::live::Reclaimed;
    use crate::journal::ring::LogBlock;
    use crate::journal::{
        Barrier, CheckpointBy, CheckpointPace, JournalOptions, LogMap, Owner, ReclaimedSpace, Urgency,
    };

    /// First block of the log; it holds the log's superblock.
    const LOG: BlockNo = BlockNo(1024);

    /// Runs `change` on a journal with two committed transactions that share a block. Gives the result of the check.
    fn told(change: impl FnOnce(&Journal) + 'static) -> Result<(), String> {
        on(Box::new(RamDisk::new(4096)), async |journal| {
            change(&journal);
            journal.check()
        })
    }

    /// Runs `work` on a journal with two committed transactions that share a block.
    fn on<T: 'static>(device: Box<dyn Device>, work: impl AsyncFnOnce(Rc<Journal>) -> T + 'static) -> T {
        let executor = Executor::ideal();
        let port = executor.runtime().attach(device);
        let work = async move {
            let superblock = JournalSuperblock::empty(256, [3; 16]);
            let map = LogMap::new(vec![LOG.run(256)]);
            let journal = Journal::open(port, map, superblock, Page::ZEROS, options()).await.expect("a log");
            commit(&journal, [5, 6]).await.expect("a commit");
            commit(&journal, [6, 7]).await.expect("a commit");
            journal.check().expect("nothing was broken yet");
            work(journal).await
        };
        executor.block_on(work).expect("nothing halts")
    }

    async fn commit(journal: &Rc<Journal>, blocks: [u64; 2]) -> FsResult<()> {
        let mut handle = journal.start(4).await?;
        for block in blocks {
            handle.join(BlockNo(block), Owner { file: 0, index: block });
        }
        drop(handle);
        let sealed = journal.seal(|_| Some(Page::from_slice(b"content"))).await.expect("something");
        journal.commit(sealed).await.map(drop)
    }

    fn options() -> JournalOptions {
        JournalOptions {
            commit: Box::new(Barrier),
            checkpoint: CheckpointBy::Copy,
            retained_pages_max: 100,
            checkpoint_pace: CheckpointPace::Eager,
            reclaimed_space: ReclaimedSpace::Kept,
            transaction_blocks_max: 32,
            checkpoint_age: onewrite_block::Nanos::from_secs(30),
            commit_interval: onewrite_block::Nanos::from_secs(5),
            max_batch_time: onewrite_block::Nanos::ZERO,
            eviction_spot: None,
        }
    }

    #[test]
    fn a_journal_whose_invariants_hold_is_told_so() {
        assert_eq!(told(|_| ()), Ok(()));
    }

    #[test]
    fn transactions_out_of_order_are_told() {
        let told = told(|journal| journal.committed.set(journal.committed.get().previous()));
        assert!(told.clone().is_err_and(|what| what.contains("runs after")), "{told:?}");
    }

    #[test]
    fn credits_without_a_handle_are_told() {
        let told = told(|journal| journal.running.borrow_mut().lose_a_handle());
        assert!(told.clone().is_err_and(|what| what.contains("credits")), "{told:?}");
    }

    #[test]
    fn a_block_that_is_neither_home_nor_an_entry_is_told() {
        let told = told(|journal| journal.live.borrow_mut().lose_entry(BlockNo(7)));
        assert!(told.clone().is_err_and(|what| what.contains("not home")), "{told:?}");
    }

    #[test]
    fn an_entry_of_an_older_transaction_than_the_newest_is_told() {
        let told = told(|journal| journal.live.borrow_mut().age_entry(BlockNo(6)));
        assert!(told.clone().is_err_and(|what| what.contains("block 6")), "{told:?}");
    }

    #[test]
    fn log_space_that_is_free_too_early_is_told() {
        let told = told(|journal| journal.live.borrow_mut().lose_space());
        assert!(told.clone().is_err_and(|what| what.contains("log blocks are in use")), "{told:?}");
    }

    #[test]
    fn a_tail_that_is_not_the_oldest_transaction_is_told() {
        let told = told(|journal| journal.superblock.borrow_mut().start += 1);
        assert!(told.clone().is_err_and(|what| what.contains("the superblock names")), "{told:?}");
    }

    #[test]
    fn log_space_that_waits_for_trimming_and_is_not_counted_is_told() {
        let waiting = Reclaimed { start: LogBlock::SUPERBLOCK, length: 1 };
        let told = told(move |journal| journal.to_trim.borrow_mut().push(waiting));
        assert!(told.clone().is_err_and(|what| what.contains("1 log blocks wait for trimming")), "{told:?}");
    }

    #[test]
    fn a_transaction_that_counts_as_home_and_is_not_is_told() {
        let told = told(|journal| journal.live.borrow_mut().lengthen_home());
        assert!(told.clone().is_err_and(|what| what.contains("live transactions are home")), "{told:?}");
    }

    #[test]
    fn a_block_in_the_log_that_is_not_known_there_is_told() {
        let told = told(|journal| journal.live.borrow_mut().lose_logged(BlockNo(5)));
        assert!(told.clone().is_err_and(|what| what.contains("block 5 lies in the log")), "{told:?}");
    }

    #[test]
    fn a_block_that_lies_in_no_log_and_is_said_to_is_told() {
        let told = told(|journal| journal.live.borrow_mut().invent_logged(BlockNo(9)));
        assert!(told.clone().is_err_and(|what| what.contains("is said to lie in the log")), "{told:?}");
    }

    /// A superblock that cannot be written leaves the old tail in force, in memory, too: nobody takes the space behind
    /// it, and whoever waits for log space is told.
    #[test]
    fn a_tail_that_cannot_be_written_stays_and_ends_the_journal() {
        let plan = Rc::new(std::cell::RefCell::new(FaultPlan::default()));
        let faulty = Faulty::new(Box::new(RamDisk::new(4096)), Rc::clone(&plan));
        on(Box::new(faulty), async move |journal| {
            let (tail, free) = (journal.superblock.borrow().start, journal.live.borrow().free_blocks());
            plan.borrow_mut().faults.push(Fault::Page(LOG.page()));
            let told = journal.checkpoint(usize::MAX, Urgency::Forced).await;
            assert!(matches!(told, Err(FsError::Device(_))), "{told:?}");
            plan.borrow_mut().faults.clear();
            assert_eq!((journal.superblock.borrow().start, journal.live.borrow().free_blocks()), (tail, free));
            assert_eq!(journal.check(), Ok(()));
            assert!(matches!(commit(&journal, [8, 9]).await, Err(FsError::ReadOnly(_))), "it commits after an error");
        });
    }
}
