//! Mapping: which flash page each logical page reads from, and the way back.
//!
//! Invariants, verified by [`Mapping::check`]:
//! 1. `forward[lpn] == ppn` exactly if `lpn` is an owner of `ppn`.
//! 2. A flash page is *valid* exactly if it has an owner. Pages with several owners (SHARE) keep all of them in a side
//!    table; their number is the page's reference count.
//! 3. A change that the map log does not hold yet is in the dirty list, once.

use rustc_hash::FxHashMap;

use super::cow::{BitSet, CowTable};

/// In place of a flash page: the logical page holds nothing. In place of an owner: nobody.
pub(crate) const NONE: u32 = u32::MAX;
/// In place of a flash page: the content is lost to a medium error; reads fail until it is written again.
pub(crate) const LOST: u32 = u32::MAX - 1;
/// In place of an owner: several, see the side table.
const SEVERAL: u32 = u32::MAX - 2;

/// Whether a map entry names a flash page.
#[inline]
pub(crate) fn is_mapped(entry: u32) -> bool {
    entry < LOST
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    forward: CowTable,
    owner: CowTable,
    several: FxHashMap<u32, Vec<u32>>,
    dirty: Vec<u32>,
    is_dirty: BitSet,
    tracks_dirty: bool,
}

impl Mapping {
    /// An empty map.
    pub(crate) fn new(logical_pages: u32, flash_pages: u32) -> Mapping {
        Mapping {
            forward: CowTable::new(logical_pages as usize, NONE),
            owner: CowTable::new(flash_pages as usize, NONE),
            several: FxHashMap::default(),
            dirty: Vec::new(),
            is_dirty: BitSet::new(logical_pages as usize),
            tracks_dirty: true,
        }
    }

    /// An empty map that keeps no dirty list, for a run without a map log.
    pub(crate) fn untracked(logical_pages: u32, flash_pages: u32) -> Mapping {
        Mapping { tracks_dirty: false, ..Mapping::new(logical_pages, flash_pages) }
    }

    /// Number of logical pages.
    pub(crate) fn logical_pages(&self) -> u32 {
        self.forward.length() as u32
    }

    /// The flash page of a logical page, [`NONE`] or [`LOST`].
    #[inline]
    pub(crate) fn get(&self, lpn: u32) -> u32 {
        self.forward.get(lpn)
    }

    /// Whether somebody reads from a flash page.
    #[inline]
    pub(crate) fn is_valid(&self, ppn: u32) -> bool {
        self.owner.get(ppn) != NONE
    }

    /// The logical pages that read from a flash page, into `owners`.
    pub(crate) fn owners(&self, ppn: u32, owners: &mut Vec<u32>) {
        owners.clear();
        match self.owner.get(ppn) {
            NONE => (),
            SEVERAL => owners.extend_from_slice(&self.several[&ppn]),
            one => owners.push(one),
        }
    }

    /// How many logical pages read from a flash page.
    pub(crate) fn owner_count(&self, ppn: u32) -> usize {
        match self.owner.get(ppn) {
            NONE => 0,
            SEVERAL => self.several[&ppn].len(),
            _ => 1,
        }
    }

    /// Takes every owner off a page although they go on reading from it: what a broken rule asks for.
    pub(crate) fn disown(&mut self, ppn: u32) {
        self.several.remove(&ppn);
        self.owner.set(ppn, NONE);
    }

    /// The owner of a page that has exactly one.
    #[inline]
    pub(crate) fn only_owner(&self, ppn: u32) -> Option<u32> {
        let owner = self.owner.get(ppn);
        (owner < SEVERAL).then_some(owner)
    }

    /// Makes `lpn` read from `entry` and gives the flash page that lost its last owner by that.
    ///
    /// The change is *not* put on the dirty list: recovery repeats what the log already holds.
    #[inline]
    pub(crate) fn point(&mut self, lpn: u32, entry: u32) -> Option<u32> {
        let before = self.forward.get(lpn);
        if before == entry {
            return None;
        }
        self.forward.set(lpn, entry);
        if is_mapped(entry) {
            self.add_owner(entry, lpn);
        }
        if is_mapped(before) && self.remove_owner(before, lpn) { Some(before) } else { None }
    }

    /// [`Mapping::point`] for a change that has to reach the log.
    #[inline]
    pub(crate) fn change(&mut self, lpn: u32, entry: u32) -> Option<u32> {
        self.mark_dirty(lpn);
        self.point(lpn, entry)
    }

