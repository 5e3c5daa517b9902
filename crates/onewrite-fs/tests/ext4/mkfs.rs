//! Other programs judge new file systems: e2fsck finds no fault, dumpe2fs reads them, the kernel mounts them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onewrite_block::{Choices, GIB, MIB, Page};
use onewrite_fs::BlockNo;
use onewrite_fs::ext4::format::features::{Compat, Features, Incompat, RoCompat};
use onewrite_fs::ext4::mkfs::{MkfsError, MkfsOptions, default_journal_blocks, plan};

use crate::support::{LoopMount, Scratch, assert_clean, run, text};

fn options(size_bytes: u64) -> MkfsOptions {
    MkfsOptions { unix_time: 1_700_000_000, ..MkfsOptions::new(size_bytes, &mut Choices::new(7)) }
}

/// Writes the blocks of `plan` to `path`, over its old content.
fn write(path: &Path, options: &MkfsOptions) -> Vec<(BlockNo, Page)> {
    let blocks = plan(options).expect("plan");
    let file = File::options().write(true).create(true).truncate(false).open(path).expect("image");
    file.set_len(options.size_bytes).expect("size");
    for (number, page) in &blocks {
        file.write_all_at(&page.bytes()[..], number.0 * 4096).expect("write");
    }
    blocks
}

fn field(dump: &str, name: &str) -> String {
    let line = dump.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {dump}"));
    line[name.len()..].trim().to_owned()
}

/// Fails unless e2fsck finds no fault and dumpe2fs prints the numbers that mke2fs would choose.
fn assert_like_mke2fs(path: &Path, size: &str, options: &MkfsOptions) {
    assert_clean(path);
    let ours = run("dumpe2fs", &["-h", text(path)]);
    let theirs = path.with_extension("mke2fs");
    let features = ["-O", "^resize_inode", "-E", "lazy_itable_init=1"];
    run("mke2fs", &[&["-q", "-F", "-t", "ext4", "-b", "4096"], &features[..], &[text(&theirs), size]].concat());
    let theirs = run("dumpe2fs", &["-h", text(&theirs)]);
    for name in [
        "Filesystem features:",
        "Filesystem flags:",
        "Default mount options:",
        "Inode count:",
        "Block count:",
        "Reserved block count:",
        "Free inodes:",
        "Group descriptor size:",
        "Inodes per group:",
        "Flex block group size:",
        "Journal inode:",
        "Journal backup:",
        "Total journal blocks:",
        "Journal sequence:",
        "Journal start:",
        "Desired extra isize:",
        "Default directory hash:",
    ] {
        assert_eq!(field(&ours, name), field(&theirs, name), "{name}");
    }
    assert_eq!(field(&ours, "Filesystem created:"), "Tue Nov 14 22:13:20 2023", "{options:?}");
}

/// Fails unless the kernel mounts the image, writes a file and leaves the image clean.
fn assert_kernel_takes(path: &Path) {
    let Some(mount) = LoopMount::new(path) else { return };
    assert!(mount.path().join("lost+found").is_dir());
    std::fs::create_dir(mount.path().join("directory")).expect("mkdir");
    std::fs::write(mount.path().join("directory/file"), vec![5; 100_000]).expect("write");
    drop(mount);
    assert_clean(path);
    assert!(run("debugfs", &["-R", "stat directory/file", text(path)]).contains("Size: 100000"));
}

fn judge(name: &str, size: &str, size_bytes: u64) -> Vec<(BlockNo, Page)> {
    let scratch = Scratch::new(name);
    let path = scratch.path("image");
    let options = options(size_bytes);
    let blocks = write(&path, &options);
    assert_like_mke2fs(&path, size, &options);
    assert_kernel_takes(&path);
    blocks
}

#[test]
fn eight_mib_are_taken_by_e2fsck_and_kernel() {
    judge("mkfs-8m", "8M", 8 * MIB);
}

#[test]
fn thirty_two_mib_are_taken_by_e2fsck_and_kernel() {
    judge("mkfs-32m", "32M", 32 * MIB);
}

#[test]
fn one_gib_is_taken_by_e2fsck_and_kernel() {
    judge("mkfs-1g", "1G", GIB);
}

#[test]
fn one_tib_is_planned_in_few_blocks_and_taken_by_e2fsck_and_kernel() {
    let scratch = Scratch::new("mkfs-1t");
    let path = scratch.path("image");
    let options = MkfsOptions { device_is_zeroed: true, ..options(1024 * GIB) };
    let blocks = write(&path, &options);
    assert!(blocks.len() < 5_000, "{} blocks", blocks.len());
    assert_like_mke2fs(&path, "1T", &options);
    assert_kernel_takes(&path);
}

