//! F2FS mounted on a RAM disk: what operations leave is there after an unmount, an fsync or a checkpoint, and
//! fsck.f2fs and our checker call every image clean.

use std::rc::Rc;

use onewrite_block::{Device, DevicePort, Geometry, Nanos, RamDisk};
use onewrite_fs::ext4::view::ViewOptions;
use onewrite_fs::f2fs::{F2fs, F2fsOptions, LogMode};
use onewrite_fs::{
    AnyView, AttributeChanges, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position, RenameManner,
};

use crate::support::f2fs_volume::{Left, assert_clean, new_disk, new_staged_disk, with_mount};
use crate::support::volume::image;

const MIB: u64 = 1 << 20;

async fn put(fs: &F2fs, directory: Ino, name: &str, bytes: &[u8]) -> FsResult<Ino> {
    let ino = fs.create(directory, name.as_bytes(), NewNode::FILE).await?;
    fs.write(ino, Position::At(0), Content::Bytes(bytes), Manner::default()).await?;
    Ok(ino)
}

async fn get(fs: &F2fs, directory: Ino, name: &str) -> FsResult<Vec<u8>> {
    let ino = fs.lookup(directory, name.as_bytes()).await?;
    Ok(fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec())
}

#[test]
fn a_tree_is_there_after_an_unmount() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let content: Vec<u8> = (0..3 * MIB).map(|at| (at % 251) as u8).collect();
    let expected = content.clone();
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let root = fs.root();
        let directory = fs.create(root, b"directory", NewNode::DIRECTORY).await?;
        put(&fs, directory, "large", &content).await?;
        for number in 0..1000 {
            put(&fs, directory, &format!("file {number}"), format!("content of {number}").as_bytes()).await?;
        }
        fs.symlink(root, b"link", b"directory/large").await?;
        for number in (0..1000).step_by(3) {
            fs.unlink(directory, format!("file {number}").as_bytes()).await?;
        }
        Ok(())
    });
    let shown = image(disk);
    assert_clean(&shown);
    let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
    let ((), _) = with_mount(
        Box::new(RamDisk::with_image(shown, geometry)),
        F2fsOptions::default(),
        Left::Unmounted,
        |fs, _| async move {
            let root = fs.root();
            let directory = fs.lookup(root, b"directory").await?;
            assert_eq!(get(&fs, directory, "large").await?, expected);
            for number in 0..1000 {
                let found = get(&fs, directory, &format!("file {number}")).await;
                match number % 3 {
                    0 => assert!(found.is_err(), "{number}"),
                    _ => assert_eq!(found?, format!("content of {number}").as_bytes()),
                }
            }
            let link = fs.lookup(root, b"link").await?;
            assert_eq!(fs.read_link(link).await?, b"directory/large");
            Ok(())
        },
    );
}

/// Pages, FLUSHes and FUA writes of `count` syncs of one page each.
async fn cost_of_syncs(fs: &F2fs, port: &DevicePort, ino: Ino, count: u64) -> FsResult<(u64, u64, u64)> {
    let before = port.device().counters();
    for step in 0..count {
        fs.write(ino, Position::At(step % 30 * 4096), Content::Bytes(&[step as u8; 100]), Manner::default()).await?;
        fs.fdatasync(ino).await?;
    }
    let after = port.device().counters();
    let pages = (after.host_write_bytes() - before.host_write_bytes()) / 4096;
    Ok((pages, after.flushes - before.flushes, after.fua_writes - before.fua_writes))
}

#[test]
fn small_fsyncs_overwrite_where_they_may() {
    let synced_pages = |in_place_below| {
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let options = F2fsOptions { in_place_below, ..F2fsOptions::default() };
        let (costs, disk) = with_mount(disk, options, Left::AsItIs, |fs, port| async move {
            let ino = put(&fs, fs.root(), "file", &[7; 30 * 4096]).await?;
            fs.sync().await?;
            let small = cost_of_syncs(&fs, &port, ino, 40).await?;
            // As many pages as the limit: they get new blocks, and a node says so.
            let before = port.device().counters().host_write_bytes();
            fs.write(ino, Position::At(0), Content::Bytes(&[9; 16 * 4096]), Manner::default()).await?;
            fs.fdatasync(ino).await?;
            Ok((small, (port.device().counters().host_write_bytes() - before) / 4096))
        });
        // What the last syncs wrote is there without a node.
        let shown = image(disk);
        let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
        let disk = Box::new(RamDisk::with_image(shown, geometry));
        let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
            let found = get(&fs, fs.root(), "file").await?;
            assert!(found[..16 * 4096].iter().all(|byte| *byte == 9));
            let expected = |page: usize| if page < 10 { 30 + page } else { page };
            for page in 16..30 {
                assert!(found[page * 4096..][..100].iter().all(|byte| usize::from(*byte) == expected(page)), "{page}");
            }
            Ok(())
        });
        assert_clean(&image(disk));
        costs
    };
    let (small, large) = synced_pages(16);
    assert_eq!(small, (40, 40, 0), "a page and a FLUSH for each");
    assert_eq!(large, 17, "sixteen pages and the node that names them");
    let (small, _) = synced_pages(0);
    assert_eq!(small, (80, 40, 40), "a page, a FLUSH, a node with FUA");
    let (small, _) = synced_pages(1);
    assert_eq!(small, (80, 40, 40), "one page is not below one");
}

