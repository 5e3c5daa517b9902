//! Files of the file system itself: the journal, and the resize inode with its blocks for future descriptors.

use super::indirect::entry;
use super::{Checker, ReadBlocks};
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::ext4::format::extent::Node;
use crate::ext4::format::features::Compat;
use crate::ext4::format::inode::flags;
use crate::ext4::format::{Inode, InodeNo, JOURNAL_INODE, Layout, Place, RESIZE_INODE};
use crate::journal::format::JournalSuperblock;

const CURE: &str = "e2fsck -f makes a new one";
const DIND: usize = 13;
const BAD_BLOCKS_INODE: InodeNo = InodeNo(1);
const USER_QUOTA_INODE: InodeNo = InodeNo(3);
const GROUP_QUOTA_INODE: InodeNo = InodeNo(4);
const UNDELETE_INODE: InodeNo = InodeNo(6);
const EXCLUDE_INODE: InodeNo = InodeNo(9);
const REPLICA_INODE: InodeNo = InodeNo(10);
/// Bytes of the journal superblock's read-only-compatible features; jbd2 defines none.
const JOURNAL_RO_COMPAT: std::ops::Range<usize> = 0x2c..0x30;

impl<R: ReadBlocks> Checker<'_, R> {
    /// Checks the journal and the resize inode.
    pub(super) async fn check_special(&mut self) {
        let compat = self.layout.features.compat;
        let external = self.superblock.journal_dev.get() != 0;
        match compat.contains(Compat::HAS_JOURNAL) {
            true if !external => self.check_journal().await,
            true => {}
            false if self.superblock.journal_inum.get() != 0 || external || self.report.needs_recovery => {
                self.report.add(Place::Superblock, "names a journal without the feature has_journal", "e2fsck -f");
            }
            false => {}
        }
        if !compat.contains(Compat::RESIZE_INODE) && self.layout.reserved_descriptor_blocks != 0 {
            let problem = "keeps blocks for descriptors without the feature resize_inode";
            self.report.add(Place::Superblock, problem, "e2fsck -f");
        }
        self.check_resize_inode().await;
    }

    async fn check_journal(&mut self) {
        let number = self.layout.journal_inode;
        let place = Place::Inode(number);
        if self.superblock.journal_uuid != [0; 16] {
            let problem = "names a journal on another device beside its own";
            self.report.add(Place::Superblock, problem, "e2fsck -f");
        }
        let Some(inode) = self.read_inode(number).await else { return };
        if inode.kind() != Some(FileKind::Regular) || inode.links == 0 {
            return self.report.add(place, "is no file that can hold the journal", CURE);
        }
        let Some(block) = self.first_block(&inode).await else {
            return self.report.add(place, "the journal has no first block", CURE);
        };
        let Some(page) = self.read(block, place).await else { return };
        if page.bytes()[JOURNAL_RO_COMPAT] != [0; 4] {
            self.report.add(place, "the journal has unknown features that forbid writing", CURE);
        }
        let superblock = match JournalSuperblock::decode(&page.bytes()) {
            Ok(superblock) => superblock,
            Err(error) => return self.report.add(place, format!("superblock of the journal: {error}"), CURE),
        };
        let blocks = inode.size / u64::from(self.layout.block_size);
        if u64::from(superblock.length) > blocks {
            let problem = format!("the journal says it has {} blocks of {blocks}", superblock.length);
            self.report.add(place, problem, CURE);
        }
        if superblock.users != 1 || superblock.compat & !1 != 0 {
            let problem = format!("{} users of the journal, features {:#x}", superblock.users, superblock.compat);
            self.report.add(place, problem, CURE);
        }
        if superblock.error != 0 {
            let problem = format!("the journal was given up with error {}", superblock.error as i32);
            self.report.add(place, problem, "e2fsck -f");
        }
        if superblock.start != 0 && !self.report.needs_recovery {
            let problem = "the journal holds something to replay but the superblock does not say so";
            self.report.add(place, problem, "replay it");
        }
    }

    /// Where the first block of a file lies.
    async fn first_block(&mut self, inode: &Inode) -> Option<BlockNo> {
        if !inode.has(flags::EXTENTS) {
            return Some(entry(&inode.block, 0)).filter(|&block| self.layout.contains_block(block) && block.is_some());
        }
        let place = Place::Inode(self.layout.journal_inode);
        let root = Node::parse(&inode.block, place).ok()?;
        let (mut depth, mut next) = (root.depth(), child_or_block(&root)?);
        while depth > 0 {
            if !self.layout.contains_block(next) {
                return None;
            }
            let page = self.read(next, place).await?;
            let bytes = page.bytes();
            let node = Node::parse(&bytes[..], place).ok().filter(|node| node.depth() + 1 == depth)?;
            (depth, next) = (node.depth(), child_or_block(&node)?);
        }
        Some(next).filter(|&block| self.layout.contains_block(block))
    }

    /// Checks inode 7. Its indirect blocks must be the reserved blocks themselves, and each must list its copies in the
    /// groups with backups.
    async fn check_resize_inode(&mut self) {
        let Some(inode) = self.read_inode(RESIZE_INODE).await else { return };
        let place = Place::Inode(RESIZE_INODE);
        let unused = inode.links == 0 && inode.sectors == 0 && inode.file_acl.is_none();
        let empty = inode.block.iter().all(|&byte| byte == 0) && unused;
        let expected = self.layout.features.compat.contains(Compat::RESIZE_INODE);
        if !expected || self.layout.reserved_descriptor_blocks == 0 && empty {
            if !empty {
                self.report.add(place, "is in use without the feature resize_inode", "e2fsck -f");
            }
            return;
        }
        let double = entry(&inode.block, DIND);
        let only_double = entries(&inode.block).enumerate().all(|(index, block)| (index == DIND) == block.is_some());
        let plain = !inode.has(flags::EXTENTS) && inode.file_acl.is_none();
        let sound = inode.kind() == Some(FileKind::Regular) && inode.links == 1 && only_double && plain;
        if !sound || !self.claim(double.alone(), place) || !self.resize_map_holds(double).await {
            self.report.add(place, "does not list the blocks kept for descriptors", CURE);
        }
        let ResizeNumbers { size, sectors } = resize_numbers(&self.layout);
        if inode.size < size || inode.size > self.file_size_max() {
            self.report.add(place, format!("has {} bytes of {size}", inode.size), "e2fsck -f");
        }
        if inode.sectors != sectors {
            let problem = format!("counts {} sectors but has {sectors}", inode.sectors);
            self.report.add(place, problem, "e2fsck -f");
        }
    }

    async fn resize_map_holds(&mut self, double: BlockNo) -> bool {
        let place = Place::Inode(RESIZE_INODE);
        let Some(table) = self.read(double, place).await else { return false };
        let table = table.bytes();
        let descriptor_blocks = self.layout.descriptor_blocks();
        let first = self.layout.superblock_block() + 1 + u64::from(descriptor_blocks);
        let per_block = self.layout.block_size as usize / 4;
        let kept = u32::from(self.layout.reserved_descriptor_blocks);
        if entries(&table[..]).filter(|block| block.is_some()).count() != kept as usize {
            return false;
        }
        for index in 0..kept {
            let block = first + u64::from(index);
            let listed = entry(&table[..], (descriptor_blocks + index) as usize % per_block);
            let Some(copies) = self.read(block, place).await else { return false };
            let backups = (1..self.layout.group_count).filter(|&group| self.layout.has_superblock(group));
            let places = backups.map(|group| block + self.layout.first_block_of_group(group).0);
            let copies = copies.bytes();
            if listed != block
                || !entries(&copies[..]).eq(places.chain(std::iter::repeat(BlockNo::FIRST)).take(per_block))
            {
                return false;
            }
        }
        true
    }
}

