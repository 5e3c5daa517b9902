//! Models of the policies that evict whole flash blocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::Model;

type Dirty = BTreeSet<u64>;

/// Pages by block, with the moment of each block's last use.
pub struct Fab {
    block_pages: u64,
    blocks: BTreeMap<u64, (BTreeSet<u64>, u64)>,
    now: u64,
}

impl Fab {
    pub fn new(block_pages: u32) -> Fab {
        Fab { block_pages: block_pages.into(), blocks: BTreeMap::new(), now: 0 }
    }
}

impl Model for Fab {
    fn hit(&mut self, page: u64, is_write: bool, _: &Dirty) {
        self.insert(page, is_write);
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        let most = self.blocks.values().map(|(pages, _)| pages.len()).max().unwrap();
        let largest = self.blocks.iter().filter(|(_, (pages, _))| pages.len() == most);
        let block = *largest.min_by_key(|(_, (_, used))| *used).unwrap().0;
        self.blocks.remove(&block).unwrap().0.into_iter().collect()
    }

    fn insert(&mut self, page: u64, _: bool) {
        self.now += 1;
        let (pages, used) = self.blocks.entry(page / self.block_pages).or_default();
        pages.insert(page);
        *used = self.now;
    }
}

struct Block {
    number: u64,
    pages: BTreeSet<u64>,
    /// The pages in the order in which they turned dirty.
    turned_dirty: Vec<u64>,
}

/// The most recently used block is last.
pub struct Bplru {
    block_pages: u64,
    blocks: Vec<Block>,
}

impl Bplru {
    pub fn new(block_pages: u32) -> Bplru {
        Bplru { block_pages: block_pages.into(), blocks: Vec::new() }
    }

    fn touch(&mut self, page: u64, turns_dirty: bool) {
        let number = page / self.block_pages;
        let place = self.blocks.iter().position(|block| block.number == number);
        let new = || Block { number, pages: BTreeSet::new(), turned_dirty: Vec::new() };
        let mut block = place.map_or_else(new, |place| self.blocks.remove(place));
        block.pages.insert(page);
        let first = number * self.block_pages;
        let was_finished = block.turned_dirty.iter().copied().eq(first..first + self.block_pages);
        if turns_dirty {
            block.turned_dirty.push(page);
        }
        let is_finished = block.turned_dirty.iter().copied().eq(first..first + self.block_pages);
        let place = if is_finished && !was_finished { 0 } else { self.blocks.len() };
        self.blocks.insert(place, block);
    }
}

impl Model for Bplru {
    fn hit(&mut self, page: u64, is_write: bool, dirty: &Dirty) {
        self.touch(page, is_write && !dirty.contains(&page));
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        self.blocks.remove(0).pages.into_iter().collect()
    }

    fn insert(&mut self, page: u64, is_write: bool) {
        self.touch(page, is_write);
    }
}

/// The block under the hand is first.
pub struct LbClock {
    block_pages: u64,
    circle: Vec<(u64, BTreeSet<u64>, bool)>,
}

impl LbClock {
    pub fn new(block_pages: u32) -> LbClock {
        LbClock { block_pages: block_pages.into(), circle: Vec::new() }
    }

    fn touch(&mut self, page: u64, turns_dirty: bool) {
        let number = page / self.block_pages;
        if !self.circle.iter().any(|(known, ..)| *known == number) {
            self.circle.push((number, BTreeSet::new(), true));
        }
        let block = self.circle.iter_mut().find(|(known, ..)| *known == number).unwrap();
        block.1.insert(page);
        block.2 = !(turns_dirty && (page + 1).is_multiple_of(self.block_pages));
    }
}

impl Model for LbClock {
    fn hit(&mut self, page: u64, is_write: bool, dirty: &Dirty) {
        self.touch(page, is_write && !dirty.contains(&page));
    }

    fn evict(&mut self, _: u64, _: &Dirty) -> Vec<u64> {
        let some_unused = self.circle.iter().any(|(_, _, is_used)| !is_used);
        let mut best: Option<usize> = None;
        for (place, (_, pages, is_used)) in self.circle.iter().enumerate() {
            let is_candidate = !is_used || !some_unused;
            if is_candidate && best.is_none_or(|best| pages.len() > self.circle[best].1.len()) {
                best = Some(place);
            }
        }
        self.circle.iter_mut().for_each(|(_, _, is_used)| *is_used = false);
        self.circle.remove(best.unwrap()).1.into_iter().collect()
    }

    fn insert(&mut self, page: u64, is_write: bool) {
        self.touch(page, is_write);
    }
}
