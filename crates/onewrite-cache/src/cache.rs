//! Page cache: pages by key, with the state that a file system must know before a page may leave.
//!
//! ```text
//!            write                 begin_write              end_write
//!   clean ─────────► dirty ──────────────────► writing ─────────────► clean
//!                      ▲───────── write ──────────┘ (dirty and writing: the write goes on with the old content)
//!   pinned by a transaction: joins ──► committed; leaves memory only then
//!
//!              named by the policy                          clean and idle: gone at once
//!   shown ──────────────────────────┬─► pinned: hidden ──── unpinned ────► shown
//!     ▲                             └─► dirty or writing: leaving ── written ──► gone
//!     └──────────────── used again ──────────────────────────┘
//! ```
//!
//! # Invariants
//! 1. The policy sees every page, in any state, and keeps its history, until it names the page as victim. Then the
//!    cache follows the policy: a clean page leaves at once; a dirty page leaves after its write. A page that a
//!    transaction keeps is hidden from the policy until the transaction ends. A use of a leaving page brings it back.
//! 2. So evictions reach the device in the order in which the policy names its victims. A written victim leaves without
//!    a second question to the policy.
//! 3. `dirty` holds the keys of the dirty pages in order, so that the pages of one file are together.
//! 4. The cache exceeds its capacity in two cases only: no page in it can leave, or the extra pages leave when their
//!    write ends.

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
    /// The page's place for the policy: pages of one file lie together. Two pages get the same number only if a file
    /// has more than 2³² pages; the policy then takes them for neighbours.
    fn number(self) -> PageNo {
        PageNo((self.file << 32).wrapping_add(self.index))
    }
}

/// What the policy knows of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The policy may choose it.
    Shown,
    /// The policy chose it while a transaction kept it.
    Hidden,
    /// The policy chose it; it leaves after its write.
    Leaving,
}

struct Entry {
    key: PageKey,
    page: Page,
    is_dirty: bool,
    is_writing: bool,
    standing: Standing,
    /// Nobody has read or changed it since it came in.
    is_fresh: bool,
    /// The transactions, at most two, that keep it; 0 for an empty place.
    pins: [u64; 2],
    /// Calls of [`PageCache::keep`] that keep it.
    keepers: u32,
}

impl Entry {
    fn is_pinned(&self) -> bool {
        self.pins != [0; 2] || self.keepers > 0
    }

    fn is_busy(&self) -> bool {
        self.is_dirty || self.is_writing || self.is_pinned()
    }

    /// Whether it leaves when the write under way ends.
    fn is_departing(&self) -> bool {
        self.standing == Standing::Leaving && self.is_writing && !self.is_dirty
    }
}

/// What the caller must do before there is room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room.
    Made,
    /// Write these dirty pages first, in this order; each leaves when its write ends.
    Write(Vec<PageKey>),
    /// No page can leave now.
    Stuck,
}

/// Most dirty victims written together, unless they belong to one flash block.
const VICTIMS_MAX: usize = 64;
/// Divisor of the capacity: the victims written together are at most this share of the cache.
const VICTIM_SHARE: usize = 64;

/// For each page of a file, so many places are looked at before all of the cache is.
const WALKED_FOR_EACH: usize = 4;

