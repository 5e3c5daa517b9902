//! LRU-WSR: LRU that gives a dirty page a second chance unless it has proved cold.
//!
//! A dirty page at the end of the list whose cold flag is not set gets the flag and goes back to the front; a clean page,
//! or a dirty one with the flag, is the victim. An access clears the flag.
//!
//! Source: Jung et al., "LRU-WSR: integration of LRU and writes sequence reordering for flash memory", IEEE Transactions
//! on Consumer Electronics 54(3), 2008. Invariants: as LRU; only dirty pages are cold.

use super::links::{Links, List};
use super::{PageNo, Policy, Slot};

#[derive(Clone, Copy, Default)]
struct Mark {
    is_dirty: bool,
    is_cold: bool,
}

/// See the module's head.
#[derive(Default)]
pub struct LruWsr {
    links: Links,
    list: List,
    marks: Vec<Mark>,
}

impl Policy for LruWsr {
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        if self.marks.len() <= slot.index() {
            self.marks.resize(slot.index() + 1, Mark::default());
        }
        self.marks[slot.index()] = Mark::default();
        self.list.push_front(&mut self.links, slot.0);
    }

    fn access(&mut self, slot: Slot) {
        self.marks[slot.index()].is_cold = false;
        self.list.move_to_front(&mut self.links, slot.0);
    }

    fn dirtied(&mut self, slot: Slot) {
        self.marks[slot.index()] = Mark { is_dirty: true, is_cold: false };
    }

    fn cleaned(&mut self, slot: Slot) {
        self.marks[slot.index()] = Mark::default();
    }

    fn remove(&mut self, slot: Slot) {
        self.list.remove(&mut self.links, slot.0);
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        loop {
            let oldest = self.list.back()?;
            let mark = &mut self.marks[oldest as usize];
            if !mark.is_dirty || mark.is_cold {
                return Some(Slot(oldest));
            }
            mark.is_cold = true;
            self.list.move_to_front(&mut self.links, oldest);
        }
    }

    fn check(&self) -> Result<(), String> {
        self.list.check(&self.links)?;
        let cold_and_clean = |slot: &u32| self.marks[*slot as usize].is_cold && !self.marks[*slot as usize].is_dirty;
        match self.list.iter(&self.links).find(cold_and_clean) {
            Some(slot) => Err(format!("slot {slot} is cold, but clean")),
            None => Ok(()),
        }
    }
}
