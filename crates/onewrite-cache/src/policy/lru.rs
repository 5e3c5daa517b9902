//! LRU: the page that was not used for the longest time leaves.
//!
//! A doubly linked list through arrays by slot, newest first. Invariants: following `next` from the newest visits every
//! slot that is in, once, and ends at the oldest; `previous` is its inverse.

use super::{Policy, Slot};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
    is_in: bool,
}

const OUT: Link = Link { previous: NONE, next: NONE, is_in: false };

/// See the module's head.
pub struct Lru {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
    length: usize,
}

impl Default for Lru {
    fn default() -> Lru {
        Lru { links: Vec::new(), newest: NONE, oldest: NONE, length: 0 }
    }
}

impl Lru {
    fn link_newest(&mut self, slot: u32) {
        self.links[slot as usize] = Link { previous: NONE, next: self.newest, is_in: true };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].previous = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Link { previous, next, .. } = std::mem::replace(&mut self.links[slot as usize], OUT);
        match previous {
            NONE => self.newest = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => self.oldest = previous,
            next => self.links[next as usize].previous = previous,
        }
    }
}

impl Policy for Lru {
    fn insert(&mut self, slot: Slot) {
        if self.links.len() <= slot.index() {
            self.links.resize(slot.index() + 1, OUT);
        }
        debug_assert!(!self.links[slot.index()].is_in, "{slot:?} is in already");
        self.link_newest(slot.0);
        self.length += 1;
    }

    fn access(&mut self, slot: Slot) {
        if self.newest != slot.0 {
            self.unlink(slot.0);
            self.link_newest(slot.0);
        }
    }

    fn remove(&mut self, slot: Slot) {
        debug_assert!(self.links[slot.index()].is_in, "{slot:?} is not in");
        self.unlink(slot.0);
        self.length -= 1;
    }

    fn victim(&mut self) -> Option<Slot> {
        (self.oldest != NONE).then_some(Slot(self.oldest))
    }

    fn check(&self) -> Result<(), String> {
        let (mut slot, mut previous, mut seen) = (self.newest, NONE, 0);
        while slot != NONE {
            let link = self.links[slot as usize];
            if link.previous != previous || !link.is_in || seen > self.length {
                return Err(format!("slot {slot} is linked wrongly"));
            }
            (previous, slot, seen) = (slot, link.next, seen + 1);
        }
        match previous == self.oldest && seen == self.length {
            true => Ok(()),
            false => Err(format!("{seen} of {} slots are linked; the oldest is {}", self.length, self.oldest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn it_equals_a_list_that_is_searched() {
        let mut choices = Choices::new(1);
        let (mut lru, mut model) = (Lru::default(), Vec::<u32>::new());
        for _ in 0..20_000 {
            let slot = choices.below(50) as u32;
            match model.iter().position(|&other| other == slot) {
                None => lru.insert(Slot(slot)),
                Some(place) if choices.chance(1, 3) => {
                    model.remove(place);
                    lru.remove(Slot(slot));
                    continue;
                }
                Some(place) => {
                    model.remove(place);
                    lru.access(Slot(slot));
                }
            }
            model.push(slot);
            assert_eq!(lru.victim(), model.first().map(|&oldest| Slot(oldest)));
            lru.check().unwrap();
        }
    }
}
