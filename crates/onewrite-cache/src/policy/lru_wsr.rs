//! LRU-WSR: LRU that gives a dirty page a second chance unless its cold flag is set.
//!
//! If the page at the end of the list is dirty and has no cold flag, it gets the flag and goes back to the front.
//! Otherwise (clean, or dirty with the flag) it is the victim. An access clears the flag.
//!
//! Source: Jung et al., "LRU-WSR: integration of LRU and writes sequence reordering for flash memory", IEEE
//! Transactions on Consumer Electronics 54(3), 2008. Invariants: as LRU; only dirty pages are cold.

use super::links::{Links, List};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

#[derive(Clone, Copy, Default)]
struct Mark {
    is_dirty: bool,
    is_cold: bool,
}

/// See the module's head.
pub struct LruWsr {
    links: Links,
    list: List,
    marks: PerSlot<Mark>,
}

impl LruWsr {
    /// Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32) -> LruWsr {
        let links = Links::with_capacity(capacity_pages);
        LruWsr { links, list: List::default(), marks: PerSlot::with_capacity(capacity_pages) }
    }
}

impl Policy for LruWsr {
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.marks.set(slot.0, Mark::default());
        self.list.push_front(&mut self.links, slot.0);
    }

    fn access(&mut self, slot: Slot) {
        self.marks[slot.0].is_cold = false;
        self.list.move_to_front(&mut self.links, slot.0);
    }

    fn dirtied(&mut self, slot: Slot) {
        self.marks[slot.0] = Mark { is_dirty: true, is_cold: false };
    }

    fn cleaned(&mut self, slot: Slot) {
        self.marks[slot.0] = Mark::default();
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        self.list.remove(&mut self.links, slot.0);
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let oldest = self.list.back()?;
            let mark = &mut self.marks[oldest];
            if !mark.is_dirty || mark.is_cold {
                return Some(Slot(oldest));
            }
            mark.is_cold = true;
            self.list.move_to_front(&mut self.links, oldest);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.list.check(&self.links)?;
        let cold_and_clean = |slot: &u32| self.marks[*slot].is_cold && !self.marks[*slot].is_dirty;
        match self.list.iter(&self.links).find(cold_and_clean) {
            Some(slot) => Err(format!("slot {slot} is cold, but clean")),
            None => Ok(()),
        }
    }
}
