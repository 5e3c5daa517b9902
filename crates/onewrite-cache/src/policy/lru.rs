//! LRU: the page that was not used for the longest time leaves.
//!
//! Source: folklore; the yardstick of every other policy. Invariant: the list holds every slot that is in, the one used
//! last in front.

use super::links::{Links, List};
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    /// With room for so many pages; more may come in.
    pub fn new(capacity_pages: u32) -> Lru {
        Lru { links: Links::with_capacity(capacity_pages), list: List::default() }
    }
}

impl Policy for Lru {
    #[inline]
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.list.push_front(&mut self.links, slot.0);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.list.move_to_front(&mut self.links, slot.0);
    }

    #[inline]
    fn remove(&mut self, slot: Slot, _page: PageNo) {
        self.list.remove(&mut self.links, slot.0);
    }

    #[inline]
    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        self.list.back().map(Slot)
    }

    fn check(&self) -> Result<(), String> {
        self.list.check(&self.links)
    }
}
