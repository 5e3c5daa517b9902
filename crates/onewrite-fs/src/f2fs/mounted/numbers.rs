//! Numbers of nodes: where each node lies, and which numbers are free.
//!
//! Changes stay in memory until a checkpoint. A number that was given back is used again only behind the next
//! checkpoint, so nothing that the last one names changes its meaning.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use onewrite_block::Page;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{FsError, FsResult};
use crate::f2fs::format::layout::ROOT_INODE;
use crate::f2fs::format::nat::{self, ENTRIES_PER_BLOCK, NatEntry};
use crate::f2fs::format::{DataAddress, Layout, Nid};

/// Clean entries in memory above which they are forgotten at a checkpoint.
const CLEAN_MAX: usize = 1 << 17;

/// See the module's head.
pub(super) struct Numbers {
    /// Entries of the last checkpoint that its journal holds.
    journal: BTreeMap<Nid, NatEntry>,
    /// Entries that changed since the last checkpoint.
    changed: FxHashMap<Nid, NatEntry>,
    /// Entries of nodes that were loaded.
    clean: FxHashMap<Nid, NatEntry>,
    /// Numbers that may be given, found by the search.
    free: VecDeque<Nid>,
    /// Numbers that were given since the last checkpoint.
    new: FxHashSet<Nid>,
    /// Numbers that recovery will use.
    held: BTreeSet<Nid>,
    /// The block of the NAT at which the search goes on, and the blocks that it may still look at.
    search_at: u64,
    search_left: u64,
}

impl Numbers {
    pub(super) fn new(journal: BTreeMap<Nid, NatEntry>, next_free: Nid, nat_blocks: u64) -> Numbers {
        Numbers {
            journal,
            changed: FxHashMap::default(),
            clean: FxHashMap::default(),
            free: VecDeque::new(),
            new: FxHashSet::default(),
            held: BTreeSet::new(),
            search_at: nat::position(next_free).0.min(nat_blocks - 1),
            search_left: nat_blocks,
        }
    }

    /// The newest entry, if it is in memory.
    pub(super) fn known(&self, nid: Nid) -> Option<NatEntry> {
        self.changed.get(&nid).or_else(|| self.journal.get(&nid)).or_else(|| self.clean.get(&nid)).copied()
    }

    pub(super) fn set(&mut self, nid: Nid, entry: NatEntry) {
        self.clean.remove(&nid);
        self.changed.insert(nid, entry);
    }

    /// Whether the last checkpoint knows no such node.
    pub(super) fn is_new(&self, nid: Nid) -> bool {
        self.new.contains(&nid)
    }

    /// Gives a number to a node of inode `owner`.
    pub(super) fn take(&mut self, nid: Nid, version: u8, owner: Nid) {
        self.new.insert(nid);
        self.set(nid, NatEntry { version, ino: owner, address: DataAddress::Reserved });
    }

    /// Keeps the entry of a loaded node, unless a newer one is in memory. Returns the newest.
    pub(super) fn keep(&mut self, nid: Nid, entry: NatEntry) -> NatEntry {
        self.known(nid).unwrap_or_else(|| *self.clean.entry(nid).insert_entry(entry).get())
    }

    /// Takes a number that the search found free.
    pub(super) fn pop_free(&mut self) -> Option<Nid> {
        self.free.pop_front()
    }

    /// Gives a number back; it names no node from now on.
    pub(super) fn give(&mut self, nid: Nid) {
        let before = self.known(nid).unwrap_or(NatEntry::FREE);
        self.set(nid, NatEntry { version: before.version.wrapping_add(1), ..NatEntry::FREE });
    }

    /// The block of the NAT at which the search goes on.
    pub(super) fn search_at(&self) -> u64 {
        self.search_at
    }

