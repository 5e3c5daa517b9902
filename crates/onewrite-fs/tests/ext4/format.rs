//! The format against images of mke2fs: every structure parses, verifies and encodes to the same bytes.

use std::path::Path;

use onewrite_fs::BlockNo;
use onewrite_fs::FileKind;
use onewrite_fs::ext4::format::directory::{Entries, HashVersion, HashedBytes, block, htree};
use onewrite_fs::ext4::format::extent::{self, Node, NodeMut};
use onewrite_fs::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use onewrite_fs::ext4::format::inode::{attribute_area, flags};
use onewrite_fs::ext4::format::{FormatError, Inode, InodeNo, Layout, Place, RawGroupDescriptor, RawSuperblock};
use zerocopy::IntoBytes;

use crate::support::{Scratch, fill_by_kernel, make_image, many, populate, run, text};

const BLOCK: usize = 4096;

/// An image in memory, with counts of the structures seen.
struct Image {
    bytes: Vec<u8>,
    layout: Layout,
    extents: usize,
    deepest: u16,
    entries: usize,
    index_levels: u8,
}

impl Image {
    fn read(path: &Path) -> Image {
        let bytes = std::fs::read(path).expect("image");
        let raw = RawSuperblock::in_first_block(&bytes).expect("superblock");
        let layout = Layout::decode(raw).expect("layout");
        Image { bytes, layout, extents: 0, deepest: 0, entries: 0, index_levels: 0 }
    }

    fn block(&self, number: BlockNo) -> &[u8] {
        &self.bytes[number.0 as usize * BLOCK..][..BLOCK]
    }

    fn group(&self, group: u32) -> RawGroupDescriptor {
        let (block, offset) = self.layout.position_of_descriptor(group);
        RawGroupDescriptor::read(&self.block(block)[offset..], group, &self.layout).expect("descriptor")
    }

    fn check_everything(&mut self) {
        self.check_superblocks();
        for group in 0..self.layout.group_count {
            self.check_group(group);
        }
    }

    fn check_superblocks(&self) {
        for group in 0..self.layout.group_count {
            if !self.layout.has_superblock(group) {
                continue;
            }
            let start = self.layout.first_block_of_group(group).0 as usize * BLOCK;
            let start = if group == 0 { 1024 } else { start };
            let raw = RawSuperblock::from_prefix(&self.bytes[start..], Place::Group(group)).expect("superblock");
            raw.verify_checksum(Place::Group(group)).expect("checksum");
            assert_eq!(u32::from(raw.block_group_nr.get()), group);
            let mut again = raw.clone();
            again.set_checksum();
            again.set_block_count(raw.block_count());
            again.set_free_blocks(raw.free_blocks());
            again.set_reserved_blocks(raw.reserved_blocks());
            again.set_features(raw.features());
            assert_eq!(again.as_bytes(), raw.as_bytes());
        }
    }

    fn check_group(&mut self, group: u32) {
        let layout = self.layout.clone();
        let mut raw = self.group(group);
        raw.verify_checksum(group, &layout).expect("descriptor checksum");
        let (block, offset) = layout.position_of_descriptor(group);
        let mut again = self.block(block).to_vec();
        raw.write(&mut again[offset..], group, &layout);
        assert_eq!(again, self.block(block));
        if !raw.has(BLOCK_UNINIT, &layout) {
            raw.verify_block_bitmap(self.block(raw.block_bitmap()), group, &layout).expect("block bitmap");
        }
        if !raw.has(INODE_UNINIT, &layout) {
            raw.verify_inode_bitmap(self.block(raw.inode_bitmap()), group, &layout).expect("inode bitmap");
            self.check_inodes(group, &raw);
        }
    }

    fn check_inodes(&mut self, group: u32, raw: &RawGroupDescriptor) {
        let bitmap = self.block(raw.inode_bitmap()).to_vec();
        for index in 0..raw.scanned_inodes(&self.layout) {
            let number = self.layout.inode_at(group, index);
            let position = self.layout.position_of_inode(number);
            assert_eq!((position.group, position.index), (group, index));
            let start = (raw.inode_table() + u64::from(position.table_block)).0 as usize * BLOCK + position.offset;
            let slot = self.bytes[start..][..self.layout.inode_size.into()].to_vec();
            // mke2fs marks the reserved inodes as used but leaves most of them as zeros.
            let used = bitmap[index as usize / 8] & 1 << (index % 8) != 0;
            if used && slot.iter().any(|&byte| byte != 0) {
                self.check_inode(number, &slot);
            }
        }
    }

