//! After a crash, we, e2fsck and the kernel replay our log: trees, contents, attributes and free counts are equal.

use std::path::Path;
use std::rc::Rc;

use onewrite_block::{
    Choices, EvictionOrder, Executor, Geometry, Halt, Image, Nanos, PowerLoss, RamDisk, Runtime, TrimRead, WriteBuffer,
};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position, RenameManner, Space};

use crate::support::tree::{Entry, tree};
use crate::support::volume::{image, load, new_disk, save, with_mount};
use crate::support::{LoopMount, Scratch, assert_clean, output, text};

const MIB: u64 = 1024 * 1024;

/// One task's random work in a directory of its own; it never ends by itself.
async fn work(fs: Rc<Ext4>, runtime: Runtime, task: u64) -> FsResult<()> {
    let mut choices = Choices::new(task);
    let root = fs.root();
    let home = fs.create(root, format!("task-{task}").as_bytes(), NewNode::DIRECTORY).await?;
    loop {
        let name = format!("name-{}", choices.below(12));
        let other = format!("name-{}", choices.below(12));
        let found = fs.lookup(home, name.as_bytes()).await.ok();
        match (choices.below(10), found) {
            (0, Some(_)) => drop(fs.unlink(home, name.as_bytes()).await),
            (1, Some(_)) => drop(fs.remove_directory(home, name.as_bytes()).await),
            (2, Some(_)) => {
                drop(
                    fs.rename(
                        (home, name.as_bytes()),
                        (root, format!("{task}-{other}").as_bytes()),
                        RenameManner::Replace,
                    )
                    .await,
                );
            }
            (3, None) => drop(fs.symlink(home, name.as_bytes(), &vec![b'l'; 1 + choices.index(200)]).await),
            (4, None) => fill_directory(&fs, fs.create(home, name.as_bytes(), NewNode::DIRECTORY).await?).await?,
            (5, Some(ino)) => drop(fs.fsync(ino).await),
            (6, Some(ino)) => drop(fs.link(ino, root, format!("link-{task}-{other}").as_bytes()).await),
            (_, Some(ino)) => drop(write(&fs, ino, &mut choices).await),
            (_, None) => drop(fs.create(home, name.as_bytes(), NewNode::FILE).await),
        }
        runtime.sleep(Nanos::from_millis(choices.below(40))).await;
    }
}

async fn write(fs: &Rc<Ext4>, ino: Ino, choices: &mut Choices) -> FsResult<u64> {
    let offset = choices.below(40) * 4096 + choices.below(2) * 100;
    if choices.chance(1, 4) {
        // Looks like a block of the log, so `data` must escape it.
        let magic = [&[0xc0, 0x3b, 0x39, 0x98][..], &[1; 5000]].concat();
        return fs.write(ino, Position::At(offset - offset % 4096), Content::Bytes(&magic), Manner::default()).await;
    }
    let content = Content::Pattern { seed: choices.bits(), compressible_percent: 0, length: 1 + choices.below(60_000) };
    fs.write(ino, Position::At(offset), content, Manner::default()).await
}

async fn fill_directory(fs: &Rc<Ext4>, directory: Ino) -> FsResult<()> {
    for number in 0..150 {
        fs.create(directory, format!("a-rather-long-name-{number}").as_bytes(), NewNode::FILE).await?;
    }
    for number in 0..150 {
        fs.unlink(directory, format!("a-rather-long-name-{number}").as_bytes()).await?;
    }
    Ok(())
}

/// The content of the disk after a power cut at device event `events`.
fn crashed(mode: Mode, events: u64) -> Image {
    let mut disk = new_disk(64 * MIB, 1024);
    if mode.padding().is_some() {
        disk = RamDisk::with_image(disk.image().clone(), evicting_geometry());
    }
    onewrite_block::PowerCut::arm(&mut disk, events);
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let (door, runtime) = (port.clone(), executor.runtime());
    let outcome = executor.block_on(async move {
        let fs = Rc::new(Ext4::mount(door, MountOptions::new(mode)).await.expect("mount"));
        for task in 0..4 {
            let (fs, runtime_of_task) = (Rc::clone(&fs), runtime.clone());
            runtime.spawn(async move { work(fs, runtime_of_task, task).await.expect("work") });
        }
        std::future::pending::<()>().await;
    });
    assert_eq!(outcome, Err(Halt::PowerLost));
    drop(executor);
    let mut device = port.unplug();
    let switch = device.as_power_cut().expect("a RAM disk can be cut");
    switch.recover(Nanos::ZERO).expect("a RAM disk recovers");
    image(device)
}

/// Number of device events before each power cut.
const CUTS: [u64; 5] = [700, 1500, 3000, 6000, 12_000];

fn share_geometry() -> Geometry {
    let plain = Geometry::plain("ram", 64 * MIB / 4096);
    Geometry { share_pairs_max: 100, share_atomic: true, ..plain }
}

/// A disk that promises to evict everything after 1 MiB of further writes. In this test no completed write is lost.
fn evicting_geometry() -> Geometry {
    let buffer = WriteBuffer {
        bytes: MIB,
        eviction_order: EvictionOrder::LeastRecentlyWritten,
        eviction_begins_bytes: MIB / 2,
        eviction_certain_bytes: MIB,
    };
    Geometry {
        write_buffer: Some(buffer),
        oob_hints: true,
        trim_read: TrimRead::Zeros,
        on_power_loss: PowerLoss::KeepsCompleted,
        ..Geometry::plain("ram", 64 * MIB / 4096)
    }
}

type Seen = (Vec<Entry>, Space, u64);