    /// Looks for free numbers in `block` of the NAT, whose content is `page`, unless somebody did.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the search has seen all blocks since the last checkpoint.
    pub(super) fn search(&mut self, block: u64, page: &Page, layout: &Layout) -> FsResult<()> {
        if self.search_at != block || !self.free.is_empty() {
            return Ok(());
        }
        if self.search_left == 0 {
            onewrite_block::reached!("all numbers of nodes are searched");
            return Err(FsError::NoSpace { what: "numbers of nodes", needed: 1, free: 0 });
        }
        self.search_left -= 1;
        self.search_at = (block + 1) % layout.nat_blocks;
        let bytes = page.bytes();
        for index in 0..ENTRIES_PER_BLOCK {
            let nid = Nid(block as u32 * ENTRIES_PER_BLOCK as u32 + index as u32);
            // A changed entry that is free now was given back since the checkpoint.
            let is_free = match (self.changed.get(&nid), self.journal.get(&nid)) {
                (Some(_), _) => false,
                (None, Some(entry)) => entry.address == DataAddress::Hole,
                (None, None) => nat::entry(&bytes[..], index).address == DataAddress::Hole,
            };
            let is_possible = nid > ROOT_INODE && layout.contains_node(nid) && !layout.quota_inodes.contains(&nid);
            if is_free && is_possible && !self.held.contains(&nid) {
                self.free.push_back(nid);
            }
        }
        Ok(())
    }

    /// Keeps a number from being given.
    pub(super) fn hold(&mut self, nid: Nid) {
        self.held.insert(nid);
        self.free.retain(|free| *free != nid);
    }

    /// Entries of the last checkpoint's journal, and those that changed since.
    pub(super) fn entries(&self) -> BTreeMap<Nid, NatEntry> {
        let mut entries = self.journal.clone();
        entries.extend(&self.changed);
        entries
    }

    /// Changed entries.
    pub(super) fn changed_count(&self) -> usize {
        self.changed.len()
    }

    /// The lowest number that may be given next; for the checkpoint, as a hint.
    pub(super) fn next_free(&self) -> Nid {
        let searched = Nid((self.search_at * ENTRIES_PER_BLOCK as u64) as u32).max(ROOT_INODE);
        self.free.front().copied().unwrap_or(searched)
    }

    /// The state is that of a durable checkpoint, whose journal is `journal`.
    pub(super) fn note_checkpoint(&mut self, journal: BTreeMap<Nid, NatEntry>, nat_blocks: u64) {
        let changed = std::mem::take(&mut self.changed);
        if self.clean.len() > CLEAN_MAX {
            self.clean.clear();
        }
        for (nid, entry) in changed.into_iter().chain(std::mem::take(&mut self.journal)) {
            if !journal.contains_key(&nid) {
                self.clean.entry(nid).or_insert(entry);
            }
        }
        self.journal = journal;
        self.new.clear();
        self.held.clear();
        self.search_left = nat_blocks;
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;
    use crate::f2fs::format::superblock::RawSuperblock;
    use crate::f2fs::mkfs::{MkfsOptions, plan};

    fn layout() -> Layout {
        let blocks = plan(&MkfsOptions::new(64 << 20, &mut Choices::new(1))).expect("an image");
        Layout::decode(&RawSuperblock::in_block(&blocks[0].1.bytes()[..], 0).expect("sound"), 0).expect("sound")
    }

    #[test]
    fn a_search_that_saw_the_whole_table_finds_no_number_before_the_next_checkpoint() {
        let layout = layout();
        let mut taken = Page::ZEROS;
        let entry = NatEntry { version: 0, ino: Nid(9), address: DataAddress::Block(layout.main.start) };
        (0..ENTRIES_PER_BLOCK).for_each(|index| nat::put_entry(taken.bytes_mut(), index, entry));
        let mut numbers = Numbers::new(BTreeMap::new(), Nid(700), layout.nat_blocks);
        for _ in 0..layout.nat_blocks {
            numbers.search(numbers.search_at(), &taken, &layout).expect("not seen yet");
        }
        let refused = numbers.search(numbers.search_at(), &taken, &layout);
        assert!(matches!(refused, Err(FsError::NoSpace { .. })), "{refused:?}");
        numbers.note_checkpoint(BTreeMap::new(), layout.nat_blocks);
        assert_eq!(numbers.pop_free(), None);
        numbers.search(numbers.search_at(), &Page::ZEROS, &layout).expect("a new search");
        assert!(numbers.pop_free().is_some(), "a block of free numbers");
    }
}
