//! Live: the transactions in the log, their blocks that are not home yet, and the used part of the ring.

mod check;
mod home_prefix;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use onewrite_block::{Nanos, Page};
use rustc_hash::FxHashMap;

use super::place::LogPlace;
use super::ring::{LogBlock, Ring};
use super::transaction::TransactionId;
use crate::block::{BlockNo, BlockRange};
use home_prefix::{HomePrefix, LiveTransaction};

/// A committed block that is not home yet.
pub(super) struct Entry {
    pub(super) tid: TransactionId,
    /// Its content; `None` if it must be read back from the log.
    pub(super) page: Option<Page>,
    pub(super) place: LogPlace,
}

/// A block that a transaction logged.
pub(super) struct Logged {
    pub(super) home_block: BlockNo,
    pub(super) page: Page,
    pub(super) place: LogPlace,
}

/// A block on its way home.
#[derive(Clone)]
pub(super) struct CheckpointBlock {
    pub(super) home_block: BlockNo,
    pub(super) tid: TransactionId,
    pub(super) page: Option<Page>,
    pub(super) place: LogPlace,
}

/// A possible new tail, and the number of the FLUSH after which it is safe.
pub(super) struct TailCandidate {
    pub(super) start: LogBlock,
    pub(super) tid: TransactionId,
    pub(super) home_flush: u64,
    transactions: usize,
    pub(super) log_blocks: u32,
}

/// A tail in a superblock that is written but not durable until FLUSH number `flush` is done.
struct PendingTail {
    flush: u64,
    transactions: usize,
}

/// Log blocks behind the tail that no transaction holds any more. They may pass the end of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reclaimed {
    pub(super) start: LogBlock,
    /// Number of blocks.
    pub(super) length: u32,
}

pub(super) struct Live {
    ring: Ring,
    head: LogBlock,
    used: u32,
    /// Maximum number of log blocks that the committing transaction may take; 0 once it has taken them.
    promised: u32,
    /// Number of log blocks of reclaimed transactions that still wait for TRIM; part of `used`.
    trimming: u32,
    transactions: VecDeque<LiveTransaction>,
    /// The oldest transactions, all of whose blocks are home.
    home: HomePrefix,
    entries: BTreeMap<BlockNo, Entry>,
    /// Number of entries whose content is in memory.
    in_memory: usize,
    /// All entries of older transactions have left memory, except those that the log cannot give back.
    forgotten: TransactionId,
    /// For each block, the newest transaction in the log, live or committing, that logged it.
    logged: FxHashMap<BlockNo, TransactionId>,
    pending_tail: Option<PendingTail>,
}

impl Live {
    /// An empty ring.
    pub(super) fn new(ring: Ring) -> Live {
        Live {
            ring,
            head: ring.first(),
            used: 0,
            promised: 0,
            trimming: 0,
            transactions: VecDeque::new(),
            home: HomePrefix::default(),
            entries: BTreeMap::new(),
            in_memory: 0,
            forgotten: TransactionId::default(),
            logged: FxHashMap::default(),
            pending_tail: None,
        }
    }

    pub(super) fn head(&self) -> LogBlock {
        self.head
    }

    pub(super) fn ring_blocks(&self) -> u32 {
        self.ring.blocks()
    }

    /// Number of log blocks that are neither used nor promised to the committing transaction.
    pub(super) fn free_blocks(&self) -> usize {
        (self.ring_blocks() - self.used).saturating_sub(self.promised) as usize
    }

    /// The unused log blocks behind the head, in ring order.
    pub(super) fn free_runs(&self) -> Vec<Range<LogBlock>> {
        self.ring.runs(self.head, self.ring_blocks() - self.used)
    }