    fn check_inode(&mut self, number: InodeNo, slot: &[u8]) {
        let inode = Inode::decode(slot, number, &self.layout).expect("inode");
        let mut again = slot.to_vec();
        inode.encode_into(&mut again, number, &self.layout);
        assert_eq!(again, slot, "inode {number}");
        let mut fresh = vec![0xff; slot.len()];
        inode.encode_new(&mut fresh, number, &self.layout);
        if attribute_area(slot, &inode).iter().all(|&byte| byte == 0) && slot.len() > 128 {
            let project = 128 + 28;
            assert_eq!(
                (&fresh[..0x6c], &fresh[0x74..project]),
                (&slot[..0x6c], &slot[0x74..project]),
                "inode {number}"
            );
        }
        if inode.has(flags::EXTENTS) {
            let blocks = self.check_tree(number, &inode);
            if inode.kind() == Some(FileKind::Directory) {
                self.check_directory(number, &inode, &blocks);
            }
        }
    }

    /// Checks the file's extent tree; returns the image block of each block of the file.
    fn check_tree(&mut self, number: InodeNo, inode: &Inode) -> Vec<BlockNo> {
        let mut blocks = Vec::new();
        self.check_node(&inode.block, Place::Inode(number), number, inode, &mut blocks);
        blocks
    }

    fn check_node(&mut self, bytes: &[u8], place: Place, number: InodeNo, inode: &Inode, blocks: &mut Vec<BlockNo>) {
        let node = Node::parse(bytes, place).expect("node");
        node.check_entries(&self.layout, place).expect("entries");
        self.deepest = self.deepest.max(node.depth());
        let mut again = vec![0; bytes.len()];
        let mut rebuilt = NodeMut::init(&mut again, node.depth());
        for (index, extent) in node.extents().enumerate() {
            assert!(rebuilt.insert_extent(index, extent));
            assert_eq!(node.find(extent.logical), Some(extent));
            blocks.resize(extent.logical as usize, BlockNo::FIRST);
            blocks.extend(extent.blocks().blocks());
            self.extents += 1;
        }
        for (position, index) in node.indexes().enumerate() {
            assert!(rebuilt.insert_index(position, index));
            assert_eq!(node.child(index.logical), Some(index));
            let child = self.block(index.node).to_vec();
            let place = Place::Block(index.node);
            let seed = self.layout.inode_seed(number, inode.generation);
            extent::verify_checksum(&child, seed, &self.layout, place).expect("tail");
            self.check_node(&child, place, number, inode, blocks);
        }
        let used = 12 + 12 * node.len();
        assert_eq!(again[..used], bytes[..used], "{place}");
    }

    fn check_directory(&mut self, number: InodeNo, inode: &Inode, blocks: &[BlockNo]) {
        let seed = self.layout.inode_seed(number, inode.generation);
        let mut indexes = Vec::new();
        if inode.has(flags::INDEX) {
            indexes = self.check_index(number, seed, blocks);
        }
        for (logical, &physical) in (0..).zip(blocks).filter(|(logical, _)| !indexes.contains(logical)) {
            let place = Place::FileBlock { inode: number, logical };
            let mut bytes = self.block(physical).to_vec();
            block::verify_checksum(&bytes, seed, &self.layout, place).expect("tail");
            let used: Vec<_> = Entries::new(&bytes, place).map(|entry| entry.expect("entry")).collect();
            self.entries += used.iter().filter(|entry| entry.is_used()).count();
            for entry in used.iter().filter(|entry| entry.is_used()) {
                assert_eq!(block::find(&bytes, entry.name, place).expect("block"), Some(*entry));
            }
            let before = bytes.clone();
            block::set_checksum(&mut bytes, seed, &self.layout);
            assert_eq!(bytes, before);
        }
    }

    /// Checks the tree of an indexed directory against its entries; returns its index blocks.
    fn check_index(&mut self, number: InodeNo, seed: u32, blocks: &[BlockNo]) -> Vec<u32> {
        let place = Place::FileBlock { inode: number, logical: 0 };
        let root_block = self.block(blocks[0]).to_vec();
        let info = htree::root_info(&root_block, place).expect("root");
        self.index_levels = self.index_levels.max(info.levels + 1);
        let root = htree::Index::root(&root_block, &self.layout, place).expect("root");
        root.verify_checksum(seed, &self.layout, place).expect("root checksum");
        let mut again = root_block.clone();
        htree::IndexMut::root(&mut again, &self.layout, place).expect("root").set_checksum(seed, &self.layout);
        assert_eq!(again, root_block);
        let mut indexes = vec![0];
        for (position, pair) in root.pairs().enumerate() {
            let end = if position + 1 < root.len() { root.pair(position + 1).hash } else { u32::MAX };
            if info.levels == 0 {
                self.check_leaf(blocks[pair.block as usize], pair.hash..=end, info.hash_version);
                continue;
            }
            indexes.push(pair.block);
            let place = Place::FileBlock { inode: number, logical: pair.block };
            let bytes = self.block(blocks[pair.block as usize]).to_vec();
            let node = htree::Index::node(&bytes, &self.layout, place).expect("node");
            node.verify_checksum(seed, &self.layout, place).expect("node checksum");
            for (inner, child) in node.pairs().enumerate() {
                let low = if inner == 0 { pair.hash } else { child.hash };
                let end = if inner + 1 < node.len() { node.pair(inner + 1).hash } else { end };
                self.check_leaf(blocks[child.block as usize], low..=end, info.hash_version);
            }
        }
        indexes
    }

