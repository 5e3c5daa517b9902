//! LRU: the least recently used page leaves.
//!
//! Source: folklore; the baseline of every other policy. Invariant: the list holds every slot in use, the most recently
//! used in front.

use super::links::{Links, List};
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    /// Preallocates `capacity_pages`; may grow.
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
