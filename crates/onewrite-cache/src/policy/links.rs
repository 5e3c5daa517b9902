//! Links: lists and rings in arrays indexed by slot.
//!
//! Invariants: from the front, `next` visits every slot of a list once and ends at the back; `previous` is its inverse;
//! a slot in no list has the link [`OUT`]. A ring has no ends. Several lists may share one array; a slot is in at most
//! one of them.

use std::collections::VecDeque;

use super::slots::PerSlot;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    previous: u32,
    next: u32,
}

/// The link of a slot in no list.
const OUT: Link = Link { previous: NONE - 1, next: NONE - 1 };

impl Default for Link {
    fn default() -> Link {
        OUT
    }
}

/// The array that lists share.
#[derive(Clone, Debug)]
pub(super) struct Links(PerSlot<Link>);

impl Links {
    /// Preallocates `slots`; may grow.
    pub(super) fn with_capacity(slots: u32) -> Links {
        Links(PerSlot::with_capacity(slots))
    }

    /// The slot after `slot`, nearer to the back.
    pub(super) fn next(&self, slot: u32) -> u32 {
        self.0[slot].next
    }

    /// The slot before `slot`, nearer to the front.
    pub(super) fn previous(&self, slot: u32) -> u32 {
        self.0[slot].previous
    }

    fn put(&mut self, slot: u32, link: Link) {
        debug_assert_eq!(self.0.get(slot).unwrap_or(OUT), OUT, "slot {slot} is in a list already");
        self.0.set(slot, link);
    }

    fn take(&mut self, slot: u32) -> Link {
        let link = std::mem::replace(&mut self.0[slot], OUT);
        debug_assert_ne!(link, OUT, "slot {slot} is in no list");
        link
    }
}

/// A list with two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    front: u32,
    back: u32,
    length: usize,
}

impl Default for List {
    fn default() -> List {
        List { front: NONE, back: NONE, length: 0 }
    }
}

impl List {
    /// The first slot.
    pub(super) fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    /// The last slot.
    pub(super) fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Puts a slot first.
    pub(super) fn push_front(&mut self, links: &mut Links, slot: u32) {
        links.put(slot, Link { previous: NONE, next: self.front });
        match self.front {
            NONE => self.back = slot,
            front => links.0[front].previous = slot,
        }
        self.front = slot;
        self.length += 1;
    }

    /// Puts a slot last.
    pub(super) fn push_back(&mut self, links: &mut Links, slot: u32) {
        links.put(slot, Link { previous: self.back, next: NONE });
        match self.back {
            NONE => self.front = slot,
            back => links.0[back].next = slot,
        }
        self.back = slot;
        self.length += 1;
    }

    /// Puts a slot just before `place`, a slot of the list; last if `place` is [`NONE`].
    pub(super) fn insert_before(&mut self, links: &mut Links, place: u32, slot: u32) {
        if place == NONE {
            return self.push_back(links, slot);
        }
        let previous = links.previous(place);
        if previous == NONE {
            return self.push_front(links, slot);
        }
        links.put(slot, Link { previous, next: place });
        links.0[previous].next = slot;
        links.0[place].previous = slot;
        self.length += 1;
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, links: &mut Links, slot: u32) {
        let Link { previous, next } = links.take(slot);
        match previous {
            NONE => self.front = next,
            previous => links.0[previous].next = next,
        }
        match next {
            NONE => self.back = previous,
            next => links.0[next].previous = previous,
        }
        self.length -= 1;
    }

    /// Moves a slot of the list to the front.
    pub(super) fn move_to_front(&mut self, links: &mut Links, slot: u32) {
        if self.front != slot {
            self.remove(links, slot);
            self.push_front(links, slot);
        }
    }

