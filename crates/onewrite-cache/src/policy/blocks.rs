//! Blocks: pages by the flash block they live in, for the policies that see blocks.
//!
//! A block has a record while at least one of its pages is a member. Some or all of its members are *listed*, in the
//! order of their sectors: the dirty ones, or all, as the policy needs. The policy keeps each slot's [`Home`], beside what
//! else it keeps of the slot.
//!
//! Invariants: a record's list holds members of it, each under its offset, ascending; a record without members is free.

use rustc_hash::FxHashMap;

use super::{PageNo, Slot};

/// Most pages of a flash block: an offset has to fit beside what else is kept of a slot.
pub(super) const BLOCK_PAGES_MAX: u32 = 1 << 24;

/// Where a slot's page lives: the record of its block and its place there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) record: u32,
    pub(super) offset: u32,
}

/// A listed slot, ordered by its offset: offset above, slot below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed(u64);

impl Listed {
    fn new(offset: u32, slot: u32) -> Listed {
        Listed((u64::from(offset) << 32) | u64::from(slot))
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// A block that has pages in the cache.
#[derive(Clone, Debug)]
pub(super) struct Record {
    number: u64,
    members: u32,
    listed: Vec<Listed>,
}

impl Record {
    /// The listed slot at a place, if there are so many.
    pub(super) fn listed_at(&self, place: usize) -> Option<u32> {
        self.listed.get(place).map(|listed| listed.slot())
    }

    /// How many slots are listed.
    pub(super) fn listed_count(&self) -> usize {
        self.listed.len()
    }
}

/// All blocks that have pages in the cache.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T> {
    block_pages: u32,
    by_number: FxHashMap<u64, u32>,
    records: Vec<Record>,
    /// What the policy keeps of each block; apart from the records, since hits look at nothing else of a block.
    states: Vec<T>,
    free: Vec<u32>,
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
            states: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Pages in a block.
    pub(super) fn block_pages(&self) -> u32 {
        self.block_pages
    }

    /// A record.
    pub(super) fn record(&self, record: u32) -> &Record {
        &self.records[record as usize]
    }

    /// What the policy keeps of a block: the default when its first page joins.
    pub(super) fn state(&self, record: u32) -> &T {
        &self.states[record as usize]
    }

    /// The same, to change.
    #[inline]
    pub(super) fn state_mut(&mut self, record: u32) -> &mut T {
        &mut self.states[record as usize]
    }

    /// Makes a page a member of its block; tells whether it is the first.
    pub(super) fn join(&mut self, page: PageNo) -> (Home, bool) {
        let (number, offset) = self.split(page);
        let known = self.by_number.get(&number).copied();
        let record = known.unwrap_or_else(|| self.open(number));
        self.records[record as usize].members += 1;
        (Home { record, offset }, known.is_none())
    }

    /// The page's block and its offset there. Powers of two, the usual case, need no division.
    fn split(&self, page: PageNo) -> (u64, u32) {
        let block_pages = u64::from(self.block_pages);
        if block_pages.is_power_of_two() {
            return (page.0 >> block_pages.trailing_zeros(), (page.0 & (block_pages - 1)) as u32);
        }
        (page.0 / block_pages, (page.0 % block_pages) as u32)
    }

    fn open(&mut self, number: u64) -> u32 {
        let record = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record { number: 0, members: 0, listed: Vec::new() });
            self.states.push(T::default());
            self.records.len() as u32 - 1
        });
        self.records[record as usize].number = number;
        self.states[record as usize] = T::default();
        self.by_number.insert(number, record);
        record
    }

    /// Ends the membership of a page that is not listed; tells whether its record is free now.
    pub(super) fn leave(&mut self, record: u32) -> bool {
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

    /// Where a listed slot stands in its block; `hint` is where it probably does.
    ///
    /// # Panics
    /// If it is not listed.
    pub(super) fn place_near(&self, slot: u32, home: Home, hint: usize) -> usize {
        match self.record(home.record).listed_at(hint) == Some(slot) {
            true => hint,
            false => self.place(slot, home).expect("the slot is listed"),
        }
    }

    /// Where a slot stands among the listed ones of its block, or would stand.
    pub(super) fn place(&self, slot: u32, home: Home) -> Result<usize, usize> {
        self.record(home.record).listed.binary_search(&Listed::new(home.offset, slot))
    }

    /// Lists a member. Lists grow by a quarter, and shrink when half empty: there is one for each block.
    pub(super) fn list(&mut self, slot: u32, home: Home) {
        let place = self.place(slot, home).expect_err("a slot is listed once");
        let listed = &mut self.records[home.record as usize].listed;
        if listed.len() == listed.capacity() {
            listed.reserve_exact(listed.len() / 4 + 4);
        }
        listed.insert(place, Listed::new(home.offset, slot));
    }

    /// Lists a member no longer, which probably stands at `hint`; gives the one that was listed after it.
    pub(super) fn unlist(&mut self, slot: u32, home: Home, hint: usize) -> Option<u32> {
        let place = self.place_near(slot, home, hint);
        let listed = &mut self.records[home.record as usize].listed;
        listed.remove(place);
        if listed.capacity() > 2 * listed.len() + 8 {
            listed.shrink_to(listed.len() + listed.len() / 4 + 4);
        }
        listed.get(place).map(|next| next.slot())
    }

    /// The records in use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.records.len() as u32).filter(|record| self.record(*record).members > 0)
    }

    /// Verifies the invariants, `home` being what the policy keeps of a slot.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self, home: impl Fn(u32) -> Home) -> Result<(), String> {
        for (index, record) in self.records.iter().enumerate() {
            let is_own = |listed: &Listed| {
                let Home { record, offset } = home(listed.slot());
                record as usize == index && *listed == Listed::new(offset, listed.slot())
            };
            let is_sound = record.listed.is_sorted() && record.listed.iter().all(is_own);
            if !is_sound || record.listed.len() > record.members as usize {
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

/// The homes of slots, for policies that keep nothing else beside them.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes(Vec<Home>);

impl Homes {
    /// The home of a slot that is in.
    pub(super) fn of(&self, slot: Slot) -> Home {
        self.0[slot.index()]
    }

    /// Notes the home of a slot.
    pub(super) fn set(&mut self, slot: Slot, home: Home) {
        if self.0.len() <= slot.index() {
            self.0.resize(slot.index() + 1, Home::default());
        }
        self.0[slot.index()] = home;
    }
}
