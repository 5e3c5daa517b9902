//! FAB: the flash block with the most pages in the cache leaves as a whole, in the order of its sectors.
//!
//! Among blocks with equally many pages, the least recently used one leaves. Clean and dirty pages count and leave
//! alike.
//!
//! Source: Jo et al., "FAB: flash-aware buffer management policy for portable media players", IEEE Transactions on
//! Consumer Electronics 52(2), 2006. Invariants: `order` holds every block that has pages, with its number of pages and
//! the moment of its last use; moments are unique.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::blocks::Blocks;
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Fab {
    /// The state of a block is the moment of its last use.
    blocks: Blocks<u64>,
    order: BTreeSet<(u32, Reverse<u64>, u32)>,
    now: u64,
}

impl Fab {
    /// For flash blocks of `block_pages` pages. Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32, block_pages: u32) -> Fab {
        Fab { blocks: Blocks::new(block_pages, capacity_pages), order: BTreeSet::new(), now: 0 }
    }

    fn key(&self, record: u32) -> (u32, Reverse<u64>, u32) {
        (self.blocks.pages(record), Reverse(*self.blocks.state(record)), record)
    }

    fn touch(&mut self, record: u32) {
        self.now += 1;
        *self.blocks.state_mut(record) = self.now;
    }
}

impl Policy for Fab {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (record, is_new) = self.blocks.join(slot, page);
        if !is_new {
            let (pages, last_use, record) = self.key(record);
            self.order.remove(&(pages - 1, last_use, record));
        }
        self.touch(record);
        self.order.insert(self.key(record));
    }

    fn access(&mut self, slot: Slot) {
        let record = self.blocks.home(slot).record;
        self.order.remove(&self.key(record));
        self.touch(record);
        self.order.insert(self.key(record));
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        let record = self.blocks.home(slot).record;
        self.order.remove(&self.key(record));
        if !self.blocks.leave(slot) {
            self.order.insert(self.key(record));
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        if !self.blocks.one_leaves() {
            let (_, _, record) = *self.order.last()?;
            self.blocks.let_leave(record);
        }
        self.blocks.first_leaving()
    }

    fn wants_more(&self) -> bool {
        self.blocks.one_leaves()
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check()?;
        let expected: BTreeSet<_> = self.blocks.in_use().map(|record| self.key(record)).collect();
        match expected == self.order {
            true => Ok(()),
            false => Err(format!("the order is {:?}, should be {expected:?}", self.order)),
        }
    }
}