    /// The slots from front to back.
    pub(super) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.front(), |slot| Some(links.next(*slot)).filter(|next| *next != NONE))
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self, links: &Links) -> Result<(), String> {
        let (mut previous, mut seen) = (NONE, 0);
        for slot in self.iter(links).take(self.length + 1) {
            if links.previous(slot) != previous {
                return Err(format!("slot {slot} follows {previous}, but says {}", links.previous(slot)));
            }
            (previous, seen) = (slot, seen + 1);
        }
        match seen == self.length && previous == self.back {
            true => Ok(()),
            false => Err(format!("{seen} of {} slots are linked; the last is {}", self.length, self.back)),
        }
    }
}

/// A circle of slots; a hand rests on one of them.
///
/// It is a queue that starts at the hand. To pass a slot, the hand moves it from the front to the back, so that memory
/// access is in order. A slot removed elsewhere stays in the queue as a hole. A hole goes when it comes to the front or
/// when the queue is full. A new slot goes to the back. So the holes of a slot come before the slot itself, and a count
/// of them is enough.
///
/// Invariants: `holes` counts the holes of each slot, which are its first entries in the queue; the front is no hole.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    queue: VecDeque<u32>,
    holes: PerSlot<u8>,
    length: usize,
}

impl Ring {
    /// An empty ring. Preallocates `slots` and a quarter as many holes; may grow.
    pub(super) fn with_capacity(slots: u32) -> Ring {
        let room = slots as usize + slots as usize / 4 + 8;
        Ring { queue: VecDeque::with_capacity(room), holes: PerSlot::with_capacity(slots), length: 0 }
    }

    /// The slot under the hand.
    #[inline]
    pub(super) fn hand(&self) -> Option<u32> {
        self.queue.front().copied()
    }

    /// The slot `distance` entries ahead of the hand, holes included; `None` if that slot has holes.
    #[inline]
    pub(super) fn ahead(&self, distance: usize) -> Option<u32> {
        self.queue.get(distance).copied().filter(|slot| self.holes[*slot] == 0)
    }

    /// Moves the hand to the next slot.
    #[inline]
    pub(super) fn advance(&mut self) {
        if let Some(slot) = self.queue.pop_front() {
            self.queue.push_back(slot);
            self.drop_holes();
        }
    }

    /// Puts a slot just before the hand, which then reaches it last. The first slot gets the hand.
    #[inline]
    pub(super) fn insert_before_hand(&mut self, slot: u32) {
        self.holes.know(slot);
        if self.queue.len() == self.queue.capacity() {
            self.make_room();
        }
        self.queue.push_back(slot);
        self.length += 1;
    }

    /// Takes a slot out. If the hand is on it, the hand moves to the next slot.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.length -= 1;
        if self.hand() == Some(slot) {
            self.queue.pop_front();
            return self.drop_holes();
        }
        self.holes[slot] += 1;
        if self.holes[slot] == u8::MAX {
            self.make_room();
        }
    }

    fn drop_holes(&mut self) {
        while let Some(front) = self.queue.front()
            && self.holes[*front] > 0
        {
            self.holes[*front] -= 1;
            self.queue.pop_front();
        }
    }

    /// Drops all holes. Then reserves room for a quarter more entries.
    fn make_room(&mut self) {
        let holes = &mut self.holes;
        self.queue.retain(|slot| {
            let is_slot = holes[*slot] == 0;
            holes[*slot] -= u8::from(!is_slot);
            is_slot
        });
        self.queue.reserve_exact(self.length / 4 + 8);
    }

    /// The slots from the hand on.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut holes = self.holes.clone();
        self.queue.iter().copied().filter(move |slot| {
            let is_slot = holes[*slot] == 0;
            holes[*slot] -= u8::from(!is_slot);
            is_slot
        })
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut slots: Vec<u32> = self.iter().collect();
        let (count, first) = (slots.len(), slots.first().copied());
        slots.sort_unstable();
        slots.dedup();
        match count == self.length && slots.len() == count && first == self.hand() {
            true => Ok(()),
            false => Err(format!("{count} entries for {} of {} slots in the ring", slots.len(), self.length)),
        }
    }
}
