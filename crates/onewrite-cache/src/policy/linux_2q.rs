//! Linux 2Q: pages prove themselves on an inactive list before they come to an active one.
//!
//! ```text
//!   insert ─► inactive, referenced ──access──► active ──access──► active, referenced
//!                   ▲ access                      │ while the active list is the longer one
//!             inactive, unreferenced ◄────────────┘
//!                   │ oldest: victim (a referenced one, too)
//! ```
//!
//! The second access brings a page to the front of the active list; further ones only mark it. When room is needed and
//! the active list is longer than the inactive one, its oldest pages go to the front of the inactive list, unmarked;
//! a marked one has one more turn in the active list first. The oldest inactive page is the victim.
//!
//! Source: Bovet and Cesati, Understanding the Linux Kernel, 2005, ch. 17 (`mark_page_accessed`, `refill_inactive`); the
//! balance is that of `inactive_file_is_low` in the kernels of the dissertation's time. Invariants: each slot that is in
//! is in exactly the list that its flag says.

use super::links::{Links, List};
use super::{PageNo, Policy, Slot};

#[derive(Clone, Copy, Default)]
struct Mark {
    is_active: bool,
    is_referenced: bool,
}

/// See the module's head.
#[derive(Default)]
pub struct Linux2q {
    links: Links,
    active: List,
    inactive: List,
    marks: Vec<Mark>,
}

impl Linux2q {
    fn balance(&mut self) {
        while self.active.len() > self.inactive.len() {
            let Some(oldest) = self.active.back() else { return };
            self.active.remove(&mut self.links, oldest);
            let mark = &mut self.marks[oldest as usize];
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
        if self.marks.len() <= slot.index() {
            self.marks.resize(slot.index() + 1, Mark::default());
        }
        self.marks[slot.index()] = Mark { is_active: false, is_referenced: true };
        self.inactive.push_front(&mut self.links, slot.0);
    }

    fn access(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.index()];
        if mark.is_active || !mark.is_referenced {
            mark.is_referenced = true;
            return;
        }
        *mark = Mark { is_active: true, is_referenced: false };
        self.inactive.remove(&mut self.links, slot.0);
        self.active.push_front(&mut self.links, slot.0);
    }

    fn remove(&mut self, slot: Slot) {
        let list = if self.marks[slot.index()].is_active { &mut self.active } else { &mut self.inactive };
        list.remove(&mut self.links, slot.0);
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        self.balance();
        self.inactive.back().map(Slot)
    }

    fn check(&self) -> Result<(), String> {
        for (list, is_active) in [(&self.active, true), (&self.inactive, false)] {
            list.check(&self.links)?;
            let stray = list.iter(&self.links).find(|slot| self.marks[*slot as usize].is_active != is_active);
            if let Some(slot) = stray {
                return Err(format!("slot {slot} is in the wrong list"));
            }
        }
        Ok(())
    }
}
