//! Damage of attributes, journal and resize inode.

use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::format::Place;
use onewrite_fs::repair::Manner;

use super::{Damage, get32, put16, put32};
use crate::support::patient::Patient;
use crate::support::{Scratch, e2fsck, make_image};

/// Changes the attributes behind the inode fields of `/large`, and corrects the inode's checksum.
fn inline(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/large");
    patient.slot_sealed(number, |slot| change(&mut slot[164..]));
}

/// Changes the attribute block of `/hello`.
fn outline(patient: &mut Patient, change: fn(&mut [u8])) {
    let number = patient.inode_of("/hello");
    patient.attributes(number, change);
}

pub const ATTRIBUTES: &[Damage] = &[
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
    let block = patient.place_of(InodeNo(8), 0);
    change(patient.block_mut(block));
}

pub const SPECIAL: &[Damage] = &[
    ("journal: inode is a directory", |p| p.change_inode(InodeNo(8), |inode| inode.mode = 0o040_600)),
    ("journal: inode without links", |p| p.change_inode(InodeNo(8), |inode| inode.links = 0)),
    ("journal: inode without a map", |p| p.change_inode(InodeNo(8), |inode| inode.block.fill(0))),
    ("journal: superblock's magic", |p| journal(p, |block| block[0] = 0)),
    ("journal: superblock's kind", |p| journal(p, |block| block[7] = 9)),
    ("journal: longer than its file", |p| journal(p, |block| block[0x10] = 1)),
    ("journal: block size", |p| journal(p, |block| block[0x0e] = 4)),
    ("journal: unknown features", |p| journal(p, |block| block[0x28] = 0x70)),
    ("journal: something to replay that nobody says", |p| journal(p, |block| block[0x1f] = 1)),
    ("journal: an error was noted", |p| journal(p, |block| block[0x23] = 5)),
    ("resize inode: no map", |p| p.change_inode(InodeNo(7), |inode| inode.block.fill(0))),
    ("resize inode: another block", |p| {
        let inode = p.inode(InodeNo(7));
        let double = get32(&inode.block, 13 * 4);
        let table = p.block_mut(BlockNo(double.into()));
        let kept = get32(table, 4);
        put32(table, 4, kept + 1);
    }),
    ("resize inode: without its feature", |p| {
        p.superblock(|raw| raw.feature_compat.set(raw.feature_compat.get() & !0x10));
    }),
];

#[test]
fn a_resize_inode_that_keeps_no_blocks_is_left_as_it_is() {
    let scratch = Scratch::new("damage-no-blocks-kept");
    let path = scratch.path("image");
    make_image(&path, None, "16M", &["-O", "^metadata_csum,^64bit,resize_inode"]);
    let mut patient = Patient::new(&path);
    assert_eq!(patient.layout.reserved_descriptor_blocks, 0);
    let before = patient.inode(InodeNo(7));
    assert_eq!(before.links, 1, "the inode is in use all the same");
    patient.change_inode(InodeNo(2), |inode| inode.links = 9);
    patient.write();
    let planned = patient.repair(Manner::Safe);
    let places: Vec<Place> = planned.changes.iter().map(|change| change.place).collect();
    assert_eq!(places, [Place::Inode(InodeNo(2))]);
    patient.apply(&planned);
    assert!(patient.inode(InodeNo(7)) == before);
    assert_eq!(e2fsck(&path).0, 0);
}

#[test]
fn a_feature_orphan_file_without_its_file_is_found_and_taken_out() {
    let scratch = Scratch::new("damage-orphan-file");
    let path = scratch.path("image");
    make_image(&path, None, "16M", &[]);
    let mut patient = Patient::new(&path);
    patient.superblock(|raw| raw.feature_compat.set(raw.feature_compat.get() | 0x1000));
    patient.write();
    assert_ne!(e2fsck(&path).0, 0);
    let found = patient.report().findings;
    assert!(found.iter().any(|finding| finding.to_string().contains("keeps orphans in inode 0")), "{found:?}");
    assert_eq!(patient.faults_of_repair(), Vec::<String>::new());
}
