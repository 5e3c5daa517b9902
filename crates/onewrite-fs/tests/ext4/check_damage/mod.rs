//! More than a hundred kinds of damage, with corrected checksums. e2fsck and the checker find each.

mod directories;
mod extents;
mod layout;
mod reserved;
mod shared;
mod special;

use directories::{DIRECTORIES, NODES, TREES, entry};
use extents::{EXTENTS, node};
use layout::{BITMAPS, GROUPS, INODES, SUPERBLOCK};
use onewrite_fs::ext4::format::{Inode, Place};
use shared::{SHARED, add_files};
use special::{ATTRIBUTES, SPECIAL};
use zerocopy::IntoBytes;

use crate::support::patient::Patient;
use crate::support::{Scratch, e2fsck, fill_by_kernel, make_image, many, populate, run, sparse, text};

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
    add_files(scratch, text(&path));
    let removed = Patient::new(&path).inode_of(REMOVED);
    let remove = format!("rm {REMOVED}");
    for command in [&*large, "ea_set /large user.small value", "ea_set /large user.other more", &*remove] {
        run("debugfs", &["-w", "-R", command, text(&path)]);
    }
    crate::support::assert_clean(&path);
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
        [SUPERBLOCK, GROUPS, BITMAPS, INODES, EXTENTS, DIRECTORIES, TREES, ATTRIBUTES, SPECIAL, SHARED].concat();
    assert!(all.len() >= 60, "{} kinds", all.len());
    assert_found(&mut patient, &all);
}

#[test]
fn every_damage_is_repaired() {
    let scratch = Scratch::new("damage-repaired");
    let mut patient = patient(&scratch);
    let all: Vec<Damage> =
        [SUPERBLOCK, GROUPS, BITMAPS, INODES, EXTENTS, DIRECTORIES, TREES, ATTRIBUTES, SPECIAL, SHARED, BEYOND]
            .concat();
    let mut faults = Vec::new();
    for (name, damage) in &all {
        damage(&mut patient);
        patient.write();
        faults.extend(patient.faults_of_repair().into_iter().map(|fault| format!("{name}: {fault}")));
        patient.heal();
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
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
        // For some damage e2fsck prints a question but exits with 0.
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

fn edit(patient: &mut Patient, path: &str, change: fn(&mut Inode)) {
    edit_with(patient, path, change);
}

fn edit_with(patient: &mut Patient, path: &str, change: impl FnOnce(&mut Inode)) {
    let number = patient.inode_of(path);
    patient.change_inode(number, change);
}

/// Damage that `e2fsck -fn` does not find.
const BEYOND: &[Damage] = &[
    ("directory: two that name each other", |p| {
        // Moves the name of /outer/inner into /outer/inner/core; nothing else names it then.
        let inner = p.inode_of("/outer/inner");
        let core = p.inode_of("/outer/inner/core");
        p.entries(core, 0, |bytes| {
            put16(bytes, 16, 12);
            put32(bytes, 24, inner.0);
            put16(bytes, 28, 4096 - 24 - 12);
            (bytes[30], bytes[31]) = (1, 2);
            bytes[32] = b'i';
        });
        entry(p, "/outer", "inner", |record| put32(record, 0, 0));
        p.change_entry(inner, "..", |record| put32(record, 0, core.0));
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
