//! Seeded damage anywhere in an image, with corrected checksums. The checker ends, does not panic, and finds a fault if
//! e2fsck finds one.

use onewrite_block::Choices;
use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::InodeNo;
use onewrite_fs::ext4::format::superblock::RawSuperblock;
use zerocopy::{FromBytes, IntoBytes};

use crate::support::patient::Patient;
use crate::support::{Scratch, e2fsck, make_image, many, run, sparse, text};

/// Where to damage the image.
#[derive(Clone, Copy, Debug)]
enum Target {
    Superblock,
    Descriptor(u32),
    BlockBitmap(u32),
    InodeBitmap(u32),
    Inode(InodeNo),
    Node(InodeNo),
    Entries(InodeNo, u32),
    TreeRoot(InodeNo),
    Attributes(InodeNo),
    Journal,
    Anything,
}

/// A small image with every kind of structure.
fn patient(scratch: &Scratch, features: &str) -> Patient {
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    std::fs::create_dir_all(tree.join("sub/deep/er")).expect("directories");
    std::fs::write(tree.join("hello"), b"hello, world\n").expect("file");
    std::fs::write(tree.join("sub/large"), vec![7; 100_000]).expect("file");
    std::fs::hard_link(tree.join("hello"), tree.join("sub/again")).expect("link");
    std::os::unix::fs::symlink("hello", tree.join("short-link")).expect("link");
    std::os::unix::fs::symlink("x/".repeat(200), tree.join("long-link")).expect("link");
    run("mkfifo", &[text(&tree.join("fifo"))]);
    sparse(&tree.join("pieces"), 700);
    many(&tree.join("many"), 300, 100);
    // The same UUIDs in each run, so that seed and case identify the damage.
    let uuid = "6f6e6577-7269-7465-2d72-65706169722e";
    let seed = format!("hash_seed={uuid}");
    make_image(&path, Some(&tree), "16M", &["-g", "2048", "-O", features, "-U", uuid, "-E", &seed]);
    std::fs::write(scratch.path("value"), vec![b'v'; 2_000]).expect("value");
    let large = format!("ea_set -f {} /hello user.large", text(&scratch.path("value")));
    for command in [&*large, "ea_set /sub/large user.small value", "ea_set /sub/large user.other more"] {
        run("debugfs", &["-w", "-R", command, text(&path)]);
    }
    crate::support::assert_clean(&path);
    Patient::new(&path)
}

/// Every structure of the image.
fn targets(patient: &mut Patient) -> Vec<Target> {
    let names =
        ["/", "/sub", "/sub/deep", "/hello", "/sub/large", "/short-link", "/long-link", "/fifo", "/pieces", "/many"];
    let inodes = names.map(|name| patient.inode_of(name));
    let groups = patient.layout.group_count;
    let mut all = vec![Target::Superblock, Target::Journal, Target::Anything, Target::Inode(InodeNo(8))];
    all.extend((0..groups.min(3)).flat_map(|group| [Target::Descriptor(group), Target::InodeBitmap(group)]));
    all.extend([0, groups - 1].map(Target::BlockBitmap));
    all.extend(inodes.map(Target::Inode));
    all.extend(inodes.map(Target::Inode));
    all.extend([
        Target::Node(inodes[8]),
        Target::Node(inodes[8]),
        Target::TreeRoot(inodes[9]),
        Target::Attributes(inodes[3]),
    ]);
    all.extend(
        [(inodes[0], 0), (inodes[1], 0), (inodes[2], 0), (inodes[9], 1), (inodes[9], 5)]
            .map(|(i, b)| Target::Entries(i, b)),
    );
    all
}

/// Writes an interesting value somewhere into the first `length` bytes.
fn hurt(bytes: &mut [u8], length: usize, choices: &mut Choices) {
    let size = [1, 2, 4][choices.index(3)];
    let at = choices.index(length.min(bytes.len()) / size) * size;
    let field = &mut bytes[at..at + size];
    let mut word = [0; 8];
    word[..size].copy_from_slice(field);
    let old = u64::from_le_bytes(word);
    let new = match choices.index(6) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => old ^ 1 << choices.below(size as u64 * 8),
        _ => choices.bits(),
    };
    field.copy_from_slice(&new.to_le_bytes()[..size]);
}

fn damage(patient: &mut Patient, target: Target, choices: &mut Choices) {
    match target {
        Target::Superblock => patient.superblock(|raw| {
            let mut bytes = raw.as_bytes().to_vec();
            hurt(&mut bytes, 0x180, choices);
            *raw = RawSuperblock::read_from_bytes(&bytes).expect("1024 bytes");
        }),
        Target::Descriptor(group) => patient.change_descriptor(group, |raw| hurt(raw.as_mut_bytes(), 64, choices)),
        Target::BlockBitmap(group) => patient.block_bitmap(group, |bitmap| hurt(bitmap, 4096, choices)),
        Target::InodeBitmap(group) => patient.inode_bitmap(group, |bitmap| hurt(bitmap, 4096, choices)),
        Target::Inode(inode) => patient.slot_sealed(inode, |slot| hurt(slot, 256, choices)),
        Target::Node(inode) => patient.change_node(inode, |node| hurt(node, 100, choices)),
        Target::Entries(inode, block) => patient.entries(inode, block, |bytes| hurt(bytes, 150, choices)),
        Target::TreeRoot(inode) => patient.tree_root(inode, |bytes| hurt(bytes, 80, choices)),
        Target::Attributes(inode) => patient.attributes(inode, |bytes| hurt(bytes, 60, choices)),
        Target::Journal => {
            let block = patient.place_of(InodeNo(8), 0);
            hurt(patient.block_mut(block), 0x60, choices);
        }
        Target::Anything => {
            let block = BlockNo(choices.below(patient.layout.block_count));
            hurt(patient.block_mut(block), 4096, choices);
        }
    }
}

