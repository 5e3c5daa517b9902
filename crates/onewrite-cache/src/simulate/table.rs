//! Table: finds the slot of a page.
//!
//! Open addressing with linear probing, at most half full, without tombstones: a removal shifts the following entries
//! back. An entry is 32 bits, so that few probes read anything else:
//!
//! ```text
//!   tag: the bits that are left, of the page's hash │ distance from the home entry: 4 bits │ slot
//! ```
//!
//! A distance of 15 stands for 15 and more. The table takes 8 bytes for each page and 4 for each entry: 16 to 24 bytes
//! a page.
//!
//! Invariants: every page is between its home entry and the next empty one; its distance gives the entries from home;
//! no page is in the table twice.

/// An entry without a slot. No slot has all bits of the slot mask set.
const EMPTY: u32 = u32::MAX;
/// Multiplier of the hash: 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Marks a dirty page beside its number.
const DIRTY: u64 = 1 << 63;
/// Bits of a distance.
const DISTANCE_BITS: u32 = 4;
/// The largest distance in an entry; it also stands for greater ones.
const DISTANCE_MAX: u32 = (1 << DISTANCE_BITS) - 1;
/// Most slots: the distance must fit above them.
pub(crate) const CAPACITY_MAX: u32 = 1 << 27;

/// See the module's head.
pub(super) struct Table {
    entries: Vec<u32>,
    /// Page number by slot, and whether it is dirty.
    pages: Vec<u64>,
    hash_shift: u32,
    slot_bits: u32,
}

/// Where a page's search begins, and the bits of its entry above the distance.
#[derive(Clone, Copy)]
struct Home {
    entry: usize,
    tag: u32,
}

impl Table {
    /// An empty table for at most `capacity` pages.
    pub(super) fn new(capacity: u32) -> Table {
        assert!(capacity <= CAPACITY_MAX, "a cache of {capacity} pages; at most {CAPACITY_MAX}");
        let entries = (capacity as usize * 2).next_power_of_two();
        Table {
            entries: vec![EMPTY; entries],
            pages: Vec::with_capacity(capacity as usize),
            hash_shift: 64 - entries.trailing_zeros(),
            slot_bits: (capacity + 1).next_power_of_two().trailing_zeros(),
        }
    }

    #[inline]
    fn home(&self, page: u64) -> Home {
        let hash = page.wrapping_mul(GOLDEN);
        let tag_shift = self.slot_bits + DISTANCE_BITS;
        Home { entry: (hash >> self.hash_shift) as usize, tag: ((hash >> 8) as u32 >> tag_shift) << tag_shift }
    }

    #[inline]
    fn slot(&self, entry: u32) -> u32 {
        entry & ((1 << self.slot_bits) - 1)
    }

    /// The entry of a page at `distance` from home, without its slot.
    #[inline]
    fn above_slot(&self, tag: u32, distance: u32) -> u32 {
        tag | (distance.min(DISTANCE_MAX) << self.slot_bits)
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
        let (mut wanted, last) = (tag, self.above_slot(tag, DISTANCE_MAX));
        loop {
            let found = self.entries[entry];
            if found == EMPTY {
                return None;
            }
            let slot = self.slot(found);
            if found ^ slot == wanted && self.number(slot) == page {
                return Some(slot);
            }
            entry = self.after(entry);
            wanted = (wanted + (1 << self.slot_bits)).min(last);
        }
    }

    /// Puts a clean page that is not here into `slot`.
    pub(super) fn insert(&mut self, page: u64, slot: u32) {
        if self.pages.len() <= slot as usize {
            self.pages.resize(slot as usize + 1, 0);
        }
        self.pages[slot as usize] = page;
        let Home { mut entry, tag } = self.home(page);
        let mut distance = 0;
        while self.entries[entry] != EMPTY {
            (entry, distance) = (self.after(entry), distance + 1);
        }
        self.entries[entry] = self.above_slot(tag, distance) | slot;
    }

    /// Marks a page dirty. Returns whether it was clean.
    #[inline]
    pub(super) fn dirty(&mut self, slot: u32) -> bool {
        let page = &mut self.pages[slot as usize];
        let was_clean = *page & DIRTY == 0;
        *page |= DIRTY;
        was_clean
    }

