//! BPLRU: LRU of flash blocks. The least recently used block leaves as a whole, in the order of its sectors.
//!
//! *LRU compensation*: if the pages of a block turned dirty in order, from its first to its last, the block is a
//! finished sequential write. It goes to the end of the list at once. *Page padding*, the algorithm's other half, is
//! left out: it reads the missing pages of the block and writes the block whole. That is the work of the device for
//! which the algorithm was made; a policy only names victims among cached pages.
//!
//! Source: Kim and Ahn, "BPLRU: a buffer management scheme for improving random writes in flash storage", FAST 2008.
//! Invariants: the list holds every block that has pages.

use super::blocks::{Blocks, Home};
use super::links::{Links, List};
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Bplru {
    /// The state of a block: how many of its pages turned dirty in order so far; `None` after one out of order.
    blocks: Blocks<Option<u32>>,
    links: Links,
    order: List,
}

impl Bplru {
    /// For flash blocks of `block_pages` pages. Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32, block_pages: u32) -> Bplru {
        let blocks = Blocks::new(block_pages, capacity_pages);
        Bplru { blocks, links: Links::with_capacity(0), order: List::default() }
    }
}

impl Policy for Bplru {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (record, is_new) = self.blocks.join(slot, page);
        if is_new {
            *self.blocks.state_mut(record) = Some(0);
            self.order.push_front(&mut self.links, record);
        } else {
            self.order.move_to_front(&mut self.links, record);
        }
    }

    fn access(&mut self, slot: Slot) {
        self.order.move_to_front(&mut self.links, self.blocks.home(slot).record);
    }

    fn dirtied(&mut self, slot: Slot) {
        let Home { record, offset } = self.blocks.home(slot);
        let block_pages = self.blocks.block_pages();
        let in_order = self.blocks.state_mut(record);
        *in_order = in_order.filter(|count| *count == offset).map(|count| count + 1);
        if *in_order == Some(block_pages) {
            self.order.remove(&mut self.links, record);
            self.order.push_back(&mut self.links, record);
        }
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        let record = self.blocks.home(slot).record;
        if self.blocks.leave(slot) {
            self.order.remove(&mut self.links, record);
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        if !self.blocks.one_leaves() {
            self.blocks.let_leave(self.order.back()?);
        }
        self.blocks.first_leaving()
    }

    fn wants_more(&self) -> bool {
        self.blocks.one_leaves()
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check()?;
        self.order.check(&self.links)?;
        let mut listed: Vec<u32> = self.order.iter(&self.links).collect();
        listed.sort_unstable();
        match self.blocks.in_use().eq(listed.iter().copied()) {
            true => Ok(()),
            false => Err(format!("blocks {listed:?} are in the order; others have pages")),
        }
    }
}