/// Linux stamps with a tick of 4 ms, too, and leaves the inode of such an fsync alone.
#[test]
fn an_fsync_within_the_tick_of_the_last_writes_no_inode() {
    let options = F2fsOptions { in_place_below: 16, ..F2fsOptions::default() };
    let ((), disk) = with_mount(Box::new(new_disk(64 * MIB)), options, Left::Unmounted, |fs, port| async move {
        let ino = put(&fs, fs.root(), "file", &[7; 30 * 4096]).await?;
        fs.sync().await?;
        let runtime = port.runtime().clone();
        let next_tick = async || runtime.sleep(Nanos(4_000_000 - runtime.civil_now().0 % 4_000_000)).await;
        for (pause, pages) in [(false, 20), (true, 40)] {
            next_tick().await;
            fs.write(ino, Position::At(0), Content::Bytes(&[1; 9]), Manner::default()).await?;
            fs.fsync(ino).await?;
            let before = port.device().counters().host_write_bytes();
            for step in 0..20 {
                if pause {
                    next_tick().await;
                }
                fs.write(ino, Position::At(step * 4096), Content::Bytes(&[2; 9]), Manner::default()).await?;
                fs.fsync(ino).await?;
            }
            assert_eq!((port.device().counters().host_write_bytes() - before) / 4096, pages, "{pause}");
            let attributes = fs.attributes(ino).await?;
            assert_eq!((attributes.modified.nanoseconds % 4_000_000, attributes.modified), (0, attributes.changed));
        }
        Ok(())
    });
    assert_clean(&image(disk));
}

#[test]
fn in_place_updates_are_refused_where_nothing_is_overwritten() {
    let refused = |options: F2fsOptions, stage_bytes: u64| {
        let executor = onewrite_block::Executor::ideal();
        let port = executor.runtime().attach(Box::new(new_staged_disk(64 * MIB + stage_bytes, stage_bytes)));
        let error = executor.block_on(async move { F2fs::mount(port, options).await.err() }).unwrap();
        error.expect("refused").to_string()
    };
    let in_place = F2fsOptions { in_place_below: 16, ..F2fsOptions::default() };
    assert!(refused(F2fsOptions { log_mode: LogMode::Lfs, ..in_place }, 0).contains("mode=lfs"));
    assert!(refused(in_place, MIB).contains("staging area"));
}

#[test]
fn a_read_for_one_caller_shows_dirty_pages_behind_a_hole() {
    with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let file = fs.create(fs.root(), b"sparse", NewNode::FILE).await?;
        // A node with holes, then one that is not there, then a dirty page.
        for page in [5, 2000] {
            fs.write(file, Position::At(page * 4096), Content::Bytes(&[7; 4096]), Manner::default()).await?;
        }
        let once = Manner { once: true, ..Manner::default() };
        let found = fs.read(file, 0, 8 * 4096, once).await?.to_vec();
        assert_eq!(found, [[0; 5 * 4096].as_slice(), &[7; 4096], &[0; 2 * 4096]].concat());
        let found = fs.read(file, 1990 * 4096, 20 * 4096, once).await?.to_vec();
        assert_eq!(found, [[0; 10 * 4096].as_slice(), &[7; 4096]].concat());
        Ok(())
    });
}

#[test]
fn what_was_synced_is_rolled_forward() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let content: Vec<u8> = (0..9 * MIB).map(|at| (at % 241) as u8).collect();
    let expected = content.clone();
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, |fs, _| async move {
        let root = fs.root();
        put(&fs, root, "first", b"before the first checkpoint").await?;
        fs.sync().await?;
        let large = put(&fs, root, "large", &content).await?;
        fs.fsync(large).await?;
        let first = fs.lookup(root, b"first").await?;
        fs.write(first, Position::At(7), Content::Bytes(b"again"), Manner::default()).await?;
        fs.fsync(first).await?;
        put(&fs, root, "lost", b"never synced").await?;
        assert_eq!(fs.counters().checkpoints, 1, "an fsync is no checkpoint");
        Ok(())
    });
    let shown = image(disk);
    let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
    assert_a_view_shows_it(shown.clone(), geometry.clone(), expected.clone());
    let (recovered, disk) = with_mount(
        Box::new(RamDisk::with_image(shown, geometry)),
        F2fsOptions::default(),
        Left::Unmounted,
        |fs, _| async move {
            let root = fs.root();
            assert_eq!(get(&fs, root, "first").await?, b"before againirst checkpoint");
            assert_eq!(get(&fs, root, "large").await?, expected);
            assert!(fs.lookup(root, b"lost").await.is_err());
            Ok(fs.recovered())
        },
    );
    assert_eq!(recovered.expect("a chain").files, 2);
    assert_clean(&image(disk));
}

