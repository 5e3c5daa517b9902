//! F2FS that runs full: refused writes lose nothing, freed space comes back, logs thread through used segments, and the
//! image is clean for fsck.f2fs in the end.

use onewrite_block::{Cause, Choices, Device, DevicePort, Geometry, Lpn, Nanos, RamDisk};
use onewrite_fs::f2fs::format::Nid;
use onewrite_fs::f2fs::{Clean, F2fs, F2fsOptions, LogMode};
use onewrite_fs::{Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position};

use crate::support::f2fs::{Editor, fill as fill_tree, make};
use crate::support::f2fs_volume::{Left, assert_clean, new_disk, new_staged_disk, with_mount};
use crate::support::volume::{image, load};
use crate::support::{Scratch, many};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

async fn write(fs: &F2fs, ino: Ino, offset: u64, bytes: &[u8]) -> FsResult<()> {
    fs.write(ino, Position::At(offset), Content::Bytes(bytes), Manner::default()).await.map(drop)
}

/// Writes pages of `byte` until nothing more fits; gives their number.
async fn fill(fs: &F2fs, ino: Ino, byte: u8) -> FsResult<u64> {
    let mut pages = 0;
    loop {
        match write(fs, ino, pages * PAGE, &[byte; PAGE as usize]).await {
            Ok(()) => pages += 1,
            Err(FsError::NoSpace { .. }) => return Ok(pages),
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn a_full_disk_takes_as_much_again_after_a_deletion() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let mut before = 0;
        for round in 0..6 {
            let name = format!("file {round}");
            let ino = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
            let pages = fill(&fs, ino, round).await?;
            fs.fsync(ino).await?;
            assert!(round == 0 || pages.abs_diff(before) <= 2, "round {round}: {pages} pages after {before}");
            assert!(pages > 3000, "{pages} pages");
            let last = fs.read(ino, (pages - 1) * PAGE, PAGE, Manner::default()).await?.to_vec();
            assert_eq!(last, [round; PAGE as usize]);
            before = pages;
            fs.unlink(fs.root(), name.as_bytes()).await?;
        }
        Ok(())
    });
    assert_clean(&image(disk));
}

#[test]
fn direct_writes_of_many_pages_find_room_on_a_nearly_full_disk() {
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let direct = Manner { direct: true, ..Manner::default() };
    let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, _| async move {
        let mut choices = Choices::new(1);
        let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        let pages = fill(&fs, ino, 0).await? - 100;
        let size = Some(pages * PAGE);
        fs.set_attributes(ino, onewrite_fs::AttributeChanges { size, ..Default::default() }).await?;
        let mut model = vec![0; pages as usize];
        for step in 0..400_u32 {
            let count = 1 + choices.below(1500);
            let first = choices.below(pages - count);
            let bytes = vec![step as u8; (count * PAGE) as usize];
            fs.write(ino, Position::At(first * PAGE), Content::Bytes(&bytes), direct).await?;
            model[first as usize..(first + count) as usize].fill(step as u8);
        }
        for (page, byte) in (0..).zip(&model) {
            let found = fs.read(ino, page * PAGE, PAGE, Manner::default()).await?.to_vec();
            assert_eq!(found, [*byte; PAGE as usize], "page {page}");
        }
        Ok(())
    });
    assert_clean(&image(disk));
}

