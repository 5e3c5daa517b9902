//! Damage of more than a hundred kinds, with checksums made good again: e2fsck finds each, and so does the checker.

mod support;

use onewrite_fs::ext4::format::extent::{Extent, Index, NodeMut};
use onewrite_fs::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT};
use onewrite_fs::ext4::format::inode::flags;
use onewrite_fs::ext4::format::{Inode, Place};
use support::patient::Patient;
use support::{Scratch, e2fsck, fill_by_kernel, make_image, many, populate, run, sparse, text};
use zerocopy::IntoBytes;

/// A file that was removed before the damage.
const REMOVED: &str = "/outer/file";

type Damage = (&'static str, fn(&mut Patient));

/// A populated image with two groups, attributes in inode and block, and trees of one and two levels.
fn patient(scratch: &Scratch) -> Patient {
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    populate(&tree);
    many(&tree.join("many"), 600, 250);
    sparse(&tree.join("pieces"), 700);
    std::fs::create_dir_all(tree.join("outer/inner/core")).expect("directories");
    std::fs::write(tree.join("outer/file"), b"x").expect("file");
    make_image(&path, Some(&tree), "96M", &["-g", "16384"]);
    std::fs::write(scratch.path("value"), vec![b'v'; 2_000]).expect("value");
    let large = format!("ea_set -f {} /hello user.large", text(&scratch.path("value")));
    let removed = Patient::new(&path).inode_of(REMOVED);
    let remove = format!("rm {REMOVED}");
    for command in [&*large, "ea_set /large user.small value", "ea_set /large user.other more", &*remove] {
        run("debugfs", &["-w", "-R", command, text(&path)]);
    }
    support::assert_clean(&path);
    let mut patient = Patient::new(&path);
    patient.remember(REMOVED, removed);
    patient
}

#[test]
fn every_damage_that_e2fsck_finds_is_found() {
    let scratch = Scratch::new("damage");
    let mut patient = patient(&scratch);
    assert!(patient.report().is_clean(), "{:?}", patient.report().findings);
    let all: Vec<Damage> =
        [SUPERBLOCK, GROUPS, BITMAPS, INODES, EXTENTS, DIRECTORIES, TREES, ATTRIBUTES, SPECIAL].concat();
    assert!(all.len() >= 60, "{} kinds", all.len());
    assert_found(&mut patient, &all);
}

#[test]
fn damage_below_the_root_of_a_hash_tree_is_found() {
    let scratch = Scratch::new("damage-levels");
    let path = scratch.path("image");
    make_image(&path, None, "64M", &[]);
    if !fill_by_kernel(&path, |root| many(&root.join("many"), 8_500, 250)) {
        return;
    }
    let mut patient = Patient::new(&path);
    assert!(patient.report().is_clean(), "{:?}", patient.report().findings);
    assert_found(&mut patient, NODES);
}

/// Fails unless e2fsck and the checker both find each damage.
fn assert_found(patient: &mut Patient, all: &[Damage]) {
    let mut missed = Vec::new();
    for (name, damage) in all {
        damage(patient);
        patient.write();
        let ours = patient.report();
        let (status, theirs) = e2fsck(patient.path());
        patient.heal();
        // Of some damage it tells but exits with 0.
        if status & (4 | 8) == 0 && !theirs.contains("? no") {
            missed.push(format!("{name}: e2fsck finds nothing ({status}): {theirs}"));
        }
        if ours.is_clean() {
            missed.push(format!("{name}: not found; e2fsck says {theirs}"));
        }
    }
    assert!(patient.report().is_clean(), "healed");
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), all.len(), missed.join("\n"));
}

fn put16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
}

fn put32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

