//! Stage 1: group descriptors, and the blocks of the layout itself.

use std::borrow::Cow;

use super::{Checker, ReadBlocks};
use crate::block::{BlockNo, BlockRange};
use crate::ext4::format::features::Incompat;
use crate::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use crate::ext4::format::{Place, RawGroupDescriptor};
use crate::ext4::lost::{BackupPlace, LOG_OF_4_KIB, backup_at};

/// Most backups to try for the cure; if none is sound, the cure names no backup.
const BACKUPS_MAX: usize = 4;

impl<R: ReadBlocks> Checker<'_, R> {
    /// Reads all descriptors and claims superblocks, descriptors, bitmaps and inode tables.
    pub(super) async fn check_groups(&mut self) {
        let size = self.superblock.desc_size.get();
        if size > 1024 || size != 0 && !size.is_power_of_two() {
            self.report.add(Place::Superblock, format!("desc_size is {size}, which no descriptor has"), "e2fsck -f");
        }
        self.groups_cure = self.cure_of_groups().await;
        self.read_descriptors().await;
        for group in 0..self.descriptors.len() as u32 {
            self.check_descriptor(group);
            let base = self.layout.base_blocks(group);
            // The last group may be shorter than its superblock and descriptors.
            let base = base.min(self.layout.blocks_in_group(group));
            self.claim(self.layout.first_block_of_group(group).run(base.into()), Place::Group(group));
        }
        for group in 0..self.descriptors.len() as u32 {
            self.claim_metadata(group);
        }
    }

    /// The cure for damaged descriptors. Names a backup only if it exists.
    async fn cure_of_groups(&self) -> Cow<'static, str> {
        if self.layout.group_count == 1 {
            return "the image has one group, so no backup: copy it, then `onewrite fsck -y`".into();
        }
        let groups = (1..self.layout.group_count).filter(|&group| self.layout.has_superblock(group));
        for group in groups.take(BACKUPS_MAX) {
            let block = self.layout.first_block_of_group(group);
            let place = BackupPlace { block, log_block_size: LOG_OF_4_KIB };
            if backup_at(self.reader, place).await.is_some() {
                return format!("e2fsck -f, with a backup of the descriptors if need be: {place}").into();
            }
        }
        "no backup was found: copy the image, then `onewrite fsck -y`".into()
    }

    async fn read_descriptors(&mut self) {
        self.descriptors.reserve(self.layout.group_count as usize);
        let mut page = None;
        for group in 0..self.layout.group_count {
            let (block, offset) = self.layout.position_of_descriptor(group);
            if offset == 0 || page.is_none() {
                page = self.read(block, Place::Group(group)).await;
            }
            let Some(page) = &page else { return };
            match RawGroupDescriptor::read(&page.bytes()[offset..], group, &self.layout) {
                Ok(descriptor) => self.descriptors.push(descriptor),
                Err(error) => return self.report.add(Place::Group(group), error, self.groups_cure.clone()),
            }
        }
    }

    fn check_descriptor(&mut self, group: u32) {
        let descriptor = &self.descriptors[group as usize];
        let place = Place::Group(group);
        if let Err(error) = descriptor.verify_checksum(group, &self.layout) {
            self.report.add(place, error, self.groups_cure.clone());
        }
        let descriptor = &self.descriptors[group as usize];
        let (unused, per_group) = (descriptor.unused_inodes(), self.layout.inodes_per_group);
        if self.layout.features.group_checksums() && unused > per_group {
            self.report.add(place, format!("{unused} unused inodes of {per_group}"), self.groups_cure.clone());
        }
        let descriptor = &self.descriptors[group as usize];
        let is_marked = descriptor.flags.get() & (BLOCK_UNINIT | INODE_UNINIT) != 0 || unused != 0;
        if !self.layout.features.group_checksums() && is_marked {
            self.report.add(
                place,
                "is marked as never used, which needs checksums of descriptors",
                self.groups_cure.clone(),
            );
        }
        let descriptor = &self.descriptors[group as usize];
        if descriptor.has(INODE_UNINIT, &self.layout) && descriptor.free_inodes() != per_group {
            let problem = format!("{} free inodes where none was ever used", descriptor.free_inodes());
            self.report.add(place, problem, self.groups_cure.clone());
        }
    }

    /// Claims bitmaps and table of a group. If one lies at an impossible place, later stages treat it as missing.
    fn claim_metadata(&mut self, group: u32) {
        let descriptor = &self.descriptors[group as usize];
        let parts = ["block bitmap", "inode bitmap", "inode table"].into_iter().zip(descriptor.metadata(&self.layout));
        for (index, (name, run)) in parts.enumerate() {
            let sound = self.is_possible_place(group, name, run) && self.claim(run, Place::Group(group));
            if !sound {
                let descriptor = &mut self.descriptors[group as usize];
                match index {
                    0 => descriptor.set_block_bitmap(BlockNo::FIRST),
                    1 => descriptor.set_inode_bitmap(BlockNo::FIRST),
                    _ => descriptor.set_inode_table(BlockNo::FIRST),
                }
            }
        }
    }

    fn is_possible_place(&mut self, group: u32, name: &str, run: BlockRange) -> bool {
        let flexible = self.layout.features.incompat.contains(Incompat::FLEX_BG);
        let (first, end) = match flexible {
            true => (self.layout.superblock_block() + 1, self.layout.end()),
            false => {
                let first = self.layout.first_block_of_group(group);
                (first, first + u64::from(self.layout.blocks_in_group(group)))
            }
        };
        let inside = run.start >= first && run.ends_by(end);
        if !inside {
            self.report.add(
                Place::Group(group),
                format!("{name} at block {} lies outside its room", run.start),
                self.groups_cure.clone(),
            );
        }
        inside
    }
}
