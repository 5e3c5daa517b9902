//! Damage of directories and their hash trees.

use onewrite_fs::ext4::format::InodeNo;

use super::{Damage, get32, put16, put32};
use crate::support::patient::Patient;

/// Changes the record of an entry.
pub fn entry(patient: &mut Patient, directory: &str, name: &str, change: impl FnOnce(&mut [u8])) {
    let number = patient.inode_of(directory);
    patient.change_entry(number, name, change);
}

pub const DIRECTORIES: &[Damage] = &[
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
        entry(p, "/sub/deep", "..", |record| put32(record, 0, other.0));
    }),
    ("directory: `..` of the root", |p| {
        let other = p.inode_of("/outer");
        p.change_entry(InodeNo(2), "..", |record| put32(record, 0, other.0));
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
        entry(p, "/outer", "inner", |record| put32(record, 0, other.0));
    }),
    ("directory: a name of itself", |p| {
        let own = p.inode_of("/outer");
        entry(p, "/outer", "inner", |record| put32(record, 0, own.0));
    }),
    ("directory: a name of the root", |p| entry(p, "/outer", "inner", |record| put32(record, 0, 2))),
    ("directory: a directory without a name", |p| entry(p, "/outer", "inner", |record| put32(record, 0, 0))),
    ("directory: a file called lost+found, and a directory without a name", |p| {
        let hello = p.inode_of("/hello");
        p.change_entry(InodeNo(2), "lost+found", |record| {
            put32(record, 0, hello.0);
            record[7] = 1;
        });
    }),
    ("directory: a file without a name", |p| p.change_entry(InodeNo(2), "large", |record| put32(record, 0, 0))),
];

/// Changes the root of a directory's tree.
fn tree(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/many");
    patient.tree_root(number, change);
}

pub const TREES: &[Damage] = &[
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

/// Changes the first index block below the root of a tree; if `sealed`, corrects its checksum too.
fn tree_node(patient: &mut Patient, sealed: bool, change: fn(&mut [u8])) {
    let number = patient.inode_of("/many");
    let logical = get32(patient.block(patient.place_of(number, 0)), 0x24);
    match sealed {
        true => patient.tree_node(number, logical, change),
        false => change(patient.block_mut(patient.place_of(number, logical))),
    }
}

pub const NODES: &[Damage] = &[
    ("hash tree: node's checksum", |p| tree_node(p, false, |node| node[4092] ^= 1)),
    ("hash tree: node's free record", |p| tree_node(p, true, |node| node[5] = 0x0f)),
    ("hash tree: node's limit", |p| tree_node(p, true, |node| put16(node, 8, 100))),
    ("hash tree: node's count", |p| tree_node(p, true, |node| put16(node, 10, 0))),
    ("hash tree: fewer pairs in a node", |p| tree_node(p, true, |node| put16(node, 10, 1))),
    ("hash tree: node's hashes not in order", |p| tree_node(p, true, |node| put32(node, 24, 2))),
    ("hash tree: node names a node", |p| tree_node(p, true, |node| put32(node, 12, 0))),
    ("hash tree: fewer levels than there are", |p| tree(p, |root| root[0x1e] = 0)),
];