/// Mounts an image, with replay if needed; returns what we see and the image afterwards.
fn seen(path: &Path, mode: Mode) -> (Seen, Image) {
    let disk = RamDisk::with_image(load(path), share_geometry());
    let options = MountOptions::new(mode);
    let (outcome, device) = with_mount(Box::new(disk), options, |fs, _| async move {
        let transactions = fs.recovered().map_or(0, |recovered| recovered.transactions);
        Ok((tree(&fs).await?, fs.space().await?, transactions))
    });
    (outcome.expect("it mounts"), image(device))
}

/// Runs `treat` on a copy of `image`; returns what we then see on it.
fn after(scratch: &Scratch, (name, mode): (&str, Mode), image: &Image, treat: impl FnOnce(&Path)) -> Seen {
    let path = scratch.path(name);
    save(image, &path);
    treat(&path);
    if name == "e2fsck" {
        assert_clean(&path);
    }
    let (seen, unmounted) = seen(&path, mode);
    save(&unmounted, &path);
    assert_clean(&path);
    seen
}

fn assert_same_tree(one: &Seen, other: &Seen, what: &str) {
    for (a, b) in one.0.iter().zip(&other.0) {
        assert_eq!(a, b, "{what}");
    }
    assert_eq!(one.0.len(), other.0.len(), "{what}");
    assert_eq!(one.1, other.1, "{what}");
}

fn compare_replays(mode: Mode, cuts: &[u64]) {
    let scratch = Scratch::new(&format!("replay-{mode}"));
    for &events in cuts {
        let image = crashed(mode, events);
        let ours = after(&scratch, ("ours", mode), &image, |_| ());
        assert!(ours.2 > 0, "{mode}, {events} events: the log holds nothing to replay");
        let theirs = after(&scratch, ("e2fsck", mode), &image, |path| {
            let said = output("e2fsck", &["-fy", text(path)]);
            assert!(said.status.code().is_some_and(|code| code <= 1), "{}", String::from_utf8_lossy(&said.stdout));
        });
        assert_same_tree(&ours, &theirs, &format!("{mode}, {events} events: we and e2fsck"));
        let mut is_mounted = false;
        let kernel = after(&scratch, ("kernel", mode), &image, |path| is_mounted = LoopMount::new(path).is_some());
        if is_mounted {
            assert_same_tree(&ours, &kernel, &format!("{mode}, {events} events: we and the kernel"));
        }
    }
}

#[test]
fn an_ordered_log_is_replayed_by_all_alike() {
    compare_replays(Mode::Ordered, &CUTS);
}

#[test]
fn a_data_log_is_replayed_by_all_alike() {
    compare_replays(Mode::Data, &CUTS);
}

#[test]
fn logs_whose_blocks_went_home_by_share_are_replayed_by_all_alike() {
    for mode in [Mode::Soj, Mode::Sdj, Mode::SdjAsync] {
        compare_replays(mode, &[1500, 6000]);
    }
}

#[test]
fn logs_with_padding_behind_their_last_transaction_are_replayed_by_all_alike() {
    for mode in ["zp", "zp+no-trim", "zp-data", "zp-data+no-trim"] {
        compare_replays(mode.parse().expect("mode"), &[1500, 6000]);
    }
}

#[test]
fn an_async_log_is_replayed_by_all_alike() {
    compare_replays(Mode::DataAsync, &CUTS);
}

#[test]
fn a_compressed_log_is_refused_by_e2fsck_and_the_kernel_and_replayed_by_us() {
    let scratch = Scratch::new("replay-frames");
    for mode in [Mode::Ldj, Mode::DataCmp, Mode::LdjPaper] {
        let image = crashed(mode, 3000);
        let path = scratch.path("image");
        save(&image, &path);
        for arguments in [["-fn", text(&path)], ["-fp", text(&path)]] {
            let said = output("e2fsck", &arguments);
            let words = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
            assert!(said.status.code().is_some_and(|code| code >= 4), "{mode}, e2fsck {arguments:?}: {words}");
        }
        if let Some(refusal) = LoopMount::refusal(&path) {
            assert!(refusal.contains("mount"), "{mode}: {refusal}");
        }
        // e2fsck notes in the superblock that it has seen errors.
        let pages = |image: &Image| -> Vec<_> {
            image
                .written()
                .skip(1)
                .filter(|(_, page)| !page.is_zeros())
                .map(|(lpn, page)| (lpn, page.digest()))
                .collect()
        };
        assert_eq!(pages(&load(&path)), pages(&image), "{mode}: they changed what they do not understand");
        let (seen, unmounted) = seen(&path, mode);
        assert!(seen.2 > 0, "{mode}: the log holds nothing to replay");
        save(&unmounted, &path);
        assert_clean(&path);
        drop(LoopMount::new(&path));
    }
}

#[test]
fn a_log_is_replayed_alike_whatever_fits_into_memory() {
    for mode in [Mode::Data, Mode::Ldj, Mode::DataLazy] {
        let image = crashed(mode, 12_000);
        let with_cache = |cache_pages| {
            let disk = RamDisk::with_image(image.clone(), share_geometry());
            let options = MountOptions { cache_pages, ..MountOptions::new(mode) };
            let work = |fs: Rc<Ext4>, _| async move {
                Ok((
                    tree(&fs).await?,
                    fs.space().await?,
                    fs.recovered().map_or(0, |recovered| recovered.written_blocks),
                ))
            };
            with_mount(Box::new(disk), options, work).0.expect("it mounts")
        };
        let (small, large) = (with_cache(MountOptions::CACHE_PAGES_MIN), with_cache(16 * 1024));
        assert!(small.2 as usize > MountOptions::CACHE_PAGES_MIN, "{mode}: only {} blocks to replay", small.2);
        assert_same_tree(&small, &large, &format!("{mode}: 1 MiB of memory and 64"));
    }
}