fn assert_a_view_shows_it(shown: onewrite_block::Image, geometry: onewrite_block::Geometry, large: Vec<u8>) {
    let executor = onewrite_block::Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(shown, geometry)));
    let door = port.clone();
    let outcome = executor.block_on(async move {
        let view = AnyView::open(&door, ViewOptions::default()).await?;
        let first = view.lookup(view.root(), b"first").await?;
        let content = view.read(first, 0, u64::MAX, Manner::default()).await?.to_vec();
        assert_eq!(content, b"before againirst checkpoint");
        let found = view.lookup(view.root(), b"large").await?;
        assert_eq!(view.read(found, 0, u64::MAX, Manner::default()).await?.to_vec(), large);
        assert!(view.lookup(view.root(), b"lost").await.is_err() && view.warnings().is_empty());
        FsResult::Ok(())
    });
    outcome.expect("nothing halts").expect("a view");
    assert_eq!(port.device().counters().host_write_bytes_by_cause.iter().sum::<u64>(), 0);
}

/// Cuts the power after `before`, mounts again, runs `behind`, unmounts and checks.
fn cut<F: Future<Output = FsResult<()>> + 'static, G: Future<Output = FsResult<()>> + 'static>(
    before: impl FnOnce(Rc<F2fs>) -> F + 'static,
    behind: impl FnOnce(Rc<F2fs>) -> G + 'static,
) {
    let ((), disk) =
        with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::AsItIs, move |fs, _| before(fs));
    let shown = image(disk);
    let disk = Box::new(RamDisk::with_image(shown.clone(), onewrite_block::Geometry::plain("ram", shown.pages())));
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, _| behind(fs));
    assert_clean(&image(disk));
}

#[test]
fn a_new_file_under_an_old_name_does_not_push_out_what_had_it() {
    cut(
        async |fs| {
            put(&fs, fs.root(), "log", b"old entries").await?;
            put(&fs, fs.root(), "gone", b"removed").await?;
            fs.sync().await?;
            fs.rename((fs.root(), b"log"), (fs.root(), b"log.1"), RenameManner::Replace).await?;
            let log = put(&fs, fs.root(), "log", b"new entries").await?;
            fs.fsync(log).await
        },
        async |fs| {
            assert_eq!(get(&fs, fs.root(), "log").await?, b"new entries");
            let old = get(&fs, fs.root(), "log.1").await;
            assert_eq!(old.expect("the old log is there under its new name"), b"old entries");
            Ok(())
        },
    );
}

#[test]
fn what_a_truncation_freed_does_not_come_back_with_a_later_fsync() {
    const SIZE: u64 = 3000 * 4096;
    cut(
        async |fs| {
            let file = put(&fs, fs.root(), "file", &vec![7; SIZE as usize]).await?;
            fs.sync().await?;
            for size in [0, SIZE] {
                fs.set_attributes(file, AttributeChanges { size: Some(size), ..Default::default() }).await?;
            }
            fs.write(file, Position::At(0), Content::Bytes(b"first"), Manner::default()).await?;
            fs.fsync(file).await
        },
        async |fs| {
            let found = get(&fs, fs.root(), "file").await?;
            assert!(found.len() as u64 == SIZE && found.starts_with(b"first"));
            assert!(found[5..].iter().all(|byte| *byte == 0), "old content came back");
            Ok(())
        },
    );
}

#[test]
fn an_open_file_without_a_name_is_gone_after_the_next_mount() {
    cut(
        async |fs| {
            let file = put(&fs, fs.root(), "file", &vec![7; 300_000]).await?;
            fs.open(file).await?;
            fs.sync().await?;
            fs.unlink(fs.root(), b"file").await?;
            fs.sync().await
        },
        async |fs| {
            let space = fs.space().await?;
            assert_eq!(space.blocks - space.blocks_free, 2, "the root and its names");
            Ok(())
        },
    );
}

