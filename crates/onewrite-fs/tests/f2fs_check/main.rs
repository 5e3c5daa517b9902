//! The checker of F2FS beside fsck.f2fs: clean images of f2fs-tools are clean, and seeded damage to each kind of block
//! gets the same verdict from both.

#[path = "../support/mod.rs"]
mod support;

mod damage;

use std::fs;
use std::path::Path;

use onewrite_block::{Executor, Geometry, Image, RamDisk};
use onewrite_fs::FsResult;
use onewrite_fs::f2fs::check::{CheckOptions, Report, check};
use support::f2fs::{fill, judged, make};
use support::volume::load;
use support::{Scratch, many};

const MIB: u64 = 1 << 20;

/// Checks an image in memory; fails if anything is written.
fn checked(image: Image) -> FsResult<Report> {
    let geometry = Geometry::plain("ram", image.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let door = port.clone();
    let report = executor.block_on(async move { check(&door, &CheckOptions::default()).await });
    let counters = port.device().counters();
    let changes = counters.host_write_bytes_by_cause.iter().sum::<u64>() + counters.flushes + counters.trims;
    assert_eq!(changes, 0, "a check changes something");
    report.expect("nothing halts")
}

/// A tree with nodes of each kind, and directories inside their inodes, of one block and of several levels.
fn grow(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).expect("directories");
    for size in [0, 100, 3600, 5_000, 50_000] {
        fs::write(root.join(format!("sub/of-{size}")), vec![size as u8 | 1; size]).expect("file");
    }
    fs::write(root.join("middle"), vec![3; 5_000_000]).expect("file");
    fs::write(root.join("large"), vec![4; 13_000_000]).expect("file");
    std::os::unix::fs::symlink("t", root.join("short")).expect("link");
    std::os::unix::fs::symlink("t".repeat(4_000), root.join("long")).expect("link");
    for (count, length) in [(1, 8), (20, 9), (150, 12), (400, 40)] {
        many(&root.join(format!("names-{count}")), count, length);
    }
}

#[test]
fn images_of_f2fs_tools_are_clean() {
    let scratch = Scratch::new("f2fs-clean");
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    fs::create_dir(&tree).expect("directory");
    grow(&tree);
    for arguments in [
        "",
        "-O extra_attr,inode_checksum,sb_checksum,inode_crtime,lost_found",
        "-O extra_attr,flexible_inline_xattr",
        "-O extra_attr,project_quota,quota",
        "-i",
        "-s 4 -z 2",
        "-w 4096 -l label",
    ] {
        make(&image, 256 * MIB, arguments);
        let report = checked(load(&image)).expect("a check");
        assert!(report.is_clean(), "{arguments}, empty: {:?}", report.findings);
        fill(&image, &tree, "");
        let report = checked(load(&image)).expect("a check");
        assert!(report.is_clean(), "{arguments}: {:?}", report.findings);
        assert!(report.used_inodes > 580 && report.used_blocks > 4_000, "{arguments}: {report:?}");
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let scratch = Scratch::new("f2fs-unchecked");
    let image = scratch.path("image");
    make(&image, 64 * MIB, "-O extra_attr,compression");
    let error = checked(load(&image)).expect_err("refused").to_string();
    assert!(error.contains("compression"), "{error}");
    assert!(judged(&image).0, "fsck.f2fs knows it");
}
