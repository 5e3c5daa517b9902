//! Models of Sp.Clock and TS-CLOCK.

use std::collections::{BTreeMap, BTreeSet};

use crate::Model;

type Dirty = BTreeSet<u64>;

/// Pages with their bits. The hand is the smallest page number that it has not passed.
#[derive(Default)]
pub struct SpClock {
    pages: BTreeMap<u64, bool>,
    hand: u64,
}

impl Model for SpClock {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        self.pages.insert(page, true);
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        loop {
            let at_hand = self.pages.keys().copied().find(|page| *page >= self.hand);
            let page = at_hand.unwrap_or_else(|| *self.pages.keys().next().unwrap());
            self.hand = page;
            if !self.pages[&page] {
                self.pages.remove(&page);
                return vec![page];
            }
            self.pages.insert(page, false);
            self.hand = page + 1;
        }
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.pages.insert(page, true);
    }
}

#[derive(Clone)]
struct Page {
    number: u64,
    is_dirty: bool,
    count: u64,
    /// Whether it waits for its count from the hand.
    waits: bool,
}

/// The rules of the design. Each value is computed from all pages whenever it is needed.
pub struct TsClock {
    block_pages: u64,
    circle: Vec<Page>,
    /// Index into the circle.
    t_hand: usize,
    /// A page number.
    s_hand: Option<u64>,
    was_victim_elsewhere: bool,
    counts_at_scan: bool,
}

impl TsClock {
    pub fn new(block_pages: u32, counts_at_scan: bool) -> TsClock {
        let (circle, was_victim_elsewhere) = (Vec::new(), false);
        TsClock {
            block_pages: block_pages.into(),
            circle,
            t_hand: 0,
            s_hand: None,
            was_victim_elsewhere,
            counts_at_scan,
        }
    }

    fn find(&self, number: u64) -> usize {
        self.circle.iter().position(|page| page.number == number).expect("the page is in")
    }

    fn non_zero(&self, block: u64) -> u64 {
        let counts = |page: &&Page| page.is_dirty && page.count > 0 && page.number / self.block_pages == block;
        self.circle.iter().filter(counts).count() as u64
    }

    fn dirty_pages_of(&self, number: u64) -> Vec<u64> {
        let block = number / self.block_pages;
        let dirty = self.circle.iter().filter(|page| page.is_dirty && page.number / self.block_pages == block);
        let mut numbers: Vec<u64> = dirty.map(|page| page.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn next_dirty(&self, number: u64) -> Option<u64> {
        self.dirty_pages_of(number).into_iter().find(|other| *other > number)
    }

    fn access(&mut self, number: u64, is_write: bool) {
        let at = self.find(number);
        self.circle[at].is_dirty |= is_write;
        if !self.circle[at].is_dirty {
            self.circle[at].count = 1;
            return;
        }
        // Before the count, the page joins the pages with a count above zero, if it was not among them.
        self.circle[at].count = self.circle[at].count.max(1);
        if self.counts_at_scan {
            self.circle[at].waits = true;
        } else {
            self.circle[at].count = self.count_of(number);
        }
    }

    fn count_of(&self, number: u64) -> u64 {
        (4 * self.non_zero(number / self.block_pages)).div_ceil(self.block_pages)
    }

    /// The hand tests its page.
    fn meet(&mut self) {
        let number = self.circle[self.t_hand].number;
        if std::mem::take(&mut self.circle[self.t_hand].waits) {
            self.circle[self.t_hand].count = self.count_of(number);
        }
    }

    fn choose(&mut self) -> u64 {
        self.meet();
        while self.circle[self.t_hand].count > 0 {
            self.circle[self.t_hand].count -= 1;
            self.t_hand = (self.t_hand + 1) % self.circle.len();
            self.meet();
        }
        let under_hand = self.circle[self.t_hand].clone();
        if !under_hand.is_dirty {
            return under_hand.number;
        }
        loop {
            let candidate = self.s_hand.unwrap_or_else(|| self.dirty_pages_of(under_hand.number)[0]);
            let next = self.next_dirty(candidate);
            self.s_hand = Some(next.unwrap_or_else(|| self.dirty_pages_of(under_hand.number)[0]));
            if self.circle[self.find(candidate)].count == 0 {
                return candidate;
            }
        }
    }
}

impl Model for TsClock {
    fn hit(&mut self, page: u64, is_write: bool, _: &Dirty) {
        self.access(page, is_write);
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        let victim = self.choose();
        if self.s_hand == Some(victim) {
            self.s_hand = self.next_dirty(victim);
        }
        let at = self.find(victim);
        self.was_victim_elsewhere = at != self.t_hand;
        self.circle.remove(at);
        self.t_hand -= usize::from(at < self.t_hand);
        vec![victim]
    }

    fn insert(&mut self, page: u64, is_write: bool) {
        // Just before the hand; this is also the place of a victim that was under the hand, since it has left. While
        // the cache fills, the hand stays on its page. Otherwise it ends on the page after its own, or after the victim
        // under it.
        let is_first = self.circle.is_empty();
        self.circle
            .insert(self.t_hand.min(self.circle.len()), Page { number: page, is_dirty: false, count: 0, waits: false });
        if !is_first {
            self.t_hand += 1 + usize::from(std::mem::take(&mut self.was_victim_elsewhere));
        }
        self.t_hand %= self.circle.len();
        self.access(page, is_write);
    }
}
