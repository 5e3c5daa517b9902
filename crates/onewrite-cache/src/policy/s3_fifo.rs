//! S3-FIFO: a small queue filters out pages that are used once before they reach the main queue.
//!
//! ```text
//!   new ─► small (10%) ──used twice since──► main (90%) ─┐ used: once more round, with one use less
//!              │ else                          │ ◄───────┘
//!              ▼                               ▼ not used
//!           ghosts (as many as main) ──comes back──► main
//! ```
//!
//! Uses are counted up to three; the first access does not count. If the small queue is full, its oldest page is
//! tested, else the oldest page of main. A page that moves to main starts with no uses. If main then exceeds its size,
//! main gives the victim.
//!
//! Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1. Invariants: a slot
//! is in the queue that its flag names; the ghosts are at most the size of main.

use super::ghosts::Ghosts;
use super::links::{Links, List};
use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// The small queue is a tenth of the cache.
const SMALL_SHARE: usize = 10;
/// Largest count of uses.
const USES_MAX: u8 = 3;
/// Fewest uses for a page of the small queue to move to main.
const USES_TO_MAIN: u8 = 2;

#[derive(Clone, Copy, Default)]
struct Mark {
    uses: u8,
    is_main: bool,
}

/// See the module's head.
pub struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    ghosts: Ghosts,
    marks: PerSlot<Mark>,
    small_max: usize,
    main_max: usize,
    leaving: Option<Slot>,
}

impl S3Fifo {
    /// For a cache of `capacity_pages`.
    pub fn new(capacity_pages: u32) -> S3Fifo {
        let small_max = (capacity_pages as usize / SMALL_SHARE).max(1);
        S3Fifo {
            links: Links::with_capacity(capacity_pages),
            small: List::default(),
            main: List::default(),
            ghosts: Ghosts::default(),
            marks: PerSlot::with_capacity(capacity_pages),
            small_max,
            main_max: capacity_pages as usize - small_max,
            leaving: None,
        }
    }

    /// Tests the oldest page of the small queue: returns it if it is the victim, else moves it to main.
    fn sift(&mut self) -> Option<u32> {
        let oldest = self.small.back()?;
        if self.marks[oldest].uses < USES_TO_MAIN {
            return Some(oldest);
        }
        self.marks[oldest] = Mark { uses: 0, is_main: true };
        self.small.remove(&mut self.links, oldest);
        self.main.push_front(&mut self.links, oldest);
        if self.main.len() > self.main_max { self.oldest_unused() } else { None }
    }

    fn oldest_unused(&mut self) -> Option<u32> {
        loop {
            let oldest = self.main.back()?;
            let uses = &mut self.marks[oldest].uses;
            if *uses == 0 {
                return Some(oldest);
            }
            *uses -= 1;
            self.main.move_to_front(&mut self.links, oldest);
        }
    }
}

impl Policy for S3Fifo {
    fn insert(&mut self, slot: Slot, page: PageNo) {
        let is_main = self.ghosts.forget(page);
        self.marks.set(slot.0, Mark { uses: 0, is_main });
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push_front(&mut self.links, slot.0);
    }

    fn access(&mut self, slot: Slot) {
        let uses = &mut self.marks[slot.0].uses;
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn remove(&mut self, slot: Slot, page: PageNo) {
        let is_victim = self.leaving.take() == Some(slot);
        if self.marks[slot.0].is_main {
            return self.main.remove(&mut self.links, slot.0);
        }
        self.small.remove(&mut self.links, slot.0);
        if is_victim && self.main_max > 0 {
            self.ghosts.push(page);
            if self.ghosts.len() > self.main_max {
                self.ghosts.pop();
            }
        }
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        while self.small.len() + self.main.len() > 0 {
            let looks_at_small = self.small.len() >= self.small_max || self.main.len() == 0;
            let found = if looks_at_small { self.sift() } else { self.oldest_unused() };
            if let Some(slot) = found {
                self.leaving = Some(Slot(slot));
                return self.leaving;
            }
        }
        None
    }

    fn check(&self) -> Result<(), String> {
        for (queue, is_main) in [(&self.small, false), (&self.main, true)] {
            queue.check(&self.links)?;
            if let Some(slot) = queue.iter(&self.links).find(|slot| self.marks[*slot].is_main != is_main) {
                return Err(format!("slot {slot} is in the wrong queue"));
            }
        }
        self.ghosts.check()?;
        match self.ghosts.len() <= self.main_max {
            true => Ok(()),
            false => Err(format!("{} ghosts; at most {}", self.ghosts.len(), self.main_max)),
        }
    }
}
