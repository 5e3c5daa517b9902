//! Ghosts: the numbers of pages that have left, newest first, for policies that learn from returning pages.
//!
//! ```text
//!   heads, by hash ─► entry ─► older entry ─► …              chains, at most two entries long on average
//!   queue: oldest │ entry │ forgotten │ entry │ … │ newest   an entry is 12 bytes: its page and the next of its chain
//! ```
//!
//! A place names an entry; it does not change while the queue advances. A forgotten page leaves its chain at once. Its
//! entry leaves the queue when it is the oldest, or when the queue is packed. The queue is packed if the forgotten
//! entries exceed one chunk plus a sixteenth of the remembered ones.
//!
//! Invariants: an entry is in the chain of its page, or forgotten; no page is in a chain twice; the oldest entry is not
//! forgotten.

use std::collections::VecDeque;

use super::PageNo;
use super::links::NONE;
use super::numbers::hash;

/// The queue may hold one forgotten entry for this many remembered ones, and one chunk more.
const FORGOTTEN_SHARE: usize = 16;
/// Entries of a chunk.
const CHUNK: usize = 64;
/// Fewest chains, as a power of two.
const LEAST_BITS: u32 = 4;
/// The `next` of a forgotten entry.
const FORGOTTEN: u32 = NONE - 1;

#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Ghost {
    page: u64,
    /// The place of the next older entry of the chain, [`NONE`] or [`FORGOTTEN`].
    next: u32,
}

/// Entries by place, in chunks. One queue can use the memory that another frees; growing arrays would leave gaps.
#[derive(Default)]
struct Queue {
    chunks: VecDeque<Box<[Ghost; CHUNK]>>,
    /// Place of the oldest entry, in the first chunk. The places of the other entries follow it.
    first: u32,
    entries: u32,
}

impl Queue {
    /// The place after the newest entry.
    fn end(&self) -> u32 {
        self.first + self.entries
    }

    /// The chunk of a place, and the index in the chunk.
    fn split(&self, place: u32) -> (usize, usize) {
        (place as usize / CHUNK - self.first as usize / CHUNK, place as usize % CHUNK)
    }

    fn get(&self, place: u32) -> Ghost {
        let (chunk, index) = self.split(place);
        self.chunks[chunk][index]
    }

    fn set(&mut self, place: u32, ghost: Ghost) {
        let (chunk, index) = self.split(place);
        self.chunks[chunk][index] = ghost;
    }

    fn push(&mut self, ghost: Ghost) {
        if self.split(self.end()).0 == self.chunks.len() {
            self.chunks.push_back(Box::new([ghost; CHUNK]));
        }
        self.entries += 1;
        self.set(self.end() - 1, ghost);
    }

    /// Drops the oldest entries while they are forgotten.
    fn drop_forgotten(&mut self) {
        while self.entries > 0 && self.get(self.first).next == FORGOTTEN {
            self.first += 1;
            self.entries -= 1;
            if self.split(self.first).1 == 0 {
                self.chunks.pop_front();
            }
        }
    }

    /// Drops all forgotten entries. The others get the lowest possible places.
    fn pack(&mut self) {
        let mut end = self.first;
        for place in self.first..self.end() {
            let ghost = self.get(place);
            if ghost.next != FORGOTTEN {
                self.set(end, ghost);
                end += 1;
            }
        }
        self.entries = end - self.first;
        self.first %= CHUNK as u32;
        self.chunks.truncate(self.split(self.end()).0 + 1);
    }
}

/// See the module's head.
pub(super) struct Ghosts {
    heads: Vec<u32>,
    queue: Queue,
    length: usize,
}

impl Default for Ghosts {
    fn default() -> Ghosts {
        Ghosts { heads: vec![NONE; 1 << LEAST_BITS], queue: Queue::default(), length: 0 }
    }
}

impl Ghosts {
    /// Pages remembered.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Whether `page` is remembered.
    pub(super) fn contains(&self, page: PageNo) -> bool {
        self.find(page).is_some()
    }

    fn head(&self, page: u64) -> usize {
        hash(page, self.heads.len().trailing_zeros())
    }