/// Content that finds no segment stays in memory until a checkpoint has made room. Whoever passes by the page cache or
/// looks at the map meanwhile must not miss it.
#[test]
fn content_that_finds_no_segment_is_not_missed() {
    let options = F2fsOptions { cache_pages: 100_000, ..F2fsOptions::default() };
    let direct = Manner { direct: true, ..Manner::default() };
    let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
    let ((), disk) = with_mount(disk, options, Left::Unmounted, move |fs, _| async move {
        let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        let pages = fill(&fs, ino, 1).await? - 700;
        for size in [pages * PAGE, 2 * pages * PAGE] {
            let size = Some(size);
            fs.set_attributes(ino, onewrite_fs::AttributeChanges { size, ..Default::default() }).await?;
        }
        fs.fsync(ino).await?;
        // More than the free segments take, and behind it pages without a block.
        write(&fs, ino, 0, &vec![2; (pages * PAGE) as usize]).await?;
        write(&fs, ino, pages * PAGE, &[2; PAGE as usize]).await?;
        assert_eq!(fs.seek(ino, pages * PAGE, onewrite_fs::SeekTarget::Data).await?, pages * PAGE);
        assert_eq!(fs.seek(ino, 0, onewrite_fs::SeekTarget::Hole).await?, (pages + 1) * PAGE);
        let found = fs.read(ino, 0, (pages + 1) * PAGE, direct).await?.to_vec();
        assert_eq!(found.chunks(PAGE as usize).position(|page| page != [2; PAGE as usize]), None, "direct read");
        write(&fs, ino, 0, &vec![3; (pages * PAGE) as usize]).await?;
        fs.write(ino, Position::At(0), Content::Bytes(&[4; 8 * PAGE as usize]), direct).await?;
        let found = fs.read(ino, 0, pages * PAGE, Manner::default()).await?.to_vec();
        assert_eq!((found[0], found[8 * PAGE as usize], found[found.len() - 1]), (4, 3, 3));
        Ok(())
    });
    assert_clean(&image(disk));
}

/// An image of f2fs-tools with a directory and a file whose names and content lie in their inodes.
pub fn inline_disk() -> Box<dyn Device> {
    let scratch = Scratch::new("f2fs-full-inline");
    let (tree, path) = (scratch.path("tree"), scratch.path("image"));
    many(&tree.join("few"), 20, 20);
    std::fs::write(tree.join("small"), [6; 300]).expect("file");
    make(&path, 64 * MIB, "");
    fill_tree(&path, &tree, "");
    let loaded = load(&path);
    let disk = RamDisk::with_image(loaded.clone(), Geometry::plain("ram", loaded.pages()));
    let ((few, small), _) = with_mount(Box::new(disk), read_only(), Left::AsItIs, |fs, _| async move {
        Ok((fs.lookup(fs.root(), b"few").await?, fs.lookup(fs.root(), b"small").await?))
    });
    let mut editor = Editor::open(&path);
    assert!(editor.inode(Nid::from_ino(small)).is_inline_data(), "sload.f2fs keeps small content in the inode");
    editor.move_names_into_inode(Nid::from_ino(few));
    editor.save(&path);
    let loaded = load(&path);
    Box::new(RamDisk::with_image(loaded.clone(), Geometry::plain("ram", loaded.pages())))
}

fn read_only() -> F2fsOptions {
    F2fsOptions { read_only: true, ..F2fsOptions::default() }
}

#[test]
fn what_an_inode_holds_survives_a_full_disk() {
    let ((), disk) = with_mount(inline_disk(), F2fsOptions::default(), Left::Unmounted, |fs, _| async move {
        let (few, small) = (fs.lookup(fs.root(), b"few").await?, fs.lookup(fs.root(), b"small").await?);
        let names = || async { FsResult::Ok(fs.read_directory(few, 0).await?.len()) };
        let before = names().await?;
        assert!(before > 20, "{before} names");
        let filler = fs.create(fs.root(), b"filler", NewNode::FILE).await?;
        fill(&fs, filler, 1).await?;
        let refused = fs.create(few, b"one more", NewNode::FILE).await;
        assert!(matches!(refused, Err(FsError::NoSpace { .. })), "{refused:?}");
        assert_eq!(names().await?, before, "names behind a refused one");
        // Takes no inode: the names move out, and find no block.
        let refused = fs.link(small, few, b"second").await;
        assert!(matches!(refused, Err(FsError::NoSpace { .. })), "{refused:?}");
        assert_eq!(names().await?, before, "names behind a refused second one");
        let refused = write(&fs, small, 100, &[9; 10]).await;
        assert!(matches!(refused, Err(FsError::NoSpace { .. })), "{refused:?}");
        assert_eq!(fs.read(small, 0, 4096, Manner::default()).await?.to_vec(), [6; 300]);
        let listed = fs.read_directory(few, 0).await?;
        let gone = listed.iter().find(|entry| entry.name != b"." && entry.name != b"..").expect("a name");
        fs.unlink(few, &gone.name).await?;
        assert_eq!(names().await?, before - 1, "a name goes from a full disk");
        fs.unlink(fs.root(), b"filler").await?;
        fs.create(few, b"one more", NewNode::FILE).await?;
        write(&fs, small, 100, &[9; 10]).await?;
        let expected = [&[6; 100][..], &[9; 10], &[6; 190]].concat();
        assert_eq!(fs.read(small, 0, 4096, Manner::default()).await?.to_vec(), expected);
        assert_eq!(names().await?, before);
        Ok(())
    });
    assert_clean(&image(disk));
}

