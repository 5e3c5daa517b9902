//! Models of the policies that keep pages in lists.

use std::collections::BTreeSet;

use onewrite_cache::PageRequest;

use crate::Model;

type Dirty = BTreeSet<u64>;

fn take(pages: &mut Vec<u64>, page: u64) {
    let place = pages.iter().position(|known| *known == page).expect("the page is in");
    pages.remove(place);
}

/// Newest last.
#[derive(Default)]
pub struct Lru(Vec<u64>);

impl Model for Lru {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        take(&mut self.0, page);
        self.0.push(page);
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        vec![self.0.remove(0)]
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.0.push(page);
    }
}

/// The page under the hand is first. The hand advances by moving the first page to the end.
#[derive(Default)]
pub struct Clock(Vec<(u64, bool)>);

impl Model for Clock {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        self.0.iter_mut().find(|(known, _)| *known == page).unwrap().1 = true;
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        loop {
            let (page, is_referenced) = self.0.remove(0);
            if !is_referenced {
                return vec![page];
            }
            self.0.push((page, false));
        }
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.0.push((page, true));
    }
}

/// Newest last; pages with their marks.
#[derive(Default)]
pub struct Linux2q {
    active: Vec<(u64, bool)>,
    inactive: Vec<(u64, bool)>,
}

impl Model for Linux2q {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        if let Some(found) = self.active.iter_mut().find(|(known, _)| *known == page) {
            found.1 = true;
            return;
        }
        let place = self.inactive.iter().position(|(known, _)| *known == page).unwrap();
        if self.inactive[place].1 {
            self.inactive.remove(place);
            self.active.push((page, false));
        } else {
            self.inactive[place].1 = true;
        }
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        while self.active.len() > self.inactive.len() {
            match self.active.remove(0) {
                (page, true) => self.active.push((page, false)),
                (page, false) => self.inactive.push((page, false)),
            }
        }
        vec![self.inactive.remove(0).0]
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.inactive.push((page, true));
    }
}

/// Newest last.
pub struct Cflru {
    pages: Vec<u64>,
    window: usize,
}

impl Cflru {
    pub fn new(capacity: u32) -> Cflru {
        Cflru { pages: Vec::new(), window: (capacity as usize / 4).max(1) }
    }
}

impl Model for Cflru {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        take(&mut self.pages, page);
        self.pages.push(page);
    }

    fn evict(&mut self, _: u64, dirty: &Dirty) -> Vec<u64> {
        let window = &self.pages[..self.window.min(self.pages.len())];
        let place = window.iter().position(|page| !dirty.contains(page)).unwrap_or(0);
        vec![self.pages.remove(place)]
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.pages.push(page);
    }
}

/// Newest last; pages with their cold flags.
#[derive(Default)]
pub struct LruWsr(Vec<(u64, bool)>);

impl Model for LruWsr {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        self.0.retain(|(known, _)| *known != page);
        self.0.push((page, false));
    }

    fn evict(&mut self, _: u64, dirty: &Dirty) -> Vec<u64> {
        loop {
            let (page, is_cold) = self.0.remove(0);
            if is_cold || !dirty.contains(&page) {
                return vec![page];
            }
            self.0.push((page, true));
        }
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.0.push((page, false));
    }
}

/// Oldest first. The hand is a page, or none.
#[derive(Default)]
pub struct Sieve {
    pages: Vec<(u64, bool)>,
    hand: Option<u64>,
}

impl Model for Sieve {
    fn hit(&mut self, page: u64, _: bool, _: &Dirty) {
        self.pages.iter_mut().find(|(known, _)| *known == page).unwrap().1 = true;
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        let mut at = self.hand.and_then(|hand| self.pages.iter().position(|(page, _)| *page == hand)).unwrap_or(0);
        while self.pages[at].1 {
            self.pages[at].1 = false;
            at = (at + 1) % self.pages.len();
        }
        self.hand = self.pages.get(at + 1).map(|(page, _)| *page);
        vec![self.pages.remove(at).0]
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.pages.push((page, false));
    }
}

/// Hits of the optimum. It looks ahead through the trace at every eviction.
pub fn optimal_hits(trace: &[PageRequest], capacity: usize) -> u64 {
    let (mut resident, mut hits) = (Vec::new(), 0);
    for (now, request) in trace.iter().enumerate() {
        if resident.contains(&request.page()) {
            hits += 1;
            continue;
        }
        if resident.len() == capacity {
            let next_use =
                |page: &u64| trace[now..].iter().position(|later| later.page() == *page).unwrap_or(usize::MAX);
            let farthest = (0..capacity).max_by_key(|place| next_use(&resident[*place])).unwrap();
            resident.remove(farthest);
        }
        resident.push(request.page());
    }
    hits
}
