//! Page cache: pages by key, with what a file system has to know of each before it may leave.
//!
//! ```text
//!            write                 begin_write              end_write
//!   clean ─────────► dirty ──────────────────► writing ─────────────► clean
//!                      ▲───────── write ──────────┘ (dirty and writing: the write goes on with the old content)
//!   pinned by a transaction: joins ──► committed; leaves memory only then
//! ```
//!
//! # Invariants
//! 1. A page that is clean, not pinned and not being written is the policy's to choose; so is a dirty one, which the
//!    file system writes out first. Pinned pages and pages under way are not shown to the policy.
//! 2. `dirty` holds the keys of the dirty pages, in order, so that one file's are found together.
//! 3. The cache may hold more than its capacity only while nothing in it can leave.

use std::collections::BTreeSet;

use onewrite_block::Page;
use rustc_hash::FxHashMap;

use crate::policy::{PageNo, Policy, Slot};

/// Names a page: a file (opaque; 0 for the file system's own blocks) and the page's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey {
    /// The file.
    pub file: u64,
    /// The page.
    pub index: u64,
}

impl PageKey {
    /// What the policy takes for the page's place: pages of one file lie together. Two pages of one number, which takes
    /// files of more than 2³² pages, would only be taken for neighbours.
    fn number(self) -> PageNo {
        PageNo((self.file << 32).wrapping_add(self.index))
    }
}

struct Entry {
    key: PageKey,
    page: Page,
    is_dirty: bool,
    is_writing: bool,
    /// The transactions, at most two, that keep it; 0 for none.
    pins: [u64; 2],
}

impl Entry {
    fn is_pinned(&self) -> bool {
        self.pins != [0; 2]
    }

    fn may_leave(&self) -> bool {
        !self.is_pinned() && !self.is_writing
    }
}

/// What has to happen before there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// There is room.
    None,
    /// This dirty page has to be written out first.
    Dirty(PageKey),
    /// Everything is pinned or being written.
    Stuck,
}

/// See the module's head.
pub struct PageCache {
    capacity: usize,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    slots: FxHashMap<PageKey, Slot>,
    dirty: BTreeSet<PageKey>,
    pinned: usize,
    policy: Box<dyn Policy>,
}

