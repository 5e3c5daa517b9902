//! A tiny page cache and log: an eviction, or the end of a transaction, in the middle of an operation does no harm.

use std::rc::Rc;

use onewrite_block::{Cause, Device, DevicePort, Geometry, Image, Nanos, PAGE_SIZE, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, PolicyKind};
use onewrite_fs::{Allocation, Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::late;
use crate::support::late::{Late, Plan};
use crate::support::volume::{contents, image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, coming_to};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;
const OLD: u64 = 7;
const NEW: u64 = 8;

fn smallest(mode: Mode) -> MountOptions {
    MountOptions { cache_pages: MountOptions::CACHE_PAGES_MIN, ..MountOptions::new(mode) }
}

fn content(seed: u64, pages: u64) -> Content<'static> {
    Content::Pattern { seed, compressible_percent: 0, length: pages * PAGE }
}

fn bytes_of(seed: u64, pages: u64) -> Vec<u8> {
    let page = |index| content(seed, pages).whole_page(0, index).expect("a whole page");
    (0..pages).flat_map(|index| page(index).bytes().to_vec()).collect()
}

async fn file(fs: &Ext4, name: &[u8], seed: u64, pages: u64) -> FsResult<Ino> {
    let file = fs.create(fs.root(), name, NewNode::FILE).await?;
    fs.write(file, Position::At(0), content(seed, pages), Manner::default()).await?;
    Ok(file)
}

/// The whole content of a file after replay of an image's log.
fn read_after_crash(image: Image, mode: Mode, name: &'static [u8]) -> Vec<u8> {
    let pages = image.pages();
    let disk = RamDisk::with_image(image, Geometry::plain("ram", pages));
    let (outcome, _) = with_mount(Box::new(disk), smallest(mode), move |fs, _| async move {
        let file = fs.lookup(fs.root(), name).await?;
        let size = fs.attributes(file).await?.size;
        Ok(fs.read(file, 0, size, Manner::default()).await?.to_vec())
    });
    outcome.expect("it mounts")
}

/// A disk whose free blocks hold the content of a deleted file.
fn used_disk() -> Box<dyn Device> {
    let work = |fs: Rc<Ext4>, _| async move { file(&fs, b"old", OLD, 2048).await.map(drop) };
    let (outcome, device) = with_mount(Box::new(new_disk(64 * MIB, 1024)), MountOptions::new(Mode::Data), work);
    outcome.expect("old");
    let (outcome, device) =
        with_mount(device, MountOptions::new(Mode::Data), |fs, _| async move { fs.unlink(fs.root(), b"old").await });
    outcome.expect("deleted");
    device
}

#[test]
fn a_file_that_is_punched_while_its_transaction_ends_never_shows_what_its_blocks_held() {
    const PAGES: u64 = 96;
    for mode in [Mode::Data, Mode::DataAsync] {
        let (outcome, _) = with_mount(used_disk(), smallest(mode), |fs, port| async move {
            let file = file(&fs, b"file", NEW, PAGES).await?;
            // So large that the first step of the hole does not fit the transaction of the content.
            fs.allocate(file, 0, PAGES * PAGE, Allocation::PunchHole).await?;
            port.runtime().sleep(Nanos::from_millis(500)).await;
            contents(&port).await
        });
        let bytes = read_after_crash(outcome.expect("work"), mode, b"file");
        let is_whole = bytes == bytes_of(NEW, PAGES);
        assert!(is_whole || bytes.iter().all(|byte| *byte == 0), "{mode}: it holds neither its content nor zeros");
    }
}

/// Number of names of 255 bytes. Their directory has a hash tree of two levels, and its second level splits.
const NAMES: u64 = 8_000;

fn name(number: u64) -> Vec<u8> {
    format!("{number:0255}").into_bytes()
}

/// Gives a file [`NAMES`] names in a directory, and reads `pages_between` pages of another file after each.
async fn many_names(fs: Rc<Ext4>, pages_between: u64) -> FsResult<()> {
    let other = file(&fs, b"other", NEW, 512).await?;
    let directory = fs.create(fs.root(), b"directory", NewNode::DIRECTORY).await?;
    for number in 0..NAMES {
        fs.link(other, directory, &name(number)).await?;
        for page in number * pages_between..(number + 1) * pages_between {
            fs.read(other, page % 512 * PAGE, PAGE, Manner::default()).await?;
        }
        if number % 100 == 0 {
            fs.check().unwrap_or_else(|problem| panic!("name {number}: {problem}"));
        }
    }
    for number in 0..NAMES {
        assert_eq!(fs.lookup(directory, &name(number)).await?, other);
    }
    Ok(())
}

