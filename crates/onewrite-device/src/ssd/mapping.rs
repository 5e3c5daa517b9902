//! Mapping: the flash page of each logical page, and the owners of each flash page.
//!
//! Invariants, verified by [`Mapping::check`]:
//! 1. `forward[lpn] == ppn` if and only if `lpn` is an owner of `ppn`.
//! 2. A flash page is *valid* if and only if it has an owner. Pages with several owners (SHARE) keep all of them in a
//!    side table; their number is the page's reference count.
//! 3. A change that is not in the map log yet is in the dirty list, once.

use rustc_hash::FxHashMap;

use super::cow::{BitSet, CowTable};
use crate::address::{Lpn, MapEntry, Numbering, Ppn, from};

/// The logical page holds nothing.
pub(crate) const NOTHING: MapEntry = MapEntry::NONE;
/// The content is lost to a medium error; reads fail until it is written again.
pub(crate) const LOST: MapEntry = MapEntry::MARK;
/// Marks a flash page without an owner.
const NOBODY: Lpn = Lpn(u32::MAX);
/// Marks a flash page with several owners; the side table has them.
const SEVERAL: Lpn = Lpn(u32::MAX - 2);

/// A change of the map: a logical page and its new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) lpn: Lpn,
    pub(crate) entry: MapEntry,
}

/// A flash page, and the page to which its content was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) source: Ppn,
    pub(crate) target: Ppn,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    forward: CowTable<MapEntry>,
    owner: CowTable<Lpn>,
    several: FxHashMap<Ppn, Vec<Lpn>>,
    dirty: Vec<Lpn>,
    is_dirty: BitSet,
    tracks_dirty: bool,
}

impl Mapping {
    /// An empty map.
    pub(crate) fn new(logical_pages: u32, flash_pages: u32) -> Mapping {
        Mapping {
            forward: CowTable::new(logical_pages as usize, NOTHING),
            owner: CowTable::new(flash_pages as usize, NOBODY),
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

    /// The flash page of a logical page, [`NOTHING`] or [`LOST`].
    #[inline]
    pub(crate) fn get(&self, lpn: Lpn) -> MapEntry {
        self.forward.get(lpn.index())
    }

    /// Whether a flash page has an owner.
    #[inline]
    pub(crate) fn is_valid(&self, ppn: Ppn) -> bool {
        self.owner.get(ppn.index()) != NOBODY
    }

    /// Puts the owners of a flash page into `owners`.
    pub(crate) fn owners(&self, ppn: Ppn, owners: &mut Vec<Lpn>) {
        owners.clear();
        match self.owner.get(ppn.index()) {
            NOBODY => (),
            SEVERAL => owners.extend_from_slice(&self.several[&ppn]),
            one => owners.push(one),
        }
    }

    /// Number of owners of a flash page.
    pub(crate) fn owner_count(&self, ppn: Ppn) -> usize {
        match self.owner.get(ppn.index()) {
            NOBODY => 0,
            SEVERAL => self.several[&ppn].len(),
            _ => 1,
        }
    }

    /// Removes every owner of a page although they still map to it. Only a broken rule needs this.
    pub(crate) fn disown(&mut self, ppn: Ppn) {
        self.several.remove(&ppn);
        self.owner.set(ppn.index(), NOBODY);
    }

    /// The owner of a page that has exactly one.
    #[inline]
    pub(crate) fn only_owner(&self, ppn: Ppn) -> Option<Lpn> {
        let owner = self.owner.get(ppn.index());
        (owner < SEVERAL).then_some(owner)
    }

    /// Maps `lpn` to `entry`; returns the flash page that lost its last owner by this.
    ///
    /// The change is *not* put on the dirty list: recovery repeats changes that the log already has.
    #[inline]
    pub(crate) fn point(&mut self, lpn: Lpn, entry: MapEntry) -> Option<Ppn> {
        let before = self.forward.get(lpn.index());
        if before == entry {
            return None;
        }
        self.forward.set(lpn.index(), entry);
        if let Some(ppn) = entry.page() {
            self.add_owner(ppn, lpn);
        }
        match before.page() {
            Some(ppn) if self.remove_owner(ppn, lpn) => Some(ppn),
            _ => None,
        }
    }

    /// [`Mapping::point`] for a change that must reach the log.
    #[inline]
    pub(crate) fn change(&mut self, lpn: Lpn, entry: MapEntry) -> Option<Ppn> {
        self.mark_dirty(lpn);
        self.point(lpn, entry)
    }

    /// Maps every owner of `source` to `target`, a page without owners. The changes must reach the log.
    pub(crate) fn move_all(&mut self, Move { source, target }: Move) {
        let owner = self.owner.get(source.index());
        self.owner.set(target.index(), owner);
        self.owner.set(source.index(), NOBODY);
        if owner != SEVERAL {
            self.forward.set(owner.index(), MapEntry::at(target));
            self.mark_dirty(owner);
            return;
        }
        let owners = self.several.remove(&source).expect("a shared page has its owners in the table");
        for &lpn in &owners {
            self.forward.set(lpn.index(), MapEntry::at(target));
            self.mark_dirty(lpn);
        }
        self.several.insert(target, owners);
    }

    fn add_owner(&mut self, ppn: Ppn, lpn: Lpn) {
        match self.owner.get(ppn.index()) {
            NOBODY => self.owner.set(ppn.index(), lpn),
            SEVERAL => self.several.get_mut(&ppn).expect("a shared page has its owners in the table").push(lpn),
            one => {
                self.several.insert(ppn, vec![one, lpn]);
                self.owner.set(ppn.index(), SEVERAL);
            }
        }
    }

    /// Removes an owner of a page; true if it was the last one.
    fn remove_owner(&mut self, ppn: Ppn, lpn: Lpn) -> bool {
        if self.owner.get(ppn.index()) != SEVERAL {
            self.owner.set(ppn.index(), NOBODY);
            return true;
        }
        let owners = self.several.get_mut(&ppn).expect("a shared page has its owners in the table");
        owners.retain(|&other| other != lpn);
        if let [one] = owners[..] {
            self.several.remove(&ppn);
            self.owner.set(ppn.index(), one);
        }
        false
    }

    /// Puts a logical page on the dirty list.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, lpn: Lpn) {
        if self.tracks_dirty && self.is_dirty.insert(lpn.index()) {
            self.dirty.push(lpn);
        }
    }

    /// Number of changes that are not in the log.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Takes the changes that are not in the log, with their entries. The list is empty afterwards.
    pub(crate) fn take_dirty(&mut self) -> Vec<Record> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.iter().for_each(|&lpn| self.is_dirty.remove(lpn.index()));
        dirty.into_iter().map(|lpn| self.record(lpn)).collect()
    }

