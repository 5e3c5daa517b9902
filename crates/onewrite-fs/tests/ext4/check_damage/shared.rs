//! Damage that points one file at the blocks of another. The other keeps its blocks, whichever inode comes first.
//!
//! `/middle` has content, a node of extents and a block of attributes. The inode of `/low` comes before it, the inode
//! of `/high` after it.

use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::format::Place;
use onewrite_fs::ext4::format::extent::{Extent, Index, Node, NodeMut};
use onewrite_fs::repair::Manner;

use super::{Damage, edit, edit_with};
use crate::support::patient::Patient;
use crate::support::{Scratch, make_image, run, sparse, text};

/// Adds the three files.
pub fn add_files(scratch: &Scratch, image: &str) {
    std::fs::write(scratch.path("small"), vec![3; 4096]).expect("file");
    sparse(&scratch.path("pieces"), 40);
    std::fs::write(scratch.path("list"), vec![b'v'; 2_000]).expect("value");
    for (source, name) in [("small", "low"), ("pieces", "middle"), ("small", "high")] {
        let write = format!("write {} {name}", text(&scratch.path(source)));
        run("debugfs", &["-w", "-R", &write, image]);
    }
    let list = format!("ea_set -f {} /middle user.list", text(&scratch.path("list")));
    run("debugfs", &["-w", "-R", &list, image]);
}

/// Gives a file one extent of one block and nothing else.
fn claim(patient: &mut Patient, path: &str, physical: BlockNo) {
    edit_with(patient, path, |inode| {
        let mut root = NodeMut::init(&mut inode.block, 0);
        assert!(root.insert_extent(0, Extent { logical: 0, physical, length: 1, unwritten: false }));
    });
}

/// Gives a file a map with `node` as its only node.
fn claim_node(patient: &mut Patient, path: &str, node: BlockNo) {
    edit_with(patient, path, |inode| {
        let mut root = NodeMut::init(&mut inode.block, 1);
        assert!(root.insert_index(0, Index { logical: 0, node }));
    });
}

fn data(patient: &mut Patient) -> BlockNo {
    let middle = patient.inode_of("/middle");
    patient.place_of(middle, 1)
}

fn node(patient: &mut Patient) -> BlockNo {
    let middle = patient.inode_of("/middle");
    patient.node_of(middle)
}

fn attributes(patient: &mut Patient) -> BlockNo {
    let middle = patient.inode_of("/middle");
    patient.inode(middle).file_acl
}

fn claim_content(patient: &mut Patient, path: &str) {
    let block = data(patient);
    claim(patient, path, block);
}

fn claim_node_as_content(patient: &mut Patient, path: &str) {
    let block = node(patient);
    claim(patient, path, block);
}

fn claim_node_as_node(patient: &mut Patient, path: &str) {
    let block = node(patient);
    claim_node(patient, path, block);
}

fn claim_content_as_node(patient: &mut Patient, path: &str) {
    let block = data(patient);
    claim_node(patient, path, block);
}

fn claim_attributes(patient: &mut Patient, path: &str) {
    let block = attributes(patient);
    claim(patient, path, block);
}

fn claim_content_as_attributes(patient: &mut Patient, path: &str) {
    let block = data(patient);
    edit_with(patient, path, |inode| inode.file_acl = block);
}

