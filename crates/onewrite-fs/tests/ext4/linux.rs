//! Interchange with Linux: images and logs of the kernel's ext4, mounted and replayed here.

use std::fs;
use std::path::Path;

use onewrite_block::{Geometry, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, Manner, NewNode, Position, Space};

use crate::support::tree::{Entry, tree};
use crate::support::volume::{image, load, save, with_mount};
use crate::support::{LoopMount, Scratch, assert_clean, make_image, output, populate, run, text};

/// Mounts the image in `path`. Returns what we see, and the number of replayed transactions. The file then holds the
/// image as we left it.
fn seen(path: &Path, mode: Mode) -> (Vec<Entry>, Space, u64) {
    let content = load(path);
    let geometry = Geometry { fua: true, ..Geometry::plain("ram", content.pages()) };
    let disk = RamDisk::with_image(content, geometry);
    let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(mode), |fs, _| async move {
        let transactions = fs.recovered().map_or(0, |recovered| recovered.transactions);
        Ok((tree(&fs).await?, fs.space().await?, transactions))
    });
    save(&image(device), path);
    outcome.expect("it mounts")
}

/// Ends the mount at once, like a power cut: the log is written but not checkpointed.
fn shut_down(mount: &Path) {
    const SHUTDOWN: &str = "open(F, '<', $ARGV[0]) or die; $flag = pack('L', 1); ioctl(F, 0x8004587d, $flag) or die $!";
    run("perl", &["-e", SHUTDOWN, text(mount)]);
}

/// Makes changes of all kinds, in an order that leaves revokes and overwritten blocks in the log.
fn change(root: &Path) {
    for round in 0..6 {
        for number in 0..120 {
            fs::write(root.join(format!("file-{number}")), vec![round; 500 * (number % 9 + 1)]).expect("write");
        }
        fs::create_dir(root.join(format!("directory-{round}"))).expect("mkdir");
        for number in 0..60 {
            fs::write(root.join(format!("directory-{round}/name-{number}")), b"x").expect("write");
        }
        if round % 2 == 1 {
            fs::remove_dir_all(root.join(format!("directory-{}", round - 1))).expect("rm -r");
        }
        let magic = [&[0xc0, 0x3b, 0x39, 0x98][..], &[round; 4092]].concat();
        fs::write(root.join("looks-like-a-log"), magic).expect("write");
        fs::rename(root.join("file-7"), root.join(format!("renamed-{round}"))).expect("rename");
        run("sync", &["-f", text(root)]);
    }
}

fn kernel_log_is_replayed_as_by_e2fsck(options: &str) {
    let scratch = Scratch::new(&format!("kernel-log-{}", options.replace(['=', ','], "-")));
    let ours = scratch.path("ours");
    make_image(&ours, None, "64M", &[]);
    let Some(mount) = LoopMount::with_options(&ours, options) else { return };
    change(mount.path());
    shut_down(mount.path());
    drop(mount);
    let theirs = scratch.path("theirs");
    fs::copy(&ours, &theirs).expect("copy");
    let status = output("e2fsck", &["-fy", text(&theirs)]).status.code();
    assert!(matches!(status, Some(0 | 1)), "e2fsck: {status:?}");
    let by_us = seen(&ours, Mode::Ordered);
    assert!(by_us.2 > 0, "the kernel left no log to replay");
    let by_e2fsck = seen(&theirs, Mode::Ordered);
    assert_eq!((by_us.0, by_us.1), (by_e2fsck.0, by_e2fsck.1));
    assert_clean(&ours);
}

#[test]
fn a_kernel_log_in_ordered_mode_is_replayed() {
    kernel_log_is_replayed_as_by_e2fsck("data=ordered");
}

#[test]
fn a_kernel_log_in_journal_mode_is_replayed() {
    kernel_log_is_replayed_as_by_e2fsck("data=journal");
}

#[test]
fn a_kernel_log_with_async_commits_is_replayed() {
    kernel_log_is_replayed_as_by_e2fsck("data=journal,journal_async_commit");
}

