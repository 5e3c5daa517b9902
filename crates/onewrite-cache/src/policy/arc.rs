//! ARC: balances recency and frequency; ghosts show which of the two had too little room.
//!
//! ```text
//!   newest ◄── T1: seen once ──► oldest │ B1: left T1 lately        |T1| + |B1| ≤ c
//!   newest ◄── T2: seen again ─► oldest │ B2: left T2 lately        all four together ≤ 2c
//! ```
//!
//! If a page comes back from B1, it left T1 too early: T1's target size grows. If it comes back from B2, the target
//! shrinks. The victim is the oldest of T1 if T1 is above its target, else the oldest of T2.
//!
//! Source: Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4. Invariants:
//! the bounds in the picture. A file system holds pages back for a while; there each insertion restores the bounds.

use super::ghosts::Ghosts;
use super::links::{Links, List};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// Which list a slot is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    #[default]
    Once,
    Again,
}

/// See the module's head.
pub struct Arc {
    capacity: usize,
    links: Links,
    once: List,
    again: List,
    ghosts_once: Ghosts,
    ghosts_again: Ghosts,
    /// Target size of `once`; the paper's p.
    target: f64,
    sides: PerSlot<Side>,
    /// The page for which the target has already moved.
    adapted_for: Option<PageNo>,
    /// The last victim, and whether to remember it as a ghost.
    leaving: Option<(Slot, bool)>,
}

impl Arc {
    /// For a cache of `capacity_pages`.
    pub fn new(capacity_pages: u32) -> Arc {
        Arc {
            capacity: capacity_pages as usize,
            links: Links::with_capacity(capacity_pages),
            once: List::default(),
            again: List::default(),
            ghosts_once: Ghosts::default(),
            ghosts_again: Ghosts::default(),
            target: 0.0,
            sides: PerSlot::with_capacity(capacity_pages),
            adapted_for: None,
            leaving: None,
        }
    }

    /// Moves the target if `page` is a ghost, once for each insertion of the page.
    fn adapt(&mut self, page: PageNo) {
        if self.adapted_for.replace(page) == Some(page) {
            return;
        }
        let (once, again) = (self.ghosts_once.len() as f64, self.ghosts_again.len() as f64);
        if self.ghosts_once.contains(page) {
            self.target = (self.target + (again / once).max(1.0)).min(self.capacity as f64);
        } else if self.ghosts_again.contains(page) {
            self.target = (self.target - (once / again).max(1.0)).max(0.0);
        }
    }

    /// Makes room among the ghosts for a page that is not a ghost. Returns whether to remember the victim.
    fn forget_for_a_new_page(&mut self) -> bool {
        let (once, ghosts) = (self.once.len(), self.ghosts_once.len());
        if once + ghosts >= self.capacity {
            self.ghosts_once.pop();
            return once < self.capacity;
        }
        if once + ghosts + self.again.len() + self.ghosts_again.len() >= 2 * self.capacity {
            self.ghosts_again.pop();
        }
        true
    }

    fn chosen(&self, is_again_ghost: bool) -> Option<u32> {
        let length = self.once.len() as f64;
        let is_over = length > self.target || (is_again_ghost && length == self.target);
        let (first, second) = if is_over { (&self.once, &self.again) } else { (&self.again, &self.once) };
        first.back().or(second.back())
    }

    fn keep_bounds(&mut self) {
        while self.ghosts_once.len() > 0 && self.once.len() + self.ghosts_once.len() > self.capacity {
            self.ghosts_once.pop();
        }
        while self.ghosts() > 0 && self.once.len() + self.again.len() + self.ghosts() > 2 * self.capacity {
            // B2 may have too few ghosts, but only while the cache holds more pages than its capacity.
            let ghosts = if self.ghosts_again.len() > 0 { &mut self.ghosts_again } else { &mut self.ghosts_once };
            ghosts.pop();
        }
    }

    fn ghosts(&self) -> usize {
        self.ghosts_once.len() + self.ghosts_again.len()
    }
}

impl Policy for Arc {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        self.adapt(page);
        self.adapted_for = None;
        let comes_back = self.ghosts_once.forget(page) | self.ghosts_again.forget(page);
        let (side, list) = if comes_back { (Side::Again, &mut self.again) } else { (Side::Once, &mut self.once) };
        list.push_front(&mut self.links, slot.0);
        self.sides.set(slot.0, side);
        self.keep_bounds();
    }

    fn access(&mut self, slot: Slot) {
        let side = &mut self.sides[slot.0];
        let list = if *side == Side::Once { &mut self.once } else { &mut self.again };
        *side = Side::Again;
        list.remove(&mut self.links, slot.0);
        self.again.push_front(&mut self.links, slot.0);
    }

    fn remove(&mut self, slot: Slot, page: PageNo) {
        let is_remembered = self.leaving.take() == Some((slot, true));
        let (list, ghosts) = match self.sides[slot.0] {
            Side::Once => (&mut self.once, &mut self.ghosts_once),
            Side::Again => (&mut self.again, &mut self.ghosts_again),
        };
        list.remove(&mut self.links, slot.0);
        if is_remembered {
            ghosts.push(page);
        }
    }

    fn victim(&mut self, incoming: Option<PageNo>) -> Option<Slot> {
        if let Some(page) = incoming {
            self.adapt(page);
        }
        let is_again_ghost = incoming.is_some_and(|page| self.ghosts_again.contains(page));
        let is_ghost = is_again_ghost || incoming.is_some_and(|page| self.ghosts_once.contains(page));
        if !is_ghost && !self.forget_for_a_new_page() {
            let slot = Slot(self.once.back()?);
            self.leaving = Some((slot, false));
            return Some(slot);
        }
        let slot = Slot(self.chosen(is_again_ghost)?);
        self.leaving = Some((slot, true));
        Some(slot)
    }

    fn check(&self) -> Result<(), String> {
        for (list, side) in [(&self.once, Side::Once), (&self.again, Side::Again)] {
            list.check(&self.links)?;
            if let Some(slot) = list.iter(&self.links).find(|slot| self.sides[*slot] != side) {
                return Err(format!("slot {slot} is in the wrong list"));
            }
        }
        self.ghosts_once.check()?;
        self.ghosts_again.check()?;
        let first = self.once.len() + self.ghosts_once.len();
        let all = self.once.len() + self.again.len() + self.ghosts();
        let fits = all <= 2 * self.capacity || self.ghosts() == 0;
        match (first <= self.capacity || self.ghosts_once.len() == 0) && fits {
            true => Ok(()),
            false => Err(format!("{first} pages and ghosts seen once, {all} in all, of {}", self.capacity)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_while_more_pages_are_in_than_there_is_room_for() {
        let mut arc = Arc::new(4);
        for number in 0..3 {
            arc.insert(Slot(number), PageNo(number.into()));
        }
        for _ in 0..3 {
            let slot = arc.victim(None).expect("pages are in");
            arc.remove(slot, PageNo(slot.0.into()));
        }
        assert_eq!(arc.ghosts_once.len(), 3);
        for number in 10..30 {
            arc.insert(Slot(number), PageNo(number.into()));
            arc.access(Slot(number));
            assert_eq!(arc.check(), Ok(()), "{number}");
        }
    }
}
