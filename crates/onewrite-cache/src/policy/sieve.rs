//! SIEVE: a queue in order of arrival; a hand walks from the oldest to the newest and takes the first page not visited.
//!
//! A hit sets a bit and moves nothing. The hand clears the bits that it passes and stays where the last victim was.
//! After the newest page it starts again at the oldest. New pages go in front, so the hand separates old from new.
//!
//! Source: Zhang et al., "SIEVE is simpler than LRU", NSDI 2024. Invariant: the hand is `NONE` or on a slot of the
//! list.

use super::links::{Links, List, NONE};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// See the module's head.
pub struct Sieve {
    links: Links,
    queue: List,
    is_visited: PerSlot<bool>,
    hand: u32,
}

impl Sieve {
    /// Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32) -> Sieve {
        let links = Links::with_capacity(capacity_pages);
        Sieve { links, queue: List::default(), is_visited: PerSlot::with_capacity(capacity_pages), hand: NONE }
    }
}

impl Policy for Sieve {
    #[inline]
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.is_visited.set(slot.0, false);
        self.queue.push_front(&mut self.links, slot.0);
    }

    #[inline]
    fn access(&mut self, slot: Slot) {
        self.is_visited[slot.0] = true;
    }

    #[inline]
    fn remove(&mut self, slot: Slot, _page: PageNo) {
        if self.hand == slot.0 {
            self.hand = self.links.previous(slot.0);
        }
        self.queue.remove(&mut self.links, slot.0);
    }

    #[inline]
    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        let oldest = self.queue.back()?;
        if self.hand == NONE {
            self.hand = oldest;
        }
        while std::mem::replace(&mut self.is_visited[self.hand], false) {
            let newer = self.links.previous(self.hand);
            self.hand = if newer == NONE { oldest } else { newer };
        }
        Some(Slot(self.hand))
    }

    fn check(&self) -> Result<(), String> {
        self.queue.check(&self.links)?;
        match self.hand == NONE || self.queue.iter(&self.links).any(|slot| slot == self.hand) {
            true => Ok(()),
            false => Err(format!("the hand is on slot {}, which is not in", self.hand)),
        }
    }
}
