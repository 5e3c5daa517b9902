//! Empty F2FS images of ours: clean for fsck.f2fs and for our checker, with the numbers of mkfs.f2fs, and filled by
//! sload.f2fs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use onewrite_block::{Choices, DevicePort, Executor, Geometry, RamDisk};
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::f2fs::format::sit::LogKind;
use onewrite_fs::f2fs::mkfs::{MkfsOptions, plan};
use onewrite_fs::{AnyView, FileView, Manner, api::resolve};

use crate::support::f2fs::{Editor, fill, judged, make};
use crate::support::volume::load;
use crate::support::{Scratch, output, text};

const MIB: u64 = 1 << 20;

fn options(size_bytes: u64) -> MkfsOptions {
    let label = "bench ✓".to_owned();
    MkfsOptions { label, unix_time: 1_700_000_000, ..MkfsOptions::new(size_bytes, &mut Choices::new(7)) }
}

/// Writes an image of ours; what is not written holds `filler`.
fn write(image: &Path, options: &MkfsOptions, filler: u8) {
    let file = fs::File::create(image).expect("image");
    file.set_len(options.size_bytes).expect("size");
    if filler != 0 {
        let part = vec![filler; MIB as usize];
        (0..options.size_bytes / MIB).for_each(|at| file.write_all_at(&part, at * MIB).expect("write"));
    }
    for (block, page) in plan(options).expect("a plan") {
        file.write_all_at(&page.bytes()[..], block.0 * 4096).expect("write");
    }
}

/// Runs `work` with the image on a RAM disk.
fn on_disk<T: 'static>(image: &Path, work: impl AsyncFnOnce(DevicePort) -> T + 'static) -> T {
    let image = load(image);
    let geometry = Geometry::plain("ram", image.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    executor.block_on(async move { work(port).await }).expect("nothing halts")
}

fn assert_clean(image: &Path) {
    let (is_clean, said) = judged(image);
    assert!(is_clean, "{said}");
    let report = on_disk(image, async |port| check(&port, &CheckOptions::default()).await).expect("a check");
    assert!(report.is_clean() && report.notes.is_empty(), "{:?} {:?}", report.findings, report.notes);
}

#[test]
fn new_images_are_clean_for_both_checkers() {
    let scratch = Scratch::new("f2fs-mkfs");
    let image = scratch.path("image");
    for size in [64 * MIB, 100 * MIB + 4096, 256 * MIB, 1024 * MIB, 3 * 1024 * MIB] {
        write(&image, &MkfsOptions { device_is_zeroed: true, ..options(size) }, 0);
        assert_clean(&image);
    }
    // What the device held before does not matter.
    write(&image, &options(64 * MIB), 0xa5);
    assert_clean(&image);
}

#[test]
fn an_image_of_four_terabytes_is_clean() {
    let scratch = Scratch::new("f2fs-huge");
    let image = scratch.path("image");
    write(&image, &MkfsOptions { device_is_zeroed: true, ..options(4_000 << 30) }, 0);
    let (is_clean, said) = judged(&image);
    assert!(is_clean, "{said}");
}

#[test]
fn one_seed_makes_one_image() {
    assert_eq!(plan(&options(64 * MIB)), plan(&options(64 * MIB)));
    let other = MkfsOptions::new(64 * MIB, &mut Choices::new(8));
    assert_ne!(other.uuid, options(64 * MIB).uuid);
}

/// Fields that `dump.f2fs` prints, with their values.
fn fields(image: &Path) -> BTreeMap<String, String> {
    let said = String::from_utf8_lossy(&output("dump.f2fs", &["-d3", text(image)]).stdout).into_owned();
    let parts = said.lines().filter_map(|line| line.split_once("[0x"));
    let parts = parts.filter_map(|(name, value)| Some((name.trim(), value.split_once(':')?.1.trim_end_matches(']'))));
    parts.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn fields_are_those_of_mkfs_f2fs() {
    let scratch = Scratch::new("f2fs-fields");
    let (ours, theirs) = (scratch.path("ours"), scratch.path("theirs"));
    for size in [64, 128, 256, 512] {
        write(&ours, &MkfsOptions { device_is_zeroed: true, ..options(size * MIB) }, 0);
        make(&theirs, size * MIB, "-O extra_attr,inode_checksum,sb_checksum,inode_crtime");
        let (mut ours, mut theirs) = (fields(&ours), fields(&theirs));
        // A version by chance, checksums, and flags: trimmed and nat_bits are theirs alone.
        for name in ["checkpoint_ver", "crc"] {
            assert!(ours.remove(name).is_some() && theirs.remove(name).is_some(), "{name}");
        }
        assert_eq!(
            (ours.remove("ckpt_flags").as_deref(), theirs.remove("ckpt_flags").as_deref()),
            (Some("5"), Some("389"))
        );
        assert!(ours.len() > 50, "{ours:?}");
        assert_eq!(ours, theirs, "{size} MiB");
    }
}

#[test]
fn sload_f2fs_fills_an_image_of_ours() {
    let scratch = Scratch::new("f2fs-filled");
    let (image, tree) = (scratch.path("image"), scratch.path("tree"));
    fs::create_dir_all(tree.join("sub")).expect("directory");
    fs::write(tree.join("sub/file"), vec![9; 700_000]).expect("file");
    write(&image, &options(64 * MIB), 0);
    fill(&image, &tree, "");
    assert_clean(&image);
    let read = on_disk(&image, async |port| {
        let view = AnyView::open(&port, Default::default()).await?;
        let ino = resolve(&view, b"/sub/file").await?;
        view.read(ino, 0, u64::MAX, Manner::default()).await
    });
    assert!(read.expect("a view").to_vec() == vec![9; 700_000]);
}

/// A node of an older file system, with the version of the new one, must not begin the chain of fsyncs.
#[test]
fn what_the_device_held_is_not_taken_for_an_fsync() {
    let scratch = Scratch::new("f2fs-chain");
    let image = scratch.path("image");
    let options = options(64 * MIB);
    write(&image, &options, 0);
    let mut editor = Editor::open(&image);
    let log = editor.checkpoint.log(LogKind::WarmNode);
    let chain = editor.layout.segment_start(log.segment) + u64::from(log.next);
    let version = editor.checkpoint.footer_version();
    let node = editor.block(chain);
    node[4080..4084].copy_from_slice(&2_u32.to_le_bytes());
    node[4084..4092].copy_from_slice(&version.to_le_bytes());
    editor.save(&image);
    let warnings = |image: &Path| {
        let mut editor = Editor::open(image);
        editor.edit_checkpoint(|head| head[132] &= !1);
        let crashed = scratch.path("crashed");
        editor.save(&crashed);
        let view = on_disk(&crashed, async |port| AnyView::open(&port, Default::default()).await);
        view.expect("a view").warnings().to_vec()
    };
    assert!(warnings(&image)[0].contains("1 nodes of fsyncs"), "the old one has such a node");
    let file = fs::OpenOptions::new().write(true).open(&image).expect("image");
    for (block, page) in plan(&options).expect("a plan") {
        file.write_all_at(&page.bytes()[..], block.0 * 4096).expect("write");
    }
    assert_eq!(warnings(&image), Vec::<String>::new());
}

#[test]
fn impossible_sizes_and_labels_are_refused() {
    let error = plan(&options(63 * MIB)).expect_err("too small").to_string();
    assert!(error.contains("64 MiB to 16 TiB"), "{error}");
    let label = "x".repeat(512);
    let error = plan(&MkfsOptions { label, ..options(64 * MIB) }).expect_err("too long").to_string();
    assert!(error.contains("512 words"), "{error}");
}