    fn check_leaf(&self, physical: BlockNo, range: std::ops::RangeInclusive<u32>, version: u8) {
        let unsigned = HashVersion::from_disk(1, HashedBytes::Unsigned).expect("half MD4");
        let is_unsigned = self.layout.hash_version == unsigned;
        let bytes = if is_unsigned { HashedBytes::Unsigned } else { HashedBytes::Signed };
        let version = HashVersion::from_disk(version, bytes).expect("version");
        for entry in Entries::new(self.block(physical), Place::Block(physical)) {
            let entry = entry.expect("entry");
            if entry.is_used() {
                let hash = version.hash(entry.name, self.layout.hash_seed);
                assert!(range.contains(&hash.major), "{:x} in {range:x?}", hash.major);
            }
        }
    }
}

/// An image filled by mke2fs.
fn golden(name: &str, extra: &[&str]) -> Image {
    let scratch = Scratch::new(name);
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    populate(&tree);
    many(&tree.join("many"), 300, 250);
    make_image(&path, Some(&tree), "128M", extra);
    let mut image = Image::read(&path);
    image.check_everything();
    image
}

#[test]
fn every_structure_of_a_default_image_comes_back_byte_for_byte() {
    let image = golden("format-default", &[]);
    assert!(image.extents > 2_000 && image.entries > 600, "{} {}", image.extents, image.entries);
    assert_eq!((image.deepest, image.index_levels), (2, 1));
}

#[test]
fn every_structure_that_the_kernel_wrote_comes_back_byte_for_byte() {
    let scratch = Scratch::new("format-kernel");
    let path = scratch.path("image");
    make_image(&path, None, "384M", &[]);
    let filled = fill_by_kernel(&path, |root| {
        populate(&root.join("tree"));
        many(&root.join("many"), 8_500, 250);
    });
    if filled {
        let mut image = Image::read(&path);
        image.check_everything();
        assert!(image.entries > 8_800 && image.index_levels == 2, "{} {}", image.entries, image.index_levels);
    }
}

#[test]
fn every_structure_of_an_image_without_checksums_comes_back_byte_for_byte() {
    let image = golden("format-plain", &["-O", "^metadata_csum,^64bit", "-I", "128"]);
    assert_eq!((image.layout.descriptor_size, image.layout.directory_tail_length()), (32, 0));
}

#[test]
fn every_structure_of_an_image_with_crc16_and_a_stored_seed_comes_back_byte_for_byte() {
    golden("format-crc16", &["-O", "^metadata_csum,uninit_bg"]);
    let image = golden("format-seed", &["-O", "metadata_csum_seed,^64bit,^flex_bg"]);
    assert_eq!(image.layout.flex_group_size, 1);
}

#[test]
fn blocks_of_one_kib_and_inline_data_are_refused_by_name() {
    let scratch = Scratch::new("format-refused");
    let refuse = |arguments: &[&str]| -> FormatError {
        let path = scratch.path("image");
        let mut all = vec!["-q", "-F", "-t", "ext4"];
        all.extend(arguments);
        all.extend([text(&path), "64M"]);
        run("mke2fs", &all);
        let bytes = std::fs::read(&path).expect("image");
        Layout::decode(RawSuperblock::in_first_block(&bytes).expect("superblock")).expect_err("refused")
    };
    assert!(refuse(&["-b", "1024"]).to_string().contains("blocks of 1024 bytes"));
    assert!(refuse(&["-b", "4096", "-O", "inline_data"]).to_string().contains("inline_data"));
}

#[test]
fn name_hashes_are_those_of_debugfs() {
    let names = [
        &b"a"[..],
        b"hello",
        b"a name of more than thirty-two characters, so two rounds",
        "größe\u{e9}".as_bytes(),
        &[b'x'; 255],
    ];
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let seed = [0x6745_2301, 0xefcd_ab89, 0x6745_2301, 0xefcd_ab89];
    for number in 0..6 {
        for name in names {
            let name = std::str::from_utf8(name).expect("UTF-8");
            for (seed, option) in [([0; 4], ""), (seed, &format!("-s {uuid} "))] {
                let command = format!("dx_hash {option}-h HASHALG_{number} \"{name}\"");
                let said = run("debugfs", &["-R", &command]);
                let hash =
                    HashVersion::from_disk(number, HashedBytes::Signed).expect("version").hash(name.as_bytes(), seed);
                let expected = format!("0x{:x} (minor 0x{:x})", hash.major, hash.minor);
                assert!(said.contains(&expected), "{command}: {said} but {expected}");
            }
        }
    }
}
