//! FAB: the flash block with the most pages in the cache leaves as a whole, in the order of its sectors.
//!
//! Of blocks with equally many pages, the one used longest ago. Clean and dirty pages count and leave alike.
//!
//! Source: Jo et al., "FAB: flash-aware buffer management policy for portable media players", IEEE Transactions on
//! Consumer Electronics 52(2), 2006. Invariants: `order` holds every block that has pages, with its number of pages and
//! the moment of its last use; moments are unique.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::blocks::{Blocks, Homes};
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Fab {
    /// The state of a block is the moment of its last use.
    blocks: Blocks<u64>,
    homes: Homes,
    order: BTreeSet<(usize, Reverse<u64>, u32)>,
    now: u64,
    leaving: Option<u32>,
}

impl Fab {
    /// With flash blocks of so many pages.
    pub fn new(block_pages: u32) -> Fab {
        Fab { blocks: Blocks::new(block_pages), homes: Homes::default(), order: BTreeSet::new(), now: 0, leaving: None }
    }

    fn key(&self, record: u32) -> (usize, Reverse<u64>, u32) {
        (self.blocks.record(record).listed_count(), Reverse(*self.blocks.state(record)), record)
    }

    fn touch(&mut self, record: u32) {
        self.now += 1;
        *self.blocks.state_mut(record) = self.now;
    }
}

impl Policy for Fab {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (home, is_new) = self.blocks.join(page);
        let record = home.record;
        if !is_new {
            self.order.remove(&self.key(record));
        }
        self.homes.set(slot, home);
        self.blocks.list(slot.0, home);
        self.touch(record);
        self.order.insert(self.key(record));
    }

    fn access(&mut self, slot: Slot) {
        let record = self.homes.of(slot).record;
        self.order.remove(&self.key(record));
        self.touch(record);
        self.order.insert(self.key(record));
    }

    fn remove(&mut self, slot: Slot) {
        let home = self.homes.of(slot);
        let record = home.record;
        self.order.remove(&self.key(record));
        self.blocks.unlist(slot.0, home, 0);
        if !self.blocks.leave(record) {
            self.order.insert(self.key(record));
        } else if self.leaving == Some(record) {
            self.leaving = None;
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        let record = self.leaving.or_else(|| self.order.last().map(|(_, _, record)| *record))?;
        self.leaving = Some(record);
        self.blocks.record(record).listed_at(0).map(Slot)
    }

    fn wants_more(&self) -> bool {
        self.leaving.is_some()
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check(|slot| self.homes.of(Slot(slot)))?;
        let expected: BTreeSet<_> = self.blocks.in_use().map(|record| self.key(record)).collect();
        match expected == self.order {
            true => Ok(()),
            false => Err(format!("the order is {:?}, should be {expected:?}", self.order)),
        }
    }
}
