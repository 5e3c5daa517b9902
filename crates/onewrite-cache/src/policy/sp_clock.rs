//! Sp.Clock: CLOCK whose circle is in the order of sectors.
//!
//! A page comes in where its sector belongs, not where the hand is; so what the hand evicts is sorted as it goes round.
//! Each access sets the page's bit, the one that brings it in too.
//!
//! Source: Kim, Ryu and Ramachandran, "What is a good buffer cache replacement scheme for mobile flash storage?",
//! SIGMETRICS 2012. Invariants: `order` holds every slot that is in, under its page's number; the hand is a place
//! between pages: the next page to look at is the first from there on.

use std::collections::BTreeSet;

use super::{PageNo, Policy, Slot};

/// See the module's head.
#[derive(Default)]
pub struct SpClock {
    order: BTreeSet<(PageNo, Slot)>,
    pages: Vec<PageNo>,
    is_referenced: Vec<bool>,
    hand: Option<(PageNo, Slot)>,
}

impl SpClock {
    /// The page at the hand or, past the last one, the first.
    fn at_hand(&self) -> Option<(PageNo, Slot)> {
        let ahead = self.hand.and_then(|hand| self.order.range(hand..).next());
        ahead.or_else(|| self.order.first()).copied()
    }
}

impl Policy for SpClock {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        if self.pages.len() <= slot.index() {
            self.pages.resize(slot.index() + 1, page);
            self.is_referenced.resize(slot.index() + 1, false);
        }
        self.pages[slot.index()] = page;
        self.is_referenced[slot.index()] = true;
        self.order.insert((page, slot));
    }

    fn access(&mut self, slot: Slot) {
        self.is_referenced[slot.index()] = true;
    }

    fn remove(&mut self, slot: Slot) {
        self.order.remove(&(self.pages[slot.index()], slot));
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let (page, slot) = self.at_hand()?;
            self.hand = Some((page, slot));
            if !std::mem::replace(&mut self.is_referenced[slot.index()], false) {
                return Some(slot);
            }
            // Slots of one page number are told apart by the slot, so the next place is the next slot.
            self.hand = Some((page, Slot(slot.0 + 1)));
        }
    }

    fn check(&self) -> Result<(), String> {
        match self.order.iter().find(|(page, slot)| self.pages[slot.index()] != *page) {
            Some((page, slot)) => Err(format!("{slot:?} stands under {page:?}, but holds another page")),
            None => Ok(()),
        }
    }
}