    /// Number of log blocks from the oldest transaction that is not home. A checkpoint could free them.
    pub(super) fn burden_blocks(&self) -> u32 {
        self.used - self.trimming - self.home.log_blocks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn oldest_commit(&self) -> Option<Nanos> {
        self.transactions.get(self.home.transactions).map(|live| live.committed_at)
    }

    pub(super) fn newest(&self, block: BlockNo) -> Option<&Entry> {
        self.entries.get(&block)
    }

    /// Drops content that the log can give back from memory, oldest first, until at most `pages_max` pages are left.
    pub(super) fn forget(&mut self, pages_max: usize) {
        if self.in_memory <= pages_max {
            return;
        }
        let Some(oldest) = self.transactions.front() else { return };
        let done = self.forgotten.0.saturating_sub(oldest.tid.0).min(self.transactions.len() as u64);
        for live in self.transactions.range(done as usize..) {
            if self.in_memory <= pages_max {
                return;
            }
            self.forgotten = live.tid.next();
            for block in &live.blocks {
                let entry = self.entries.get_mut(block).filter(|entry| entry.tid == live.tid);
                if let Some(entry) = entry.filter(|entry| entry.place != LogPlace::Nowhere) {
                    onewrite_block::reached!("committed content leaves memory");
                    self.in_memory -= usize::from(entry.page.take().is_some());
                }
            }
        }
    }

    pub(super) fn is_logged(&self, block: BlockNo) -> bool {
        self.logged.contains_key(&block)
    }

    /// Number of blocks that lie in the log, live or committing.
    pub(super) fn logged_count(&self) -> usize {
        self.logged.len()
    }

    /// Notes that `tid` is about to commit: it logs `blocks` and takes at most `log_blocks` of the ring.
    pub(super) fn note_logged(&mut self, tid: TransactionId, blocks: impl Iterator<Item = BlockNo>, log_blocks: u32) {
        self.promised = log_blocks;
        self.logged.extend(blocks.map(|block| (block, tid)));
    }

    /// Takes `count` log blocks at the head. Gives one run, or two if the ring wraps.
    ///
    /// # Panics
    /// If `count` exceeds the promise of [`Live::note_logged`]. A handle opens only if the ring has room for it.
    pub(super) fn take(&mut self, count: u32) -> Vec<Range<LogBlock>> {
        assert!(count <= self.promised, "{count} log blocks taken, {} promised", self.promised);
        self.promised = 0;
        let runs = self.ring.runs(self.head, count);
        self.head = self.ring.after(self.head, count);
        self.used += count;
        onewrite_block::reached!("log full to its last block", self.used == self.ring.blocks());
        onewrite_block::reached!("record wraps at the end of the log", runs.len() > 1);
        onewrite_block::reached!(
            "record ends with the last log block",
            runs.len() == 1 && self.head == self.ring.first()
        );
        runs
    }

    /// The ring that the transactions lie in.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Adds a durable transaction of `length` log blocks from `start` on. Its blocks supersede older entries.
    pub(super) fn add(&mut self, tid: TransactionId, now: Nanos, start: LogBlock, length: u32, blocks: Vec<Logged>) {
        let numbers: Vec<BlockNo> = blocks.iter().map(|logged| logged.home_block).collect();
        let not_home = blocks.len();
        let transaction =
            LiveTransaction { tid, committed_at: now, start, length, blocks: numbers, not_home, home_flush: 0 };
        self.transactions.push_back(transaction);
        for Logged { home_block, page, place } in blocks {
            self.in_memory += 1;
            if let Some(older) = self.entries.insert(home_block, Entry { tid, page: Some(page), place }) {
                self.left(&older);
            }
        }
        self.home.advance(&self.transactions);
    }

    /// Updates the counts after an entry was removed or superseded.
    fn left(&mut self, entry: &Entry) -> &mut LiveTransaction {
        self.in_memory -= usize::from(entry.page.is_some());
        let live = self.transaction_mut(entry.tid);
        live.not_home -= 1;
        live
    }

    fn transaction_mut(&mut self, tid: TransactionId) -> &mut LiveTransaction {
        let oldest = self.transactions.front().expect("an entry's transaction is live").tid;
        &mut self.transactions[(tid.0 - oldest.0) as usize]
    }

    /// Drops the entry of `block`: the transaction that frees the block is durable, so it need not go home.
    pub(super) fn drop_entry(&mut self, block: BlockNo) {
        if let Some(entry) = self.entries.remove(&block) {
            onewrite_block::reached!("block freed before it is home");
            self.left(&entry);
            self.home.advance(&self.transactions);
        }
    }

    /// Drops the entries of a run of blocks.
    pub(super) fn drop_entries(&mut self, run: BlockRange) {
        let blocks: Vec<BlockNo> = self.entries.range(run.start..run.end()).map(|(&block, _)| block).collect();
        blocks.into_iter().for_each(|block| self.drop_entry(block));
    }

    /// About `blocks_max` blocks to bring home, from the oldest transactions, sorted by home block.
    pub(super) fn batch(&self, blocks_max: usize) -> Vec<CheckpointBlock> {
        let mut batch = Vec::new();
        for live in self.transactions.range(self.home.transactions..).filter(|live| live.not_home > 0) {
            if !batch.is_empty() && batch.len() + live.not_home > blocks_max {
                break;
            }
            let own = live.blocks.iter().filter_map(|block| {
                let entry = self.entries.get(block).filter(|entry| entry.tid == live.tid)?;
                let (tid, page, place) = (entry.tid, entry.page.clone(), entry.place);
                Some(CheckpointBlock { home_block: *block, tid, page, place })
            });
            batch.extend(own);
        }
        batch.sort_unstable_by_key(|homeward| homeward.home_block);
        batch
    }

    /// Notes that the version of `block` from `tid` is home; FLUSH number `home_flush` makes it durable.
    pub(super) fn is_home(&mut self, block: BlockNo, tid: TransactionId, home_flush: u64) {
        onewrite_block::reached!(
            "superseded on its way home",
            self.entries.get(&block).is_some_and(|it| it.tid != tid)
        );
        onewrite_block::reached!("freed on its way home", !self.entries.contains_key(&block));
        if self.entries.get(&block).is_some_and(|entry| entry.tid == tid) {
            let entry = self.entries.remove(&block).expect("just seen");
            let live = self.left(&entry);
            // Of one transaction some blocks are copied, others shared: sharing is durable at once, copies are not.
            live.home_flush = live.home_flush.max(home_flush);
            self.home.advance(&self.transactions);
        }
    }

    /// The newest possible tail; `None` if the tail cannot move. `next` is the transaction after the live ones.
    pub(super) fn tail_candidate(&self, next: TransactionId) -> Option<TailCandidate> {
        let HomePrefix { transactions, log_blocks, home_flush } = self.home;
        let (start, tid) = match self.transactions.get(transactions) {
            Some(live) => (live.start, live.tid),
            None => (self.end_of_last(), next),
        };
        (transactions > 0).then_some(TailCandidate { start, tid, home_flush, transactions, log_blocks })
    }

    /// The log block behind the last live transaction. A committing transaction may lie there already.
    fn end_of_last(&self) -> LogBlock {
        self.transactions.back().map_or(self.head, |live| self.ring.after(live.start, live.length))
    }

    /// Notes that the superblock names `candidate` and that FLUSH number `flush` makes it durable.
    pub(super) fn tail_written(&mut self, candidate: &TailCandidate, flush: u64) {
        self.pending_tail = Some(PendingTail { flush, transactions: candidate.transactions });
    }

    /// Number of the FLUSH after which the new tail is durable; `None` if no tail is pending.
    pub(super) fn pending_flush(&self) -> Option<u64> {
        self.pending_tail.as_ref().map(|pending| pending.flush)
    }

    /// Removes the transactions before the pending tail, which is durable now. Their log blocks stay in use until
    /// [`Live::release`].
    pub(super) fn reclaim(&mut self) -> Option<Reclaimed> {
        let pending = self.pending_tail.take()?;
        let start = self.transactions.front()?.start;
        let mut length = 0;
        for live in self.transactions.drain(..pending.transactions) {
            length += live.length;
            for block in live.blocks {
                if self.logged.get(&block) == Some(&live.tid) {
                    self.logged.remove(&block);
                }
            }
        }
        onewrite_block::reached!("tail moves behind the last transaction", self.transactions.is_empty());
        self.home = HomePrefix::of(&self.transactions);
        self.trimming += length;
        Some(Reclaimed { start, length })
    }

    /// Frees `length` log blocks that [`Live::reclaim`] gave.
    pub(super) fn release(&mut self, length: u32) {
        self.trimming -= length;
        self.used -= length;
    }

    /// Whether reclaimed log blocks still wait for [`Live::release`].
    pub(super) fn is_trimming(&self) -> bool {
        self.trimming > 0
    }

    /// All log blocks in use, in ring order.
    pub(super) fn in_use(&self) -> Vec<Range<LogBlock>> {
        self.ring.runs(self.ring.after(self.head, self.ring_blocks() - self.used), self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two transactions; the log cannot give back block 1 of the first.
    fn two_transactions() -> Live {
        let mut live = Live::new(Ring::new(LogBlock(1), LogBlock(65)));
        let (one, two) = (TransactionId(1), TransactionId(2));
        let logged = |block, place| Logged { home_block: BlockNo(block), page: Page::ZEROS, place };
        for (tid, blocks) in [(one, [1, 2]), (two, [3, 4])] {
            live.note_logged(tid, blocks.into_iter().map(BlockNo), 4);
            let start = live.take(4)[0].start;
            let places = if tid == one { LogPlace::Nowhere } else { LogPlace::Exact(start) };
            let blocks = vec![logged(blocks[0], places), logged(blocks[1], LogPlace::Exact(start))];
            live.add(tid, Nanos::ZERO, start, 4, blocks);
        }
        live
    }

    #[test]
    fn content_that_the_log_cannot_give_back_stays_in_memory() {
        let mut live = two_transactions();
        let in_memory = |live: &Live| -> Vec<u64> {
            live.entries.iter().filter(|(_, entry)| entry.page.is_some()).map(|(block, _)| block.0).collect()
        };
        for (pages_max, left) in [(4, vec![1, 2, 3, 4]), (3, vec![1, 3, 4]), (2, vec![1]), (0, vec![1])] {
            live.forget(pages_max);
            assert_eq!(in_memory(&live), left, "at most {pages_max} pages");
            live.check(None).expect("the counts are right");
        }
    }
}
