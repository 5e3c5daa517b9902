//! LB-CLOCK: a clock of flash blocks; of those not used lately, the one with the most pages leaves as a whole.
//!
//! A block has a bit, set by each access to one of its pages. To choose, the hand goes round once: it clears the bits that
//! are set, and the blocks whose bit was not set are the candidates; if there are none it goes round once more. The
//! candidate with the most pages leaves, in the order of its sectors; of equals the first that the hand met. A new block
//! comes in just before the hand. The bit of a block whose last page turns dirty is cleared: sequential writes are done
//! with it.
//!
//! Source: Debnath et al., "Large Block CLOCK (LB-CLOCK): a write caching algorithm for solid state disks", MASCOTS 2009,
//! made for a write buffer; here reads count as writes do. Where it leaves the hand is our reading: at its starting point.
//! Invariant: the ring holds every block that has pages.

use super::blocks::{Blocks, Home, Homes};
use super::links::Ring;
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct LbClock {
    /// The state of a block is its bit.
    blocks: Blocks<bool>,
    homes: Homes,
    ring: Ring,
    leaving: Option<u32>,
}

impl LbClock {
    /// With flash blocks of so many pages.
    pub fn new(block_pages: u32) -> LbClock {
        LbClock { blocks: Blocks::new(block_pages), homes: Homes::default(), ring: Ring::default(), leaving: None }
    }

    fn choose(&mut self) -> Option<u32> {
        let round: Vec<u32> = self.ring.iter().collect();
        let was_used: Vec<bool> = round.iter().map(|block| std::mem::take(self.blocks.state_mut(*block))).collect();
        let all_used = !was_used.contains(&false);
        let candidates = round.iter().zip(was_used).filter(|(_, used)| all_used || !used).map(|(block, _)| *block);
        // The first of equals: `max_by_key` would give the last.
        candidates.rev().max_by_key(|block| self.blocks.record(*block).listed_count())
    }
}

impl Policy for LbClock {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let (home, is_new) = self.blocks.join(page);
        self.homes.set(slot, home);
        self.blocks.list(slot.0, home);
        *self.blocks.state_mut(home.record) = true;
        if is_new {
            self.ring.insert_before_hand(home.record);
        }
    }

    fn access(&mut self, slot: Slot) {
        *self.blocks.state_mut(self.homes.of(slot).record) = true;
    }

    fn dirtied(&mut self, slot: Slot) {
        let Home { record, offset } = self.homes.of(slot);
        if offset + 1 == self.blocks.block_pages() {
            *self.blocks.state_mut(record) = false;
        }
    }

    fn remove(&mut self, slot: Slot) {
        let home = self.homes.of(slot);
        let record = home.record;
        self.blocks.unlist(slot.0, home, 0);
        if self.blocks.leave(record) {
            self.ring.remove(record);
            self.leaving = self.leaving.filter(|leaving| *leaving != record);
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        if self.leaving.is_none() {
            self.leaving = self.choose();
        }
        self.blocks.record(self.leaving?).listed_at(0).map(Slot)
    }

    fn wants_more(&self) -> bool {
        self.leaving.is_some()
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check(|slot| self.homes.of(Slot(slot)))?;
        self.ring.check()?;
        let mut circle: Vec<u32> = self.ring.iter().collect();
        circle.sort_unstable();
        match self.blocks.in_use().eq(circle.iter().copied()) {
            true => Ok(()),
            false => Err(format!("blocks {circle:?} are in the ring; others have pages")),
        }
    }
}
