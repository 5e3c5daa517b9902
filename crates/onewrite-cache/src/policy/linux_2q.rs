//! Linux 2Q: a page must be used again on the inactive list before it comes to the active list.
//!
//! ```text
//!   insert ─► inactive, referenced ──access──► active ──access──► active, referenced
//!                   ▲ access                      │ while the active list is the longer one
//!             inactive, unreferenced ◄────────────┘
//!                   │ oldest: victim (a referenced one, too)
//! ```
//!
//! The second access moves a page to the front of the active list; further accesses only mark it. When room is needed
//! and the active list is longer than the inactive one, its oldest pages go to the front of the inactive list,
//! unmarked. A marked page first gets one more turn in the active list. The oldest inactive page is the victim.
//!
//! Source: Bovet and Cesati, Understanding the Linux Kernel, 2005, ch. 17 (`mark_page_accessed`, `refill_inactive`).
//! The balance is that of `inactive_file_is_low` in the kernels of the dissertation's time. Invariant: each slot in use
//! is in exactly the list that its flag names.

use super::links::{Links, List};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

#[derive(Clone, Copy, Default)]
struct Mark {
    is_active: bool,
    is_referenced: bool,
}

/// See the module's head.
pub struct Linux2q {
    links: Links,
    active: List,
    inactive: List,
    marks: PerSlot<Mark>,
}

impl Linux2q {
    /// Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32) -> Linux2q {
        Linux2q {
            links: Links::with_capacity(capacity_pages),
            active: List::default(),
            inactive: List::default(),
            marks: PerSlot::with_capacity(capacity_pages),
        }
    }

    fn balance(&mut self) {
        while self.active.len() > self.inactive.len() {
            let Some(oldest) = self.active.back() else { return };
            self.active.remove(&mut self.links, oldest);
            let mark = &mut self.marks[oldest];
            if std::mem::replace(&mut mark.is_referenced, false) {
                self.active.push_front(&mut self.links, oldest);
            } else {
                mark.is_active = false;
                self.inactive.push_front(&mut self.links, oldest);
            }
        }
    }
}

impl Policy for Linux2q {
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.marks.set(slot.0, Mark { is_active: false, is_referenced: true });
        self.inactive.push_front(&mut self.links, slot.0);
    }

    fn access(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.0];
        if mark.is_active || !mark.is_referenced {
            mark.is_referenced = true;
            return;
        }
        *mark = Mark { is_active: true, is_referenced: false };
        self.inactive.remove(&mut self.links, slot.0);
        self.active.push_front(&mut self.links, slot.0);
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        let list = if self.marks[slot.0].is_active { &mut self.active } else { &mut self.inactive };
        list.remove(&mut self.links, slot.0);
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        self.balance();
        self.inactive.back().map(Slot)
    }

    fn check(&self) -> Result<(), String> {
        for (list, is_active) in [(&self.active, true), (&self.inactive, false)] {
            list.check(&self.links)?;
            let stray = list.iter(&self.links).find(|slot| self.marks[*slot].is_active != is_active);
            if let Some(slot) = stray {
                return Err(format!("slot {slot} is in the wrong list"));
            }
        }
        Ok(())
    }
}
