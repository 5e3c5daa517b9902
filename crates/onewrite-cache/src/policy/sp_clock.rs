//! Sp.Clock: CLOCK with its circle in the order of sectors.
//!
//! A page comes in at the place of its sector, not at the hand. So the hand evicts in sector order. Each access sets
//! the page's bit; the access that brings the page in does so, too.
//!
//! Source: Kim, Ryu and Ramachandran, "What is a good buffer cache replacement scheme for mobile flash storage?",
//! SIGMETRICS 2012. Invariants: `order` holds every slot in use once, under its page's number; the hand is a point
//! between pages, and the first page from there on is tested next.

use std::collections::BTreeSet;

use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// A point of the circle, in twelve bytes. The slot distinguishes pages of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(4))]
struct CirclePoint {
    page: u64,
    slot: u32,
}

impl CirclePoint {
    fn new(slot: Slot, page: PageNo) -> CirclePoint {
        CirclePoint { page: page.0, slot: slot.0 }
    }
}

/// See the module's head.
pub struct SpClock {
    order: BTreeSet<CirclePoint>,
    is_referenced: PerSlot<bool>,
    hand: Option<CirclePoint>,
}

impl SpClock {
    /// Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32) -> SpClock {
        SpClock { order: BTreeSet::new(), is_referenced: PerSlot::with_capacity(capacity_pages), hand: None }
    }

    /// The page at the hand; after the last page, the first.
    fn at_hand(&self) -> Option<CirclePoint> {
        let ahead = self.hand.and_then(|hand| self.order.range(hand..).next());
        ahead.or_else(|| self.order.first()).copied()
    }
}

impl Policy for SpClock {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        self.is_referenced.set(slot.0, true);
        self.order.insert(CirclePoint::new(slot, page));
    }

    fn access(&mut self, slot: Slot) {
        self.is_referenced[slot.0] = true;
    }

    fn remove(&mut self, slot: Slot, page: PageNo) {
        self.order.remove(&CirclePoint::new(slot, page));
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let CirclePoint { page, slot } = self.at_hand()?;
            self.hand = Some(CirclePoint { page, slot });
            if !std::mem::replace(&mut self.is_referenced[slot], false) {
                return Some(Slot(slot));
            }
            self.hand = Some(CirclePoint { page, slot: slot + 1 });
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