pub const SHARED: &[Damage] = &[
    ("shared: content, by a lower inode", |p| claim_content(p, "/low")),
    ("shared: content, by a higher inode", |p| claim_content(p, "/high")),
    ("shared: content, by both", |p| {
        claim_content(p, "/low");
        claim_content(p, "/high");
    }),
    ("shared: node as content, by a lower inode", |p| claim_node_as_content(p, "/low")),
    ("shared: node as content, by a higher inode", |p| claim_node_as_content(p, "/high")),
    ("shared: node, by a lower inode", |p| claim_node_as_node(p, "/low")),
    ("shared: node, by a higher inode", |p| claim_node_as_node(p, "/high")),
    ("shared: content as node, by a lower inode", |p| claim_content_as_node(p, "/low")),
    ("shared: content as node, by a higher inode", |p| claim_content_as_node(p, "/high")),
    ("shared: attributes as content, by a lower inode", |p| claim_attributes(p, "/low")),
    ("shared: attributes as content, by a higher inode", |p| claim_attributes(p, "/high")),
    ("shared: content as attributes, by a lower inode", |p| claim_content_as_attributes(p, "/low")),
    ("shared: content as attributes, by a higher inode", |p| claim_content_as_attributes(p, "/high")),
    ("shared: content, by a directory", |p| {
        claim_content(p, "/low");
        edit(p, "/low", |inode| inode.mode = 0o040_755);
    }),
    ("shared: content, by a symbolic link", |p| {
        claim_content(p, "/low");
        edit(p, "/low", |inode| inode.mode = 0o120_777);
    }),
    ("shared: content, by an inode of no kind", |p| {
        claim_content(p, "/low");
        claim_content(p, "/high");
        edit(p, "/low", |inode| inode.mode = 0);
    }),
    ("shared: node as content, by the journal", |p| {
        let block = node(p);
        p.change_inode(InodeNo(8), |inode| {
            let mut root = NodeMut::parse(&mut inode.block, Place::Inode(InodeNo(8))).expect("root");
            let extent = root.node().extent(0);
            root.set_extent(0, Extent { physical: block, ..extent });
        });
    }),
    ("shared: content, by an inode bitmap", |p| {
        let block = data(p);
        p.change_descriptor(0, |raw| raw.set_inode_bitmap(block));
    }),
    ("shared: content, by a block bitmap", |p| {
        let block = data(p);
        p.change_descriptor(0, |raw| raw.set_block_bitmap(block));
    }),
    ("shared: an inode table a block further", |p| {
        p.change_descriptor(0, |raw| raw.set_inode_table(raw.inode_table() + 1));
    }),
    ("superblock: more reserved inodes", |p| p.superblock(|raw| raw.first_ino.set(40))),
    ("superblock: another seed of hashes", |p| p.superblock(|raw| raw.hash_seed[0].set(7))),
];

#[test]
fn copies_of_a_large_file_are_planned_without_its_content() {
    let scratch = Scratch::new("damage-large");
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    std::fs::create_dir_all(&tree).expect("directory");
    std::fs::write(tree.join("large"), vec![7; 40 << 20]).expect("file");
    std::fs::write(tree.join("twin"), b"twin").expect("file");
    make_image(&path, Some(&tree), "128M", &[]);
    let mut patient = Patient::new(&path);
    let large = patient.inode_of("/large");
    let map = patient.inode(large);
    edit_with(&mut patient, "/twin", |twin| {
        (twin.block, twin.size, twin.sectors) = (map.block, map.size, map.sectors);
    });
    patient.write();
    let planned = patient.repair(Manner::All);
    assert!(planned.copies.len() >= 10_240 && planned.blocks.len() < 100, "{} copies", planned.copies.len());
    assert_eq!(patient.faults_of_repair(), Vec::<String>::new());
}

#[test]
fn a_copy_of_an_unwritten_block_is_unwritten_too() {
    let scratch = Scratch::new("damage-unwritten");
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    std::fs::create_dir_all(&tree).expect("directory");
    std::fs::write(tree.join("one"), vec![7; 4096]).expect("file");
    std::fs::write(tree.join("other"), vec![8; 4096]).expect("file");
    make_image(&path, Some(&tree), "16M", &[]);
    let mut patient = Patient::new(&path);
    let owners = ["/one", "/other"].map(|path| patient.inode_of(path));
    let physical = patient.place_of(owners[0], 0);
    for owner in owners {
        patient.change_inode(owner, |inode| {
            let mut root = NodeMut::init(&mut inode.block, 0);
            assert!(root.insert_extent(0, Extent { logical: 0, physical, length: 1, unwritten: true }));
        });
    }
    patient.write();
    let planned = patient.repair(Manner::All);
    assert!(planned.after.is_clean(), "{:?}", planned.after.findings);
    patient.apply(&planned);
    let extents = owners.map(|owner| {
        let inode = patient.inode(owner);
        Node::parse(&inode.block, Place::Inode(owner)).expect("root").extents().next().expect("an extent")
    });
    assert!(extents.iter().all(|extent| extent.unwritten), "what was never written still reads as zeros");
    assert_ne!(extents[0].physical, extents[1].physical);
    assert_eq!(super::e2fsck(&path).0, 0);
}