#[test]
fn an_open_file_without_a_name_is_gone_after_unmount() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        for (name, length) in [("large", 3_000_000), ("small", 10)] {
            let file = put(&fs, fs.root(), name, &vec![7; length]).await?;
            fs.open(file).await?;
            fs.sync().await?;
            fs.unlink(fs.root(), name.as_bytes()).await?;
        }
        fs.sync().await
    });
    let shown = image(disk);
    assert_clean(&shown);
    let disk = Box::new(RamDisk::with_image(shown.clone(), Geometry::plain("ram", shown.pages())));
    let options = F2fsOptions { read_only: true, ..F2fsOptions::default() };
    with_mount(disk, options, Left::AsItIs, |fs, _| async move {
        let space = fs.space().await?;
        assert_eq!(space.blocks - space.blocks_free, 2, "the root and its names");
        Ok(())
    });
}

#[test]
fn a_damaged_chain_keeps_out_writers_and_not_readers() {
    let ((), disk) =
        with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::AsItIs, async |fs: Rc<F2fs>, _| {
            put(&fs, fs.root(), "old", b"before").await?;
            fs.sync().await?;
            let new = put(&fs, fs.root(), "new", b"behind").await?;
            fs.fsync(new).await
        });
    let mut shown = image(disk);
    let is_new = |page: &onewrite_block::Page| page.bytes()[92..95] == *b"new" && page.bytes()[4080] & 2 != 0;
    let (chain, mut page) =
        shown.written().find(|(_, page)| is_new(page)).map(|(at, page)| (at, page.clone())).unwrap();
    page.bytes_mut()[80] ^= 1;
    shown.set(chain, page);
    let mount_on = |atomic_write_pages: u32, options: F2fsOptions| {
        let executor = onewrite_block::Executor::ideal();
        let geometry = Geometry { atomic_write_pages, ..Geometry::plain("ram", shown.pages()) };
        let port = executor.runtime().attach(Box::new(RamDisk::with_image(shown.clone(), geometry)));
        executor
            .block_on(async move {
                let fs = F2fs::mount(port, options).await?;
                assert!(fs.lookup(fs.root(), b"new").await.is_err());
                FsResult::Ok((get(&fs, fs.root(), "old").await?, fs.warnings().join("; ")))
            })
            .expect("nothing halts")
    };
    let mount = |options| mount_on(1, options);
    let refused = mount(F2fsOptions::default()).expect_err("a damaged node").to_string();
    assert!(refused.contains("checksum") && refused.contains("-o ro"), "{refused}");
    let (old, warned) = mount(F2fsOptions { read_only: true, ..F2fsOptions::default() }).expect("the checkpoint alone");
    assert!(old == b"before" && warned.contains("not shown"), "{warned}");
    // Where a power cut tears pages, that fsync had not returned.
    let (old, _) = mount_on(0, F2fsOptions::default()).expect("the fsync is left out");
    assert_eq!(old, b"before");
}

#[test]
fn a_chain_that_ended_early_does_not_go_on_behind_later_nodes() {
    let name = |page: &onewrite_block::Page| page.bytes()[92..93].to_vec();
    let is_synced = |page: &onewrite_block::Page| page.bytes()[4080] & 2 != 0;
    let ((), disk) =
        with_mount(Box::new(new_disk(64 * MIB)), F2fsOptions::default(), Left::AsItIs, async |fs: Rc<F2fs>, _| {
            fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
            fs.sync().await?;
            for name in ["a", "b"] {
                let file = put(&fs, fs.root(), name, b"content").await?;
                fs.fsync(file).await?;
            }
            Ok(())
        });
    // The node of the first fsync never reached the device.
    let mut shown = image(disk);
    let lost = shown.written().find(|(_, page)| is_synced(page) && name(page) == b"a").map(|(at, _)| at).unwrap();
    shown.set(lost, onewrite_block::Page::ZEROS);
    let ram = |shown: onewrite_block::Image| {
        let geometry = onewrite_block::Geometry::plain("ram", shown.pages());
        Box::new(RamDisk::with_image(shown, geometry))
    };
    let ((), disk) = with_mount(ram(shown), F2fsOptions::default(), Left::AsItIs, async |fs: Rc<F2fs>, _| {
        assert!(fs.lookup(fs.root(), b"b").await.is_err(), "the chain ends before it");
        let file = put(&fs, fs.root(), "c", b"content").await?;
        fs.fsync(file).await
    });
    let ((), disk) = with_mount(ram(image(disk)), F2fsOptions::default(), Left::Unmounted, async |fs: Rc<F2fs>, _| {
        assert_eq!(get(&fs, fs.root(), "c").await?, b"content");
        assert!(fs.lookup(fs.root(), b"b").await.is_err(), "a node of an earlier life came back");
        Ok(())
    });
    assert_clean(&image(disk));
}