    /// Removes the page of `slot`. Returns its number and whether it was dirty.
    pub(super) fn remove(&mut self, slot: u32) -> (u64, bool) {
        let page = self.number(slot);
        let mut entry = self.home(page).entry;
        while self.entries[entry] == EMPTY || self.slot(self.entries[entry]) != slot {
            entry = self.after(entry);
        }
        self.close(entry);
        (page, self.pages[slot as usize] & DIRTY != 0)
    }

    /// Prefetches the entry that the removal of `slot` will read. Without this, each removal of scattered victims would
    /// wait for memory twice.
    #[inline]
    pub(super) fn fetch(&self, slot: u32) {
        std::hint::black_box(self.entries[self.home(self.number(slot)).entry]);
    }

    /// Empties an entry and moves the following entries that a search would miss otherwise.
    fn close(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut entry = hole;
        loop {
            entry = self.after(entry);
            let found = self.entries[entry];
            if found == EMPTY {
                break;
            }
            let (from_home, from_hole) = (self.distance(entry, found), entry.wrapping_sub(hole) & mask);
            if from_home >= from_hole {
                let said = (found >> self.slot_bits) & DISTANCE_MAX;
                let now = ((from_home - from_hole) as u32).min(DISTANCE_MAX);
                self.entries[hole] = found ^ ((said ^ now) << self.slot_bits);
                hole = entry;
            }
        }
        self.entries[hole] = EMPTY;
    }

    /// Distance of a page from its home, in entries.
    fn distance(&self, entry: usize, found: u32) -> usize {
        let said = (found >> self.slot_bits) & DISTANCE_MAX;
        if said < DISTANCE_MAX {
            return said as usize;
        }
        let home = self.home(self.number(self.slot(found))).entry;
        entry.wrapping_sub(home) & (self.entries.len() - 1)
    }

    /// Verifies the invariants and counts the pages.
    ///
    /// # Errors
    /// The first that does not hold.
    pub(super) fn check(&self) -> Result<usize, String> {
        let mut count = 0;
        for slot in self.entries.iter().filter(|entry| **entry != EMPTY).map(|entry| self.slot(*entry)) {
            let page = self.number(slot);
            if self.find(page) != Some(slot) {
                return Err(format!("page {page} is in slot {slot}; the table finds {:?}", self.find(page)));
            }
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onewrite_block::Choices;

    use super::*;

    /// Pages with few different homes, so that distances exceed [`DISTANCE_MAX`].
    #[test]
    fn it_equals_a_map_even_where_pages_crowd() {
        for capacity in [1, 2, 3, 40, 127, 128] {
            let mut choices = Choices::new(u64::from(capacity));
            let (mut table, mut model) = (Table::new(capacity), BTreeMap::<u64, (u32, bool)>::new());
            let mut free: Vec<u32> = (0..capacity).collect();
            let inverse = GOLDEN.wrapping_mul(2_u64.wrapping_sub(GOLDEN.wrapping_mul(GOLDEN)));
            // Newton's iteration for the inverse of an odd number. With it the test makes a page for a wanted hash.
            let inverse = (0..6).fold(inverse, |x, _| x.wrapping_mul(2_u64.wrapping_sub(GOLDEN.wrapping_mul(x))));
            for _ in 0..20_000 {
                let hash = (choices.below(3) << 62) | choices.below(200) << 40;
                let page = hash.wrapping_mul(inverse) & !DIRTY;
                assert_eq!(table.find(page), model.get(&page).map(|(slot, _)| *slot));
                match model.get_mut(&page) {
                    Some((slot, is_dirty)) if choices.chance(1, 2) => {
                        assert_eq!(table.dirty(*slot), !std::mem::replace(is_dirty, true));
                    }
                    Some((slot, is_dirty)) => {
                        assert_eq!(table.remove(*slot), (page, *is_dirty));
                        free.push(*slot);
                        model.remove(&page);
                    }
                    None => {
                        let Some(slot) = free.pop() else { continue };
                        table.insert(page, slot);
                        model.insert(page, (slot, false));
                    }
                }
                assert_eq!(table.check(), Ok(model.len()));
            }
        }
    }
}
