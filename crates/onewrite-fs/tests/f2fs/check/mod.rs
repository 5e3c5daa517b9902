//! The checker of F2FS beside fsck.f2fs: clean images of f2fs-tools are clean, and seeded damage to each kind of block
//! gets the same verdict from both.

mod damage;

use std::fs;
use std::path::Path;

use onewrite_block::{Executor, Geometry, Image, RamDisk};
use onewrite_fs::BlockNo;
use onewrite_fs::FsResult;
use onewrite_fs::f2fs::check::{CheckOptions, Finding, Report, check};
use onewrite_fs::f2fs::format::sit::LogKind;

use crate::support::f2fs::{Editor, fill, judged, make};
use crate::support::volume::load;
use crate::support::{Scratch, many};

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
        assert!(report.is_clean() && report.notes.is_empty(), "{arguments}: {:?} {:?}", report.findings, report.notes);
        assert!(report.used_inodes > 580 && report.used_blocks > 4_000, "{arguments}: {report:?}");
    }
}

/// The second superblock; and one version and one kind in the SSA, each of another block of content.
#[test]
fn notes_and_findings_name_their_places() {
    let scratch = Scratch::new("f2fs-places");
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    fs::create_dir(&tree).expect("directory");
    fs::write(tree.join("large"), vec![4; 13_000_000]).expect("file");
    make(&image, 128 * MIB, "");
    fill(&image, &tree, "");
    let told = |change: &dyn Fn(&mut Editor)| {
        let mut editor = Editor::open(&image);
        change(&mut editor);
        let damaged = scratch.path("damaged");
        editor.save(&damaged);
        let report = checked(load(&damaged)).expect("a check");
        let words = |found: &[Finding]| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        (words(&report.notes), words(&report.findings))
    };
    let only = |words: &[String], start: &str| words.len() == 1 && words[0].starts_with(start);
    let (notes, findings) = told(&|editor| editor.block(BlockNo(0))[1024] ^= 1);
    assert!(only(&notes, "superblock 0: magic number") && findings.is_empty(), "{notes:?} {findings:?}");
    let mut editor = Editor::open(&image);
    let other = 1 - editor.checkpoint.pack;
    let (notes, findings) = told(&|editor| editor.block(editor.layout.pack(other))[0] ^= 1);
    assert!(only(&notes, &format!("checkpoint pack {other}: checksum")), "{notes:?}");
    assert_eq!(findings, Vec::<String>::new());
    // A full segment of the file's content: its summary lies in the SSA.
    let log = editor.checkpoint.log(LogKind::WarmData).segment.0;
    let ssa = |editor: &Editor, segment: u32| editor.layout.ssa + u64::from(segment);
    let segments = editor.layout.main_segments;
    let mut is_full = |segment: u32| {
        let at = ssa(&editor, segment);
        segment != log && editor.block(at)[4091] == 0 && editor.block(at)[511 * 7..][..4] != [0; 4]
    };
    let full = (0..segments).find(|segment| is_full(*segment)).expect("a full segment of content");
    let (notes, findings) = told(&|editor| editor.block(ssa(editor, full))[7 * 7 + 4] = 9);
    assert!(
        only(&notes, &format!("summary of segment {full}: block")) && notes[0].contains("has version 9"),
        "{notes:?}"
    );
    assert_eq!(findings, Vec::<String>::new());
    let (_, findings) = told(&|editor| editor.block(ssa(editor, full))[4091] = 1);
    assert!(findings[0].contains("it says a node"), "{findings:?}");
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