#[test]
fn blocks_come_in_ascending_order_and_the_same_for_the_same_options() {
    let blocks = plan(&options(300 * MIB)).expect("plan");
    assert!(blocks.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(blocks.last().expect("blocks").0.0 < 300 * MIB / 4096);
    assert_eq!(blocks, plan(&options(300 * MIB)).expect("plan"));
}

#[test]
fn what_the_device_held_before_does_not_matter() {
    let scratch = Scratch::new("mkfs-garbage");
    let path = scratch.path("image");
    std::fs::write(&path, vec![0xa5; 64 << 20]).expect("garbage");
    write(&path, &options(64 * MIB));
    assert_clean(&path);
    assert_kernel_takes(&path);
}

#[test]
fn every_choice_of_features_is_taken_by_e2fsck() {
    let without = |set: Features| Features {
        compat: MkfsOptions::DEFAULT_FEATURES.compat.without(set.compat),
        incompat: MkfsOptions::DEFAULT_FEATURES.incompat.without(set.incompat),
        ro_compat: MkfsOptions::DEFAULT_FEATURES.ro_compat.without(set.ro_compat),
    };
    let none = Features::default();
    let choices = [
        without(Features { ro_compat: RoCompat::METADATA_CSUM, ..none }),
        without(Features { incompat: Incompat::BITS_64.with(Incompat::FLEX_BG), ..none }),
        without(Features { ro_compat: RoCompat::SPARSE_SUPER.with(RoCompat::EXTRA_ISIZE), ..none }),
        without(Features { incompat: Incompat::FILETYPE, compat: Compat::DIR_INDEX, ..none }),
        {
            let plain = without(Features { ro_compat: RoCompat::METADATA_CSUM, ..none });
            Features { ro_compat: plain.ro_compat.with(RoCompat::GDT_CSUM), ..plain }
        },
    ];
    for (number, features) in choices.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("mkfs-features-{number}"));
        let path = scratch.path("image");
        std::fs::write(&path, vec![0xa5; 1 << 20]).expect("garbage");
        write(&path, &MkfsOptions { features, ..options(700 * MIB) });
        assert_clean(&path);
    }
}

#[test]
fn odd_sizes_ratios_and_journals_are_taken_by_e2fsck() {
    let sizes = [8 * MIB + 4095, 128 * MIB, 128 * MIB + 100 * 4096, 129 * MIB, 2048 * MIB + 60 * 4096, 2049 * MIB];
    let ratios = [None, Some(1024), Some(1 << 22)];
    let journals = [None, Some(0), Some(1024), Some(1500)];
    let mut scratch = 0;
    for size in sizes {
        for (ratio, journal) in ratios.into_iter().zip(journals).chain([(None, Some(1500)), (Some(1024), Some(0))]) {
            scratch += 1;
            let directory = Scratch::new(&format!("mkfs-odd-{scratch}"));
            let path = directory.path("image");
            write(&path, &MkfsOptions { inode_ratio: ratio, journal_blocks: journal, ..options(size) });
            assert_clean(&path);
        }
    }
}

#[test]
fn a_journal_of_five_gb_needs_a_node_below_its_inode() {
    let scratch = Scratch::new("mkfs-journal");
    let path = scratch.path("image");
    let journal_blocks = Some(1_310_720);
    write(&path, &MkfsOptions { journal_blocks, device_is_zeroed: true, ..options(40 * GIB) });
    assert_clean(&path);
    assert!(run("debugfs", &["-R", "stat <8>", text(&path)]).contains("ETB0"));
}

#[test]
fn what_cannot_be_made_is_refused_with_the_cure() {
    let refused = |change: fn(&mut MkfsOptions)| {
        let mut options = options(8 * MIB);
        change(&mut options);
        plan(&options).expect_err("refused")
    };
    assert!(matches!(refused(|o| o.size_bytes = 100_000), MkfsError::TooSmall { .. }));
    assert!(refused(|o| o.journal_blocks = Some(2000)).to_string().contains("smaller journal"));
    assert!(refused(|o| o.journal_blocks = Some(10)).to_string().contains("from 1024"));
    assert!(refused(|o| o.label = "seventeen letters".into()).to_string().contains("at most 16"));
    assert!(refused(|o| o.inode_ratio = Some(512)).to_string().contains("at least 1024"));
    assert!(refused(|o| o.features.ro_compat = RoCompat::QUOTA).to_string().contains("quota"));
    assert!(refused(|o| o.features.incompat = Incompat::FILETYPE).to_string().contains("^extent"));
    assert_eq!(default_journal_blocks(2047), 0);
}
