//! Live: the transactions in the log, which blocks of them are not home, and how much of the ring is in use.

use std::collections::{BTreeMap, VecDeque};

use onewrite_block::{Nanos, Page};
use rustc_hash::FxHashMap;

use super::transaction::{BlockRange, Tid};

/// A committed block that is not home yet.
pub(super) struct Entry {
    pub(super) tid: Tid,
    pub(super) page: Page,
    /// The log block that holds exactly its content, if one does.
    pub(super) log_block: Option<u32>,
}

/// A block that a transaction logged.
pub(super) struct Logged {
    pub(super) home_block: u64,
    pub(super) page: Page,
    /// The log block that holds exactly its content; escaped and compressed ones have none.
    pub(super) log_block: Option<u32>,
}

/// A block on its way home.
#[derive(Clone)]
pub(super) struct Homeward {
    pub(super) home_block: u64,
    pub(super) tid: Tid,
    pub(super) page: Page,
    pub(super) log_block: Option<u32>,
}

struct LiveTransaction {
    tid: Tid,
    committed_at: Nanos,
    /// First log block.
    start: u32,
    /// Log blocks.
    length: u32,
    /// Home blocks that it logged.
    blocks: Vec<u64>,
    /// How many of them are in `entries` under its number.
    not_home: usize,
    /// The FLUSH that makes the last of its home writes durable.
    home_flush: u64,
}

/// Where a new tail would be, and from which FLUSH on that is safe.
pub(super) struct TailCandidate {
    pub(super) start: u32,
    pub(super) tid: Tid,
    pub(super) home_flush: u64,
    transactions: usize,
    pub(super) log_blocks: u32,
}

/// A tail that was written to the superblock, waiting for its FLUSH.
pub(super) struct PendingTail {
    pub(super) flush: u64,
    transactions: usize,
}

pub(super) struct Live {
    first: u32,
    length: u32,
    head: u32,
    used: u32,
    /// Blocks that the committing transaction will take at most, until it does.
    promised: u32,
    transactions: VecDeque<LiveTransaction>,
    entries: BTreeMap<u64, Entry>,
    /// Newest transaction in the log, live or committing, that logged a block.
    logged: FxHashMap<u64, Tid>,
    pub(super) pending_tail: Option<PendingTail>,
}

