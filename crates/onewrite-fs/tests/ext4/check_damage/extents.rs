//! Damage of extent trees.

use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::format::Place;
use onewrite_fs::ext4::format::extent::{Extent, Index, NodeMut};

use super::{Damage, edit, edit_with, get32, put16, put32};
use crate::support::patient::Patient;

/// Changes the root of a file's map through `NodeMut`.
fn root(patient: &mut Patient, path: &str, change: fn(&mut NodeMut<'_>)) {
    edit_with(patient, path, |inode| {
        change(&mut NodeMut::parse(&mut inode.block, Place::Inode(InodeNo(0))).expect("root"));
    });
}

/// Changes the first node below a file's root.
pub fn node(patient: &mut Patient, path: &str, change: fn(&mut [u8])) {
    let number = patient.inode_of(path);
    patient.change_node(number, change);
}

/// Changes the first extent of a file whose map fits its inode.
fn first_extent(patient: &mut Patient, path: &str, change: impl FnOnce(&mut Extent)) {
    edit_with(patient, path, |inode| {
        let mut node = NodeMut::parse(&mut inode.block, Place::Inode(InodeNo(0))).expect("root");
        let mut extent = node.node().extent(0);
        change(&mut extent);
        node.set_extent(0, extent);
    });
}

pub const EXTENTS: &[Damage] = &[
    ("extents: magic", |p| edit(p, "/large", |inode| inode.block[0] = 0)),
    ("extents: more entries than fit", |p| edit(p, "/large", |inode| inode.block[2] = 9)),
    ("extents: capacity", |p| edit(p, "/large", |inode| inode.block[4] = 40)),
    ("extents: too deep", |p| edit(p, "/large", |inode| inode.block[6] = 9)),
    ("extents: leaf taken for an inner node", |p| edit(p, "/large", |inode| inode.block[6] = 1)),
    ("extents: beyond the image", |p| first_extent(p, "/large", |extent| extent.physical = BlockNo(1 << 40))),
    ("extents: block 0", |p| first_extent(p, "/large", |extent| extent.physical = BlockNo::FIRST)),
    ("extents: end beyond the image", |p| {
        let last = BlockNo(p.layout.block_count - 2);
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
        root(p, "/pieces", |root| root.set_index(0, Index { logical: 1, node: BlockNo(1 << 40) }));
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
            let mut node = NodeMut::parse(&mut inode.block, Place::Inode(InodeNo(0))).expect("root");
            let extent = node.node().extent(0);
            node.set_extent(0, Extent { length: 1, ..extent });
            let rest = Extent { logical: 2, physical: extent.physical + 2, length: extent.length - 2, ..extent };
            assert!(node.insert_extent(1, rest));
            inode.sectors -= 8;
        });
    }),
];
