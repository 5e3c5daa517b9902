//! Home prefix: the oldest live transactions, all of whose blocks are home.
//!
//! The background checkpoint asks at each commit how much of the log is not home, and since when. Transactions that are
//! home stay in the log until its tail moves, which may be thousands of commits later. So their sums are kept, and each
//! transaction is looked at once when it joins them.
//!
//! # Invariant
//! The prefix is the longest, and its sums are those of its transactions. `Live::check` verifies it. A transaction that
//! is home stays so, and nothing of it changes any more.

use std::collections::VecDeque;

use onewrite_block::Nanos;

use super::super::ring::LogBlock;
use super::super::transaction::TransactionId;
use crate::block::BlockNo;

/// A transaction in the log.
pub(super) struct LiveTransaction {
    pub(super) tid: TransactionId,
    pub(super) committed_at: Nanos,
    pub(super) start: LogBlock,
    /// Log blocks.
    pub(super) length: u32,
    /// Home blocks that it logged.
    pub(super) blocks: Vec<BlockNo>,
    /// Number of them that have an entry under this transaction.
    pub(super) not_home: usize,
    /// Number of the FLUSH that makes the last of its home writes durable.
    pub(super) home_flush: u64,
}

/// See the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HomePrefix {
    /// Number of transactions.
    pub(super) transactions: usize,
    /// Their log blocks.
    pub(super) log_blocks: u32,
    /// Number of the FLUSH that makes the last of their home writes durable.
    pub(super) home_flush: u64,
}

impl HomePrefix {
    /// The prefix of `transactions`; looks at each of them.
    pub(super) fn of(transactions: &VecDeque<LiveTransaction>) -> HomePrefix {
        let mut home = HomePrefix::default();
        home.advance(transactions);
        home
    }

    /// Takes in what has come home behind the prefix. Costs one step for each transaction that it takes in.
    pub(super) fn advance(&mut self, transactions: &VecDeque<LiveTransaction>) {
        while let Some(live) = transactions.get(self.transactions).filter(|live| live.not_home == 0) {
            self.transactions += 1;
            self.log_blocks += live.length;
            self.home_flush = self.home_flush.max(live.home_flush);
        }
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Choices, Page};

    use super::super::super::place::LogPlace;
    use super::super::super::ring::Ring;
    use super::super::{Live, Logged};
    use super::*;

    /// Commits a transaction of a few blocks at time `tid`, if the ring has room for it.
    fn commit(live: &mut Live, choices: &mut Choices, tid: TransactionId) -> bool {
        let blocks: Vec<BlockNo> = (0..1 + choices.below(4)).map(|_| BlockNo(choices.below(40))).collect();
        let count = blocks.len() as u32 + 2;
        if live.free_blocks() < count as usize {
            return false;
        }
        live.note_logged(tid, blocks.iter().copied(), count);
        let start = live.take(count)[0].start;
        let logged = |home_block| Logged { home_block, page: Page::ZEROS, place: LogPlace::Exact(start) };
        live.add(tid, Nanos(tid.0), start, count, blocks.into_iter().map(logged).collect());
        true
    }

    /// What the live transactions answer, each found by a pass over them.
    fn slowly(live: &Live) -> (u32, Option<Nanos>, Option<(LogBlock, u64, u32)>) {
        let home: Vec<_> = live.transactions.iter().take_while(|live| live.not_home == 0).collect();
        let log_blocks = home.iter().map(|live| live.length).sum::<u32>();
        let flush = home.iter().map(|live| live.home_flush).max();
        let next = live.transactions.get(home.len()).map_or(live.end_of_last(), |live| live.start);
        let oldest = live.transactions.iter().find(|live| live.not_home > 0).map(|live| live.committed_at);
        (live.used - live.trimming - log_blocks, oldest, flush.map(|flush| (next, flush, log_blocks)))
    }

    #[test]
    fn what_is_remembered_is_what_a_pass_over_all_transactions_finds() {
        for seed in 0..50 {
            let mut choices = Choices::new(seed);
            let mut live = Live::new(Ring::new(LogBlock(1), LogBlock(80)));
            let mut tid = TransactionId(1);
            for step in 0..500 {
                match choices.below(6) {
                    0..2 if commit(&mut live, &mut choices, tid) => tid = tid.next(),
                    0..2 => (),
                    2 => live.drop_entry(BlockNo(choices.below(40))),
                    3 => {
                        let batch = live.batch(choices.index(12));
                        batch.iter().for_each(|block| live.is_home(block.home_block, block.tid, step));
                    }
                    4 => live.forget(choices.index(10)),
                    _ => {
                        if let Some(candidate) = live.tail_candidate(tid) {
                            live.tail_written(&candidate, step);
                            let reclaimed = live.reclaim().expect("a tail is pending");
                            live.release(reclaimed.length);
                        }
                    }
                }
                let tail = live.tail_candidate(tid).map(|tail| (tail.start, tail.home_flush, tail.log_blocks));
                assert_eq!((live.burden_blocks(), live.oldest_commit(), tail), slowly(&live), "seed {seed} {step}");
                live.check(None).unwrap_or_else(|broken| panic!("seed {seed} {step}: {broken}"));
            }
        }
    }
}
