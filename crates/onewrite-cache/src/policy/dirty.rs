//! Dirty: the dirty pages of each flash block. A hand walks one block at a time in sector order.
//!
//! ```text
//!   block ─► head ─► slot ─► slot ─► …     a chain without order: a page turns dirty for three words
//!   entered: chain ─► (offset, slot), sorted, with a hand on one of them          only one block at a time
//! ```
//!
//! So the order costs one sort when the hand enters a block, not one search for each page that turns dirty. A waiting
//! block takes little memory, even with few pages. If a page leaves a chain out of order, a search along the chain
//! finds it.
//!
//! Invariants: a dirty page is in the chain of its block or, if the hand is in that block, in `sorted`; the hand is on
//! an entry of `sorted`; a record without members is free.

use super::PageNo;
use super::blocks::BlockPages;
use super::links::NONE;
use super::numbers::Numbers;
use super::slots::PerSlot;

/// A block that has pages in the cache.
#[derive(Clone, Copy, Debug)]
struct Block {
    number: u64,
    members: u32,
    /// First slot of its chain.
    head: u32,
}

/// State of a slot's page, besides its record.
#[derive(Clone, Copy, Debug, Default)]
struct InChain {
    /// The page's offset in its block.
    offset: u32,
    /// The next slot of the chain.
    next: u32,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct DirtyBlocks {
    block_pages: BlockPages,
    by_number: Numbers,
    blocks: Vec<Block>,
    free: Vec<u32>,
    links: PerSlot<InChain>,
    /// The block that the hand is in, or [`NONE`].
    entered: u32,
    /// The dirty pages of that block: the offset in the high half, the slot in the low half.
    sorted: Vec<u64>,
    /// The hand's index in `sorted`.
    hand: usize,
}

fn entry(offset: u32, slot: u32) -> u64 {
    (u64::from(offset) << 32) | u64::from(slot)
}

impl DirtyBlocks {
    /// Blocks of `block_pages` pages. Preallocates `slots`; may grow.
    pub(super) fn new(block_pages: u32, slots: u32) -> DirtyBlocks {
        DirtyBlocks {
            block_pages: BlockPages::new(block_pages),
            by_number: Numbers::default(),
            blocks: Vec::new(),
            free: Vec::new(),
            links: PerSlot::with_capacity(slots),
            entered: NONE,
            sorted: Vec::new(),
            hand: 0,
        }
    }

    /// Makes a clean page a member of its block. Returns the block's record, and whether it is new.
    pub(super) fn join(&mut self, slot: u32, page: PageNo) -> (u32, bool) {
        let (number, offset) = self.block_pages.split(page);
        self.links.know(slot);
        self.links[slot].offset = offset;
        let known = self.record_of(number);
        let record = known.unwrap_or_else(|| self.open(number));
        self.blocks[record as usize].members += 1;
        (record, known.is_none())
    }

    fn open(&mut self, number: u64) -> u32 {
        let block = Block { number, members: 0, head: NONE };
        let record = self.free.pop().unwrap_or(self.blocks.len() as u32);
        match self.blocks.get_mut(record as usize) {
            Some(place) => *place = block,
            None => self.blocks.push(block),
        }
        let blocks = &self.blocks;
        self.by_number.insert(record, |record| blocks[record as usize].number);
        record
    }

    fn record_of(&self, number: u64) -> Option<u32> {
        self.by_number.find(number, |record| self.blocks[record as usize].number)
    }

    /// Ends the membership of a page that is not dirty.
    pub(super) fn leave(&mut self, record: u32) {
        let block = &mut self.blocks[record as usize];
        block.members -= 1;
        if block.members == 0 {
            debug_assert!(block.head == NONE, "block {} is left with dirty pages", block.number);
            let blocks = &self.blocks;
            self.by_number.remove(record, |record| blocks[record as usize].number);
            self.free.push(record);
        }
    }

    /// A member turned dirty.
    #[inline]
    pub(super) fn add(&mut self, slot: u32, record: u32) {
        if record != self.entered {
            return self.chain(slot, record);
        }
        let entry = entry(self.links[slot].offset, slot);
        let at = self.sorted.partition_point(|other| *other < entry);
        self.sorted.insert(at, entry);
        self.hand += usize::from(at <= self.hand);
    }

    fn chain(&mut self, slot: u32, record: u32) {
        let head = &mut self.blocks[record as usize].head;
        self.links[slot].next = std::mem::replace(head, slot);
    }