/// The faults that e2fsck finds. It reports them by its status, or by a question that it answers itself.
fn is_found_by_e2fsck(patient: &Patient) -> Option<String> {
    let (status, said) = e2fsck(patient.path());
    let totals_only = said.matches("? no").count()
        == said.matches("blocks count wrong (").count() + said.matches("inodes count wrong (").count();
    // The checker has no clock.
    let timely = !said.contains("in the future");
    let found = timely && status & (4 | 8) != 0 || timely && said.contains("? no") && !totals_only;
    found.then_some(said)
}

/// A number from the environment, for deeper runs and to run one again.
fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn what_e2fsck_finds_in_seeded_damage_is_found() {
    find_what_e2fsck_finds("bytes-default", "^resize_inode");
}

#[test]
fn what_e2fsck_finds_in_seeded_damage_without_checksums_is_found() {
    find_what_e2fsck_finds("bytes-plain", "resize_inode,^metadata_csum,uninit_bg,^64bit,^flex_bg");
}

fn find_what_e2fsck_finds(name: &str, features: &str) {
    let scratch = Scratch::new(name);
    let mut patient = patient(&scratch, features);
    let targets = targets(&mut patient);
    let (cases, seed) = (number_from("ONEWRITE_CASES", 150), number_from("ONEWRITE_SEED", 1));
    let mut missed = Vec::new();
    for case in 0..cases {
        let mut choices = Choices::new(seed).stream("damage", case);
        let target = targets[choices.index(targets.len())];
        damage(&mut patient, target, &mut choices);
        patient.write();
        let report = patient.report();
        if report.is_clean()
            && let Some(said) = is_found_by_e2fsck(&patient)
        {
            missed.push(format!("seed {seed}, case {case}, {target:?}, {:x?}: {said}", patient.changes()));
        }
        patient.heal();
    }
    assert!(missed.is_empty(), "{} of {cases}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn no_damage_makes_the_checker_panic_or_run_for_ever() {
    let scratch = Scratch::new("bytes-any");
    let mut patient = patient(&scratch, "^resize_inode");
    let targets = targets(&mut patient);
    let (cases, seed) = (number_from("ONEWRITE_CASES", 4_000), number_from("ONEWRITE_SEED", 2));
    let mut found = 0;
    for case in 0..cases {
        let mut choices = Choices::new(seed).stream("damage", case);
        for _ in 0..=choices.index(6) {
            let target = targets[choices.index(targets.len())];
            damage(&mut patient, target, &mut choices);
        }
        patient.write_to_memory();
        found += u64::from(!patient.report().is_clean());
        patient.heal_in_memory();
    }
    assert!(found > cases / 2, "{found} of {cases}");
}

#[test]
fn seeded_damage_is_repaired() {
    repair_what_is_damaged("bytes-repaired", "^resize_inode");
}

#[test]
fn seeded_damage_without_checksums_is_repaired() {
    repair_what_is_damaged("bytes-repaired-plain", "resize_inode,^metadata_csum,uninit_bg,^64bit,^flex_bg");
}

#[test]
fn seeded_damage_of_block_maps_is_repaired() {
    repair_what_is_damaged("bytes-repaired-maps", "resize_inode,^extents,^metadata_csum,^64bit,^flex_bg");
}

/// Damages up to three places of an image in each case and repairs it. Everything else must stay as it was.
fn repair_what_is_damaged(name: &str, features: &str) {
    let scratch = Scratch::new(name);
    let mut patient = patient(&scratch, features);
    let targets = targets(&mut patient);
    let (cases, seed) = (number_from("ONEWRITE_CASES", 60), number_from("ONEWRITE_SEED", 3));
    let first = number_from("ONEWRITE_FIRST", 0);
    let mut faults = Vec::new();
    for case in first..first + cases {
        let mut choices = Choices::new(seed).stream("repair", case);
        for _ in 0..=choices.index(3) {
            let target = targets[choices.index(targets.len())];
            damage(&mut patient, target, &mut choices);
        }
        patient.write();
        let changes = patient.changes();
        let told = |fault| format!("seed {seed}, case {case}, {changes:x?}: {fault}");
        faults.extend(patient.faults_of_repair().into_iter().map(told));
        patient.heal();
    }
    assert!(faults.is_empty(), "{} of {cases}:\n{}", faults.len(), faults.join("\n"));
}
