//! Blocks: pages grouped by their flash block, for policies that evict whole blocks.
//!
//! ```text
//!   block ─► slot ⇄ slot ⇄ …       its pages, in no order
//!   leaving: sorted slots          one block at a time, which leaves in the order of its sectors
//! ```
//!
//! A block has a record while at least one of its pages is in the cache.
//!
//! Invariants: each page is in the list of its block; `sorted` holds the pages of the leaving block, its first page
//! last; a record without pages is free.

use super::links::{Links, List, NONE};
use super::numbers::Numbers;
use super::slots::PerSlot;
use super::{PageNo, Slot};

/// Most pages of a flash block: an offset must fit beside the other state of a slot.
pub(super) const BLOCK_PAGES_MAX: u32 = 1 << 24;

/// The pages of a flash block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPages(u64);

impl BlockPages {
    /// A flash block of `pages` pages.
    ///
    /// # Panics
    /// If that is zero or more than [`BLOCK_PAGES_MAX`].
    pub(super) fn new(pages: u32) -> BlockPages {
        assert!((1..=BLOCK_PAGES_MAX).contains(&pages), "flash blocks of {pages} pages");
        BlockPages(pages.into())
    }

    /// A page's block and its offset in the block. Powers of two, the usual case, need no division.
    #[inline]
    pub(super) fn split(self, page: PageNo) -> (u64, u32) {
        if self.0.is_power_of_two() {
            return (page.0 >> self.0.trailing_zeros(), (page.0 & (self.0 - 1)) as u32);
        }
        (page.0 / self.0, (page.0 % self.0) as u32)
    }

    /// Number of pages.
    pub(super) fn count(self) -> u32 {
        self.0 as u32
    }
}

/// Where a slot's page lives: the record of its block, and its offset there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) record: u32,
    pub(super) offset: u32,
}

impl Home {
    /// A sort key of the block's pages that contains the slot.
    fn sorted(self, slot: u32) -> u64 {
        (u64::from(self.offset) << 32) | u64::from(slot)
    }
}

/// A block that has pages in the cache.
#[derive(Clone, Debug)]
struct Record {
    number: u64,
    pages: List,
}

/// All blocks that have pages in the cache.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T> {
    block_pages: BlockPages,
    by_number: Numbers,
    records: Vec<Record>,
    /// The policy's state of each block. It is apart from the records because a hit reads nothing else of a block.
    states: Vec<T>,
    free: Vec<u32>,
    homes: PerSlot<Home>,
    links: Links,
    /// The record of the leaving block, or [`NONE`].
    leaving: u32,
    sorted: Vec<u64>,
}

impl<T: Default> Blocks<T> {
    /// Blocks of `block_pages` pages. Preallocates `slots`; may grow.
    pub(super) fn new(block_pages: u32, slots: u32) -> Blocks<T> {
        Blocks {
            block_pages: BlockPages::new(block_pages),
            by_number: Numbers::default(),
            records: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            homes: PerSlot::with_capacity(slots),
            links: Links::with_capacity(slots),
            leaving: NONE,
            sorted: Vec::new(),
        }
    }

    /// Pages in a block.
    pub(super) fn block_pages(&self) -> u32 {
        self.block_pages.count()
    }

    /// Where the page of a slot lives.
    #[inline]
    pub(super) fn home(&self, slot: Slot) -> Home {
        self.homes[slot.0]
    }

    /// Pages of a block that are in the cache.
    pub(super) fn pages(&self, record: u32) -> u32 {
        self.records[record as usize].pages.len() as u32
    }

    /// The policy's state of a block; it starts as the default when the block's first page comes in.
    pub(super) fn state(&self, record: u32) -> &T {
        &self.states[record as usize]
    }

    /// The policy's state of a block, to change.
    #[inline]
    pub(super) fn state_mut(&mut self, record: u32) -> &mut T {
        &mut self.states[record as usize]
    }

    /// Adds a page. Returns the record of its block, and whether the record is new.
    pub(super) fn join(&mut self, slot: Slot, page: PageNo) -> (u32, bool) {
        let (number, offset) = self.block_pages.split(page);
        let known = self.record_of(number);
        let record = known.unwrap_or_else(|| self.open(number));
        let home = Home { record, offset };
        self.homes.set(slot.0, home);
        self.records[record as usize].pages.push_front(&mut self.links, slot.0);
        if record == self.leaving {
            let at = self.sorted.partition_point(|other| *other > home.sorted(slot.0));
            self.sorted.insert(at, home.sorted(slot.0));
        }
        (record, known.is_none())
    }

    fn record_of(&self, number: u64) -> Option<u32> {
        self.by_number.find(number, |record| self.records[record as usize].number)
    }

    fn open(&mut self, number: u64) -> u32 {
        let record = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record { number, pages: List::default() });
            self.states.push(T::default());
            self.records.len() as u32 - 1
        });
        self.records[record as usize].number = number;
        self.states[record as usize] = T::default();
        self.by_number.insert(record, |record| self.records[record as usize].number);
        record
    }

    /// Removes a page. Returns whether its block is free now.
    pub(super) fn leave(&mut self, slot: Slot) -> bool {
        let home = self.home(slot);
        self.records[home.record as usize].pages.remove(&mut self.links, slot.0);
        if home.record == self.leaving {
            // Usually it is the victim, which is last.
            let at = self.sorted.partition_point(|other| *other > home.sorted(slot.0));
            self.sorted.remove(at);
        }
        if self.pages(home.record) > 0 {
            return false;
        }
        if home.record == self.leaving {
            self.leaving = NONE;
        }
        self.by_number.remove(home.record, |record| self.records[record as usize].number);
        self.free.push(home.record);
        true
    }

    /// Whether a block is leaving and still has pages.
    pub(super) fn one_leaves(&self) -> bool {
        self.leaving != NONE
    }

    /// Makes this block the leaving one; any other stops leaving.
    pub(super) fn let_leave(&mut self, record: u32) {
        self.leaving = record;
        let slots = self.records[record as usize].pages.iter(&self.links);
        self.sorted.clear();
        self.sorted.extend(slots.map(|slot| self.homes[slot].sorted(slot)));
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The first page of the leaving block, if any.
    pub(super) fn first_leaving(&self) -> Option<Slot> {
        self.sorted.last().map(|sorted| Slot(*sorted as u32))
    }

    /// The records in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.records.len() as u32).filter(|record| self.pages(*record) > 0)
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        for (index, record) in (0..).zip(&self.records) {
            record.pages.check(&self.links)?;
            if let Some(slot) = record.pages.iter(&self.links).find(|slot| self.homes[*slot].record != index) {
                return Err(format!("slot {slot} is a stranger in block {}", record.number));
            }
            let known = self.record_of(record.number) == Some(index);
            if known != (record.pages.len() > 0) {
                return Err(format!("block {} has {} pages; known: {known}", record.number, record.pages.len()));
            }
        }
        let leaving = self.records.get(self.leaving as usize);
        let mut sorted: Vec<u64> = leaving.map_or(Vec::new(), |record| {
            record.pages.iter(&self.links).map(|slot| self.homes[slot].sorted(slot)).collect()
        });
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        match sorted == self.sorted {
            true => Ok(()),
            false => Err(format!("{:?} leave, should be {sorted:?}", self.sorted)),
        }
    }
}