#[test]
fn random_overwrites_of_a_nearly_full_disk_go_on_for_ever() {
    for seed in 0..3 {
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let ((model, pages), disk) =
            with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, _| async move {
                let mut choices = Choices::new(seed);
                let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
                let pages = fill(&fs, ino, 0).await?;
                // A little room for nodes.
                let pages = pages - 100;
                fs.set_attributes(
                    ino,
                    onewrite_fs::AttributeChanges { size: Some(pages * PAGE), ..Default::default() },
                )
                .await?;
                let mut model = vec![0; pages as usize];
                for step in 0..40_000_u32 {
                    let page = choices.below(pages);
                    model[page as usize] = step as u8;
                    write(&fs, ino, page * PAGE, &[step as u8; PAGE as usize]).await?;
                    if choices.chance(1, 50) {
                        fs.fsync(ino).await?;
                    }
                }
                Ok((model, pages))
            });
        let shown = image(disk);
        assert_clean(&shown);
        let geometry = Geometry::plain("ram", shown.pages());
        let disk = Box::new(RamDisk::with_image(shown, geometry));
        with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, _| async move {
            let ino = fs.lookup(fs.root(), b"file").await?;
            for page in 0..pages {
                let found = fs.read(ino, page * PAGE, PAGE, Manner::default()).await?.to_vec();
                assert_eq!(found, [model[page as usize]; PAGE as usize], "seed {seed}, page {page}");
            }
            Ok(())
        });
    }
}

/// Blocks that cleaning wrote.
fn cleaned(port: &DevicePort) -> u64 {
    port.device().counters().host_write_bytes_of(Cause::Cleaning) / PAGE
}

#[test]
fn segments_are_cleaned_while_few_are_free() {
    for seed in 0..3 {
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let (moved, disk) = with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, port| async move {
            let mut choices = Choices::new(seed);
            // Files that stay lie between files that are written again and again.
            let mut files = Vec::new();
            for number in 0..200 {
                let ino = fs.create(fs.root(), format!("file {number}").as_bytes(), NewNode::FILE).await?;
                write(&fs, ino, 0, &[number as u8; 8 * PAGE as usize]).await?;
                files.push((ino, number as u8));
            }
            fs.sync().await?;
            for step in 0..6_000_u32 {
                let (ino, byte) = &mut files[choices.below(100) as usize * 2];
                *byte = step as u8;
                write(&fs, *ino, 0, &[*byte; 8 * PAGE as usize]).await?;
                fs.fsync(*ino).await?;
            }
            for (ino, byte) in files {
                let found = fs.read(ino, 0, u64::MAX, Manner::default()).await?.to_vec();
                assert_eq!(found, [byte; 8 * PAGE as usize], "seed {seed}, {ino}");
            }
            Ok(cleaned(&port))
        });
        assert!(moved > 0, "seed {seed}: nothing was cleaned");
        assert_clean(&image(disk));
    }
}

/// Writes `pages` pages of a new file, then those again whose number ends in a digit below `again`.
async fn write_with_holes(fs: &F2fs, name: &str, pages: u64, again: u64) -> FsResult<()> {
    let ino = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
    write(fs, ino, 0, &vec![1; (pages * PAGE) as usize]).await?;
    fs.sync().await?;
    for page in (0..pages).filter(|page| page % 10 < again) {
        write(fs, ino, page * PAGE, &[2; PAGE as usize]).await?;
    }
    fs.sync().await
}