    /// The place of a page, and the place of the entry before it in its chain or [`NONE`].
    fn find(&self, page: PageNo) -> Option<(u32, u32)> {
        let (mut newer, mut place) = (NONE, self.heads[self.head(page.0)]);
        while place != NONE {
            let Ghost { page: found, next } = self.queue.get(place);
            if found == page.0 {
                return Some((place, newer));
            }
            (newer, place) = (place, next);
        }
        None
    }

    /// Remembers a page as the newest one.
    pub(super) fn push(&mut self, page: PageNo) {
        self.forget(page);
        let forgotten = self.queue.entries as usize - self.length;
        if self.length == 2 * self.heads.len() {
            self.pack(2 * self.heads.len());
        } else if forgotten > self.length / FORGOTTEN_SHARE + CHUNK || self.queue.end() == FORGOTTEN {
            self.pack(self.heads.len());
        }
        self.length += 1;
        self.queue.push(Ghost { page: page.0, next: NONE });
        self.enter(self.queue.end() - 1);
    }

    /// Puts an entry of the queue at the head of its chain.
    fn enter(&mut self, place: u32) {
        let page = self.queue.get(place).page;
        let head = self.head(page);
        let next = std::mem::replace(&mut self.heads[head], place);
        self.queue.set(place, Ghost { page, next });
    }

    /// Packs the queue and makes `heads` chains.
    fn pack(&mut self, heads: usize) {
        self.queue.pack();
        self.heads.clear();
        self.heads.resize(heads, NONE);
        (self.queue.first..self.queue.end()).for_each(|place| self.enter(place));
    }

    /// Forgets a page. Returns whether it was remembered.
    pub(super) fn forget(&mut self, page: PageNo) -> bool {
        let Some((place, newer)) = self.find(page) else { return false };
        let Ghost { page, next } = self.queue.get(place);
        match newer {
            NONE => {
                let head = self.head(page);
                self.heads[head] = next;
            }
            newer => self.queue.set(newer, Ghost { next, ..self.queue.get(newer) }),
        }
        self.queue.set(place, Ghost { page, next: FORGOTTEN });
        self.queue.drop_forgotten();
        self.length -= 1;
        true
    }

    /// Forgets the oldest.
    pub(super) fn pop(&mut self) {
        if self.length > 0 {
            self.forget(PageNo(self.queue.get(self.queue.first).page));
        }
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// If they do not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let first = self.queue.first;
        let is_remembered = |place: &u32| self.queue.get(*place).next != FORGOTTEN;
        let places: Vec<u32> = (first..self.queue.end()).filter(is_remembered).collect();
        if places.len() != self.length || places.first().is_some_and(|place| *place != first) {
            return Err(format!("{} ghosts from {first} on, counted {}", places.len(), self.length));
        }
        let is_found = |place: u32| self.find(PageNo(self.queue.get(place).page)).is_some_and(|found| found.0 == place);
        match places.into_iter().find(|place| !is_found(*place)) {
            None => Ok(()),
            Some(place) => Err(format!("the ghost at place {place} is not found")),
        }
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn they_equal_a_list() {
        let mut choices = Choices::new(1);
        for most in [1, 7, 200] {
            let (mut ghosts, mut model) = (Ghosts::default(), Vec::<PageNo>::new());
            // So that the test reaches the largest place.
            ghosts.queue.first = FORGOTTEN - 1000;
            for _ in 0..10_000 {
                let page = PageNo(choices.below(most * 3) << (20 * choices.below(2)));
                let known = model.iter().position(|other| *other == page);
                assert_eq!(ghosts.contains(page), known.is_some());
                if choices.chance(1, 2) {
                    assert_eq!(ghosts.forget(page), known.is_some());
                    known.map(|at| model.remove(at));
                    continue;
                }
                ghosts.push(page);
                known.map(|at| model.remove(at));
                model.push(page);
                if model.len() as u64 > most {
                    ghosts.pop();
                    model.remove(0);
                }
                assert_eq!((ghosts.len(), ghosts.check()), (model.len(), Ok(())));
            }
        }
    }
}