const SUPERBLOCK: &[Damage] = &[
    ("superblock: magic", |p| p.superblock(|raw| raw.magic.set(0))),
    ("superblock: checksum", |p| p.block_mut(0)[1024 + 0x78] ^= 1),
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

const GROUPS: &[Damage] = &[
    ("descriptor: checksum", |p| {
        let (block, offset) = p.layout.position_of_descriptor(1);
        p.block_mut(block)[offset + 0x1e] ^= 1;
    }),
    ("descriptor: block bitmap beyond the image", |p| p.change_descriptor(1, |raw| raw.set_block_bitmap(1 << 40))),
    ("descriptor: inode bitmap beyond the image", |p| p.change_descriptor(1, |raw| raw.set_inode_bitmap(1 << 31))),
    ("descriptor: inode table beyond the image", |p| p.change_descriptor(1, |raw| raw.set_inode_table(1 << 31))),
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

const BITMAPS: &[Damage] = &[
    ("block bitmap: free block marked", |p| {
        let free = p.layout.index_in_group(p.free_block()) as usize;
        p.block_bitmap(p.layout.group_count - 1, |bitmap| bitmap[free / 8] |= 1 << (free % 8));
    }),
    ("block bitmap: used block free", |p| p.block_bitmap(0, |bitmap| bitmap[40] = 0)),
    ("block bitmap: end not filled up", |p| p.block_bitmap(p.layout.group_count - 1, |bitmap| bitmap[4095] = 0)),
    ("block bitmap: checksum", |p| p.change_descriptor(0, |raw| raw.set_block_bitmap_checksum(1))),
    ("inode bitmap: free inode marked", |p| p.inode_bitmap(0, |bitmap| bitmap[p_last(bitmap)] |= 0x80)),
    ("inode bitmap: used inode free", |p| {
        let index = p.inode_of("/hello") as usize - 1;
        p.inode_bitmap(0, |bitmap| bitmap[index / 8] &= !(1 << (index % 8)));
    }),
    ("inode bitmap: reserved inode free", |p| p.inode_bitmap(0, |bitmap| bitmap[0] &= !0x20)),
    ("inode bitmap: end not filled up", |p| p.inode_bitmap(0, |bitmap| bitmap[4095] = 0)),
    ("inode bitmap: checksum", |p| p.change_descriptor(0, |raw| raw.set_inode_bitmap_checksum(1))),
];

/// The last byte of a bitmap's inodes that is not all ones.
fn p_last(bitmap: &[u8]) -> usize {
    bitmap.iter().rposition(|&byte| byte != 0xff).expect("a free inode")
}

const INODES: &[Damage] = &[
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
    ("inode: attribute block beyond the image", |p| edit(p, "/large", |inode| inode.file_acl = 1 << 40)),
    ("inode: attribute block that is none", |p| {
        let taken = p.place_of(2, 0);
        edit_with(p, "/large", move |inode| inode.file_acl = taken);
    }),
    ("inode: hash tree in a file", |p| edit(p, "/large", |inode| inode.flags |= flags::INDEX)),
    ("inode: hash tree in a plain directory", |p| edit(p, "/sub", |inode| inode.flags |= flags::INDEX)),
    ("inode: inline data without the feature", |p| edit(p, "/large", |inode| inode.flags |= flags::INLINE_DATA)),
    ("inode: no extents where there are", |p| edit(p, "/large", |inode| inode.flags &= !flags::EXTENTS)),
    ("inode: fifo with a size", |p| edit(p, "/fifo", |inode| inode.size = 5)),
    ("inode: fifo that may not change", |p| edit(p, "/fifo", |inode| inode.flags |= flags::IMMUTABLE)),
    ("inode: fifo with extents", |p| edit(p, "/fifo", |inode| inode.flags |= flags::EXTENTS)),
    ("inode: short link of another length", |p| edit(p, "/short-link", |inode| inode.size = 7)),
    ("inode: short link with extents", |p| edit(p, "/short-link", |inode| inode.flags |= flags::EXTENTS)),
    ("inode: long link of another length", |p| edit(p, "/long-link", |inode| inode.size = 100)),
    ("inode: root is a file", |p| p.change_inode(2, |inode| inode.mode = 0o100_644)),
    ("inode: large file without the feature", |p| {
        edit(p, "/large", |inode| inode.size = 1 << 33);
        p.superblock(|raw| raw.feature_ro_compat.set(raw.feature_ro_compat.get() & !2));
    }),
    ("inode: removed without a time of deletion", |p| {
        let removed = p.inode_of(REMOVED);
        p.slot_sealed(removed, |slot| put32(slot, 0x14, 0));
    }),
    ("inode: reserved inode is a directory", |p| {
        p.change_inode(6, |inode| (inode.mode, inode.extra_isize) = (0o040_755, 32));
    }),
];

fn edit(patient: &mut Patient, path: &str, change: fn(&mut Inode)) {
    edit_with(patient, path, change);
}

fn edit_with(patient: &mut Patient, path: &str, change: impl FnOnce(&mut Inode)) {
    let number = patient.inode_of(path);
    patient.change_inode(number, change);
}

/// Changes the root of a file's map, with the node's own means.
fn root(patient: &mut Patient, path: &str, change: fn(&mut NodeMut<'_>)) {
    edit_with(patient, path, |inode| {
        change(&mut NodeMut::parse(&mut inode.block, Place::Inode(0)).expect("root"));
    });
}

/// Changes the first node below a file's root.
fn node(patient: &mut Patient, path: &str, change: fn(&mut [u8])) {
    let number = patient.inode_of(path);
    patient.change_node(number, change);
}

/// Changes the first extent of a file whose map fits its inode.
fn first_extent(patient: &mut Patient, path: &str, change: impl FnOnce(&mut Extent)) {
    edit_with(patient, path, |inode| {
        let mut node = NodeMut::parse(&mut inode.block, Place::Inode(0)).expect("root");
        let mut extent = node.node().extent(0);
        change(&mut extent);
        node.set_extent(0, extent);
    });
}

const EXTENTS: &[Damage] = &[
    ("extents: magic", |p| edit(p, "/large", |inode| inode.block[0] = 0)),
    ("extents: more entries than fit", |p| edit(p, "/large", |inode| inode.block[2] = 9)),
    ("extents: capacity", |p| edit(p, "/large", |inode| inode.block[4] = 40)),
    ("extents: too deep", |p| edit(p, "/large", |inode| inode.block[6] = 9)),
    ("extents: leaf taken for an inner node", |p| edit(p, "/large", |inode| inode.block[6] = 1)),
    ("extents: beyond the image", |p| first_extent(p, "/large", |extent| extent.physical = 1 << 40)),
    ("extents: block 0", |p| first_extent(p, "/large", |extent| extent.physical = 0)),
    ("extents: end beyond the image", |p| {
        let last = p.layout.block_count - 2;
        first_extent(p, "/large", |extent| extent.physical = last);
    }),
    ("extents: length 0", |p| edit(p, "/large", |inode| put16(&mut inode.block, 16, 0))),
    ("extents: on an inode table", |p| {
        let table = p.descriptor(0).inode_table();
        first_extent(p, "/hello", |extent| extent.physical = table);
    }),
    ("extents: on a superblock", |p| {
        let group = p.layout.first_block_of_group(1);
        first_extent(p, "/hello", |extent| extent.physical = group);
    }),
    ("extents: blocks of another file", |p| {
        let number = p.inode_of("/large");
        let taken = p.place_of(number, 5);
        first_extent(p, "/hello", |extent| extent.physical = taken);
    }),
    ("extents: longer than what is taken", |p| first_extent(p, "/hello", |extent| extent.length = 2)),
    ("extents: node's magic", |p| node(p, "/pieces", |node| node[0] = 0)),
    ("extents: node's checksum", |p| {
        let number = p.inode_of("/pieces");
        let node = p.node_of(number);
        p.block_mut(node)[4092] ^= 1;
    }),
    ("extents: node without entries", |p| node(p, "/pieces", |node| node[2..4].fill(0))),
    ("extents: not in order", |p| {
        node(p, "/pieces", |node| {
            let (first, second) = (get32(node, 12), get32(node, 24));
            put32(node, 24, first);
            put32(node, 12, second);
        });
    }),
    ("extents: overlap", |p| node(p, "/pieces", |node| put16(node, 16, 5))),
    ("extents: index begins elsewhere", |p| {
        root(p, "/pieces", |root| {
            let index = root.node().index(1);
            root.set_index(1, Index { logical: index.logical + 1, ..index });
        });
    }),
    ("extents: index beyond the image", |p| {
        root(p, "/pieces", |root| root.set_index(0, Index { logical: 1, node: 1 << 40 }));
    }),
    ("extents: two indexes for one node", |p| {
        root(p, "/pieces", |root| {
            let (first, second) = (root.node().index(0), root.node().index(1));
            root.set_index(1, Index { node: first.node, ..second });
        });
    }),
    ("extents: directory never written", |p| first_extent(p, "/sub", |extent| extent.unwritten = true)),
    ("extents: directory with a hole", |p| {
        let number = p.inode_of("/many");
        p.change_inode(number, |inode| {
            let mut node = NodeMut::parse(&mut inode.block, Place::Inode(0)).expect("root");
            let extent = node.node().extent(0);
            node.set_extent(0, Extent { length: 1, ..extent });
            let rest = Extent { logical: 2, physical: extent.physical + 2, length: extent.length - 2, ..extent };
            assert!(node.insert_extent(1, rest));
            inode.sectors -= 8;
        });
    }),
];

/// Changes the record of an entry.
fn entry(patient: &mut Patient, directory: &str, name: &str, change: impl FnOnce(&mut [u8])) {
    let number = patient.inode_of(directory);
    patient.change_entry(number, name, change);
}

const DIRECTORIES: &[Damage] = &[
    ("directory: checksum", |p| {
        let number = p.inode_of("/sub");
        let block = p.place_of(number, 0);
        p.block_mut(block)[4095] ^= 1;
    }),
    ("directory: no tail", |p| {
        let number = p.inode_of("/sub");
        let block = p.place_of(number, 0);
        p.block_mut(block)[4091] = 0;
    }),
    ("directory: record length 0", |p| entry(p, "/sub", "deep", |record| put16(record, 4, 0))),
    ("directory: record length no multiple of 4", |p| entry(p, "/sub", "deep", |record| put16(record, 4, 18))),
    ("directory: record beyond the block", |p| entry(p, "/sub", "deep", |record| put16(record, 4, 5000))),
    ("directory: name beyond its record", |p| entry(p, "/sub", "deep", |record| record[6] = 200)),
    ("directory: no name", |p| entry(p, "/sub", "again", |record| record[6] = 0)),
    ("directory: slash in a name", |p| entry(p, "/sub", "again", |record| record[9] = b'/')),
    ("directory: zero byte in a name", |p| entry(p, "/sub", "again", |record| record[9] = 0)),
    ("directory: inode beyond the last", |p| entry(p, "/sub", "again", |record| put32(record, 0, 9_999_999))),
    ("directory: reserved inode", |p| entry(p, "/sub", "again", |record| put32(record, 0, 8))),
    ("directory: free inode", |p| {
        let free = p.layout.inode_count - 3;
        entry(p, "/sub", "again", |record| put32(record, 0, free));
    }),
    ("directory: kind", |p| entry(p, "/sub", "again", |record| record[7] = 2)),
    ("directory: `.` names another", |p| entry(p, "/sub", ".", |record| put32(record, 0, 2))),
    ("directory: `.` has another name", |p| entry(p, "/sub", ".", |record| record[8] = b'x')),
    ("directory: `.` is free", |p| entry(p, "/sub", ".", |record| put32(record, 0, 0))),
    ("directory: `.` of another kind", |p| entry(p, "/sub", ".", |record| record[7] = 1)),
    ("directory: `.` is large", |p| entry(p, "/sub", ".", |record| put16(record, 4, 24))),
    ("directory: `..` has another name", |p| entry(p, "/sub", "..", |record| record[9] = b'x')),
    ("directory: `..` is not the parent", |p| {
        let other = p.inode_of("/outer");
        entry(p, "/sub/deep", "..", |record| put32(record, 0, other));
    }),
    ("directory: `..` of the root", |p| {
        let other = p.inode_of("/outer");
        p.change_entry(2, "..", |record| put32(record, 0, other));
    }),
    ("directory: one more `.`", |p| {
        entry(p, "/sub", "again", |record| (record[6], record[8]) = (1, b'.'));
    }),
    ("directory: one more `..`", |p| {
        entry(p, "/sub", "again", |record| {
            record[6] = 2;
            record[8..10].copy_from_slice(b"..");
        });
    }),
    ("directory: the same name twice", |p| {
        entry(p, "/outer/inner", "core", |record| {
            let inode = record[..4].to_vec();
            put16(record, 4, 12);
            record[12..16].copy_from_slice(&inode);
            put16(record, 16, 4096 - 24 - 12 - 12);
            (record[18], record[19]) = (4, 2);
            record[20..24].copy_from_slice(b"core");
        });
    }),
    ("directory: two names of one directory", |p| {
        let other = p.inode_of("/sub/deep");
        entry(p, "/outer", "inner", |record| put32(record, 0, other));
    }),
    ("directory: a name of itself", |p| {
        let own = p.inode_of("/outer");
        entry(p, "/outer", "inner", |record| put32(record, 0, own));
    }),
    ("directory: a name of the root", |p| entry(p, "/outer", "inner", |record| put32(record, 0, 2))),
    ("directory: a directory without a name", |p| entry(p, "/outer", "inner", |record| put32(record, 0, 0))),
    ("directory: a file without a name", |p| p.change_entry(2, "large", |record| put32(record, 0, 0))),
];

/// Changes the root of a directory's tree.
fn tree(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/many");
    patient.tree_root(number, change);
}

const TREES: &[Damage] = &[
    ("hash tree: root's checksum", |p| {
        let number = p.inode_of("/many");
        let block = p.place_of(number, 0);
        p.block_mut(block)[4092] ^= 1;
    }),
    ("hash tree: version", |p| tree(p, |root| root[0x1c] = 9)),
    ("hash tree: other version", |p| tree(p, |root| root[0x1c] = 2)),
    ("hash tree: length of the information", |p| tree(p, |root| root[0x1d] = 4)),
    ("hash tree: levels", |p| tree(p, |root| root[0x1e] = 5)),
    ("hash tree: flags", |p| tree(p, |root| root[0x1f] = 1)),
    ("hash tree: limit", |p| tree(p, |root| put16(root, 0x20, 300))),
    ("hash tree: count", |p| tree(p, |root| put16(root, 0x22, 600))),
    ("hash tree: no pairs", |p| tree(p, |root| put16(root, 0x22, 0))),
    ("hash tree: fewer pairs", |p| tree(p, |root| put16(root, 0x22, 1))),
    ("hash tree: block beyond the directory", |p| tree(p, |root| put32(root, 0x24, 60_000))),
    ("hash tree: block twice", |p| {
        tree(p, |root| {
            let block = get32(root, 0x24);
            put32(root, 0x2c, block);
        });
    }),
    ("hash tree: hashes not in order", |p| {
        let number = p.inode_of("/some");
        p.tree_root(number, |root| put32(root, 0x28, 0xffff_fff0));
    }),
    ("hash tree: names in another leaf", |p| {
        let number = p.inode_of("/some");
        p.tree_root(number, |root| {
            let (first, second) = (get32(root, 0x24), get32(root, 0x2c));
            put32(root, 0x24, second);
            put32(root, 0x2c, first);
        });
    }),
];

/// Changes the first index block below the root of a tree; its checksum too, if that is asked for.
fn tree_node(patient: &mut Patient, sealed: bool, change: fn(&mut [u8])) {
    let number = patient.inode_of("/many");
    let logical = get32(patient.block(patient.place_of(number, 0)), 0x24);
    match sealed {
        true => patient.tree_node(number, logical, change),
        false => change(patient.block_mut(patient.place_of(number, logical))),
    }
}

const NODES: &[Damage] = &[
    ("hash tree: node's checksum", |p| tree_node(p, false, |node| node[4092] ^= 1)),
    ("hash tree: node's free record", |p| tree_node(p, true, |node| node[5] = 0x0f)),
    ("hash tree: node's limit", |p| tree_node(p, true, |node| put16(node, 8, 100))),
    ("hash tree: node's count", |p| tree_node(p, true, |node| put16(node, 10, 0))),
    ("hash tree: fewer pairs in a node", |p| tree_node(p, true, |node| put16(node, 10, 1))),
    ("hash tree: node's hashes not in order", |p| tree_node(p, true, |node| put32(node, 24, 2))),
    ("hash tree: node names a node", |p| tree_node(p, true, |node| put32(node, 12, 0))),
    ("hash tree: fewer levels than there are", |p| tree(p, |root| root[0x1e] = 0)),
];

/// Changes the list of attributes behind the fields of `/large`, and seals the inode.
fn inline(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/large");
    patient.slot_sealed(number, |slot| change(&mut slot[164..]));
}

/// Changes the block of attributes of `/hello`.
fn outline(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/hello");
    patient.attributes(number, change);
}

const ATTRIBUTES: &[Damage] = &[
    ("attributes in inode: name beyond the end", |p| inline(p, |list| list[0] = 250)),
    ("attributes in inode: value beyond the end", |p| inline(p, |list| put16(list, 2, 4000))),
    ("attributes in inode: value's size", |p| inline(p, |list| put32(list, 8, 5000))),
    ("attributes in inode: value in an inode", |p| inline(p, |list| put32(list, 4, 12))),
    ("attributes in inode: hash", |p| inline(p, |list| put32(list, 12, 0x1234))),
    ("attributes in inode: two on one value", |p| {
        inline(p, |list| {
            let second = (16 + usize::from(list[0])).next_multiple_of(4);
            let value = [list[second + 2], list[second + 3]];
            list[2..4].copy_from_slice(&value);
            put32(list, 12, 0);
        });
    }),
    ("attribute block: magic", |p| outline(p, |block| block[0] ^= 1)),
    ("attribute block: checksum", |p| {
        let number = p.inode_of("/hello");
        let block = p.inode(number).file_acl;
        p.block_mut(block)[0x10] ^= 1;
    }),
    ("attribute block: references", |p| outline(p, |block| put32(block, 4, 7))),
    ("attribute block: blocks", |p| outline(p, |block| put32(block, 8, 2))),
    ("attribute block: name beyond the end", |p| {
        outline(p, |block| {
            put16(block, 34, 4090);
            block[32] = 255;
        });
    }),
    ("attribute block: value beyond the end", |p| outline(p, |block| put16(block, 34, 4000))),
    ("attribute block: value on the entries", |p| outline(p, |block| put16(block, 34, 40))),
    ("attribute block: hash", |p| outline(p, |block| put32(block, 44, 77))),
];

/// Changes the superblock of the journal.
fn journal(patient: &mut Patient, change: fn(&mut [u8])) {
    let block = patient.place_of(8, 0);
    change(patient.block_mut(block));
}

const SPECIAL: &[Damage] = &[
    ("journal: inode is a directory", |p| p.change_inode(8, |inode| inode.mode = 0o040_600)),
    ("journal: inode without links", |p| p.change_inode(8, |inode| inode.links = 0)),
    ("journal: inode without a map", |p| p.change_inode(8, |inode| inode.block.fill(0))),
    ("journal: superblock's magic", |p| journal(p, |block| block[0] = 0)),
    ("journal: superblock's kind", |p| journal(p, |block| block[7] = 9)),
    ("journal: longer than its file", |p| journal(p, |block| block[0x10] = 1)),
    ("journal: block size", |p| journal(p, |block| block[0x0e] = 4)),
    ("journal: unknown features", |p| journal(p, |block| block[0x28] = 0x70)),
    ("journal: something to replay that nobody says", |p| journal(p, |block| block[0x1f] = 1)),
    ("journal: an error was noted", |p| journal(p, |block| block[0x23] = 5)),
    ("resize inode: no map", |p| p.change_inode(7, |inode| inode.block.fill(0))),
    ("resize inode: another block", |p| {
        let inode = p.inode(7);
        let double = get32(&inode.block, 13 * 4);
        let table = p.block_mut(double.into());
        let kept = get32(table, 4);
        put32(table, 4, kept + 1);
    }),
    ("resize inode: without its feature", |p| {
        p.superblock(|raw| raw.feature_compat.set(raw.feature_compat.get() & !0x10));
    }),
];

/// What `e2fsck -fn` lets pass.
const BEYOND: &[Damage] = &[
    ("directory: two that name each other", |p| {
        // /outer/inner/core gets the name of /outer/inner, which nothing else names then.
        let inner = p.inode_of("/outer/inner");
        let core = p.inode_of("/outer/inner/core");
        p.entries(core, 0, |bytes| {
            put16(bytes, 16, 12);
            put32(bytes, 24, inner);
            put16(bytes, 28, 4096 - 24 - 12);
            (bytes[30], bytes[31]) = (1, 2);
            bytes[32] = b'i';
        });
        entry(p, "/outer", "inner", |record| put32(record, 0, 0));
        p.change_entry(inner, "..", |record| put32(record, 0, core));
        p.change_inode(core, |inode| inode.links = 3);
        edit(p, "/outer", |inode| inode.links = 2);
    }),
    ("superblock: orphan out of range", |p| p.superblock(|raw| raw.last_orphan.set(9_999_999))),
    ("superblock: reserved inode as orphan", |p| p.superblock(|raw| raw.last_orphan.set(5))),
    ("inode: fifo with a map", |p| edit(p, "/fifo", |inode| inode.block[20] = 1)),
    ("extents: node of another depth", |p| node(p, "/pieces", |node| node[6] = 1)),
];

#[test]
fn damage_that_e2fsck_lets_pass_is_found() {
    let scratch = Scratch::new("damage-beyond");
    let mut patient = patient(&scratch);
    for (name, damage) in BEYOND {
        damage(&mut patient);
        patient.write();
        assert!(!patient.report().is_clean(), "{name}");
        patient.heal();
    }
}

#[test]
fn totals_of_the_superblock_are_a_note() {
    let scratch = Scratch::new("damage-totals");
    let mut patient = patient(&scratch);
    patient.superblock(|raw| {
        raw.set_free_blocks(raw.free_blocks() + 5);
        raw.free_inodes_count.set(1);
    });
    patient.write();
    let (report, (status, _)) = (patient.report(), e2fsck(patient.path()));
    assert_eq!((report.is_clean(), report.notes.len(), status), (true, 2, 0));
}

#[test]
fn findings_name_place_problem_and_cure() {
    let scratch = Scratch::new("damage-named");
    let mut patient = patient(&scratch);
    let before = patient.superblock_bytes();
    let number = patient.inode_of("/hello");
    patient.change_inode(number, |inode| inode.links = 9);
    patient.write();
    let report = patient.report();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].place, Place::Inode(number));
    assert_eq!(report.findings[0].to_string(), format!("inode {number}: counts 9 names but has 2 (cure: e2fsck -f)"));
    patient.heal();
    assert!(patient.report().is_clean());
    assert_eq!(patient.superblock_bytes().as_bytes(), before);
}
