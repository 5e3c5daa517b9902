//! The file systems' page cache under every policy: random use as by a file system, with a check of every invariant
//! after each step.

use std::collections::BTreeSet;

use onewrite_block::{Choices, Page};
use onewrite_cache::{CacheShape, PageCache, PageKey, PageRequest, PolicyKind, Room};

const CAPACITY: usize = 24;

struct Use {
    cache: PageCache,
    choices: Choices,
    writing: BTreeSet<PageKey>,
    pinned: BTreeSet<PageKey>,
}

impl Use {
    fn key(&mut self) -> PageKey {
        PageKey { file: self.choices.below(3), index: self.choices.below(20) }
    }

    /// Writes victims until a page fits; false if no page can leave.
    fn make_room(&mut self) -> bool {
        for _ in 0..=2 * CAPACITY {
            match self.cache.make_room() {
                Room::Made => return true,
                Room::Stuck => return false,
                Room::Write(victims) => victims.into_iter().for_each(|key| self.write_victim(key)),
            }
        }
        panic!("making room does not end");
    }

    /// Writes a victim, now or later.
    fn write_victim(&mut self, key: PageKey) {
        assert!(self.cache.is_leaving(key));
        if self.cache.is_writing(key) {
            // It was changed during its write: write it again after that write.
            self.cache.end_write(key);
            self.writing.remove(&key);
        }
        self.cache.begin_write(key);
        match self.choices.chance(1, 4) {
            true => drop(self.writing.insert(key)),
            false => self.cache.end_write(key),
        }
    }

    fn step(&mut self) {
        let key = self.key();
        match self.choices.below(8) {
            0..=2 => {
                if self.cache.page(key).is_none() && self.make_room() {
                    self.cache.insert(key, Page::ZEROS);
                }
            }
            3 | 4 => {
                if self.cache.page_mut(key).is_some() {
                    self.cache.mark_dirty(key);
                }
            }
            5 => {
                if self.cache.is_dirty(key) && self.writing.insert(key) {
                    self.cache.begin_write(key);
                } else if let Some(key) = self.writing.pop_first() {
                    self.cache.end_write(key);
                }
            }
            6 => {
                if self.cache.peek(key).is_some() && self.pinned.len() < 5 && self.pinned.insert(key) {
                    self.cache.pin(key, 1);
                } else if let Some(key) = self.pinned.pop_first() {
                    self.cache.unpin(key, 1);
                }
            }
            _ => {
                if !self.writing.contains(&key) && !self.pinned.contains(&key) {
                    self.cache.remove(key);
                }
            }
        }
    }
}

#[test]
fn the_page_cache_is_sound_under_every_policy() {
    for kind in PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_future()) {
        for seed in 0..8 {
            let policy = kind.policy(CacheShape::new(CAPACITY as u64, 4).unwrap()).unwrap();
            let cache = PageCache::new(CAPACITY, policy);
            let choices = Choices::new(seed).stream(kind.name(), 0);
            let mut user = Use { cache, choices, writing: BTreeSet::new(), pinned: BTreeSet::new() };
            for step in 0..2_000 {
                user.step();
                user.cache.check().unwrap_or_else(|problem| panic!("{kind}, seed {seed}, step {step}: {problem}"));
            }
            assert!(user.cache.len() <= CAPACITY + 5, "{kind} holds {} pages", user.cache.len());
        }
    }
}

/// Pages written by the page cache and by the simulator for one stream of requests: pages of file 0, one request at a
/// time.
fn written_by_both(kind: PolicyKind, seed: u64) -> (Vec<u64>, Vec<u64>) {
    let shape = CacheShape::new(CAPACITY as u64, 4).unwrap();
    let mut choices = Choices::new(seed).stream("requests", 0);
    let requests: Vec<(bool, u64)> = (0..3_000).map(|_| (choices.chance(1, 2), choices.below(60))).collect();
    let (mut cache, mut written) = (PageCache::new(CAPACITY, kind.policy(shape).unwrap()), Vec::new());
    for (is_write, index) in &requests {
        let key = PageKey { file: 0, index: *index };
        if cache.peek(key).is_none() {
            while let Room::Write(victims) = cache.make_room() {
                for victim in victims {
                    cache.begin_write(victim);
                    cache.end_write(victim);
                    written.push(victim.index);
                }
            }
            cache.insert(key, Page::ZEROS);
        }
        cache.page(key);
        if *is_write {
            cache.mark_dirty(key);
        }
    }
    let (mut simulation, mut after) = (kind.simulation(shape, None), Vec::new());
    let request = |(is_write, page): &(bool, u64)| match is_write {
        true => PageRequest::write(*page),
        false => PageRequest::read(*page),
    };
    simulation.feed(&requests.iter().map(request).collect::<Vec<_>>(), &mut |request| after.push(request));
    (written, after.into_iter().filter(|request| request.is_write()).map(|request| request.page()).collect())
}

#[test]
fn the_page_cache_evicts_as_the_simulator_does() {
    // Only the simulator tells ARC which page comes in; it then spares ghosts.
    let same = |kind: &PolicyKind| !kind.needs_future() && *kind != PolicyKind::Arc;
    for kind in PolicyKind::ALL.into_iter().filter(same) {
        for seed in 0..4 {
            let (written, simulated) = written_by_both(kind, seed);
            assert!(simulated.len() > 100, "{kind}: {} dirty evictions", simulated.len());
            assert_eq!(written, simulated, "{kind}, seed {seed}");
        }
    }
}