    /// The present entry of a logical page.
    pub(crate) fn record(&self, lpn: Lpn) -> Record {
        Record { lpn, entry: self.get(lpn) }
    }

    /// Logical pages with changes that are not in the log.
    pub(crate) fn dirty(&self) -> &[Lpn] {
        &self.dirty
    }

    /// Calls `seen` for every mapped logical page, in ascending order.
    pub(crate) fn for_each_mapped(&self, mut seen: impl FnMut(Lpn, Ppn)) {
        for (start, piece) in self.forward.written() {
            for (lpn, entry) in from(Lpn(start as u32)).zip(piece.iter()) {
                if let Some(ppn) = entry.page() {
                    seen(lpn, ppn);
                }
            }
        }
    }

    /// Verifies the invariants, and that `valid` gives the number of valid pages of each block.
    pub(crate) fn check(&self, valid: &[u32], numbering: impl Numbering) -> Result<(), String> {
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
            for (ppn, _) in from(Ppn(start as u32)).zip(piece.iter()).filter(|(_, owner)| **owner != NOBODY) {
                self.owners(ppn, &mut owners);
                owned += owners.len() as u64;
                counted[numbering.block(ppn).index()] += 1;
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
    use crate::address::Aligned;

    const NUMBERING: Aligned = Aligned::new(32);

    fn change(map: &mut Mapping, lpn: u32, ppn: u32) -> Option<Ppn> {
        map.change(Lpn(lpn), MapEntry::at(Ppn(ppn)))
    }

    #[test]
    fn a_shared_page_stays_valid_while_anybody_reads_from_it() {
        let mut map = Mapping::new(8, 64);
        (1..4).for_each(|lpn| assert_eq!(change(&mut map, lpn, 10), None));
        map.check(&[1, 0], NUMBERING).unwrap();
        assert_eq!(change(&mut map, 1, 11), None);
        assert_eq!(map.change(Lpn(2), NOTHING), None);
        assert_eq!(map.only_owner(Ppn(10)), Some(Lpn(3)));
        assert_eq!(change(&mut map, 3, 12), Some(Ppn(10)));
        map.check(&[2, 0], NUMBERING).unwrap();
        let record = |lpn: u32, entry| Record { lpn: Lpn(lpn), entry };
        let at = |ppn: u32| MapEntry::at(Ppn(ppn));
        assert_eq!(map.take_dirty(), [record(1, at(11)), record(2, NOTHING), record(3, at(12))]);
    }

    #[test]
    fn all_owners_move_with_their_page() {
        let mut map = Mapping::new(8, 64);
        (1..3).for_each(|lpn| assert_eq!(change(&mut map, lpn, 10), None));
        map.take_dirty();
        map.move_all(Move { source: Ppn(10), target: Ppn(40) });
        assert_eq!([1, 2].map(|lpn| map.get(Lpn(lpn)).page()), [Some(Ppn(40)); 2]);
        assert!(!map.is_valid(Ppn(10)));
        assert_eq!(map.dirty_count(), 2);
        map.check(&[0, 1], NUMBERING).unwrap();
    }
}