#[test]
fn quiet_cleaning_goes_by_age_where_it_is_told_to() {
    // Segments of the old file are 70% in use, those of the young one 30%.
    let first_victim = |age_threshold| {
        let disk: Box<dyn Device> = Box::new(new_disk(128 * MIB));
        let options = F2fsOptions { age_threshold, ..F2fsOptions::default() };
        let (copied, disk) = with_mount(disk, options, Left::Unmounted, |fs, port| async move {
            write_with_holes(&fs, "old", 1536, 3).await?;
            port.runtime().sleep(Nanos::from_secs(40)).await;
            write_with_holes(&fs, "young", 11_000, 7).await?;
            port.runtime().sleep(Nanos::from_secs(35)).await;
            let cleaning = fs.counters().cleaning;
            assert_eq!(cleaning.segments, 1, "{cleaning:?}");
            Ok(cleaning.copied_blocks)
        });
        assert_clean(&image(disk));
        copied
    };
    assert!((100..200).contains(&first_victim(None)), "by cost and benefit, the young one");
    assert!((300..400).contains(&first_victim(Some(60))), "what is old enough goes first");
    assert!((100..200).contains(&first_victim(Some(100))), "the file system is younger than the threshold");
}

#[test]
fn whole_segments_are_enough_where_nothing_is_threaded() {
    for clean in Clean::ALL {
        let options = F2fsOptions { log_mode: LogMode::Lfs, clean, ..F2fsOptions::default() };
        let disk: Box<dyn Device> = Box::new(new_disk(128 * MIB));
        let ((), disk) = with_mount(disk, options, Left::Unmounted, move |fs, port| async move {
            let mut choices = Choices::new(8);
            let free = fs.space().await?.blocks_free;
            let pages = free * 3 / 5;
            let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            write(&fs, ino, 0, &vec![1; (pages * PAGE) as usize]).await?;
            for step in 0..40_000_u64 {
                write(&fs, ino, choices.below(pages) * PAGE, &[2; PAGE as usize]).await?;
                if step % 64 == 0 {
                    fs.fsync(ino).await?;
                }
            }
            let cleaning = fs.counters().cleaning;
            let (moved, other) = match clean {
                Clean::Copy => (cleaning.copied_blocks, cleaning.shared_blocks),
                Clean::Share => (cleaning.shared_blocks, cleaning.copied_blocks),
            };
            assert!(cleaning.segments > 50 && moved > 1000, "{clean}: {cleaning:?}");
            assert_eq!((other, clean == Clean::Copy || cleaned(&port) == 0), (0, true), "{clean}: {cleaning:?}");
            Ok(())
        });
        assert_clean(&image(disk));
    }
}

/// A log that finds no segment stands somewhere for the checkpoint, and in no segment that is still called free.
#[test]
fn an_fsync_of_more_than_is_free_cleans_and_goes_on_in_whole_segments() {
    for seed in 1..4 {
        let options = F2fsOptions { log_mode: LogMode::Lfs, cache_pages: 100_000, ..F2fsOptions::default() };
        let disk: Box<dyn Device> = Box::new(new_disk(256 * MIB));
        let ((), disk) = with_mount(disk, options, Left::Unmounted, move |fs, _| async move {
            let mut choices = Choices::new(seed);
            let pages = fs.space().await?.blocks_free * 3 / 4;
            let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            write(&fs, ino, 0, &vec![1; (pages * PAGE) as usize]).await?;
            fs.fsync(ino).await?;
            for round in 0..5_u8 {
                for number in 0..pages / 2 {
                    // In order, segments become empty as a whole.
                    let page = if round % 2 == 0 { choices.below(pages) } else { number };
                    write(&fs, ino, page * PAGE, &[round; PAGE as usize]).await?;
                }
                fs.fsync(ino).await?;
                fs.check().expect("the state in memory");
            }
            Ok(())
        });
        assert_clean(&image(disk));
    }
}

/// Whether a log of either checkpoint of the image threads through a used segment.
fn has_threaded_log(image: &onewrite_block::Image) -> bool {
    let bytes = |block: u64| image.page(Lpn(block)).bytes();
    let first = u64::from(u32::from_le_bytes(bytes(0)[1024 + 76..][..4].try_into().unwrap()));
    // `alloc_type` of the heads of both packs.
    [first, first + 512].into_iter().any(|block| bytes(block)[176..192].contains(&1))
}