#[test]
fn images_of_mke2fs_are_read_and_written_here() {
    let scratch = Scratch::new("mke2fs");
    let root = scratch.path("root");
    populate(&root);
    for (name, extra) in [("default", &[][..]), ("no-csum", &["-O", "^metadata_csum"]), ("no-64bit", &["-O", "^64bit"])]
    {
        let path = scratch.path(name);
        make_image(&path, Some(&root), "64M", extra);
        let content = load(&path);
        let disk = RamDisk::with_image(content.clone(), Geometry::plain("ram", content.pages()));
        let work = |fs: std::rc::Rc<onewrite_fs::ext4::Ext4>, _| async move {
            let hello = onewrite_fs::api::resolve(&*fs, b"/sub/again").await?;
            assert_eq!(fs.read(hello, 0, 100, Manner::default()).await?.to_vec(), b"hello, world\n");
            let new = fs.create(fs.root(), b"from-here", NewNode::FILE).await?;
            let content = Content::Pattern { seed: 1, compressible_percent: 0, length: 100 * PAGE_SIZE as u64 };
            fs.write(new, Position::At(0), content, Manner::default()).await?;
            fs.unlink(fs.root(), b"large").await
        };
        let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Data), work);
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        save(&image(device), &path);
        assert_clean(&path);
        let Some(mount) = LoopMount::new(&path) else { continue };
        assert_eq!(fs::metadata(mount.path().join("from-here")).expect("stat").len(), 100 * PAGE_SIZE as u64);
        assert!(!mount.path().join("large").exists());
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let scratch = Scratch::new("refused");
    let cases = [
        ("1k", &["-b", "1024"][..], "blocks of 1024 bytes"),
        ("inline", &["-O", "inline_data"], "inline_data"),
        ("no-journal", &["-O", "^has_journal"], "without a journal"),
        ("bigalloc", &["-O", "bigalloc"], "bigalloc"),
    ];
    for (name, extra, word) in cases {
        let path = scratch.path(name);
        run("mke2fs", &[&["-q", "-F", "-t", "ext4", "-b", "4096"], extra, &[text(&path), "64M"]].concat());
        let content = load(&path);
        let disk = RamDisk::with_image(content.clone(), Geometry::plain("ram", content.pages()));
        let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(Mode::Data), |_, _| async { Ok(()) });
        let error = outcome.expect_err(name).to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
}

/// Mounts an image with a given feature, writes there, and checks it with e2fsck and the kernel. Returns the error if
/// the mount refuses it.
fn written_with(path: &Path) -> Result<(), String> {
    let content = load(path);
    let disk = RamDisk::with_image(content.clone(), Geometry::plain("ram", content.pages()));
    let work = |fs: std::rc::Rc<onewrite_fs::ext4::Ext4>, _| async move {
        let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
        for number in 0..300 {
            let name = format!("a-name-of-some-length-{number}");
            let file = fs.create(directory, name.as_bytes(), NewNode::FILE).await?;
            fs.write(file, Position::At(number * 5_000), Content::Bytes(&[1; 9_000]), Manner::default()).await?;
        }
        for number in 0..100 {
            fs.unlink(directory, format!("a-name-of-some-length-{number}").as_bytes()).await?;
        }
        Ok(())
    };
    let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), work);
    outcome.map_err(|error| error.to_string())?;
    save(&image(device), path);
    assert_clean(path);
    let Some(mount) = LoopMount::new(path) else { return Ok(()) };
    assert_eq!(fs::read_dir(mount.path().join("directory")).expect("names").count(), 200);
    let last = fs::read(mount.path().join("directory/a-name-of-some-length-299")).expect("content");
    assert_eq!((last.len(), last[last.len() - 9_000..].to_vec()), (299 * 5_000 + 9_000, vec![1; 9_000]));
    fs::remove_dir_all(mount.path().join("directory")).expect("rm -r");
    drop(mount);
    assert_clean(path);
    Ok(())
}

#[test]
fn every_feature_of_mke2fs_works_or_is_refused_by_name() {
    let works = [
        "resize_inode",
        "^resize_inode",
        "sparse_super",
        "^sparse_super,^resize_inode",
        "^64bit",
        "^flex_bg",
        "^dir_index",
        "^huge_file",
        "^dir_nlink",
        "^extra_isize",
        "^metadata_csum",
        "^metadata_csum,uninit_bg",
        "metadata_csum_seed",
        "^large_file",
        "^metadata_csum,^64bit,^flex_bg,^uninit_bg",
        "ext_attr",
        "^filetype",
        "orphan_file",
        "sparse_super2",
        "stable_inodes",
        "fast_commit",
    ];
    let refused = [
        ("inline_data", "inline_data"),
        ("bigalloc", "bigalloc"),
        ("encrypt", "encrypt"),
        ("casefold", "casefold"),
        ("ea_inode", "ea_inode"),
        ("quota", "quota"),
        ("project", "project"),
        ("verity", "verity"),
        ("mmp", "mmp"),
        ("meta_bg,^resize_inode", "meta_bg"),
        ("large_dir", "large_dir"),
    ];
    let scratch = Scratch::new("features");
    let make = |features: &str| {
        let path = scratch.path("image");
        make_image(&path, None, "64M", &["-O", features]);
        path
    };
    for features in works {
        assert_eq!(written_with(&make(features)), Ok(()), "{features}");
    }
    for (features, word) in refused {
        let error = written_with(&make(features)).expect_err(features);
        assert!(error.contains(word), "{features}: {error}");
    }
}
