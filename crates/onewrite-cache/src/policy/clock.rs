//! CLOCK: a circle of pages with a bit for each; the hand clears bits and stops at the first page without one.
//!
//! Each access sets the bit, as paging hardware does; the access that brings the page in does so, too. So without
//! writes TS-CLOCK and CLOCK choose the same victims. The new page takes the victim's place and the hand moves past it.
//! So the new page stays for at least one full turn.
//!
//! Source: Corbató 1968; dissertation §2.3. Invariant: the ring holds every slot in use.

use super::links::Ring;
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Clock {
    ring: Ring,
    is_referenced: PerSlot<bool>,
}

impl Clock {
    /// Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32) -> Clock {
        let is_referenced = PerSlot::with_capacity(capacity_pages);
        Clock { ring: Ring::with_capacity(capacity_pages), is_referenced }
    }
}

impl Policy for Clock {
    #[inline]
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.is_referenced.set(slot.0, true);
        self.ring.insert_before_hand(slot.0);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.is_referenced[slot.0] = true;
    }

    #[inline]
    fn remove(&mut self, slot: Slot, _page: PageNo) {
        self.ring.remove(slot.0);
    }

    #[inline]
    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let slot = self.ring.hand()?;
            if !std::mem::replace(&mut self.is_referenced[slot], false) {
                return Some(Slot(slot));
            }
            self.ring.advance();
        }
    }

    fn check(&self) -> Result<(), String> {
        self.ring.check()
    }
}