#[test]
fn a_directory_of_two_levels_grows_whatever_leaves_the_page_cache() {
    for cache_policy in PolicyKind::ALL.into_iter().filter(|policy| !policy.needs_future()) {
        let options = MountOptions { cache_policy, ..smallest(Mode::Ordered) };
        let (outcome, device) = with_mount(Box::new(new_disk(64 * MIB, 1024)), options, |fs, _| many_names(fs, 3));
        outcome.unwrap_or_else(|error| panic!("{cache_policy}: {error}"));
        let scratch = Scratch::new(&format!("two-levels-{cache_policy}"));
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

/// The test never reads from the device: it creates all pages in the cache.
#[test]
fn a_directory_that_grows_without_reads_stays_within_the_page_cache() {
    let (outcome, _) =
        with_mount(Box::new(new_disk(64 * MIB, 1024)), smallest(Mode::Ordered), |fs, _| many_names(fs, 0));
    outcome.expect("work");
}

/// A buffered read begins before a direct write and fills the page cache after it.
#[test]
fn a_read_beside_a_direct_write_leaves_nothing_old_in_the_page_cache() {
    for mode in [Mode::Writeback, Mode::Ordered] {
        let work = |fs: Rc<Ext4>, port: DevicePort| async move {
            let file = file(&fs, b"file", OLD, 8).await?;
            fs.fsync(file).await?;
            for round in 0..8 {
                fs.drop_cached(file);
                let reader = Rc::clone(&fs);
                let read = async move { reader.read(file, round * PAGE, PAGE, Manner::default()).await };
                let read = port.runtime().start(read);
                let writer = Rc::clone(&fs);
                let place = Position::At(round * PAGE);
                let write = async move {
                    writer.write(file, place, content(NEW, 1), Manner { direct: true, once: false }).await
                };
                let write = port.runtime().start(write);
                read.await?;
                write.await?;
                let found = fs.read(file, round * PAGE, PAGE, Manner::default()).await?.to_vec();
                let written = content(NEW, 1).whole_page(round * PAGE, round).expect("a whole page");
                assert!(found == written.bytes()[..], "page {round} is as it was before");
            }
            Ok(())
        };
        let (outcome, _) = with_mount(Box::new(new_disk(64 * MIB, 1024)), MountOptions::new(mode), work);
        outcome.unwrap_or_else(|error| panic!("{mode}: {error}"));
    }
}

#[test]
fn a_leaf_of_a_map_that_leaves_memory_before_its_split_is_read_again() {
    let options = MountOptions {
        checkpoint_age: Nanos::from_millis(10),
        cache_pages: MountOptions::CACHE_PAGES_MIN,
        delayed_allocation: false,
        ..MountOptions::new(Mode::Ordered)
    };
    let work = |fs: Rc<Ext4>, port: DevicePort, plan: Plan| async move {
        let other = late::create(&fs, b"other").await?;
        late::write(&fs, other, 0, &[3; 300 * PAGE_SIZE]).await?;
        // Widen this range if the test misses its mark.
        // With one of these numbers of clean pages memory is full when the split takes a block.
        for clean in 225..245 {
            let file = late::create(&fs, b"file").await?;
            // Two leaves, of 339 and 340 extents: the second is full.
            late::write_scattered(&fs, &port, file, 2 * 679).await?;
            late::write(&fs, other, 0, &[4; 16 * PAGE_SIZE]).await?;
            fs.drop_caches();
            fs.read(other, 20 * PAGE, clean * PAGE, Manner::default()).await?;
            plan.set(&[Late::writes(Cause::Data, 1)]);
            let dropper = Rc::clone(&fs);
            let clock = port.runtime().clone();
            port.runtime().spawn(async move {
                clock.sleep(Nanos::from_millis(1)).await;
                dropper.drop_caches();
            });
            late::write(&fs, file, 2 * 679, &[1; PAGE_SIZE]).await?;
            late::come_home(&fs, &port).await?;
            fs.drop_caches();
            let whole = late::read(&fs, file).await?;
            assert!(whole.chunks(2 * PAGE_SIZE).all(|pair| pair[..PAGE_SIZE] == [1; PAGE_SIZE]));
            fs.unlink(fs.root(), b"file").await?;
        }
        Ok(())
    };
    coming_to("extent path left memory during an allocation", || late::on_late_disk(options, work));
}