#[test]
fn logs_thread_unless_they_are_told_to_take_whole_segments() {
    let left = |log_mode| {
        let options = F2fsOptions { log_mode, ..F2fsOptions::default() };
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let ((), disk) = with_mount(disk, options, Left::Unmounted, move |fs, _| async move {
            let mut choices = Choices::new(5);
            let pages = fs.space().await?.blocks_free * 95 / 100;
            let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            write(&fs, ino, 0, &vec![1; (pages * PAGE) as usize]).await?;
            for step in 0..8_000_u64 {
                write(&fs, ino, choices.below(pages) * PAGE, &[2; PAGE as usize]).await?;
                if step % 64 == 0 {
                    fs.fsync(ino).await?;
                }
            }
            Ok(())
        });
        let shown = image(disk);
        assert_clean(&shown);
        has_threaded_log(&shown)
    };
    assert!(left(LogMode::Adaptive), "few segments are free, and no log threads");
    assert!(!left(LogMode::Lfs), "a log threads");
}

fn by_share() -> F2fsOptions {
    F2fsOptions { clean: Clean::Share, ..F2fsOptions::default() }
}

#[test]
fn what_share_moved_is_there_after_a_remount_and_nothing_was_copied() {
    for seed in 0..4 {
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let (model, disk) = with_mount(disk, by_share(), Left::Unmounted, move |fs, port| async move {
            let mut choices = Choices::new(seed);
            let mut model = vec![0; SCARCE_PAGES as usize];
            let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            write(&fs, ino, 0, &vec![0; (SCARCE_PAGES * PAGE) as usize]).await?;
            for step in 1..20_000_u32 {
                let page = choices.below(SCARCE_PAGES);
                model[page as usize] = step as u8;
                write(&fs, ino, page * PAGE, &[step as u8; PAGE as usize]).await?;
                if step % 20 == 0 {
                    fs.fsync(ino).await?;
                }
                if step % 3000 == 0 {
                    // What is read next comes from where SHARE put it.
                    fs.drop_caches();
                    let found = fs.read(ino, 0, SCARCE_PAGES * PAGE, Manner::default()).await?.to_vec();
                    let is_right = found.chunks(PAGE as usize).zip(&model).all(|(page, byte)| page == [*byte; 4096]);
                    assert!(is_right, "seed {seed}, step {step}");
                }
            }
            let cleaning = fs.counters().cleaning;
            assert!(cleaning.shared_blocks > 1000 && cleaning.copied_blocks == 0, "seed {seed}: {cleaning:?}");
            assert_eq!(cleaned(&port), 0, "seed {seed}");
            Ok(model)
        });
        let shown = image(disk);
        assert_clean(&shown);
        let disk = Box::new(RamDisk::with_image(shown.clone(), Geometry::plain("ram", shown.pages())));
        with_mount(disk, F2fsOptions::default(), Left::Unmounted, move |fs, _| async move {
            let ino = fs.lookup(fs.root(), b"file").await?;
            for (page, byte) in (0..).zip(model) {
                let found = fs.read(ino, page * PAGE, PAGE, Manner::default()).await?.to_vec();
                assert_eq!(found, [byte; PAGE as usize], "seed {seed}, page {page}");
            }
            Ok(())
        });
    }
}

