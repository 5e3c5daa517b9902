//! Pass 1: descriptors, the blocks of the layout, and the orphan list.

use std::collections::BTreeSet;

use super::backups::{backup_of, descriptor_at, with_places};
use super::views::GroupPass;
use crate::block::{BlockNo, BlockRange};
use crate::check::ReadBlocks;
use crate::ext4::format::features::Incompat;
use crate::ext4::format::{InodeNo, Place, RawGroupDescriptor};
use zerocopy::FromZeros;

impl<R: ReadBlocks> GroupPass<'_, '_, R> {
    /// Reads the descriptors and claims the blocks of the layout. A backup replaces impossible places of a descriptor.
    ///
    /// # Errors
    /// If no source says where the inodes of a group are.
    pub(super) async fn mend_groups(&mut self) -> Result<(), String> {
        for group in 0..self.layout.group_count {
            let base = self.layout.base_blocks(group).min(self.layout.blocks_in_group(group));
            let first = self.layout.first_block_of_group(group);
            self.fixed.claim(first.run(base.into()));
        }
        let mut lost = Vec::new();
        for group in 0..self.layout.group_count {
            let position = self.layout.position_of_descriptor(group);
            let Some(own) = descriptor_at(&self.image, &self.layout, group, position).await else {
                return Err(format!("group {group}: its descriptor cannot be read"));
            };
            let descriptor = match self.believed(group, &own).await {
                Some(believed) => believed,
                None => {
                    lost.push(group);
                    own
                }
            };
            if lost.last() != Some(&group) {
                self.claim_places(&descriptor);
            }
            self.descriptors.push(descriptor);
        }
        self.find_lost(&lost).await?;
        self.used = self.fixed.clone();
        Ok(())
    }

    /// The descriptor, or the places of its backup; `None` if neither is credible.
    async fn believed(&mut self, group: u32, own: &RawGroupDescriptor) -> Option<RawGroupDescriptor> {
        let is_sealed = own.verify_checksum(group, &self.layout).is_ok();
        let is_possible = self.are_possible(group, own);
        if is_possible && is_sealed {
            return Some(own.clone());
        }
        // Its flags and counts are not credible, so the repair reads the whole table.
        self.widened.insert(group);
        if let Some(backup) = backup_of(&self.image, &self.layout, group).await
            && self.are_possible(group, &backup)
        {
            let restored = with_places(own, &backup);
            if !is_possible || *own != restored {
                self.note_loss(Place::Group(group), "the places of bitmaps and inodes are those of a backup");
            }
            return Some(restored);
        }
        let is_proven = is_possible && self.is_table(group, own.inode_table()).await;
        is_proven.then(|| own.clone())
    }

    /// Finds the inode tables of groups by their inodes. A group without a result keeps the possible parts of its
    /// descriptor.
    ///
    /// # Errors
    /// If no source says where the inodes of a group are.
    async fn find_lost(&mut self, groups: &[u32]) -> Result<(), String> {
        let tables = self.find_tables(groups).await;
        for &group in groups {
            let own = self.descriptors[group as usize].clone();
            let descriptor = match tables.get(&group) {
                Some(&table)
                    if table != own.inode_table()
                        && self.is_possible(group, table.run(self.layout.inode_table_blocks().into())) =>
                {
                    let what = format!("its inode table is found in block {table}, by the checksums of its inodes");
                    self.note_loss(Place::Group(group), what);
                    let mut found = RawGroupDescriptor::new_zeroed();
                    found.set_inode_table(table);
                    found
                }
                _ => self.without_lost_bitmaps(group, own)?,
            };
            self.claim_places(&descriptor);
            self.descriptors[group as usize] = descriptor;
        }
        Ok(())
    }

