//! Pass 6: makes bitmaps, counts, descriptors and superblock from the use found.

use onewrite_block::{PAGE_SIZE, Page};

use super::superblock;
use super::views::GroupPass;
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::check::ReadBlocks;
use crate::check::blocks::{GroupBits, WORDS, mark};
use crate::check::counts::unwritten_bits;
use crate::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use crate::ext4::format::superblock::{STATE_CLEAN, STATE_ERRORS};
use crate::ext4::format::{Place, RawGroupDescriptor, RawSuperblock};

const BITS: usize = WORDS * 64;
static NOTHING: GroupBits = [0; WORDS];

impl<R: ReadBlocks> GroupPass<'_, '_, R> {
    /// Writes all of them where they differ.
    ///
    /// # Errors
    /// If a descriptor or the superblock cannot be read, or there is no room for a bitmap.
    pub(super) async fn write_counts(&mut self) -> Result<(), String> {
        self.place_bitmaps()?;
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for group in 0..self.layout.group_count {
            let mut own = self.descriptors[group as usize].clone();
            if !self.layout.features.group_checksums() {
                own.flags.set(own.flags.get() & !(BLOCK_UNINIT | INODE_UNINIT));
                own.set_unused_inodes(0);
            }
            self.write_block_bitmap(group, &mut own).await;
            self.write_inode_bitmap(group, &mut own).await;
            free_blocks += u64::from(own.free_blocks());
            free_inodes += own.free_inodes();
            if !self.write_descriptor(group, own).await {
                return Err(format!("group {group}: its descriptor cannot be read"));
            }
        }
        let unreadable = || "the superblock cannot be read".to_owned();
        let page = self.read(BlockNo::FIRST).await.ok_or_else(unreadable)?;
        let stored = RawSuperblock::in_first_block(&page.bytes()[..]).map_err(|error| error.to_string())?.clone();
        if (self.raw.free_blocks(), self.raw.free_inodes_count.get()) != (free_blocks, free_inodes) {
            self.raw.set_free_blocks(free_blocks);
            self.raw.free_inodes_count.set(free_inodes);
            self.note(Place::Superblock, format!("counts {free_blocks} free blocks, {free_inodes} free inodes"));
        }
        let state = (self.raw.state.get() | STATE_CLEAN) & !STATE_ERRORS;
        self.raw.state.set(state);
        if self.raw != stored {
            self.raw.set_checksum();
            superblock::store(&self.image, &page, &self.raw);
        }
        Ok(())
    }

    async fn write_block_bitmap(&mut self, group: u32, own: &mut RawGroupDescriptor) {
        let length = self.layout.blocks_in_group(group) as usize;
        let used = *self.used.group(group).unwrap_or(&NOTHING);
        let count: u32 = used.iter().map(|word| word.count_ones()).sum();
        own.set_free_blocks(length as u32 - count);
        if own.has(BLOCK_UNINIT, &self.layout) {
            if unwritten_bits(&self.layout, own, group) == used {
                return;
            }
            own.flags.set(own.flags.get() & !BLOCK_UNINIT);
        }
        let mut bits = used;
        mark(&mut bits, length, BITS - length);
        let bytes = bytes_of(&bits);
        if self.put_bitmap(own.block_bitmap(), &bytes).await {
            self.note(Place::Group(group), "the bitmap of blocks is made anew");
        }
        own.update_block_bitmap_checksum(&bytes, &self.layout);
    }

    async fn write_inode_bitmap(&mut self, group: u32, own: &mut RawGroupDescriptor) {
        let per_group = self.layout.inodes_per_group;
        let mut bits = NOTHING;
        let (mut used, mut directories, mut end) = (0, 0, 0);
        for (index, file) in self.files[group as usize].iter().enumerate().filter(|(_, file)| file.used) {
            mark(&mut bits, index, 1);
            used += 1;
            directories += u32::from(file.kind == Some(FileKind::Directory));
            end = index as u32 + 1;
        }
        own.set_free_inodes(per_group - used);
        own.set_used_directories(directories);
        if self.layout.features.group_checksums() {
            let unused = own.unused_inodes();
            if own.has(INODE_UNINIT, &self.layout) {
                if used == 0 {
                    own.set_unused_inodes(per_group);
                    return;
                }
                own.flags.set(own.flags.get() & !INODE_UNINIT);
                own.set_unused_inodes(per_group - end);
            } else if unused > per_group - end {
                own.set_unused_inodes(per_group - end);
            }
        }
        let per_group = per_group as usize;
        mark(&mut bits, per_group, BITS - per_group);
        let bytes = bytes_of(&bits);
        if self.put_bitmap(own.inode_bitmap(), &bytes).await {
            self.note(Place::Group(group), "the bitmap of inodes is made anew");
        }
        own.update_inode_bitmap_checksum(&bytes, &self.layout);
    }

    async fn put_bitmap(&mut self, block: BlockNo, bytes: &[u8; PAGE_SIZE]) -> bool {
        let is_same = self.read(block).await.is_some_and(|page| *page.bytes() == *bytes);
        if !is_same {
            self.image.put(block, Page::new(*bytes));
        }
        !is_same
    }

    async fn write_descriptor(&mut self, group: u32, mut own: RawGroupDescriptor) -> bool {
        let (block, offset) = self.layout.position_of_descriptor(group);
        let Some(mut page) = self.read(block).await else { return false };
        let size = usize::from(self.layout.descriptor_size);
        let mut bytes = vec![0; size];
        own.write(&mut bytes, group, &self.layout);
        if page.bytes()[offset..offset + size] != bytes[..] {
            page.write(offset, &bytes);
            self.image.put(block, page);
            self.note(Place::Group(group), "the counts of its descriptor are made anew");
        }
        true
    }
}

fn bytes_of(bits: &GroupBits) -> [u8; PAGE_SIZE] {
    let mut bytes = [0; PAGE_SIZE];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(bits) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
