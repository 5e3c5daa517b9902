//! Belady's optimum: the page whose next use is farthest away leaves. A bound, for the simulator only.
//!
//! It knows the future: [`FutureBuilder`] gathers it from the same requests beforehand, at 4 bytes for each. It
//! minimises misses and ignores the higher cost of dirty pages.
//!
//! Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
//! Invariant: `order` holds every slot in use, under the request that uses its page next. Among pages never used again,
//! the highest slot leaves first: the choice does not change the misses.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::slots::PerSlot;
use super::{PageNo, Policy, Slot};

/// No later request uses the page.
const NEVER: u32 = u32::MAX;

/// For each request, the number of the next request for the same page.
#[derive(Clone, Debug)]
pub struct Future(Arc<[u32]>);

/// Gathers a [`Future`], request by request.
#[derive(Debug, Default)]
pub struct FutureBuilder {
    next: Vec<u32>,
    last_use: FxHashMap<PageNo, u32>,
}

impl FutureBuilder {
    /// Adds the page of the next request.
    ///
    /// # Errors
    /// If there are more requests than 32 bits can number.
    pub fn push(&mut self, page: PageNo) -> Result<(), String> {
        let now = self.next.len() as u32;
        if now == NEVER {
            return Err(format!(
                "Belady's optimum can look at {NEVER} requests, not more; shorten the trace (onewrite trace cut)"
            ));
        }
        self.next.push(NEVER);
        if let Some(earlier) = self.last_use.insert(page, now) {
            self.next[earlier as usize] = now;
        }
        Ok(())
    }

    /// Ends the gathering.
    pub fn finish(self) -> Future {
        Future(self.next.into())
    }
}

/// See the module's head.
pub struct Belady {
    future: Future,
    now: usize,
    next_use: PerSlot<u32>,
    order: BTreeSet<(u32, Slot)>,
}

impl Belady {
    /// For exactly the requests, in order, that `future` was gathered from. Preallocates `capacity_pages`; may grow.
    pub fn new(capacity_pages: u32, future: Future) -> Belady {
        Belady { future, now: 0, next_use: PerSlot::with_capacity(capacity_pages), order: BTreeSet::new() }
    }

    fn note(&mut self, slot: Slot) {
        let next = self.future.0.get(self.now).copied().unwrap_or(NEVER);
        self.now += 1;
        self.next_use.set(slot.0, next);
        self.order.insert((next, slot));
    }
}

impl Policy for Belady {
    fn insert(&mut self, slot: Slot, _page: PageNo) {
        self.note(slot);
    }

    fn access(&mut self, slot: Slot) {
        self.order.remove(&(self.next_use[slot.0], slot));
        self.note(slot);
    }

    fn remove(&mut self, slot: Slot, _page: PageNo) {
        self.order.remove(&(self.next_use[slot.0], slot));
    }

    fn victim(&mut self, _incoming: Option<PageNo>) -> Option<Slot> {
        self.order.last().map(|(_, slot)| *slot)
    }

    fn check(&self) -> Result<(), String> {
        match self.order.iter().find(|(next, slot)| self.next_use[slot.0] != *next) {
            Some((next, slot)) => Err(format!("{slot:?} stands under request {next}; its next use is another")),
            None => Ok(()),
        }
    }
}
