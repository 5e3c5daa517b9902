//! Stage 2: the orphan list, with inodes that wait for removal or for the end of a truncation.
//!
//! The superblock names the first inode. Each inode names the next in its field for the time of deletion.

use std::collections::BTreeSet;

use super::{Checker, ReadBlocks};
use crate::ext4::format::features::Compat;
use crate::ext4::format::{Inode, InodeNo, Layout, Place, RawSuperblock};

const CURE: &str = "e2fsck -f";

impl<R: ReadBlocks> Checker<'_, R> {
    /// Follows the list and records its inodes.
    pub(super) async fn check_orphans(&mut self) {
        if let Some(number) = impossible_orphan_file(&self.superblock, &self.layout) {
            self.report.add(Place::Superblock, format!("keeps orphans in inode {number}, which is no file"), CURE);
        }
        let mut seen = BTreeSet::new();
        let mut next = InodeNo(self.superblock.last_orphan.get());
        while next.is_some() {
            if self.layout.is_reserved(next) || !self.layout.contains_inode(next) {
                self.report.add(Place::Superblock, format!("the orphan list names inode {next}"), CURE);
                break;
            }
            if !seen.insert(next) {
                self.report.add(Place::Inode(next), "is on the orphan list twice", CURE);
                break;
            }
            let Some(inode) = self.read_inode(next).await else { break };
            next = inode.next_orphan();
        }
        self.report.orphans = seen.len() as u64;
        self.orphans = seen.into_iter().collect();
    }

    /// Whether the inode is on the list.
    pub(super) fn is_orphan(&self, number: InodeNo) -> bool {
        self.orphans.binary_search(&number).is_ok()
    }

    /// Reads one inode by number; `None`, with a finding, if that fails.
    pub(super) async fn read_inode(&mut self, number: InodeNo) -> Option<Inode> {
        let position = self.layout.position_of_inode(number);
        let table = self.descriptors.get(position.group as usize)?.inode_table();
        if table.is_none() {
            return None;
        }
        let page = self.read(table + u64::from(position.table_block), Place::Inode(number)).await?;
        match Inode::decode_unverified(&page.bytes()[position.offset..], number, &self.layout) {
            Ok(inode) => Some(inode),
            Err(error) => {
                self.report.add(Place::Inode(number), error, CURE);
                None
            }
        }
    }
}

/// The superblock's inode number of the orphan file, if the feature orphan_file is set and the number is impossible.
pub(crate) fn impossible_orphan_file(superblock: &RawSuperblock, layout: &Layout) -> Option<InodeNo> {
    let number = InodeNo(superblock.orphan_file_inum.get());
    let is_possible = !layout.is_reserved(number) && layout.contains_inode(number);
    (layout.features.compat.contains(Compat::ORPHAN_FILE) && !is_possible).then_some(number)
}
