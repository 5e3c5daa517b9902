//! The blocks of a new file system: puts each structure into its place.

use onewrite_block::{PAGE_SIZE, Page, PageBytes};
use zerocopy::IntoBytes;

use super::geometry::Geometry;
use super::options::MkfsOptions;
use super::placement::{LOST_AND_FOUND_BLOCKS, Placement};
use crate::api::{FileKind, Timestamp};
use crate::block::BlockNo;
use crate::ext4::format::directory::block::{self, Dots};
use crate::ext4::format::extent::{self, Index, NodeMut};
use crate::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use crate::ext4::format::inode::flags;
use crate::ext4::format::{
    Extent, FIRST_INODE, Inode, InodeNo, JOURNAL_INODE, Layout, Place, ROOT_INODE, RawGroupDescriptor,
    SUPERBLOCK_OFFSET,
};
use crate::journal::format::JournalSuperblock;

/// All blocks to write, in ascending order.
pub(super) fn blocks(geometry: &Geometry, placement: &Placement, options: &MkfsOptions) -> Vec<(BlockNo, Page)> {
    let mut writer = Writer { geometry, placement, options, blocks: Vec::new() };
    let descriptors = writer.bitmaps();
    writer.superblocks_and_descriptors(descriptors);
    writer.inode_tables();
    writer.directories();
    writer.journal();
    let mut blocks = writer.blocks;
    blocks.sort_unstable_by_key(|&(number, _)| number);
    debug_assert!(blocks.windows(2).all(|pair| pair[0].0 < pair[1].0), "a block is planned twice");
    blocks
}

struct Writer<'a> {
    geometry: &'a Geometry,
    placement: &'a Placement,
    options: &'a MkfsOptions,
    blocks: Vec<(BlockNo, Page)>,
}