    /// A dirty member left or turned clean. If the hand is on it, the hand moves to the block's next page, or out of
    /// the block if there is none.
    pub(super) fn drop(&mut self, slot: u32, record: u32) {
        if record != self.entered {
            return self.unchain(slot, record);
        }
        // Usually it is the victim, just behind the hand.
        let entry = entry(self.links[slot].offset, slot);
        let behind = self.hand.wrapping_sub(1);
        let is_behind = self.sorted.get(behind) == Some(&entry);
        let at = if is_behind { behind } else { self.sorted.partition_point(|other| *other < entry) };
        self.sorted.remove(at);
        self.hand -= usize::from(at < self.hand);
        if self.hand == self.sorted.len() {
            self.go_out(NONE);
        }
    }

    fn unchain(&mut self, slot: u32, record: u32) {
        let next = self.links[slot].next;
        let mut at = self.blocks[record as usize].head;
        if at == slot {
            self.blocks[record as usize].head = next;
            return;
        }
        while self.links[at].next != slot {
            at = self.links[at].next;
        }
        self.links[at].next = next;
    }

    /// Takes the hand out of its block, if it is in one. `last` enters the chain last, so that a search finds it at
    /// once.
    fn go_out(&mut self, last: u32) {
        let record = std::mem::replace(&mut self.entered, NONE);
        let mut sorted = std::mem::take(&mut self.sorted);
        // Backwards, so that the chain is in sector order; later additions come before it.
        for slot in sorted.drain(..).rev().map(|entry| entry as u32).filter(|slot| *slot != last) {
            self.chain(slot, record);
        }
        self.sorted = sorted;
        if last != NONE {
            self.chain(last, record);
        }
    }

    /// Puts the hand on the first dirty page of a block that has one.
    fn go_in(&mut self, record: u32) {
        self.hand = 0;
        if self.entered == record {
            return;
        }
        let mut slot = std::mem::replace(&mut self.blocks[record as usize].head, NONE);
        while slot != NONE {
            let InChain { offset, next } = self.links[slot];
            self.sorted.push(entry(offset, slot));
            slot = next;
        }
        self.sorted.sort_unstable();
        self.entered = record;
    }

    /// Returns the first dirty page from the hand on for which `is_victim` holds, and puts the hand on the page after
    /// it. If the hand is in no block or passes the last page of its block, it continues in `record`. This block must
    /// have a dirty page that is a victim.
    pub(super) fn sweep(&mut self, record: u32, is_victim: impl Fn(u32) -> bool) -> u32 {
        if self.entered == NONE {
            self.go_in(record);
        }
        loop {
            let ahead = self.sorted[self.hand..].iter().map(|entry| *entry as u32);
            let found = ahead.enumerate().find(|(_, slot)| is_victim(*slot));
            self.hand = found.map_or(self.sorted.len(), |(passed, _)| self.hand + passed + 1);
            let victim = found.map(|(_, slot)| slot);
            if self.hand == self.sorted.len() {
                if self.entered != record {
                    self.go_out(victim.unwrap_or(NONE));
                }
                self.go_in(record);
            }
            if let Some(victim) = victim {
                return victim;
            }
        }
    }

    /// The page that the hand is on.
    #[inline]
    pub(super) fn hand(&self) -> Option<u32> {
        self.sorted.get(self.hand).map(|entry| *entry as u32)
    }

    /// The dirty pages of a block, in no order.
    pub(super) fn dirty(&self, record: u32) -> impl Iterator<Item = u32> + '_ {
        let head = Some(self.blocks[record as usize].head).filter(|slot| *slot != NONE);
        let next = |slot: &u32| Some(self.links[*slot].next).filter(|slot| *slot != NONE);
        let chained = std::iter::successors(head, next);
        let sorted = if record == self.entered { &self.sorted[..] } else { &[] };
        chained.chain(sorted.iter().map(|entry| *entry as u32))
    }

    /// The records in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.blocks.len() as u32).filter(|record| self.blocks[*record as usize].members > 0)
    }

    /// Verifies the invariants. `record_of` gives the policy's record of a slot.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self, record_of: impl Fn(u32) -> u32) -> Result<(), String> {
        for (index, block) in (0..).zip(&self.blocks) {
            let dirty: Vec<u32> = self.dirty(index).take(block.members as usize + 1).collect();
            let strangers = dirty.iter().filter(|slot| record_of(**slot) != index).count();
            if dirty.len() > block.members as usize || strangers > 0 {
                return Err(format!("block {} has {} members, {strangers} strangers", block.number, block.members));
            }
            if (self.record_of(block.number) == Some(index)) != (block.members > 0) {
                return Err(format!("block {} has {} members; it is known otherwise", block.number, block.members));
            }
        }
        let is_in_order = self.sorted.is_sorted_by(|a, b| a < b);
        let is_hand_sound = self.sorted.is_empty() == (self.entered == NONE)
            && (self.sorted.is_empty() || self.hand < self.sorted.len());
        match is_in_order && is_hand_sound {
            true => Ok(()),
            false => Err(format!("the hand is at {} of {:?} in {}", self.hand, self.sorted, self.entered)),
        }
    }
}
