//! CFLRU: LRU that evicts clean pages first, within a window of the oldest pages.
//!
//! ```text
//!   newest ──── working region ────┬──── window: the oldest quarter ──── oldest
//!                                  edge        victim: its oldest clean page, else the oldest page
//! ```
//!
//! Source: Park et al., "CFLRU: a replacement algorithm for flash memory", CASES 2006, with the static window of 25%
//! that the dissertation uses (§2.4.3). Invariants: the window is the last `min(window, length)` slots of the list;
//! `clean` holds its clean slots in the order of the list.

use super::links::{Links, List, NONE};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// The window is a quarter of the cache.
const WINDOW_SHARE: u32 = 4;

#[derive(Clone, Copy, Default)]
struct Mark {
    is_dirty: bool,
    is_in_window: bool,
}

/// See the module's head.
pub struct Cflru {
    links: Links,
    list: List,
    clean_links: Links,
    clean: List,
    marks: PerSlot<Mark>,
    /// Newest slot of the window.
    edge: u32,
    window_length: usize,
    window_max: usize,
}

impl Cflru {
    /// For a cache of `capacity_pages`.
    pub fn new(capacity_pages: u32) -> Cflru {
        Cflru {
            links: Links::with_capacity(capacity_pages),
            list: List::default(),
            clean_links: Links::with_capacity(capacity_pages),
            clean: List::default(),
            marks: PerSlot::with_capacity(capacity_pages),
            edge: NONE,
            window_length: 0,
            window_max: (capacity_pages / WINDOW_SHARE).max(1) as usize,
        }
    }

    /// Extends the window to its size.
    fn extend_window(&mut self) {
        while self.window_length < self.window_max.min(self.list.len()) {
            self.edge = match self.edge {
                NONE => self.list.back().expect("the list is longer than the window"),
                edge => self.links.previous(edge),
            };
            let mark = &mut self.marks[self.edge];
            mark.is_in_window = true;
            if !mark.is_dirty {
                self.clean.push_front(&mut self.clean_links, self.edge);
            }
            self.window_length += 1;
        }
    }

    fn leave_window(&mut self, slot: u32) {
        let mark = &mut self.marks[slot];
        if !std::mem::replace(&mut mark.is_in_window, false) {
            return;
        }
        if !mark.is_dirty {
            self.clean.remove(&mut self.clean_links, slot);
        }
        if self.edge == slot {
            self.edge = self.links.next(slot);
        }
        self.window_length -= 1;
    }
}

impl Policy for Cflru {
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.marks.set(slot.0, Mark::default());
        self.list.push_front(&mut self.links, slot.0);
        self.extend_window();
    }

    fn access(&mut self, slot: Slot) {
        self.leave_window(slot.0);
        self.list.move_to_front(&mut self.links, slot.0);
        self.extend_window();
    }

    fn dirtied(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.0];
        if !std::mem::replace(&mut mark.is_dirty, true) && mark.is_in_window {
            self.clean.remove(&mut self.clean_links, slot.0);
        }
    }

    fn cleaned(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.0];
        if !std::mem::replace(&mut mark.is_dirty, false) || !mark.is_in_window {
            return;
        }
        let mut older = self.links.next(slot.0);
        while older != NONE && self.marks[older].is_dirty {
            older = self.links.next(older);
        }
        self.clean.insert_before(&mut self.clean_links, older, slot.0);
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        self.leave_window(slot.0);
        self.list.remove(&mut self.links, slot.0);
        self.extend_window();
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        self.clean.back().or(self.list.back()).map(Slot)
    }

    fn check(&self) -> Result<(), String> {
        self.list.check(&self.links)?;
        self.clean.check(&self.clean_links)?;
        let slots: Vec<u32> = self.list.iter(&self.links).collect();
        let begin = slots.len() - self.window_max.min(slots.len());
        let stray = (0..slots.len()).find(|&at| self.marks[slots[at]].is_in_window != (at >= begin));
        if let Some(at) = stray {
            return Err(format!("slot {} is place {at} of {}; its window begins at {begin}", slots[at], slots.len()));
        }
        let clean = slots[begin..].iter().copied().filter(|slot| !self.marks[*slot].is_dirty);
        match clean.eq(self.clean.iter(&self.clean_links)) && slots.get(begin).is_none_or(|edge| *edge == self.edge) {
            true => Ok(()),
            false => Err("the window's clean slots or its edge are not those of the list".into()),
        }
    }
}