impl PageCache {
    /// A cache of `capacity` pages.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub fn new(capacity: usize, policy: Box<dyn Policy>) -> PageCache {
        assert!(capacity > 0, "a page cache holds at least a page");
        PageCache {
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            slots: FxHashMap::default(),
            dirty: BTreeSet::new(),
            pinned: 0,
            policy,
        }
    }

    /// Pages that it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages that it holds.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Dirty pages.
    pub fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Pages that transactions keep.
    pub fn pinned_count(&self) -> usize {
        self.pinned
    }

    fn entry(&self, slot: Slot) -> &Entry {
        self.entries[slot.index()].as_ref().expect("a slot in the map is in use")
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.entries[slot.index()].as_mut().expect("a slot in the map is in use")
    }

    /// The page of `key`, if it is here; counts as an access.
    pub fn page(&mut self, key: PageKey) -> Option<&Page> {
        let slot = *self.slots.get(&key)?;
        let entry = self.entries[slot.index()].as_ref().expect("a slot in the map is in use");
        if entry.may_leave() {
            self.policy.access(slot);
        }
        Some(&entry.page)
    }

    /// The page of `key`, if it is here; does not count as an access.
    pub fn peek(&self, key: PageKey) -> Option<&Page> {
        self.slots.get(&key).map(|slot| &self.entry(*slot).page)
    }

    /// The page of `key` to change, if it is here; counts as an access. The caller marks it dirty or pins it.
    pub fn page_mut(&mut self, key: PageKey) -> Option<&mut Page> {
        let slot = *self.slots.get(&key)?;
        if self.entry(slot).may_leave() {
            self.policy.access(slot);
        }
        Some(&mut self.entry_mut(slot).page)
    }

    /// Puts a clean page in, or replaces the content of the one that is there.
    pub fn insert(&mut self, key: PageKey, page: Page) {
        if let Some(present) = self.page_mut(key) {
            *present = page;
            return;
        }
        let entry = Entry { key, page, is_dirty: false, is_writing: false, pins: [0; 2] };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.index()] = Some(entry);
        self.slots.insert(key, slot);
        self.policy.insert(slot, key.number());
    }

    /// Drops a page, whatever its state. A write of it that is under way goes on.
    pub fn remove(&mut self, key: PageKey) -> Option<Page> {
        let slot = self.slots.remove(&key)?;
        let entry = self.entries[slot.index()].take().expect("a slot in the map is in use");
        if entry.may_leave() {
            self.policy.remove(slot);
        }
        self.pinned -= usize::from(entry.is_pinned());
        self.dirty.remove(&key);
        self.free.push(slot);
        Some(entry.page)
    }

    /// Drops the pages of `file` from page `start` on.
    pub fn remove_file(&mut self, file: u64, start: u64, end: u64) {
        if end.saturating_sub(start) <= self.slots.len() as u64 {
            (start..end).for_each(|index| drop(self.remove(PageKey { file, index })));
            return;
        }
        let keys: Vec<PageKey> = self
            .entries
            .iter()
            .flatten()
            .map(|entry| entry.key)
            .filter(|key| key.file == file && (start..end).contains(&key.index))
            .collect();
        keys.into_iter().for_each(|key| drop(self.remove(key)));
    }

    /// Drops the pages of `file` that are clean and free to leave.
    pub fn drop_clean(&mut self, file: u64) {
        let free = |entry: &&Entry| entry.key.file == file && !entry.is_dirty && entry.may_leave();
        let keys: Vec<PageKey> = self.entries.iter().flatten().filter(free).map(|entry| entry.key).collect();
        keys.into_iter().for_each(|key| drop(self.remove(key)));
    }

    /// Says what has to be done before one more page fits; drops clean pages to make it so. A policy that evicts whole
    /// flash blocks has the rest of the block leave, too.
    pub fn make_room(&mut self) -> Victim {
        while self.slots.len() >= self.capacity || self.policy.wants_more() {
            let Some(slot) = self.policy.victim(None) else { return Victim::Stuck };
            let (key, is_dirty) = (self.entry(slot).key, self.entry(slot).is_dirty);
            if is_dirty {
                return Victim::Dirty(key);
            }
            self.remove(key);
        }
        Victim::None
    }

    /// Notes that a page was changed and has to be written some day.
    ///
    /// # Panics
    /// If it is not here.
    pub fn mark_dirty(&mut self, key: PageKey) {
        let slot = self.slots[&key];
        let entry = self.entry_mut(slot);
        let may_leave = entry.may_leave();
        if !std::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.insert(key);
            if may_leave {
                self.policy.dirtied(slot);
            }
        }
    }

    /// Whether the page of `key` is dirty.
    pub fn is_dirty(&self, key: PageKey) -> bool {
        self.slots.get(&key).is_some_and(|slot| self.entry(*slot).is_dirty)
    }

    /// Whether a write of the page of `key` is under way.
    pub fn is_writing(&self, key: PageKey) -> bool {
        self.slots.get(&key).is_some_and(|slot| self.entry(*slot).is_writing)
    }

    /// The dirty pages of `file` from page `start` on, in order.
    pub fn dirty_pages(&self, file: u64, start: u64) -> impl Iterator<Item = u64> {
        let range = PageKey { file, index: start }..=PageKey { file, index: u64::MAX };
        self.dirty.range(range).map(|key| key.index)
    }

    /// Begins to write a dirty page: it is clean from now on, unless changed again. Gives the content to write.
    ///
    /// # Panics
    /// If it is not dirty, or a write of it is under way already.
    pub fn begin_write(&mut self, key: PageKey) -> Page {
        let slot = self.slots[&key];
        assert!(self.dirty.remove(&key), "{key:?} is not dirty");
        if self.entry(slot).may_leave() {
            self.policy.remove(slot);
        }
        let entry = self.entry_mut(slot);
        assert!(!entry.is_writing, "{key:?} is being written already");
        (entry.is_dirty, entry.is_writing) = (false, true);
        entry.page.clone()
    }

    /// Ends a write. Pages that were dropped meanwhile do not mind.
    pub fn end_write(&mut self, key: PageKey) {
        let Some(&slot) = self.slots.get(&key) else { return };
        let entry = self.entry_mut(slot);
        if std::mem::replace(&mut entry.is_writing, false) && entry.may_leave() {
            self.show(slot);
        }
    }

    /// Keeps a page until `transaction` is committed.
    ///
    /// # Panics
    /// If it is not here, or two other transactions keep it.
    pub fn pin(&mut self, key: PageKey, transaction: u64) {
        let slot = self.slots[&key];
        let entry = self.entry_mut(slot);
        if entry.pins.contains(&transaction) {
            return;
        }
        let (could_leave, was_pinned) = (entry.may_leave(), entry.is_pinned());
        let place = entry.pins.iter_mut().find(|pin| **pin == 0).expect("one transaction runs and one commits");
        *place = transaction;
        self.pinned += usize::from(!was_pinned);
        if could_leave {
            self.policy.remove(slot);
        }
    }

    /// Ends what [`PageCache::pin`] began. Pages that were dropped meanwhile do not mind.
    pub fn unpin(&mut self, key: PageKey, transaction: u64) {
        let Some(&slot) = self.slots.get(&key) else { return };
        let entry = self.entry_mut(slot);
        let Some(pin) = entry.pins.iter_mut().find(|pin| **pin == transaction) else { return };
        *pin = 0;
        if entry.is_pinned() {
            return;
        }
        let may_leave = entry.may_leave();
        self.pinned -= 1;
        if may_leave {
            self.show(slot);
        }
    }

    /// Lets the policy choose a page again.
    fn show(&mut self, slot: Slot) {
        let (key, is_dirty) = (self.entry(slot).key, self.entry(slot).is_dirty);
        self.policy.insert(slot, key.number());
        if is_dirty {
            self.policy.dirtied(slot);
        }
    }

    /// Verifies the invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let entries: Vec<&Entry> = self.entries.iter().flatten().collect();
        let lost = entries.iter().find(|entry| !self.slots.contains_key(&entry.key));
        if let Some(entry) = lost {
            return Err(format!("{:?} is not in the map", entry.key));
        }
        let dirty = entries.iter().filter(|entry| entry.is_dirty).count();
        let pinned = entries.iter().filter(|entry| entry.is_pinned()).count();
        if (entries.len(), dirty, pinned) != (self.slots.len(), self.dirty.len(), self.pinned) {
            return Err(format!("{} pages, {dirty} dirty, {pinned} pinned; counted otherwise", entries.len()));
        }
        self.policy.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Lru;

    fn key(index: u64) -> PageKey {
        PageKey { file: 1, index }
    }

    fn cache(capacity: usize) -> PageCache {
        PageCache::new(capacity, Box::new(Lru::default()))
    }

    fn filled(capacity: usize) -> PageCache {
        let mut cache = cache(capacity);
        (0..capacity as u64).for_each(|index| cache.insert(key(index), Page::ZEROS));
        cache
    }

    #[test]
    fn the_oldest_clean_page_makes_room() {
        let mut cache = filled(3);
        cache.page(key(0));
        assert_eq!(cache.make_room(), Victim::None);
        assert!(cache.peek(key(1)).is_none() && cache.peek(key(0)).is_some());
    }

    #[test]
    fn a_dirty_victim_has_to_be_written_first() {
        let mut cache = filled(1);
        cache.mark_dirty(key(0));
        assert_eq!(cache.make_room(), Victim::Dirty(key(0)));
        cache.begin_write(key(0));
        assert_eq!(cache.make_room(), Victim::Stuck);
        cache.end_write(key(0));
        assert_eq!(cache.make_room(), Victim::None);
        assert!(cache.is_empty());
    }

    #[test]
    fn a_page_changed_while_it_is_written_stays_dirty() {
        let mut cache = filled(1);
        cache.mark_dirty(key(0));
        let frozen = cache.begin_write(key(0));
        cache.page_mut(key(0)).unwrap().write(0, b"x");
        cache.mark_dirty(key(0));
        cache.end_write(key(0));
        assert_eq!(frozen, Page::ZEROS);
        assert_eq!(cache.make_room(), Victim::Dirty(key(0)));
        cache.check().unwrap();
    }

    #[test]
    fn pinned_pages_stay_until_both_transactions_end() {
        let mut cache = filled(1);
        cache.pin(key(0), 7);
        cache.pin(key(0), 8);
        cache.unpin(key(0), 7);
        assert_eq!(cache.make_room(), Victim::Stuck);
        cache.unpin(key(0), 8);
        assert_eq!(cache.make_room(), Victim::None);
        cache.check().unwrap();
    }

    #[test]
    fn only_clean_pages_are_dropped_on_request() {
        let mut cache = filled(3);
        cache.mark_dirty(key(0));
        cache.pin(key(1), 7);
        cache.drop_clean(1);
        assert_eq!((cache.len(), cache.peek(key(2))), (2, None));
        cache.check().unwrap();
    }

    #[test]
    fn dropping_a_file_drops_its_pages_only() {
        let mut cache = filled(4);
        cache.insert(PageKey { file: 2, index: 3 }, Page::ZEROS);
        cache.remove_file(1, 1, u64::MAX);
        assert_eq!(cache.len(), 2);
        cache.check().unwrap();
    }
}
