//! Damage of superblock, descriptors, bitmaps and inodes.

use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use onewrite_fs::ext4::format::inode::flags;

use super::{Damage, REMOVED, edit, edit_with, put16, put32};

pub const SUPERBLOCK: &[Damage] = &[
    ("superblock: magic", |p| p.superblock(|raw| raw.magic.set(0))),
    ("superblock: checksum", |p| p.block_mut(BlockNo::FIRST)[1024 + 0x78] ^= 1),
    ("superblock: more blocks than the device", |p| p.superblock(|raw| raw.blocks_count_lo.set(1 << 24))),
    ("superblock: inode count", |p| p.superblock(|raw| raw.inodes_count.set(raw.inodes_count.get() + 8))),
    ("superblock: no blocks per group", |p| p.superblock(|raw| raw.blocks_per_group.set(0))),
    ("superblock: no inodes per group", |p| p.superblock(|raw| raw.inodes_per_group.set(0))),
    ("superblock: inode size", |p| p.superblock(|raw| raw.inode_size.set(100))),
    ("superblock: block size", |p| p.superblock(|raw| raw.log_block_size.set(40))),
    ("superblock: descriptor size", |p| p.superblock(|raw| raw.desc_size.set(7))),
    ("superblock: first data block", |p| p.superblock(|raw| raw.first_data_block.set(1 << 30))),
    ("superblock: reserved blocks", |p| p.superblock(|raw| raw.set_reserved_blocks(1 << 31))),
    ("superblock: kept descriptor blocks", |p| p.superblock(|raw| raw.reserved_gdt_blocks.set(60_000))),
    ("superblock: no journal inode", |p| p.superblock(|raw| raw.journal_inum.set(0))),
    ("superblock: journal without its feature", |p| {
        p.superblock(|raw| raw.feature_compat.set(raw.feature_compat.get() & !4));
    }),
    ("superblock: recovery without a journal", |p| {
        p.superblock(|raw| {
            raw.feature_compat.set(raw.feature_compat.get() & !4);
            raw.journal_inum.set(0);
            raw.feature_incompat.set(raw.feature_incompat.get() | 4);
        });
    }),
];

pub const GROUPS: &[Damage] = &[
    ("descriptor: checksum", |p| {
        let (block, offset) = p.layout.position_of_descriptor(1);
        p.block_mut(block)[offset + 0x1e] ^= 1;
    }),
    ("descriptor: block bitmap beyond the image", |p| {
        p.change_descriptor(1, |raw| raw.set_block_bitmap(BlockNo(1 << 40)))
    }),
    ("descriptor: inode bitmap beyond the image", |p| {
        p.change_descriptor(1, |raw| raw.set_inode_bitmap(BlockNo(1 << 31)))
    }),
    ("descriptor: inode table beyond the image", |p| {
        p.change_descriptor(1, |raw| raw.set_inode_table(BlockNo(1 << 31)))
    }),
    ("descriptor: two bitmaps in one block", |p| {
        let block = p.descriptor(0).block_bitmap();
        p.change_descriptor(1, |raw| raw.set_block_bitmap(block));
    }),
    ("descriptor: inode tables overlap", |p| {
        let table = p.descriptor(0).inode_table();
        p.change_descriptor(1, |raw| raw.set_inode_table(table + 3));
    }),
    ("descriptor: free blocks", |p| p.change_descriptor(1, |raw| raw.set_free_blocks(raw.free_blocks() - 1))),
    ("descriptor: free inodes", |p| p.change_descriptor(0, |raw| raw.set_free_inodes(raw.free_inodes() + 1))),
    ("descriptor: directories", |p| p.change_descriptor(0, |raw| raw.set_used_directories(77))),
    ("descriptor: used inodes called unused", |p| {
        let all = p.layout.inodes_per_group;
        p.change_descriptor(0, |raw| raw.set_unused_inodes(all - 20));
    }),
    ("descriptor: used inode table called uninitialized", |p| {
        p.change_descriptor(0, |raw| raw.flags.set(raw.flags.get() | INODE_UNINIT));
    }),
    ("descriptor: used block bitmap called uninitialized", |p| {
        p.change_descriptor(0, |raw| raw.flags.set(raw.flags.get() | BLOCK_UNINIT));
    }),
];

pub const BITMAPS: &[Damage] = &[
    ("block bitmap: free block marked", |p| {
        let free = p.layout.index_in_group(p.free_block()) as usize;
        p.block_bitmap(p.layout.group_count - 1, |bitmap| bitmap[free / 8] |= 1 << (free % 8));
    }),
    ("block bitmap: used block free", |p| p.block_bitmap(0, |bitmap| bitmap[40] = 0)),
    ("block bitmap: end not filled up", |p| p.block_bitmap(p.layout.group_count - 1, |bitmap| bitmap[4095] = 0)),
    ("block bitmap: checksum", |p| p.change_descriptor(0, |raw| raw.set_block_bitmap_checksum(1))),
    ("inode bitmap: free inode marked", |p| p.inode_bitmap(0, |bitmap| bitmap[p_last(bitmap)] |= 0x80)),
    ("inode bitmap: used inode free", |p| {
        let index = p.inode_of("/hello").0 as usize - 1;
        p.inode_bitmap(0, |bitmap| bitmap[index / 8] &= !(1 << (index % 8)));
    }),
    ("inode bitmap: reserved inode free", |p| p.inode_bitmap(0, |bitmap| bitmap[0] &= !0x20)),
    ("inode bitmap: end not filled up", |p| p.inode_bitmap(0, |bitmap| bitmap[4095] = 0)),
    ("inode bitmap: checksum", |p| p.change_descriptor(0, |raw| raw.set_inode_bitmap_checksum(1))),
];