impl Live {
    /// An empty ring of the log blocks from `first` to `length`.
    pub(super) fn new(first: u32, length: u32) -> Live {
        Live {
            first,
            length,
            head: first,
            used: 0,
            promised: 0,
            transactions: VecDeque::new(),
            entries: BTreeMap::new(),
            logged: FxHashMap::default(),
            pending_tail: None,
        }
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    pub(super) fn ring_blocks(&self) -> u32 {
        self.length - self.first
    }

    /// Blocks that no transaction uses and the committing one will not take.
    pub(super) fn free_blocks(&self) -> usize {
        (self.ring_blocks() - self.used).saturating_sub(self.promised) as usize
    }

    /// The blocks behind the head that no transaction uses, in the order of the ring.
    pub(super) fn free_runs(&self) -> Vec<BlockRange> {
        let free = self.ring_blocks() - self.used;
        let until_end = free.min(self.length - self.head);
        let runs = [(self.head, until_end), (self.first, free - until_end)];
        let range = |(start, count): (u32, u32)| BlockRange { start: u64::from(start), count: u64::from(count) };
        runs.into_iter().filter(|(_, count)| *count > 0).map(range).collect()
    }

    /// Log blocks from the oldest transaction that is not home on: what bringing blocks home could free.
    pub(super) fn burden_blocks(&self) -> u32 {
        let home = self.transactions.iter().take_while(|live| live.not_home == 0);
        self.used - home.map(|live| live.length).sum::<u32>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn oldest_commit(&self) -> Option<Nanos> {
        self.transactions.iter().find(|live| live.not_home > 0).map(|live| live.committed_at)
    }

    pub(super) fn newest(&self, block: u64) -> Option<Page> {
        self.entries.get(&block).map(|entry| entry.page.clone())
    }

    pub(super) fn is_logged(&self, block: u64) -> bool {
        self.logged.contains_key(&block)
    }

    /// Notes that `tid`, about to commit, logs `blocks` and will take at most `log_blocks` of the ring.
    pub(super) fn note_logged(&mut self, tid: Tid, blocks: impl Iterator<Item = u64>, log_blocks: u32) {
        self.promised = log_blocks;
        self.logged.extend(blocks.map(|block| (block, tid)));
    }

    /// Takes `count` log blocks at the head; gives the runs, two if the ring wraps.
    ///
    /// # Panics
    /// If they are more than [`Live::note_logged`] promised: handles are opened only where the ring has room for it.
    pub(super) fn take(&mut self, count: u32) -> Vec<(u32, u32)> {
        assert!(count <= self.promised, "{count} log blocks taken, {} promised", self.promised);
        self.promised = 0;
        let until_end = (self.length - self.head).min(count);
        let mut runs = vec![(self.head, until_end)];
        if count > until_end {
            runs.push((self.first, count - until_end));
        }
        self.head = self.first + (self.head - self.first + count) % self.ring_blocks();
        self.used += count;
        runs
    }

    /// A transaction became durable: its blocks supersede older entries.
    pub(super) fn add(&mut self, tid: Tid, now: Nanos, log: (u32, u32), blocks: Vec<Logged>) {
        let (start, length) = log;
        let numbers: Vec<u64> = blocks.iter().map(|logged| logged.home_block).collect();
        let not_home = blocks.len();
        let transaction =
            LiveTransaction { tid, committed_at: now, start, length, blocks: numbers, not_home, home_flush: 0 };
        self.transactions.push_back(transaction);
        for Logged { home_block, page, log_block } in blocks {
            if let Some(older) = self.entries.insert(home_block, Entry { tid, page, log_block }) {
                self.transaction_mut(older.tid).not_home -= 1;
            }
        }
    }

    fn transaction_mut(&mut self, tid: Tid) -> &mut LiveTransaction {
        let oldest = self.transactions.front().expect("an entry's transaction is live").tid;
        &mut self.transactions[(tid.0 - oldest.0) as usize]
    }

    /// The entry of `block` need not go home: the transaction that frees it is durable.
    pub(super) fn drop_entry(&mut self, block: u64) {
        if let Some(entry) = self.entries.remove(&block) {
            self.transaction_mut(entry.tid).not_home -= 1;
        }
    }

    /// Drops the entries of `count` blocks from `start` on.
    pub(super) fn drop_entries(&mut self, start: u64, count: u64) {
        let blocks: Vec<u64> = self.entries.range(start..start + count).map(|(&block, _)| block).collect();
        blocks.into_iter().for_each(|block| self.drop_entry(block));
    }

    /// Blocks to bring home, oldest transactions first, about `blocks_max` of them, in ascending order.
    pub(super) fn batch(&self, blocks_max: usize) -> Vec<Homeward> {
        let mut batch = Vec::new();
        for live in self.transactions.iter().filter(|live| live.not_home > 0) {
            if !batch.is_empty() && batch.len() + live.not_home > blocks_max {
                break;
            }
            let own = live.blocks.iter().filter_map(|block| {
                let entry = self.entries.get(block).filter(|entry| entry.tid == live.tid)?;
                let (tid, page, log_block) = (entry.tid, entry.page.clone(), entry.log_block);
                Some(Homeward { home_block: *block, tid, page, log_block })
            });
            batch.extend(own);
        }
        batch.sort_unstable_by_key(|homeward| homeward.home_block);
        batch
    }

    /// The version of `block` that `tid` logged has been written home; `home_flush` will make it durable.
    pub(super) fn is_home(&mut self, block: u64, tid: Tid, home_flush: u64) {
        if self.entries.get(&block).is_some_and(|entry| entry.tid == tid) {
            self.entries.remove(&block);
            let live = self.transaction_mut(tid);
            live.not_home -= 1;
            live.home_flush = home_flush;
        }
    }

    /// The tail that would be possible now, if it is not the present one; `next` is the transaction after the live ones.
    pub(super) fn tail_candidate(&self, next: Tid) -> Option<TailCandidate> {
        let home = self.transactions.iter().take_while(|live| live.not_home == 0);
        let mut candidate = TailCandidate { start: 0, tid: next, home_flush: 0, transactions: 0, log_blocks: 0 };
        for live in home {
            candidate.transactions += 1;
            candidate.log_blocks += live.length;
            candidate.home_flush = candidate.home_flush.max(live.home_flush);
        }
        let (start, tid) = match self.transactions.get(candidate.transactions) {
            Some(live) => (live.start, live.tid),
            None => (self.end_of_last(), next),
        };
        (candidate.transactions > 0).then_some(TailCandidate { start, tid, ..candidate })
    }

    /// Where the log goes on after the last live transaction; one that commits now may lie there already.
    fn end_of_last(&self) -> u32 {
        let last =
            self.transactions.back().map_or(self.head - self.first, |live| live.start + live.length - self.first);
        self.first + last % self.ring_blocks()
    }

    /// The superblock with `candidate` is written and durable from `flush` on.
    pub(super) fn tail_written(&mut self, candidate: &TailCandidate, flush: u64) {
        self.pending_tail = Some(PendingTail { flush, transactions: candidate.transactions });
    }

    /// The pending tail is durable: its log space is free.
    pub(super) fn reclaim(&mut self) {
        let Some(pending) = self.pending_tail.take() else { return };
        for live in self.transactions.drain(..pending.transactions) {
            self.used -= live.length;
            for block in live.blocks {
                if self.logged.get(&block) == Some(&live.tid) {
                    self.logged.remove(&block);
                }
            }
        }
    }
}
