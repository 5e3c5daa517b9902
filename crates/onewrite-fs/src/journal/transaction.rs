//! Transactions that gather blocks: the running transaction, and the sealed one. [`Handle`] changes the running one.

mod handle;

use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::{Nanos, Page};

use super::format::Sequence;
use crate::block::{BlockNo, BlockRange};
pub use handle::Handle;

/// Number of a transaction; grows by one for each. The log holds its lower 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u64);

impl TransactionId {
    /// The lower 32 bits, as the log stores them.
    pub(crate) const fn on_disk(self) -> Sequence {
        Sequence(self.0 as u32)
    }

    /// The next transaction.
    pub const fn next(self) -> TransactionId {
        TransactionId(self.0 + 1)
    }

    /// The transaction before this one.
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

/// Whether a block was already in the running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// No. The owner must now keep the page in memory until the commit.
    First,
    /// Yes.
    Again,
}

/// The transaction that takes changes.
pub(super) struct Running {
    tid: TransactionId,
    started: Nanos,
    blocks: BTreeMap<BlockNo, Owner>,
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

    pub(super) fn tid(&self) -> TransactionId {
        self.tid
    }

    /// When its first handle opened; before that, when it began.
    pub(super) fn started(&self) -> Nanos {
        self.started
    }

    /// Verifies the credits of the handles, and that no block is both logged and revoked.
    ///
    /// # Errors
    /// The first violation.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.handles == 0 && self.credits > 0 {
            true => Err(format!("{} credits without a handle in {:?}", self.credits, self.tid)),
            false => match self.blocks.keys().find(|block| self.revokes.contains(block)) {
                Some(block) => Err(format!("block {block} is both logged and revoked in {:?}", self.tid)),
                None => Ok(()),
            },
        }
    }

    /// Breaks the credits: adds one that no handle has.
    #[cfg(test)]
    pub(super) fn lose_a_handle(&mut self) {
        self.credits += 1;
    }

    /// Whether it has nothing to write and no open handle.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revokes.is_empty() && self.freed.is_empty() && self.handles == 0
    }
}

/// The committing transaction.
pub(super) struct Committing {
    tid: TransactionId,
    ordered: BTreeSet<u64>,
}

impl Committing {
    pub(super) fn tid(&self) -> TransactionId {
        self.tid
    }

    /// Whether it has to wait for data of `owner`.
    pub(super) fn orders(&self, owner: u64) -> bool {
        self.ordered.contains(&owner)
    }
}

/// A transaction that takes no more changes. Its content is frozen and ready for the log.
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
    /// Files whose data must be written before the commit.
    pub ordered: Vec<u64>,
    /// Blocks that it frees; they may be reused once it is durable.
    pub freed: Vec<BlockRange>,
}
