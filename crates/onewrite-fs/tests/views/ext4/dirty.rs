//! Logs that wait for replay. The kernel makes them, a view reads them in place, and the kernel then replays them: both
//! see the same.

use std::fs;
use std::io::Write;
use std::path::Path;

use onewrite_block::{Executor, Geometry, RamDisk};
use onewrite_fs::FsError;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_testing::skipped;

use super::{Mounted, fill, make};
use crate::seen::{assert_same, by_kernel, by_view};
use crate::support::volume::load;
use crate::support::{Scratch, many, output, run, text};

/// Makes changes that leave revokes, repeatedly logged blocks, and blocks that begin like log blocks.
fn change(root: &Path) {
    let sync = |path: &Path| fs::File::open(path).and_then(|file| file.sync_all()).expect("fsync");
    for round in 0..8_u8 {
        let directory = root.join(format!("round-{round}"));
        many(&directory, 120, 30);
        fs::write(root.join("looks-like-a-log"), [&[0xc0, 0x3b, 0x39, 0x98][..], &[round; 9000]].concat())
            .expect("write");
        for number in 0..12 {
            let mut file = fs::File::create(root.join(format!("file-{number}"))).expect("file");
            file.write_all(&vec![round + 1; 3000 * (number + 1)]).expect("write");
        }
        fs::rename(root.join("file-3"), directory.join("moved")).expect("rename");
        sync(&directory);
        if round % 2 == 1 {
            fs::remove_dir_all(root.join(format!("round-{}", round - 1))).expect("rm -r");
            sync(root);
        }
    }
    run("sync", &["-f", text(root)]);
}

fn judge(kind: &str, arguments: &str, options: &str) {
    let scratch = Scratch::new(&format!("view-dirty-{kind}"));
    let image = scratch.path("image");
    make(&image, arguments, "64M");
    let mount = match Mounted::new(&image, options) {
        Ok(mount) => mount,
        Err(refusal) => return skipped!("{kind}: {refusal}"),
    };
    fill(mount.path(), 20 << 20);
    change(mount.path());
    let cut = scratch.path("cut");
    fs::copy(&image, &cut).expect("copy");
    drop(mount);
    let seen = by_view(&cut, false).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert!(seen.transactions > 0, "{kind}: the log is empty");
    let rescued = by_view(&cut, true).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!((rescued.entries == seen.entries, rescued.losses.count), (true, 0), "{kind}: a rescue sees the same");
    let mount = Mounted::new(&cut, "rw").expect("the kernel replays it");
    assert_same(&by_kernel(mount.path()), &seen.entries, kind);
}

#[test]
fn a_log_that_waits_for_replay_is_read_in_place_as_the_kernel_replays_it() {
    judge("ext3-1k", "-t ext3 -b 1024", "data=ordered");
    judge("ext3-1k-journal", "-t ext3 -b 1024", "data=journal");
    judge("ext4-1k", "-t ext4 -b 1024", "data=ordered");
    judge("ext4-1k-journal", "-t ext4 -b 1024", "data=journal");
    judge("ext4-2k-32-bit", "-t ext4 -b 2048 -O ^64bit", "journal_checksum");
    judge("ext4-4k-async", "-t ext4 -b 4096 -O ^metadata_csum,uninit_bg", "journal_async_commit,data=writeback");
    judge("ext4-4k-inline", "-t ext4 -b 4096 -O inline_data", "data=ordered");
}

fn mount_refusal(path: &Path) -> FsError {
    let image = load(path);
    let geometry = Geometry::plain("ram", image.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let mounted = async move { Ext4::mount(port, MountOptions::new(Mode::Ordered)).await.err() };
    executor.block_on(mounted).expect("nothing halts").expect("refused")
}

#[test]
fn a_log_with_fast_commits_is_refused_by_its_name() {
    let scratch = Scratch::new("view-fast-commit");
    let image = scratch.path("image");
    make(&image, "-t ext4 -b 4096 -O fast_commit", "64M");
    let mount = match Mounted::new(&image, "rw") {
        Ok(mount) => mount,
        Err(refusal) => return skipped!("{refusal}"),
    };
    fs::write(mount.path().join("before"), b"before").expect("write");
    run("sync", &["-f", text(mount.path())]);
    let mut file = fs::File::create(mount.path().join("after")).expect("file");
    for _ in 0..5 {
        file.write_all(&[1; 1000]).expect("write");
        file.sync_all().expect("fsync");
    }
    let cut = scratch.path("cut");
    fs::copy(&image, &cut).expect("copy");
    drop(file);
    drop(mount);
    let features = String::from_utf8_lossy(&output("dumpe2fs", &["-h", text(&cut)]).stdout).into_owned();
    assert!(features.contains("needs_recovery"), "{features}");
    let name =
        "unsupported: a log that holds fast commits (feature fast_commit); e2fsck replays it, or a mount by Linux";
    assert_eq!(by_view(&cut, false).err().expect("refused").to_string(), name);
    assert_eq!(mount_refusal(&cut).to_string(), name);
    let rescued = by_view(&cut, true).expect("a rescue");
    assert!(rescued.losses.told[0].contains("fast_commit"), "{:?}", rescued.losses);
    // After a clean unmount the log is empty.
    let clean = by_view(&image, false).expect("a view");
    assert!(clean.entries.iter().any(|entry| entry.path == "/after" && entry.size == 5000));
}

#[test]
fn a_log_on_another_device_is_refused_by_its_name_if_it_waits() {
    let scratch = Scratch::new("view-external");
    let (image, log) = (scratch.path("image"), scratch.path("log"));
    make(&log, "-O journal_dev -b 4096", "8M");
    let device = output("losetup", &["-f", "--show", text(&log)]);
    if !device.status.success() {
        return skipped!("no loop device");
    }
    let device = String::from_utf8_lossy(&device.stdout).trim().to_owned();
    make(&image, &format!("-t ext4 -b 4096 -J device={device}"), "32M");
    run("losetup", &["-d", &device]);
    assert!(by_view(&image, false).is_ok(), "nothing waits");
    run("debugfs", &["-w", "-R", "feature needs_recovery", text(&image)]);
    let refusal = by_view(&image, false).err().expect("refused").to_string();
    assert!(refusal.contains("a log on another device"), "{refusal}");
}
