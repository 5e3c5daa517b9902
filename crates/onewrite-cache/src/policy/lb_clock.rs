//! LB-CLOCK: a clock of flash blocks. Among the blocks not used lately, the one with the most pages leaves as a whole.
//!
//! Each block has a bit; an access to one of its pages sets it. To choose, the hand goes round once and clears all
//! bits. The blocks whose bit was not set are the candidates; if all bits were set, all blocks are. The candidate with
//! the most pages leaves, in the order of its sectors; among equals, the first that the hand met. A new block comes in
//! just before the hand. When the last page of a block turns dirty, its bit is cleared: a sequential write has finished
//! with it.
//!
//! Source: Debnath et al., "Large Block CLOCK (LB-CLOCK): a write caching algorithm for solid state disks", MASCOTS
//! 2009. The original serves a write buffer; here reads count like writes. The paper does not say where the hand stops;
//! here it stays at its starting point. Invariant: the ring holds every block that has pages.

use super::blocks::{Blocks, Home};
use super::links::Ring;
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct LbClock {
    /// The state of a block: its bit.
    blocks: Blocks<bool>,
    ring: Ring,
}

impl LbClock {
    /// For flash blocks of `block_pages` pages. Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32, block_pages: u32) -> LbClock {
        LbClock { blocks: Blocks::new(block_pages, capacity_pages), ring: Ring::with_capacity(0) }
    }

    fn choose(&mut self) -> Option<u32> {
        let round: Vec<u32> = self.ring.iter().collect();
        let was_used: Vec<bool> = round.iter().map(|block| std::mem::take(self.blocks.state_mut(*block))).collect();
        let all_used = !was_used.contains(&false);
        let candidates = round.iter().zip(was_used).filter(|(_, used)| all_used || !used).map(|(block, _)| *block);
        // The first of equals; `max_by_key` gives the last.
        candidates.rev().max_by_key(|block| self.blocks.pages(*block))
    }
}

impl Policy for LbClock {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (record, is_new) = self.blocks.join(slot, page);
        *self.blocks.state_mut(record) = true;
        if is_new {
            self.ring.insert_before_hand(record);
        }
    }

    fn access(&mut self, slot: Slot) {
        *self.blocks.state_mut(self.blocks.home(slot).record) = true;
    }

    fn dirtied(&mut self, slot: Slot) {
        let Home { record, offset } = self.blocks.home(slot);
        if offset + 1 == self.blocks.block_pages() {
            *self.blocks.state_mut(record) = false;
        }
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        let record = self.blocks.home(slot).record;
        if self.blocks.leave(slot) {
            self.ring.remove(record);
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        if !self.blocks.one_leaves() {
            let record = self.choose()?;
            self.blocks.let_leave(record);
        }
        self.blocks.first_leaving()
    }

    fn wants_more(&self) -> bool {
        self.blocks.one_leaves()
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check()?;
        self.ring.check()?;
        let mut circle: Vec<u32> = self.ring.iter().collect();
        circle.sort_unstable();
        match self.blocks.in_use().eq(circle.iter().copied()) {
            true => Ok(()),
            false => Err(format!("blocks {circle:?} are in the ring; others have pages")),
        }
    }
}
