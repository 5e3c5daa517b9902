//! The file systems' page cache under every policy: random use, as a file system would, and every invariant after each
//! step.

use std::collections::BTreeSet;

use onewrite_block::{Choices, Page};
use onewrite_cache::{CacheShape, PageCache, PageKey, PolicyKind, Victim};

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

    /// Writes victims out until a page fits; false if nothing can leave.
    fn make_room(&mut self) -> bool {
        for _ in 0..=2 * CAPACITY {
            match self.cache.make_room() {
                Victim::None => return true,
                Victim::Stuck => return false,
                Victim::Dirty(key) => {
                    self.cache.begin_write(key);
                    self.cache.end_write(key);
                }
            }
        }
        panic!("making room does not end");
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