/// Index of the last byte of an inode bitmap that is not all ones.
fn p_last(bitmap: &[u8]) -> usize {
    bitmap.iter().rposition(|&byte| byte != 0xff).expect("a free inode")
}

pub const INODES: &[Damage] = &[
    ("inode: checksum", |p| {
        let number = p.inode_of("/hello");
        p.slot(number, |slot| slot[0x20] ^= 0x40);
    }),
    ("inode: no mode", |p| edit(p, "/hello", |inode| inode.mode = 0)),
    ("inode: impossible mode", |p| edit(p, "/hello", |inode| inode.mode = 0xf1ff)),
    ("inode: too many links", |p| edit(p, "/hello", |inode| inode.links += 3)),
    ("inode: too few links", |p| edit(p, "/hello", |inode| inode.links = 1)),
    ("inode: no links though named", |p| edit(p, "/large", |inode| inode.links = 0)),
    ("inode: time of deletion", |p| edit(p, "/hello", |inode| inode.dtime = 1_000_000_000)),
    ("inode: sectors", |p| edit(p, "/large", |inode| inode.sectors += 8)),
    ("inode: smaller than its data", |p| edit(p, "/large", |inode| inode.size = 10)),
    ("inode: larger than a file can be", |p| edit(p, "/large", |inode| inode.size = 1 << 50)),
    ("inode: directory's size no multiple of blocks", |p| edit(p, "/sub", |inode| inode.size = 100)),
    ("inode: directory without size", |p| edit(p, "/sub", |inode| inode.size = 0)),
    ("inode: directory larger than its blocks", |p| edit(p, "/sub", |inode| inode.size = 8192)),
    ("inode: extra size", |p| {
        let number = p.inode_of("/hello");
        p.slot(number, |slot| put16(slot, 0x80, 7));
    }),
    ("inode: attribute block beyond the image", |p| edit(p, "/large", |inode| inode.file_acl = BlockNo(1 << 40))),
    ("inode: attribute block that is none", |p| {
        let taken = p.place_of(InodeNo(2), 0);
        edit_with(p, "/large", move |inode| inode.file_acl = taken);
    }),
    ("inode: hash tree in a file", |p| edit(p, "/large", |inode| inode.flags |= flags::INDEX)),
    ("inode: hash tree in a plain directory", |p| edit(p, "/sub", |inode| inode.flags |= flags::INDEX)),
    ("inode: inline data without the feature", |p| edit(p, "/large", |inode| inode.flags |= flags::INLINE_DATA)),
    ("inode: no extents where there are", |p| edit(p, "/large", |inode| inode.flags &= !flags::EXTENTS)),
    ("inode: fifo with a size", |p| edit(p, "/fifo", |inode| inode.size = 5)),
    ("inode: fifo that may not change", |p| edit(p, "/fifo", |inode| inode.flags |= flags::IMMUTABLE)),
    ("inode: fifo with extents", |p| edit(p, "/fifo", |inode| inode.flags |= flags::EXTENTS)),
    ("inode: directory called a socket", |p| edit(p, "/sub", |inode| inode.mode = 0o140_755)),
    ("inode: directory of no kind", |p| edit(p, "/outer/inner", |inode| inode.mode = 0o755)),
    ("inode: short link of another length", |p| edit(p, "/short-link", |inode| inode.size = 7)),
    ("inode: short link with extents", |p| edit(p, "/short-link", |inode| inode.flags |= flags::EXTENTS)),
    ("inode: long link of another length", |p| edit(p, "/long-link", |inode| inode.size = 100)),
    ("inode: root is a file", |p| p.change_inode(InodeNo(2), |inode| inode.mode = 0o100_644)),
    ("inode: large file without the feature", |p| {
        edit(p, "/large", |inode| inode.size = 1 << 33);
        p.superblock(|raw| raw.feature_ro_compat.set(raw.feature_ro_compat.get() & !2));
    }),
    ("inode: removed without a time of deletion", |p| {
        let removed = p.inode_of(REMOVED);
        p.slot_sealed(removed, |slot| put32(slot, 0x14, 0));
    }),
    ("inode: reserved inode is a directory", |p| {
        p.change_inode(InodeNo(6), |inode| (inode.mode, inode.extra_isize) = (0o040_755, 32));
    }),
];