#[test]
fn the_pairs_that_a_device_takes_bound_a_share() {
    let geometry = |pairs| Geometry { share_pairs_max: pairs, ..RamDisk::volatile(64 * MIB / PAGE).geometry().clone() };
    let executor = onewrite_block::Executor::ideal();
    let refused = RamDisk::with_image(image(Box::new(new_disk(64 * MIB))), geometry(0));
    let port = executor.runtime().attach(Box::new(refused));
    let error = executor.block_on(async move { F2fs::mount(port, by_share()).await.err() }).unwrap().unwrap();
    assert!(error.to_string().contains("clean=share"), "{error}");
    let single = RamDisk::with_image(image(Box::new(new_disk(64 * MIB))), geometry(1));
    let (shared, disk) = with_mount(Box::new(single), by_share(), Left::Unmounted, |fs, port| async move {
        let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
        write(&fs, ino, 0, &vec![7; (SCARCE_PAGES * PAGE) as usize]).await?;
        for step in 0..6_000_u64 {
            write(&fs, ino, step * 1013 % SCARCE_PAGES * PAGE, &[7; PAGE as usize]).await?;
            if step % 50 == 0 {
                fs.fsync(ino).await?;
            }
        }
        let counters = port.device().counters();
        Ok((counters.shares, counters.shared_pages))
    });
    assert!(shared.0 > 100 && shared.0 == shared.1, "{shared:?}");
    assert_clean(&image(disk));
}

/// Pages of the file that [`what_was_synced_on_a_scarce_disk_is_there_after_a_cut`] writes.
const SCARCE_PAGES: u64 = 3072;

#[test]
fn what_was_synced_on_a_scarce_disk_is_there_after_a_cut() {
    for seed in 0..12 {
        let disk: Box<dyn Device> = Box::new(new_disk(64 * MIB));
        let (model, disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, move |fs, _| async move {
            let mut choices = Choices::new(seed);
            let ino = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            write(&fs, ino, 0, &vec![0; (SCARCE_PAGES * PAGE) as usize]).await?;
            fs.fsync(ino).await?;
            let mut model = vec![0; SCARCE_PAGES as usize];
            for step in 1..4_300 + choices.below(1_500) * 10 {
                let page = choices.below(SCARCE_PAGES);
                model[page as usize] = step as u8;
                write(&fs, ino, page * PAGE, &[step as u8; PAGE as usize]).await?;
                if step % 10 == 0 {
                    fs.fsync(ino).await?;
                }
            }
            fs.fsync(ino).await?;
            Ok(model)
        });
        let shown = image(disk);
        let disk = Box::new(RamDisk::with_image(shown.clone(), Geometry::plain("ram", shown.pages())));
        let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, move |fs, _| async move {
            let ino = fs.lookup(fs.root(), b"file").await?;
            for (page, byte) in (0..).zip(model) {
                let found = fs.read(ino, page * PAGE, PAGE, Manner::default()).await?.to_vec();
                assert_eq!(found, [byte; PAGE as usize], "seed {seed}, page {page}");
            }
            Ok(())
        });
        // The checkpoint that ends a recovery, without an unmount.
        assert_clean(&image(disk));
    }
}

/// Recovery begins at the checkpoint, which counts what was removed since.
#[test]
fn an_fsync_in_the_room_of_what_was_removed_is_there_after_a_cut() {
    for (in_place_below, stage_bytes) in [(0, 0), (9, 0), (0, MIB)] {
        let options = F2fsOptions { in_place_below, ..F2fsOptions::default() };
        let disk: Box<dyn Device> = Box::new(new_staged_disk(64 * MIB + stage_bytes, stage_bytes));
        let ((), disk) = with_mount(disk, options, Left::AsItIs, move |fs, _| async move {
            for name in [b"gone", b"fill"] {
                fs.create(fs.root(), name, NewNode::FILE).await?;
            }
            write(&fs, fs.lookup(fs.root(), b"gone").await?, 0, &[1; 900 * PAGE as usize]).await?;
            fill(&fs, fs.lookup(fs.root(), b"fill").await?, 2).await?;
            fs.sync().await?;
            fs.unlink(fs.root(), b"gone").await?;
            let new = fs.create(fs.root(), b"new", NewNode::FILE).await?;
            write(&fs, new, 0, &[3; 500 * PAGE as usize]).await?;
            fs.fsync(new).await
        });
        let ((), disk) = with_mount(disk, F2fsOptions::default(), Left::AsItIs, move |fs, _| async move {
            let new = fs.lookup(fs.root(), b"new").await?;
            let found = fs.read(new, 0, 501 * PAGE, Manner::default()).await?.to_vec();
            assert_eq!(found, [3; 500 * PAGE as usize]);
            Ok(())
        });
        assert_clean(&image(disk));
    }
}
