//! Table: finds the slot of a page.
//!
//! Open addressing with linear probing, at most half full, without tombstones: a removal shifts what follows back. An
//! entry is 32 bits: the slot below, and above it as many bits of the page's hash as are left, so that a probe seldom has
//! to look at another page's number. Memory is 8 bytes for each page and 4 for each entry: 16 to 24 bytes a page.
//!
//! Invariants: every page stands between its home entry and the next empty one; no page stands twice.

/// An entry without a slot. No slot has all bits of the slot mask set.
const EMPTY: u32 = u32::MAX;
/// What makes a page's hash: 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Marks a dirty page beside its number.
const DIRTY: u64 = 1 << 63;

/// See the module's head.
pub(super) struct Table {
    entries: Vec<u32>,
    /// Page number by slot, and whether it is dirty.
    pages: Vec<u64>,
    shift: u32,
    slot_mask: u32,
}

/// Where a page's search begins, and what its entry holds above the slot.
#[derive(Clone, Copy)]
struct Home {
    entry: usize,
    tag: u32,
}

impl Table {
    /// For at most `capacity` pages.
    pub(super) fn new(capacity: u32) -> Table {
        let entries = (capacity as usize * 2).next_power_of_two();
        Table {
            entries: vec![EMPTY; entries],
            pages: Vec::with_capacity(capacity as usize),
            shift: 64 - entries.trailing_zeros(),
            slot_mask: (capacity + 1).next_power_of_two() - 1,
        }
    }

    #[inline]
    fn home(&self, page: u64) -> Home {
        let hash = page.wrapping_mul(GOLDEN);
        Home { entry: (hash >> self.shift) as usize, tag: (hash >> 8) as u32 & !self.slot_mask }
    }

    #[inline]
    fn number(&self, slot: u32) -> u64 {
        self.pages[slot as usize] & !DIRTY
    }

    #[inline]
    fn after(&self, entry: usize) -> usize {
        (entry + 1) & (self.entries.len() - 1)
    }

    /// The slot of `page`, if it is here.
    #[inline]
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let Home { mut entry, tag } = self.home(page);
        loop {
            let found = self.entries[entry];
            if found == EMPTY {
                return None;
            }
            if found & !self.slot_mask == tag && self.number(found & self.slot_mask) == page {
                return Some(found & self.slot_mask);
            }
            entry = self.after(entry);
        }
    }

    /// Puts a clean page that is not here into `slot`.
    pub(super) fn insert(&mut self, page: u64, slot: u32) {
        if self.pages.len() <= slot as usize {
            self.pages.resize(slot as usize + 1, 0);
        }
        self.pages[slot as usize] = page;
        let Home { mut entry, tag } = self.home(page);
        while self.entries[entry] != EMPTY {
            entry = self.after(entry);
        }
        self.entries[entry] = tag | slot;
    }

    /// Marks a page dirty; tells whether it was clean.
    #[inline]
    pub(super) fn dirty(&mut self, slot: u32) -> bool {
        let page = &mut self.pages[slot as usize];
        let was_clean = *page & DIRTY == 0;
        *page |= DIRTY;
        was_clean
    }

    /// Takes the page of `slot` out; gives its number and whether it is dirty.
    pub(super) fn remove(&mut self, slot: u32) -> (u64, bool) {
        let page = self.number(slot);
        let Home { mut entry, tag } = self.home(page);
        while self.entries[entry] != tag | slot {
            entry = self.after(entry);
        }
        self.close(entry);
        (page, self.pages[slot as usize] & DIRTY != 0)
    }

    /// Empties an entry and moves those after it that would not be found any more.
    fn close(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut entry = hole;
        loop {
            entry = self.after(entry);
            let found = self.entries[entry];
            if found == EMPTY {
                break;
            }
            let home = self.home(self.number(found & self.slot_mask)).entry;
            if (entry.wrapping_sub(home) & mask) >= (entry.wrapping_sub(hole) & mask) {
                self.entries[hole] = found;
                hole = entry;
            }
        }
        self.entries[hole] = EMPTY;
    }

    /// Verifies the invariants and counts the pages.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self) -> Result<usize, String> {
        let mut count = 0;
        for slot in self.entries.iter().filter(|entry| **entry != EMPTY).map(|entry| entry & self.slot_mask) {
            let page = self.number(slot);
            if self.find(page) != Some(slot) {
                return Err(format!("page {page} is in slot {slot}; the table finds {:?}", self.find(page)));
            }
            count += 1;
        }
        Ok(count)
    }
}