impl Writer<'_> {
    fn layout(&self) -> &Layout {
        &self.geometry.layout
    }

    fn put(&mut self, number: BlockNo, page: Page) {
        self.blocks.push((number, page));
    }

    /// Writes the bitmaps that must be written; returns the descriptors with their checksums.
    fn bitmaps(&mut self) -> Vec<RawGroupDescriptor> {
        let mut descriptors = self.placement.descriptors.clone();
        for (group, own) in (0..).zip(&mut descriptors) {
            if !own.has(BLOCK_UNINIT, self.layout()) {
                let bitmap = self.block_bitmap(group);
                own.update_block_bitmap_checksum(&bitmap, self.layout());
                self.put(own.block_bitmap(), Page::new(bitmap));
            }
            if !own.has(INODE_UNINIT, self.layout()) {
                let bitmap = self.inode_bitmap(group);
                own.update_inode_bitmap_checksum(&bitmap, self.layout());
                self.put(own.inode_bitmap(), Page::new(bitmap));
            }
        }
        descriptors
    }

    fn block_bitmap(&self, group: u32) -> PageBytes {
        let mut bitmap = [0; PAGE_SIZE];
        for run in self.placement.used_in(self.layout(), group) {
            let start = self.layout().index_in_group(run.start) as usize;
            set_bits(&mut bitmap, start..start + run.count as usize);
        }
        // Blocks beyond the end count as in use.
        set_bits(&mut bitmap, self.layout().blocks_in_group(group) as usize..8 * PAGE_SIZE);
        bitmap
    }

    fn inode_bitmap(&self, group: u32) -> PageBytes {
        let mut bitmap = [0; PAGE_SIZE];
        if group == 0 {
            set_bits(&mut bitmap, 0..FIRST_INODE.0 as usize);
        }
        set_bits(&mut bitmap, self.layout().inodes_per_group as usize..8 * PAGE_SIZE);
        bitmap
    }

    fn superblocks_and_descriptors(&mut self, descriptors: Vec<RawGroupDescriptor>) {
        let table = descriptor_blocks(self.layout(), descriptors);
        for group in 0..self.layout().group_count {
            if !self.layout().has_superblock(group) {
                continue;
            }
            let start = self.layout().first_block_of_group(group);
            let page = self.superblock(group);
            self.put(start, page);
            self.blocks.extend((start + 1).run(table.len() as u64).blocks().zip(table.iter().cloned()));
        }
    }

    fn superblock(&self, group: u32) -> Page {
        let mut raw = self.geometry.superblock.clone();
        raw.block_group_nr.set(group as u16);
        raw.set_free_blocks(self.placement.free_blocks);
        raw.free_inodes_count.set(self.layout().inode_count - FIRST_INODE.0);
        if self.geometry.journal_blocks > 0 {
            let journal = self.journal_inode();
            raw.keep_journal(&journal.block, journal.size);
        }
        raw.set_checksum();
        let mut page = Page::ZEROS;
        page.write(if group == 0 { SUPERBLOCK_OFFSET } else { 0 }, raw.as_bytes());
        page
    }

    fn inode_tables(&mut self) {
        let first = self.placement.descriptors[0].inode_table();
        let per_block = self.layout().inodes_per_block();
        let written = FIRST_INODE.0.div_ceil(per_block);
        for number in 0..written {
            let page = self.inode_block(number * per_block + 1);
            self.put(first + u64::from(number), page);
        }
        // Without descriptor checksums no flag marks a table as unused.
        if self.layout().features.group_checksums() || self.options.device_is_zeroed {
            return;
        }
        for (group, own) in (0_u32..).zip(&self.placement.descriptors) {
            let skipped = if group == 0 { written } else { 0 };
            let table = own.inode_table();
            let end = u64::from(self.geometry.layout.inode_table_blocks());
            self.blocks.extend((skipped.into()..end).map(|block| (table + block, Page::ZEROS)));
        }
    }

    fn inode_block(&self, first: u32) -> Page {
        let mut bytes = [0; PAGE_SIZE];
        let size = usize::from(self.layout().inode_size);
        for (number, slot) in (first..).map(InodeNo).zip(bytes.chunks_exact_mut(size)) {
            let inode = match number {
                ROOT_INODE => {
                    let (uid, gid) = self.options.root_owner;
                    Inode { uid, gid, ..self.directory_inode(self.placement.root_block, 1, 0o755, 3) }
                }
                JOURNAL_INODE if self.geometry.journal_blocks > 0 => self.journal_inode(),
                FIRST_INODE => self.directory_inode(self.placement.lost_and_found, LOST_AND_FOUND_BLOCKS, 0o700, 2),
                _ => continue,
            };
            inode.encode_new(slot, number, self.layout());
        }
        Page::new(bytes)
    }

    fn directory_inode(&self, start: BlockNo, blocks: u32, permissions: u16, links: u16) -> Inode {
        let mut inode = self.new_inode(FileKind::Directory.mode_bits() | permissions, links, blocks);
        let extent = Extent { logical: 0, physical: start, length: blocks, unwritten: false };
        assert!(NodeMut::init(&mut inode.block, 0).insert_extent(0, extent), "an empty root has room");
        inode
    }

    fn journal_inode(&self) -> Inode {
        let mut inode = self.new_inode(FileKind::Regular.mode_bits() | 0o600, 1, self.geometry.journal_blocks);
        match self.placement.journal_leaf {
            None => fill(NodeMut::init(&mut inode.block, 0), &self.placement.journal),
            Some(leaf) => {
                inode.sectors += 8;
                let child = Index { logical: 0, node: leaf };
                assert!(NodeMut::init(&mut inode.block, 1).insert_index(0, child), "an empty root has room");
            }
        }
        inode
    }

    fn new_inode(&self, mode: u16, links: u16, blocks: u32) -> Inode {
        let now = Timestamp { seconds: self.options.unix_time.into(), nanoseconds: 0 };
        let (size, sectors) = (u64::from(blocks) * PAGE_SIZE as u64, u64::from(blocks) * (PAGE_SIZE / 512) as u64);
        Inode { size, links, sectors, flags: flags::EXTENTS, ..Inode::new(mode, now, self.layout()) }
    }

    fn directories(&mut self) {
        let layout = &self.geometry.layout;
        let kind = block::entry_kind(FileKind::Directory, layout);
        let place = Place::Inode(ROOT_INODE);
        let mut root = first_block(Dots { own: ROOT_INODE, parent: ROOT_INODE }, layout);
        let inserted = block::insert(&mut root, b"lost+found", FIRST_INODE, kind, place);
        assert!(matches!(inserted, Ok(Some(_))), "a new directory has room");
        block::set_checksum(&mut root, layout.inode_seed(ROOT_INODE, 0), layout);
        self.put(self.placement.root_block, Page::new(root));

        let seed = layout.inode_seed(FIRST_INODE, 0);
        let mut first = first_block(Dots { own: FIRST_INODE, parent: ROOT_INODE }, layout);
        block::set_checksum(&mut first, seed, layout);
        let mut rest = [0; PAGE_SIZE];
        block::init(&mut rest, layout);
        block::set_checksum(&mut rest, seed, layout);
        let (start, rest) = (self.placement.lost_and_found, Page::new(rest));
        self.put(start, Page::new(first));
        self.blocks.extend((1..LOST_AND_FOUND_BLOCKS).map(|number| (start + u64::from(number), rest.clone())));
    }

    fn journal(&mut self) {
        let Some(first) = self.placement.journal.first() else { return };
        let mut superblock = [0; PAGE_SIZE];
        JournalSuperblock::empty(self.geometry.journal_blocks, self.options.uuid).encode_into(&mut superblock);
        self.put(first.physical, Page::new(superblock));
        if let Some(leaf) = self.placement.journal_leaf {
            let layout = self.layout();
            let mut node = [0; PAGE_SIZE];
            fill(NodeMut::init(&mut node, 0), &self.placement.journal);
            extent::set_checksum(&mut node, layout.inode_seed(JOURNAL_INODE, 0), layout);
            self.put(leaf, Page::new(node));
        }
        if !self.options.device_is_zeroed {
            // Recovery could take blocks of an earlier log for blocks of this one.
            let blocks = self.placement.journal.iter().flat_map(|extent| extent.blocks().blocks());
            self.blocks.extend(blocks.skip(1).map(|block| (block, Page::ZEROS)));
        }
    }
}

fn fill(mut node: NodeMut<'_>, extents: &[Extent]) {
    for (index, &extent) in extents.iter().enumerate() {
        assert!(node.insert_extent(index, extent), "the journal's extents were counted");
    }
}

fn first_block(dots: Dots, layout: &Layout) -> PageBytes {
    let mut bytes = [0; PAGE_SIZE];
    block::init_first(&mut bytes, dots, layout);
    bytes
}

fn descriptor_blocks(layout: &Layout, mut descriptors: Vec<RawGroupDescriptor>) -> Vec<Page> {
    let mut table = vec![0; layout.descriptor_blocks() as usize * PAGE_SIZE];
    let size = usize::from(layout.descriptor_size);
    for ((group, own), bytes) in (0..).zip(&mut descriptors).zip(table.chunks_exact_mut(size)) {
        own.write(bytes, group, layout);
    }
    table.chunks_exact(PAGE_SIZE).map(Page::from_slice).collect()
}

fn set_bits(bitmap: &mut PageBytes, bits: std::ops::Range<usize>) {
    for bit in bits {
        bitmap[bit / 8] |= 1 << (bit % 8);
    }
}
