//! Check: verifies the live transactions and their counts.

use rustc_hash::FxHashMap;

use super::super::ring::LogBlock;
use super::super::transaction::TransactionId;
use super::Live;
use super::home_prefix::HomePrefix;
#[cfg(test)]
use crate::block::BlockNo;

impl Live {
    /// Verifies the invariants. `committing` may have log blocks at the head already.
    ///
    /// # Errors
    /// The first violated invariant.
    pub(in crate::journal) fn check(&self, committing: Option<TransactionId>) -> Result<(), String> {
        self.check_entries()?;
        self.check_home()?;
        self.check_space(committing)?;
        self.check_logged(committing)
    }

    /// The newest transaction.
    pub(in crate::journal) fn newest_transaction(&self) -> Option<TransactionId> {
        self.transactions.back().map(|live| live.tid)
    }

    /// Number of log blocks that wait for TRIM.
    pub(in crate::journal) fn trimming_blocks(&self) -> u32 {
        self.trimming
    }

    /// The tail in the superblock, durable or not. No transaction may be committing; `next` is the one after the live
    /// ones.
    pub(in crate::journal) fn named_tail(&self, next: TransactionId) -> (LogBlock, TransactionId) {
        let gone = self.pending_tail.as_ref().map_or(0, |pending| pending.transactions);
        self.transactions.get(gone).map_or_else(|| (self.end_of_last(), next), |live| (live.start, live.tid))
    }

    /// Invariant 2: each block of a live transaction is home or has an entry under the newest transaction that logged
    /// it.
    fn check_entries(&self) -> Result<(), String> {
        let mut newest = FxHashMap::default();
        for live in &self.transactions {
            newest.extend(live.blocks.iter().map(|block| (*block, live.tid)));
        }
        let mut not_home: FxHashMap<TransactionId, usize> = FxHashMap::default();
        for (block, entry) in &self.entries {
            if newest.get(block) != Some(&entry.tid) {
                let newest = newest.get(block);
                return Err(format!("block {block} is an entry of {:?}; {newest:?} logged it last", entry.tid));
            }
            *not_home.entry(entry.tid).or_default() += 1;
        }
        for live in &self.transactions {
            let found = not_home.get(&live.tid).copied().unwrap_or(0);
            if found != live.not_home {
                return Err(format!("{found} blocks of {:?} are not home; counted {}", live.tid, live.not_home));
            }
        }
        let in_memory = self.entries.values().filter(|entry| entry.page.is_some()).count();
        match in_memory == self.in_memory {
            true => Ok(()),
            false => Err(format!("{in_memory} entries are in memory; counted {}", self.in_memory)),
        }
    }

    /// The home prefix is what one pass over all transactions finds.
    fn check_home(&self) -> Result<(), String> {
        let counted = HomePrefix::of(&self.transactions);
        match counted == self.home {
            true => Ok(()),
            false => Err(format!("{counted:?} of the live transactions are home; remembered {:?}", self.home)),
        }
    }

    /// The transactions lie one after another in the ring, up to the head. Untrimmed space lies before them.
    fn check_space(&self, committing: Option<TransactionId>) -> Result<(), String> {
        let pairs = self.transactions.iter().zip(self.transactions.iter().skip(1));
        for (one, next) in pairs {
            if one.tid.next() != next.tid || self.ring.after(one.start, one.length) != next.start {
                return Err(format!("{:?} lies behind {:?}, but not next to it", next.tid, one.tid));
            }
        }
        let held = self.trimming + self.transactions.iter().map(|live| live.length).sum::<u32>();
        let is_right = if committing.is_some() { self.used >= held } else { self.used == held };
        if !is_right || self.used > self.ring_blocks() {
            return Err(format!("{} log blocks are in use; transactions and trimming hold {held}", self.used));
        }
        if committing.is_none() && (self.head != self.end_of_last() || self.promised > 0) {
            return Err(format!("the head is {}, {} blocks promised, and nothing commits", self.head, self.promised));
        }
        let gone = self.pending_tail.as_ref().map_or(0, |pending| pending.transactions);
        match self.transactions.iter().take(gone).find(|live| live.not_home > 0) {
            Some(live) => Err(format!("the tail moves past {:?}, of which {} are not home", live.tid, live.not_home)),
            None if gone > self.transactions.len() => Err(format!("the tail moves past {gone} transactions")),
            None => Ok(()),
        }
    }

    /// `logged` names each block in the log, under a transaction that is live or committing.
    fn check_logged(&self, committing: Option<TransactionId>) -> Result<(), String> {
        for live in &self.transactions {
            let lost = live.blocks.iter().find(|block| self.logged.get(block).is_none_or(|tid| *tid < live.tid));
            if let Some(block) = lost {
                return Err(format!("block {block} lies in the log with {:?}, which is not known", live.tid));
            }
        }
        let oldest = self.transactions.front().map(|live| live.tid);
        let is_there = |tid: TransactionId| {
            Some(tid) == committing
                || oldest.is_some_and(|oldest| tid >= oldest) && Some(tid) <= self.newest_transaction()
        };
        // The map's order is arbitrary; it affects only the text of this error.
        match self.logged.values().find(|tid| !is_there(**tid)) {
            Some(tid) => Err(format!("{tid:?} is said to lie in the log")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl Live {
    /// Breaks invariant 2: forgets an entry.
    pub(in crate::journal) fn lose_entry(&mut self, block: BlockNo) {
        let entry = self.entries.remove(&block).expect("an entry");
        self.in_memory -= usize::from(entry.page.is_some());
    }

    /// Breaks invariant 2: gives an entry to the transaction before its own.
    pub(in crate::journal) fn age_entry(&mut self, block: BlockNo) {
        let entry = self.entries.get_mut(&block).expect("an entry");
        entry.tid = entry.tid.previous();
    }

    /// Breaks invariant 4: counts one used log block as free.
    pub(in crate::journal) fn lose_space(&mut self) {
        self.used -= 1;
    }

    /// Breaks the home prefix: counts a transaction that is not home.
    pub(in crate::journal) fn lengthen_home(&mut self) {
        self.home.transactions += 1;
    }

    /// Forgets that the log holds a block.
    pub(in crate::journal) fn lose_logged(&mut self, block: BlockNo) {
        self.logged.remove(&block).expect("a logged block");
    }

    /// Says that the log holds a block under a transaction that is not there.
    pub(in crate::journal) fn invent_logged(&mut self, block: BlockNo) {
        let newest = self.newest_transaction().expect("a live transaction");
        self.logged.insert(block, newest.next());
    }
}