    /// Lets every owner of `source` read from `target`, a page without owners; the changes have to reach the log.
    pub(crate) fn move_all(&mut self, source: u32, target: u32) {
        let owner = self.owner.get(source);
        self.owner.set(target, owner);
        self.owner.set(source, NONE);
        if owner != SEVERAL {
            self.forward.set(owner, target);
            self.mark_dirty(owner);
            return;
        }
        let owners = self.several.remove(&source).expect("a shared page has its owners in the table");
        for &lpn in &owners {
            self.forward.set(lpn, target);
            self.mark_dirty(lpn);
        }
        self.several.insert(target, owners);
    }

    fn add_owner(&mut self, ppn: u32, lpn: u32) {
        match self.owner.get(ppn) {
            NONE => self.owner.set(ppn, lpn),
            SEVERAL => self.several.get_mut(&ppn).expect("a shared page has its owners in the table").push(lpn),
            one => {
                self.several.insert(ppn, vec![one, lpn]);
                self.owner.set(ppn, SEVERAL);
            }
        }
    }

    /// Takes an owner off a page; true if it was the last one.
    fn remove_owner(&mut self, ppn: u32, lpn: u32) -> bool {
        if self.owner.get(ppn) != SEVERAL {
            self.owner.set(ppn, NONE);
            return true;
        }
        let owners = self.several.get_mut(&ppn).expect("a shared page has its owners in the table");
        owners.retain(|&other| other != lpn);
        if let [one] = owners[..] {
            self.several.remove(&ppn);
            self.owner.set(ppn, one);
        }
        false
    }

    /// Puts a logical page on the dirty list.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, lpn: u32) {
        if self.tracks_dirty && self.is_dirty.insert(lpn) {
            self.dirty.push(lpn);
        }
    }

    /// Number of changes that the log does not hold.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// The changes that the log does not hold, with what they come to; the list is empty afterwards.
    pub(crate) fn take_dirty(&mut self) -> Vec<(u32, u32)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.iter().for_each(|&lpn| self.is_dirty.remove(lpn));
        dirty.into_iter().map(|lpn| (lpn, self.forward.get(lpn))).collect()
    }

    /// The changes that the log does not hold, with what they come to.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (u32, u32)> {
        self.dirty.iter().map(|&lpn| (lpn, self.forward.get(lpn)))
    }

    /// Calls `seen` for every mapped logical page, in ascending order.
    pub(crate) fn for_each_mapped(&self, mut seen: impl FnMut(u32, u32)) {
        for (start, piece) in self.forward.written() {
            for (lpn, &ppn) in (start..).zip(piece.iter()) {
                if is_mapped(ppn) {
                    seen(lpn, ppn);
                }
            }
        }
    }

    /// Verifies the invariants and that `valid[block]` counts the valid pages of each block of `1 << shift` pages.
    pub(crate) fn check(&self, valid: &[u32], shift: u32) -> Result<(), String> {
        let mut owners = Vec::new();
        let (mut references, mut owned) = (0_u64, 0_u64);
        let mut problem = None;
        self.for_each_mapped(|lpn, ppn| {
            self.owners(ppn, &mut owners);
            references += 1;
            if owners.iter().filter(|&&owner| owner == lpn).count() != 1 {
                problem = Some(format!("page {lpn} reads from flash page {ppn}, whose owners are {owners:?}"));
            }
        });
        let mut counted = vec![0; valid.len()];
        for (start, piece) in self.owner.written() {
            for (ppn, _) in (start..).zip(piece.iter()).filter(|(_, owner)| **owner != NONE) {
                self.owners(ppn, &mut owners);
                owned += owners.len() as u64;
                counted[(ppn >> shift) as usize] += 1;
            }
        }
        if references != owned {
            return Err(format!("{references} map entries but {owned} owners of flash pages"));
        }
        if let Some(block) = (0..valid.len()).find(|&block| counted[block] != valid[block]) {
            return Err(format!("block {block} counts {} valid pages and has {}", valid[block], counted[block]));
        }
        problem.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_page_stays_valid_while_anybody_reads_from_it() {
        let mut map = Mapping::new(8, 64);
        map.change(1, 10);
        map.change(2, 10);
        map.change(3, 10);
        map.check(&[1, 0], 5).unwrap();
        assert_eq!(map.change(1, 11), None);
        assert_eq!(map.change(2, NONE), None);
        assert_eq!(map.only_owner(10), Some(3));
        assert_eq!(map.change(3, 12), Some(10));
        map.check(&[2, 0], 5).unwrap();
        assert_eq!(map.take_dirty(), [(1, 11), (2, NONE), (3, 12)]);
    }

    #[test]
    fn all_owners_move_with_their_page() {
        let mut map = Mapping::new(8, 64);
        map.change(1, 10);
        map.change(2, 10);
        map.take_dirty();
        map.move_all(10, 40);
        assert_eq!((map.get(1), map.get(2), map.is_valid(10), map.dirty_count()), (40, 40, false, 2));
        map.check(&[0, 1], 5).unwrap();
    }
}
