//! Finds inode tables that no descriptor names, by the checksums of their inodes.
//!
//! The checksum of an inode includes its number, so an inode with a good checksum proves where its table begins. The
//! log and files may hold copies of single blocks of a table. The table itself is the place with the most good inodes.
//! Copies inside the log are recognised by the log's own map, which they contain.

use std::collections::BTreeMap;

use onewrite_block::Page;

use super::views::GroupPass;
use crate::block::{BlockNo, BlockRange};
use crate::check::ReadBlocks;
use crate::check::disguise::begins_as_directory;
use crate::ext4::format::extent::Node;
use crate::ext4::format::inode::{flags, verify_checksum};
use crate::ext4::format::{Inode, InodeNo, Place, ROOT_INODE};

/// Where a table may begin.
struct Candidate {
    block: BlockNo,
    slots: SlotCounts,
}

/// What the slots of an inode table hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotCounts {
    /// Inodes in use with good checksums.
    sealed: u32,
    /// Slots with other content.
    odd: u32,
}

impl<R: ReadBlocks> GroupPass<'_, '_, R> {
    /// Where the inode tables of `groups` begin, for the groups whose inodes prove it.
    ///
    /// Reads the image once, and each candidate again. Finds nothing without metadata checksums, and no table without
    /// an inode in use in its first block.
    pub(super) async fn find_tables(&self, groups: &[u32]) -> BTreeMap<u32, BlockNo> {
        let mut found: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
        if groups.is_empty() || !self.layout.features.metadata_csum() {
            return BTreeMap::new();
        }
        for block in BlockRange::between(self.layout.superblock_block() + 1, self.layout.end()).blocks() {
            if self.fixed.is_used(block) {
                continue;
            }
            let Some(page) = self.read(block).await else { continue };
            if !self.may_hold_inodes(&page) {
                continue;
            }
            for &group in groups {
                if let Some(candidate) = self.candidate(group, block, &page).await {
                    found.entry(group).or_default().push(candidate);
                }
            }
        }
        found.into_iter().filter_map(|(group, candidates)| Some((group, best(candidates)?))).collect()
    }

    /// Whether a sound inode of the group lies in the first block of a table.
    pub(super) async fn is_table(&self, group: u32, block: BlockNo) -> bool {
        match self.read(block).await {
            Some(page) => self.sealed_in(group, 0, &page).sealed > 0,
            None => false,
        }
    }

    /// Some slot has the mode of a file and a name.
    fn may_hold_inodes(&self, page: &Page) -> bool {
        let bytes = page.bytes();
        bytes.chunks_exact(usize::from(self.layout.inode_size)).any(is_in_use)
    }

    async fn candidate(&self, group: u32, block: BlockNo, page: &Page) -> Option<Candidate> {
        let table = block.run(self.layout.inode_table_blocks().into());
        if self.sealed_in(group, 0, page).sealed == 0 || !self.is_possible(group, table) {
            return None;
        }
        if group == self.layout.group_of_inode(ROOT_INODE) && !self.holds_root(block, page).await {
            return None;
        }
        let mut candidate = Candidate { block, slots: SlotCounts::default() };
        for at in 0..self.layout.inode_table_blocks() {
            let Some(page) = self.read(block + u64::from(at)).await else { continue };
            let counts = self.sealed_in(group, at, &page);
            candidate.slots.sealed += counts.sealed;
            candidate.slots.odd += counts.odd;
        }
        Some(candidate)
    }

    /// Counts the slots in a block of a table.
    fn sealed_in(&self, group: u32, table_block: u32, page: &Page) -> SlotCounts {
        let mut counts = SlotCounts::default();
        let per_block = self.layout.inodes_per_block();
        let indexes = table_block * per_block..self.layout.inodes_per_group;
        let bytes = page.bytes();
        for (index, slot) in indexes.zip(bytes.chunks_exact(usize::from(self.layout.inode_size))) {
            if slot.iter().all(|&byte| byte == 0) {
                continue;
            }
            match self.sealed(self.layout.inode_at(group, index), slot) {
                true => counts.sealed += u32::from(is_in_use(slot)),
                false => counts.odd += 1,
            }
        }
        counts
    }

    fn sealed(&self, number: InodeNo, slot: &[u8]) -> bool {
        let inode = Inode::decode_unverified(slot, number, &self.layout);
        inode.is_ok_and(|inode| verify_checksum(slot, number, &inode, &self.layout).is_ok())
    }

    /// Whether the block holds the root directory's inode and does not lie in the log that its journal inode maps.
    async fn holds_root(&self, block: BlockNo, page: &Page) -> bool {
        let Some(root) = self.inode_in(ROOT_INODE, page) else { return false };
        let journal = self.inode_in(self.layout.journal_inode, page);
        let is_log = journal.is_some_and(|journal| maps(&journal).any(|run| run.contains(block)));
        let first = maps(&root).next().filter(|run| self.layout.contains_block(run.start));
        match first {
            Some(run) if !is_log => match self.read(run.start).await {
                Some(content) => begins_as_directory(&content.bytes()[..], ROOT_INODE),
                None => false,
            },
            _ => false,
        }
    }

    /// A sound inode in the first block of the first table.
    fn inode_in(&self, number: InodeNo, page: &Page) -> Option<Inode> {
        if number.is_none() {
            return None;
        }
        let position = self.layout.position_of_inode(number);
        let bytes = page.bytes();
        let slot = &bytes[position.offset..][..usize::from(self.layout.inode_size)];
        let is_here = (position.group, position.table_block) == (0, 0);
        (is_here && self.sealed(number, slot)).then(|| Inode::decode_unverified(slot, number, &self.layout).ok())?
    }
}

/// Whether a slot has the mode of a file and a name.
fn is_in_use(slot: &[u8]) -> bool {
    matches!(slot[1] >> 4, 1 | 2 | 4 | 6 | 8 | 10 | 12) && (slot[0x1a] | slot[0x1b]) != 0
}

/// The runs in the inode itself, without those in blocks of the map.
fn maps(inode: &Inode) -> impl Iterator<Item = BlockRange> {
    let node = Node::parse(&inode.block, Place::Block(BlockNo::FIRST)).ok().filter(|_| inode.has(flags::EXTENTS));
    let runs: Vec<BlockRange> = node.iter().flat_map(Node::extents).map(|one| one.blocks()).collect();
    runs.into_iter()
}

/// The candidate with the most good inodes. `None` if two are equal, or if most slots hold other content.
fn best(mut candidates: Vec<Candidate>) -> Option<BlockNo> {
    candidates.sort_by_key(|one| (std::cmp::Reverse(one.slots.sealed), one.slots.odd));
    let first = candidates.first()?;
    let is_alone = candidates.get(1).is_none_or(|second| second.slots != first.slots);
    (is_alone && first.slots.odd <= first.slots.sealed).then_some(first.block)
}
