//! Pass 1: descriptors, the blocks of the layout, and the orphan list.

use std::collections::BTreeSet;

use super::Mender;
use crate::check::ReadBlocks;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::{Place, RawGroupDescriptor};

impl<R: ReadBlocks> Mender<'_, R> {
    /// Reads the descriptors, from a backup where one names impossible places, and claims what the layout takes; false if
    /// that fails.
    pub(super) async fn mend_groups(&mut self) -> bool {
        for group in 0..self.layout.group_count {
            let base = self.layout.base_blocks(group).min(self.layout.blocks_in_group(group));
            let first = self.layout.first_block_of_group(group);
            self.fixed.claim(first, base.into());
        }
        for group in 0..self.layout.group_count {
            let Some(own) = self.stored_descriptor(group, 0).await else { return false };
            let is_sealed = own.verify_checksum(group, &self.layout).is_ok();
            let mut taken = self.are_possible(group, &own).then_some(own.clone());
            if taken.is_none() || !is_sealed {
                let backup = self.backup_descriptor(group).await;
                if let Some(backup) = backup
                    && self.are_possible(group, &backup)
                {
                    let mut restored = own.clone();
                    restored.set_block_bitmap(backup.block_bitmap());
                    restored.set_inode_bitmap(backup.inode_bitmap());
                    restored.set_inode_table(backup.inode_table());
                    if taken.as_ref() != Some(&restored) {
                        self.note(Place::Group(group), "the places of bitmaps and inodes are those of a backup", false);
                    }
                    taken = Some(restored);
                }
                // Its flags and counts are not to be believed: the table is read whole.
                self.widened.insert(group);
            }
            let Some(descriptor) = taken else { return false };
            self.claim_places(&descriptor);
            self.descriptors.push(descriptor);
        }
        self.used = self.fixed.clone();
        true
    }

    /// A descriptor as the copy in group `copy` has it.
    async fn stored_descriptor(&self, group: u32, copy: u32) -> Option<RawGroupDescriptor> {
        let (block, offset) = self.layout.position_of_descriptor(group);
        let page = self.read(block + self.layout.first_block_of_group(copy)).await?;
        RawGroupDescriptor::read(&page.bytes()[offset..], group, &self.layout).ok()
    }

    async fn backup_descriptor(&self, group: u32) -> Option<RawGroupDescriptor> {
        for copy in (1..self.layout.group_count).filter(|&copy| self.layout.has_superblock(copy)) {
            if let Some(backup) = self.stored_descriptor(group, copy).await
                && backup.verify_checksum(group, &self.layout).is_ok()
                && backup.inode_table() != 0
            {
                return Some(backup);
            }
        }
        None
    }

    fn places(&self, descriptor: &RawGroupDescriptor) -> [(u64, u64); 3] {
        let table = u64::from(self.layout.inode_table_blocks());
        [(descriptor.block_bitmap(), 1), (descriptor.inode_bitmap(), 1), (descriptor.inode_table(), table)]
    }

    /// Whether all places lie where they may and nothing else lies there.
    fn are_possible(&self, group: u32, descriptor: &RawGroupDescriptor) -> bool {
        let (first, end) = match self.layout.features.incompat.contains(Incompat::FLEX_BG) {
            true => (self.layout.superblock_block() + 1, self.layout.block_count),
            false => {
                let first = self.layout.first_block_of_group(group);
                (first, first + u64::from(self.layout.blocks_in_group(group)))
            }
        };
        let places = self.places(descriptor);
        let apart = |(start, length): (u64, u64), (other, others): (u64, u64)| {
            start + length <= other || other + others <= start
        };
        let [bitmap, inodes, table] = places;
        places.iter().all(|&(start, length)| {
            let inside = start >= first && start.checked_add(length).is_some_and(|own| own <= end);
            inside && (start..start + length).all(|block| !self.fixed.is_used(block))
        }) && apart(bitmap, inodes)
            && apart(bitmap, table)
            && apart(inodes, table)
    }

    fn claim_places(&mut self, descriptor: &RawGroupDescriptor) {
        for (start, length) in self.places(descriptor) {
            self.fixed.claim(start, length);
        }
    }

    /// Takes the orphan list apart: inodes without links are released, others shortened to their size.
    pub(super) async fn release_orphans(&mut self) {
        let mut seen = BTreeSet::new();
        let mut next = self.raw.last_orphan.get();
        if next == 0 {
            return;
        }
        while next >= self.layout.first_inode && next <= self.layout.inode_count && seen.insert(next) {
            let Some(inode) = self.inode(next).await else { break };
            match inode.links {
                0 => self.released.insert(next),
                _ => self.truncated.insert(next),
            };
            next = inode.dtime;
        }
        let is_sound = next == 0;
        self.raw.last_orphan.set(0);
        self.note(Place::Superblock, format!("{} orphans are done with", seen.len()), is_sound);
    }
}