/// See the module's head.
pub struct PageCache {
    capacity: usize,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    slots: FxHashMap<PageKey, Slot>,
    /// Pages of each file that has some.
    pages_of: FxHashMap<u64, usize>,
    dirty: BTreeSet<PageKey>,
    /// Pages that leave when the write under way ends.
    departing: usize,
    /// The slot that was filled last.
    newest: Option<Slot>,
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
            pages_of: FxHashMap::default(),
            dirty: BTreeSet::new(),
            departing: 0,
            newest: None,
            policy,
        }
    }

    /// Most pages that it holds, except as invariant 4 allows.
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

    fn entry(&self, slot: Slot) -> &Entry {
        self.entries[slot.index()].as_ref().expect("a slot in the map is in use")
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.entries[slot.index()].as_mut().expect("a slot in the map is in use")
    }

    /// Changes the state of a page and updates the count of departing pages.
    fn update<R>(&mut self, slot: Slot, change: impl FnOnce(&mut Entry) -> R) -> R {
        let entry = self.entries[slot.index()].as_mut().expect("a slot in the map is in use");
        let was_departing = entry.is_departing();
        let result = change(entry);
        self.departing = self.departing + usize::from(entry.is_departing()) - usize::from(was_departing);
        result
    }

    /// Tells the policy of an access; a leaving page stays. The insertion and the first use are one access, even if
    /// time passes between them: for the policy, a page read ahead comes in when it is first used.
    fn touch(&mut self, slot: Slot) {
        let entry = self.entry_mut(slot);
        let is_fresh = std::mem::replace(&mut entry.is_fresh, false);
        let (standing, number) = (entry.standing, entry.key.number());
        match standing {
            Standing::Shown if is_fresh && self.newest == Some(slot) => (),
            Standing::Shown if is_fresh => {
                self.policy.remove(slot, number);
                self.show(slot);
            }
            Standing::Shown => self.policy.access(slot),
            Standing::Leaving => self.show(slot),
            Standing::Hidden => (),
        }
    }

    /// The page of `key`, if it is here; counts as an access.
    pub fn page(&mut self, key: PageKey) -> Option<&Page> {
        let slot = *self.slots.get(&key)?;
        self.touch(slot);
        Some(&self.entry(slot).page)
    }

    /// The page of `key`, if it is here; does not count as an access.
    pub fn peek(&self, key: PageKey) -> Option<&Page> {
        self.slots.get(&key).map(|slot| &self.entry(*slot).page)
    }

    /// The page of `key` to change, if it is here. For a caller that has just used it: does not count as another
    /// access. The caller marks it dirty or pins it.
    pub fn peek_mut(&mut self, key: PageKey) -> Option<&mut Page> {
        let slot = *self.slots.get(&key)?;
        debug_assert!(self.entry(slot).standing != Standing::Leaving, "{key:?} was not just used");
        Some(&mut self.entry_mut(slot).page)
    }

    /// The page of `key` to change, if it is here; counts as an access. The caller marks it dirty or pins it.
    pub fn page_mut(&mut self, key: PageKey) -> Option<&mut Page> {
        let slot = *self.slots.get(&key)?;
        self.touch(slot);
        Some(&mut self.entry_mut(slot).page)
    }

    /// Puts a clean page in, or replaces the content of the one that is there.
    pub fn insert(&mut self, key: PageKey, page: Page) {
        if let Some(present) = self.page_mut(key) {
            *present = page;
            return;
        }
        let standing = Standing::Shown;
        let entry =
            Entry { key, page, is_dirty: false, is_writing: false, standing, is_fresh: true, pins: [0; 2], keepers: 0 };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.index()] = Some(entry);
        self.slots.insert(key, slot);
        *self.pages_of.entry(key.file).or_default() += 1;
        self.newest = Some(slot);
        self.policy.insert(slot, key.number());
    }

    /// Drops a page in any state. A write of it that is under way continues.
    pub fn remove(&mut self, key: PageKey) -> Option<Page> {
        let slot = self.slots.remove(&key)?;
        let left = self.pages_of.get_mut(&key.file).expect("counted when it came in");
        *left -= 1;
        if *left == 0 {
            self.pages_of.remove(&key.file);
        }
        let entry = self.entries[slot.index()].take().expect("a slot in the map is in use");
        if entry.standing == Standing::Shown {
            self.policy.remove(slot, key.number());
        }
        self.departing -= usize::from(entry.is_departing());
        self.dirty.remove(&key);
        self.free.push(slot);
        Some(entry.page)
    }

    /// Drops the pages of `file` from page `start` to before page `end`.
    pub fn remove_file(&mut self, file: u64, start: u64, end: u64) {
        if end.saturating_sub(start) <= self.slots.len() as u64 {
            (start..end).for_each(|index| drop(self.remove(PageKey { file, index })));
            return;
        }
        let all = self.pages_of.get(&file).copied().unwrap_or(0);
        let mut keys = Vec::new();
        // Mostly the pages of a file lie beside each other.
        for index in (start..end).take(all * WALKED_FOR_EACH) {
            if keys.len() == all {
                break;
            }
            let key = PageKey { file, index };
            keys.extend(self.slots.get(&key).map(|slot| (*slot, key)));
        }
        if keys.len() < all {
            let within = |entry: &Entry| entry.key.file == file && (start..end).contains(&entry.key.index);
            let places = (0..).map(Slot).zip(&self.entries);
            let found = places.filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)));
            keys = found.filter(|(_, entry)| within(entry)).map(|(slot, entry)| (slot, entry.key)).collect();
        }
        keys.sort_unstable_by_key(|(slot, _)| *slot);
        keys.into_iter().for_each(|(_, key)| drop(self.remove(key)));
    }

    /// Drops the pages of `file` that are clean and free to leave.
    pub fn drop_clean(&mut self, file: u64) {
        self.drop_free(|key| key.file == file);
    }

    /// Drops every page that is clean and free to leave.
    pub fn drop_all_clean(&mut self) {
        self.drop_free(|_| true);
    }

    fn drop_free(&mut self, is_meant: impl Fn(PageKey) -> bool) {
        let free = |entry: &&Entry| is_meant(entry.key) && !entry.is_busy();
        let keys: Vec<PageKey> = self.entries.iter().flatten().filter(free).map(|entry| entry.key).collect();
        keys.into_iter().for_each(|key| drop(self.remove(key)));
    }

    /// Takes victims from the policy until one more page fits, and drops the clean ones. Returns the dirty ones to
    /// write. Consecutive dirty victims come together, so that the device has several requests at once. A policy that
    /// evicts whole flash blocks also names the rest of the block.
    pub fn make_room(&mut self) -> Room {
        let together_max = (self.capacity / VICTIM_SHARE).clamp(1, VICTIMS_MAX);
        let mut victims = Vec::new();
        loop {
            let is_full = self.slots.len() - self.departing >= self.capacity;
            let is_enough = if victims.is_empty() { !is_full } else { victims.len() >= together_max };
            if is_enough && !self.policy.wants_more() {
                return if victims.is_empty() { Room::Made } else { Room::Write(victims) };
            }
            let Some(slot) = self.policy.victim(None) else {
                return if victims.is_empty() { Room::Stuck } else { Room::Write(victims) };
            };
            let ends_batch = self.take_victim(slot, &mut victims);
            if ends_batch && !victims.is_empty() && !self.policy.wants_more() {
                return Room::Write(victims);
            }
        }
    }

    /// Carries out the policy's choice. Returns true if the page was clean and idle and left at once.
    fn take_victim(&mut self, slot: Slot, victims: &mut Vec<PageKey>) -> bool {
        let entry = self.entry(slot);
        let (key, is_dirty, is_pinned) = (entry.key, entry.is_dirty, entry.is_pinned());
        if !entry.is_busy() {
            self.remove(key);
            return true;
        }
        self.policy.remove(slot, key.number());
        let standing = if is_pinned { Standing::Hidden } else { Standing::Leaving };
        self.update(slot, |entry| entry.standing = standing);
        if is_dirty && !is_pinned {
            victims.push(key);
        }
        false
    }

    /// Whether the page of `key` is a victim that must still be written.
    pub fn is_leaving(&self, key: PageKey) -> bool {
        self.slots.get(&key).is_some_and(|slot| self.entry(*slot).standing == Standing::Leaving)
    }

    /// The first file from `file` on that has dirty pages.
    pub fn next_dirty_file(&self, file: u64) -> Option<u64> {
        self.dirty.range(PageKey { file, index: 0 }..).next().map(|key| key.file)
    }

    /// Notes that a page was changed and needs a write later.
    ///
    /// # Panics
    /// If it is not here.
    pub fn mark_dirty(&mut self, key: PageKey) {
        let slot = self.slots[&key];
        let was_dirty = self.update(slot, |entry| {
            entry.is_fresh = false;
            std::mem::replace(&mut entry.is_dirty, true)
        });
        if was_dirty {
            return;
        }
        self.dirty.insert(key);
        if self.entry(slot).standing == Standing::Shown {
            self.policy.dirtied(slot);
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

    /// Starts a write of a dirty page and returns its content. The page is clean from now on, until it is changed
    /// again.
    ///
    /// # Panics
    /// If it is not dirty, or a write of it is under way already.
    pub fn begin_write(&mut self, key: PageKey) -> Page {
        let slot = self.slots[&key];
        assert!(self.dirty.remove(&key), "{key:?} is not dirty");
        if self.entry(slot).standing == Standing::Shown {
            self.policy.cleaned(slot);
        }
        self.update(slot, |entry| {
            assert!(!entry.is_writing, "{key:?} is being written already");
            (entry.is_dirty, entry.is_writing) = (false, true);
            entry.page.clone()
        })
    }

    /// Ends a write; a victim leaves now. No-op if the page is gone.
    pub fn end_write(&mut self, key: PageKey) {
        let Some(&slot) = self.slots.get(&key) else { return };
        let leaves = self.entry(slot).is_departing();
        self.update(slot, |entry| entry.is_writing = false);
        if leaves {
            self.remove(key);
        }
    }

    /// Keeps a page until `transaction` is committed.
    ///
    /// # Panics
    /// If it is not here, or two other transactions keep it.
    pub fn pin(&mut self, key: PageKey, transaction: u64) {
        let slot = self.slots[&key];
        if self.entry(slot).pins.contains(&transaction) {
            return;
        }
        self.hold_back(slot, |entry| {
            let free = entry.pins.iter_mut().find(|pin| **pin == 0).expect("one transaction runs and one commits");
            *free = transaction;
        });
    }

    /// Ends what [`PageCache::pin`] began. No-op if the page is gone.
    pub fn unpin(&mut self, key: PageKey, transaction: u64) {
        self.let_leave(key, |entry| {
            entry.pins.iter_mut().filter(|pin| **pin == transaction).for_each(|pin| *pin = 0);
        });
    }

    /// Keeps a page in memory until the same number of [`PageCache::let_go`] calls. Writeback treats it like any other
    /// page.
    ///
    /// # Panics
    /// If it is not here.
    pub fn keep(&mut self, key: PageKey) {
        self.hold_back(self.slots[&key], |entry| entry.keepers += 1);
    }

    /// Ends what one [`PageCache::keep`] began. No-op if the page is gone.
    pub fn let_go(&mut self, key: PageKey) {
        self.let_leave(key, |entry| entry.keepers = entry.keepers.saturating_sub(1));
    }

    fn hold_back(&mut self, slot: Slot, pin: impl FnOnce(&mut Entry)) {
        let entry = self.entry_mut(slot);
        pin(entry);
        entry.is_fresh = false;
        if entry.standing == Standing::Leaving {
            self.show(slot);
        }
    }

    fn let_leave(&mut self, key: PageKey, unpin: impl FnOnce(&mut Entry)) {
        let Some(&slot) = self.slots.get(&key) else { return };
        let entry = self.entry_mut(slot);
        let was_pinned = entry.is_pinned();
        unpin(entry);
        if !was_pinned || entry.is_pinned() {
            return;
        }
        if entry.standing == Standing::Hidden {
            self.show(slot);
        }
    }

    /// Lets the policy choose a page again.
    fn show(&mut self, slot: Slot) {
        self.update(slot, |entry| entry.standing = Standing::Shown);
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
        let departing = entries.iter().filter(|entry| entry.is_departing()).count();
        if departing != self.departing {
            return Err(format!("{departing} pages depart; counted {}", self.departing));
        }
        let misplaced = entries.iter().find(|entry| match entry.standing {
            Standing::Shown => false,
            Standing::Hidden => !entry.is_pinned(),
            Standing::Leaving => entry.is_pinned() || !entry.is_busy(),
        });
        if let Some(entry) = misplaced {
            return Err(format!("{:?} is {:?} without a reason", entry.key, entry.standing));
        }
        if (entries.len(), dirty) != (self.slots.len(), self.dirty.len()) {
            return Err(format!("{} pages, {dirty} dirty; counted otherwise", entries.len()));
        }
        let mut pages_of = FxHashMap::default();
        entries.iter().for_each(|entry| *pages_of.entry(entry.key.file).or_default() += 1);
        if pages_of != self.pages_of {
            return Err("the pages of a file are counted otherwise".into());
        }
        self.policy.check()
    }
}

#[cfg(test)]
mod tests;