    /// Removes impossible places of bitmaps from a descriptor. They get new places after all blocks in use are known.
    fn without_lost_bitmaps(&mut self, group: u32, mut own: RawGroupDescriptor) -> Result<RawGroupDescriptor, String> {
        let [blocks, inodes, table] = own.metadata(&self.layout);
        if !self.is_possible(group, table) {
            let lost =
                "the place of its inode table is lost, no backup of its descriptor is sound, and no inode proves it";
            return Err(format!("group {group}: {lost}; nothing was changed"));
        }
        if !self.is_possible(group, inodes) || !apart(inodes, table) {
            own.set_inode_bitmap(BlockNo::FIRST);
        }
        if !self.is_possible(group, blocks) || !apart(blocks, table) || !apart(blocks, inodes) {
            own.set_block_bitmap(BlockNo::FIRST);
        }
        Ok(own)
    }

    /// Gives a place to each bitmap without one.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn place_bitmaps(&mut self) -> Result<(), String> {
        for group in 0..self.layout.group_count {
            let room = self.room(group);
            let own = &self.descriptors[group as usize];
            let lost = [own.block_bitmap().is_none(), own.inode_bitmap().is_none()];
            for (_, at) in lost.into_iter().zip(0..).filter(|(is_lost, _)| *is_lost) {
                let block = self.allocate_in(room);
                let block = block.ok_or_else(|| format!("group {group}: there is no room for a bitmap"))?;
                let own = &mut self.descriptors[group as usize];
                match at {
                    0 => own.set_block_bitmap(block),
                    _ => own.set_inode_bitmap(block),
                }
                let what = if at == 0 { "blocks" } else { "inodes" };
                self.note_loss(Place::Group(group), format!("the bitmap of {what} gets block {block}"));
            }
        }
        Ok(())
    }

    /// Where bitmaps and inode table of a group may lie.
    fn room(&self, group: u32) -> BlockRange {
        match self.layout.features.incompat.contains(Incompat::FLEX_BG) {
            true => BlockRange::between(self.layout.superblock_block() + 1, self.layout.end()),
            false => self.layout.first_block_of_group(group).run(self.layout.blocks_in_group(group).into()),
        }
    }

    /// Whether metadata of a group may lie in `run` and no other block of the layout lies there.
    pub(super) fn is_possible(&self, group: u32, run: BlockRange) -> bool {
        let room = self.room(group);
        let inside = run.start >= room.start && run.ends_by(room.end());
        inside && run.blocks().all(|block| !self.fixed.is_used(block))
    }

    fn are_possible(&self, group: u32, descriptor: &RawGroupDescriptor) -> bool {
        let places = descriptor.metadata(&self.layout);
        let [blocks, inodes, table] = places;
        places.iter().all(|&place| self.is_possible(group, place))
            && apart(blocks, inodes)
            && apart(blocks, table)
            && apart(inodes, table)
    }

    fn claim_places(&mut self, descriptor: &RawGroupDescriptor) {
        for run in descriptor.metadata(&self.layout).into_iter().filter(|run| run.start.is_some()) {
            self.fixed.claim(run);
        }
    }

    /// Empties the orphan list: releases inodes without links and shortens the others to their size.
    pub(super) async fn release_orphans(&mut self) {
        let mut seen = BTreeSet::new();
        let mut next = InodeNo(self.raw.last_orphan.get());
        if next.is_none() {
            return;
        }
        while !self.layout.is_reserved(next) && self.layout.contains_inode(next) && seen.insert(next) {
            let Some(inode) = self.inode(next).await else { break };
            match inode.links {
                0 => self.released.insert(next),
                _ => self.truncated.insert(next),
            };
            next = inode.next_orphan();
        }
        self.raw.last_orphan.set(0);
        let what = format!("{} orphans are done with", seen.len());
        match next {
            InodeNo::NONE => self.note(Place::Superblock, what),
            _ => self.note_loss(Place::Superblock, what),
        }
    }
}

fn apart(one: BlockRange, other: BlockRange) -> bool {
    one.end() <= other.start || other.end() <= one.start
}
