//! Blocks: pages by the flash block they live in, for the policies that see blocks.
//!
//! A block has a record while at least one of its pages is a member. Some or all of its members are *listed*, in the
//! order of their sectors: the dirty ones, or all, as the policy needs.
//!
//! Invariants: a record's listed slots are members of it, ascending by offset; a record without members is free.

use rustc_hash::FxHashMap;

use super::{PageNo, Slot};

/// Most pages of a flash block: an offset has to fit beside what else is kept of a slot.
pub(super) const BLOCK_PAGES_MAX: u32 = 1 << 24;

/// Where a slot's page lives.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    record: u32,
    offset: u32,
}

/// A block that has pages in the cache.
#[derive(Clone, Debug)]
pub(super) struct Record<T> {
    number: u64,
    members: u32,
    listed: Vec<u32>,
    /// What the policy keeps of it; the default when the first page joins.
    pub(super) state: T,
}

impl<T> Record<T> {
    /// Its listed slots by sector.
    pub(super) fn listed(&self) -> &[u32] {
        &self.listed
    }
}

/// All blocks that have pages in the cache.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T> {
    block_pages: u32,
    by_number: FxHashMap<u64, u32>,
    records: Vec<Record<T>>,
    free: Vec<u32>,
    homes: Vec<Home>,
}

impl<T: Default> Blocks<T> {
    /// Blocks of so many pages.
    ///
    /// # Panics
    /// If that is zero or more than [`BLOCK_PAGES_MAX`].
    pub(super) fn new(block_pages: u32) -> Blocks<T> {
        assert!((1..=BLOCK_PAGES_MAX).contains(&block_pages), "flash blocks of {block_pages} pages");
        Blocks {
            block_pages,
            by_number: FxHashMap::default(),
            records: Vec::new(),
            free: Vec::new(),
            homes: Vec::new(),
        }
    }

    /// Pages in a block.
    pub(super) fn block_pages(&self) -> u32 {
        self.block_pages
    }

    /// The record of a slot's block.
    pub(super) fn record_of(&self, slot: u32) -> u32 {
        self.homes[slot as usize].record
    }

    /// The place of a slot's page in its block.
    pub(super) fn offset(&self, slot: u32) -> u32 {
        self.homes[slot as usize].offset
    }

    /// A record.
    pub(super) fn record(&self, record: u32) -> &Record<T> {
        &self.records[record as usize]
    }

    /// What the policy keeps of a block.
    pub(super) fn state(&mut self, record: u32) -> &mut T {
        &mut self.records[record as usize].state
    }

    /// Makes a slot a member of its page's block; gives the record and whether it is new.
    pub(super) fn join(&mut self, slot: Slot, page: PageNo) -> (u32, bool) {
        let (number, offset) = (page.0 / u64::from(self.block_pages), (page.0 % u64::from(self.block_pages)) as u32);
        if self.homes.len() <= slot.index() {
            self.homes.resize(slot.index() + 1, Home::default());
        }
        let known = self.by_number.get(&number).copied();
        let record = known.unwrap_or_else(|| self.open(number));
        self.records[record as usize].members += 1;
        self.homes[slot.index()] = Home { record, offset };
        (record, known.is_none())
    }

    fn open(&mut self, number: u64) -> u32 {
        let record = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record { number: 0, members: 0, listed: Vec::new(), state: T::default() });
            self.records.len() as u32 - 1
        });
        let place = &mut self.records[record as usize];
        (place.number, place.state) = (number, T::default());
        self.by_number.insert(number, record);
        record
    }

    /// Ends the membership of a slot that is not listed; tells whether its record is free now.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let record = self.record_of(slot);
        let place = &mut self.records[record as usize];
        place.members -= 1;
        if place.members > 0 {
            return false;
        }
        debug_assert!(place.listed.is_empty(), "block {} is left, but slots are listed", place.number);
        place.listed = Vec::new();
        self.by_number.remove(&place.number);
        self.free.push(record);
        true
    }

    /// Where a slot stands among the listed ones of its block, or would stand.
    pub(super) fn place(&self, slot: u32) -> Result<usize, usize> {
        let key = |slot: u32| (self.offset(slot), slot);
        self.record(self.record_of(slot)).listed.binary_search_by_key(&key(slot), |listed| key(*listed))
    }

    /// Lists a member.
    pub(super) fn list(&mut self, slot: u32) {
        let place = self.place(slot).expect_err("a slot is listed once");
        self.records[self.homes[slot as usize].record as usize].listed.insert(place, slot);
    }

    /// Lists a member no longer.
    pub(super) fn unlist(&mut self, slot: u32) {
        let place = self.place(slot).expect("the slot is listed");
        self.records[self.homes[slot as usize].record as usize].listed.remove(place);
    }

    /// The listed slot after `slot`, which is listed, in the same block.
    pub(super) fn next_listed(&self, slot: u32) -> Option<u32> {
        let place = self.place(slot).expect("the slot is listed");
        self.record(self.record_of(slot)).listed.get(place + 1).copied()
    }

    /// The records in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.records.len() as u32).filter(|record| self.record(*record).members > 0)
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        for (index, record) in self.records.iter().enumerate() {
            let is_own = |slot: &u32| self.record_of(*slot) as usize == index;
            let ascends = record.listed.windows(2).all(|pair| self.offset(pair[0]) <= self.offset(pair[1]));
            if !ascends || !record.listed.iter().all(is_own) || record.listed.len() > record.members as usize {
                return Err(format!("block {} lists {:?} of {} members", record.number, record.listed, record.members));
            }
            let known = self.by_number.get(&record.number).is_some_and(|known| *known as usize == index);
            if known != (record.members > 0) {
                return Err(format!("block {} has {} members; known: {known}", record.number, record.members));
            }
        }
        Ok(())
    }
}