/// What the resize inode must say of itself.
pub(crate) struct ResizeNumbers {
    /// Bytes.
    pub size: u64,
    /// Blocks, in units of 512 bytes.
    pub sectors: u64,
}

/// Expected bytes and sectors of the resize inode: the double indirect block, the reserved blocks, and a copy of each
/// reserved block in every group with a backup.
pub(crate) fn resize_numbers(layout: &Layout) -> ResizeNumbers {
    let kept = u64::from(layout.reserved_descriptor_blocks);
    let copies = (1..layout.group_count).filter(|&group| layout.has_superblock(group)).count() as u64;
    let per_block = u64::from(layout.block_size) / 4;
    let first = u64::from(layout.descriptor_blocks());
    let last = (0..kept).map(|index| (first + index) % per_block).max().unwrap_or(0);
    let blocks = if copies == 0 || kept == 0 { 0 } else { 12 + per_block + last * per_block + copies };
    ResizeNumbers {
        size: blocks * u64::from(layout.block_size),
        sectors: (1 + kept * (1 + copies)) * u64::from(layout.block_size / 512),
    }
}

/// The problem of an unused reserved inode, if it has one. Resize inode, journal and root have their own rules.
pub(crate) fn reserved_problem(number: InodeNo, inode: &Inode) -> Option<&'static str> {
    let unowned = inode.mode == 0 && inode.uid == 0 && inode.gid == 0 && inode.links == 0 && inode.file_acl.is_none();
    match number {
        BAD_BLOCKS_INODE if !unowned => Some("lists bad blocks but has a mode, an owner, links or attributes"),
        USER_QUOTA_INODE | GROUP_QUOTA_INODE if inode.links != 0 => Some("has links without the feature quota"),
        JOURNAL_INODE if inode.links != 0 => Some("has links but is not the journal"),
        UNDELETE_INODE | EXCLUDE_INODE | REPLICA_INODE if inode.mode != 0 => Some("is reserved but has a mode"),
        _ if inode.dtime != 0 && inode.links == 0 => Some("is reserved but has a time of deletion"),
        _ => None,
    }
}

/// The block numbers of a table.
fn entries(table: &[u8]) -> impl Iterator<Item = BlockNo> {
    (0..table.len() / 4).map(|index| entry(table, index))
}

/// The block that the first entry of a node names, if the entry maps the start of the file.
fn child_or_block(node: &Node<'_>) -> Option<BlockNo> {
    let first = node.extents().next().filter(|extent| extent.logical == 0).map(|extent| extent.physical);
    first.or(node.indexes().next().map(|index| index.node))
}
