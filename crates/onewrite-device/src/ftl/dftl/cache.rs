//! Cache of map entries: bounded, least recently used first out.
//!
//! A slot for each entry, in a ring by last use; a table from logical pages to slots, which a controller would keep as a
//! hash over the slots. Invariant: the table names a slot exactly if that slot is in the ring and holds that page.

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    entry: u32,
    is_dirty: bool,
    newer: u32,
    older: u32,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    length: usize,
    capacity: usize,
}

impl MapCache {
    /// Room for `capacity` entries of `logical_pages` pages.
    pub(super) fn new(logical_pages: u32, capacity: usize) -> MapCache {
        assert!(capacity > 0, "a mapping cache without an entry");
        MapCache {
            slot_of: vec![NIL; logical_pages as usize],
            slots: Vec::new(),
            free: Vec::new(),
            newest: NIL,
            oldest: NIL,
            length: 0,
            capacity,
        }
    }

    /// As new.
    pub(super) fn clear(&mut self) {
        *self = MapCache::new(self.slot_of.len() as u32, self.capacity);
    }

    /// Whether the next entry has no room.
    pub(super) fn is_full(&self) -> bool {
        self.length >= self.capacity
    }

    /// Whether it holds more than it should, as it may in recovery.
    pub(super) fn is_over(&self) -> bool {
        self.length > self.capacity
    }

    fn slot(&self, lpn: u32) -> Option<u32> {
        Some(self.slot_of[lpn as usize]).filter(|slot| *slot != NIL)
    }

    /// The entry of a page.
    #[inline]
    pub(super) fn get(&self, lpn: u32) -> Option<u32> {
        self.slot(lpn).map(|slot| self.slots[slot as usize].entry)
    }

    /// Whether the page has an entry that its translation page does not have.
    pub(super) fn is_dirty(&self, lpn: u32) -> bool {
        self.slot(lpn).is_some_and(|slot| self.slots[slot as usize].is_dirty)
    }

    /// The entry of a page, which is the newest then.
    #[inline]
    pub(super) fn touch(&mut self, lpn: u32) -> Option<u32> {
        let slot = self.slot(lpn)?;
        if slot != self.newest {
            self.unlink(slot);
            self.link(slot);
        }
        Some(self.slots[slot as usize].entry)
    }

    /// A clean entry for a page that has none.
    pub(super) fn insert(&mut self, lpn: u32, entry: u32) {
        let fresh = Slot { lpn, entry, is_dirty: false, newer: NIL, older: NIL };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(fresh);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = fresh;
        self.slot_of[lpn as usize] = slot;
        self.length += 1;
        self.link(slot);
    }

    /// Changes the entry of a page that has one; it is dirty then.
    #[inline]
    pub(super) fn set(&mut self, lpn: u32, entry: u32) {
        let slot = self.slot(lpn).expect("the entry is in the cache");
        let slot = &mut self.slots[slot as usize];
        (slot.entry, slot.is_dirty) = (entry, true);
    }

    /// Marks a dirty entry clean and gives it.
    pub(super) fn clean(&mut self, lpn: u32) -> Option<u32> {
        let slot = self.slot(lpn)?;
        let slot = &mut self.slots[slot as usize];
        std::mem::take(&mut slot.is_dirty).then_some(slot.entry)
    }

    /// The page whose entry was used least recently.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then(|| self.slots[self.oldest as usize].lpn)
    }

    /// Drops an entry.
    pub(super) fn remove(&mut self, lpn: u32) {
        let slot = self.slot(lpn).expect("the entry is in the cache");
        self.unlink(slot);
        self.slot_of[lpn as usize] = NIL;
        self.free.push(slot);
        self.length -= 1;
    }

    /// Drops an entry if there is one.
    pub(super) fn drop_entry(&mut self, lpn: u32) {
        if self.slot(lpn).is_some() {
            self.remove(lpn);
        }
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        (self.slots[slot as usize].older, self.slots[slot as usize].newer) = (before, NIL);
        match before {
            NIL => self.oldest = slot,
            _ => self.slots[before as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NIL => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    /// Verifies the ring and the table; `clean` tells what a clean entry has to be.
    pub(super) fn check(&self, clean: impl Fn(u32) -> u32) -> Result<(), String> {
        let (mut slot, mut count, mut before) = (self.newest, 0, NIL);
        while slot != NIL {
            let Slot { lpn, entry, is_dirty, newer, older } = self.slots[slot as usize];
            if self.slot_of[lpn as usize] != slot || newer != before {
                return Err(format!("the cached entry of page {lpn} is not where the table or its neighbour says"));
            }
            if !is_dirty && entry != clean(lpn) {
                return Err(format!(
                    "the clean entry of page {lpn} is {entry}, its translation page says {}",
                    clean(lpn)
                ));
            }
            count += 1;
            (before, slot) = (slot, older);
        }
        let named = self.slot_of.iter().filter(|slot| **slot != NIL).count();
        if count != self.length || named != count || self.is_over() {
            return Err(format!("{count} cached entries, {named} named, {} counted", self.length));
        }
        Ok(())
    }
}
