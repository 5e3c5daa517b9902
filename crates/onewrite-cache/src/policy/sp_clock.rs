//! Sp.Clock: CLOCK whose circle is in the order of sectors.
//!
//! A page comes in where its sector belongs, not where the hand is; so what the hand evicts is sorted as it goes round.
//! Each access sets the page's bit, the one that brings it in too.
//!
//! Source: Kim, Ryu and Ramachandran, "What is a good buffer cache replacement scheme for mobile flash storage?",
//! SIGMETRICS 2012. Invariants: `order` holds every slot that is in once, under its page's number; the hand is a place
//! between pages: the next page to look at is the first from there on.

use std::collections::BTreeSet;

use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// A place in the circle, in twelve bytes. Slots of one page number are told apart by the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(4))]
struct Place {
    page: u64,
    slot: u32,
}

impl Place {
    fn new(slot: Slot, page: PageNo) -> Place {
        Place { page: page.0, slot: slot.0 }
    }
}

/// See the module's head.
pub struct SpClock {
    order: BTreeSet<Place>,
    is_referenced: PerSlot<bool>,
    hand: Option<Place>,
}

impl SpClock {
    /// With room for so many pages; more may come in.
    pub fn new(capacity_pages: u32) -> SpClock {
        SpClock { order: BTreeSet::new(), is_referenced: PerSlot::with_capacity(capacity_pages), hand: None }
    }

    /// The page at the hand or, past the last one, the first.
    fn at_hand(&self) -> Option<Place> {
        let ahead = self.hand.and_then(|hand| self.order.range(hand..).next());
        ahead.or_else(|| self.order.first()).copied()
    }
}

impl Policy for SpClock {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        self.is_referenced.set(slot.0, true);
        self.order.insert(Place::new(slot, page));
    }

    fn access(&mut self, slot: Slot) {
        self.is_referenced[slot.0] = true;
    }

    fn remove(&mut self, slot: Slot, page: PageNo) {
        self.order.remove(&Place::new(slot, page));
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let Place { page, slot } = self.at_hand()?;
            self.hand = Some(Place { page, slot });
            if !std::mem::replace(&mut self.is_referenced[slot], false) {
                return Some(Slot(slot));
            }
            self.hand = Some(Place { page, slot: slot + 1 });
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut slots: Vec<u32> = self.order.iter().map(|place| place.slot).collect();
        slots.sort_unstable();
        match slots.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("slot {} stands in two places", pair[0])),
            None => Ok(()),
        }
    }
}
