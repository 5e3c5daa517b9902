//! Delayed allocation: writeback allocates blocks, in one piece; pages deleted before writeback never get blocks.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Cause, Nanos};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{
    Allocation, Content, FileSystem, FileView, FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner,
    SeekTarget,
};

use crate::support::volume::{image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, run, text};

const MIB: u64 = 1024 * 1024;
const KIB: u64 = 1024;

fn content(seed: u64, length: u64) -> Content<'static> {
    Content::Pattern { seed, compressible_percent: 0, length }
}

async fn append(fs: &Ext4, ino: Ino, seed: u64, length: u64) -> FsResult<u64> {
    fs.write(ino, Position::End, content(seed, length), Manner::default()).await
}

/// Runs `work` on a disk of 64 MiB and checks it with e2fsck. Returns the output of debugfs.
fn after<F: Future<Output = FsResult<()>> + 'static>(
    name: &str,
    options: MountOptions,
    work: impl FnOnce(Rc<Ext4>) -> F + 'static,
    question: &str,
) -> String {
    let disk = new_disk(64 * MIB, 1024);
    let (outcome, device) = with_mount(Box::new(disk), options, move |fs, _| work(fs));
    outcome.expect("work");
    let scratch = Scratch::new(name);
    let path = scratch.path("image");
    save(&image(device), &path);
    assert_clean(&path);
    run("debugfs", &["-R", question, text(&path)])
}

/// Ten files grow in turns, by a page each time.
async fn ten_files_in_turns(fs: Rc<Ext4>) -> FsResult<()> {
    let mut files = Vec::new();
    for number in 0..10 {
        files.push(fs.create(fs.root(), format!("f{number}").as_bytes(), NewNode::FILE).await?);
    }
    for round in 0..20 {
        for file in &files {
            append(&fs, *file, round, 4 * KIB).await?;
        }
    }
    Ok(())
}

/// Number of extents of the file f3, as debugfs lists them.
fn extents_of_f3(name: &str, options: MountOptions) -> usize {
    let listing = after(name, options, ten_files_in_turns, "dump_extents -l /f3");
    listing.lines().skip(1).filter(|line| line.contains("->") || line.contains('-')).count()
}

#[test]
fn files_that_grow_in_turns_are_each_in_one_piece() {
    for mode in [Mode::Ordered, Mode::Writeback] {
        assert_eq!(extents_of_f3(&format!("delayed-{mode}"), MountOptions::new(mode)), 1, "{mode}");
    }
    let at_once = MountOptions { delayed_allocation: false, ..MountOptions::new(Mode::Ordered) };
    assert!(extents_of_f3("at-once", at_once) > 1, "without delay each turn is a piece");
}

#[test]
fn a_file_deleted_before_writeback_never_gets_a_block() {
    let disk = new_disk(64 * MIB, 1024);
    let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), |fs, port| async move {
        let before = fs.space().await?.blocks_free;
        let file = fs.create(fs.root(), b"short", NewNode::FILE).await?;
        append(&fs, file, 1, 2 * MIB).await?;
        // Blocks for the map of its pages are kept, too.
        let spoken_for = before - fs.space().await?.blocks_free;
        assert!((513..=576).contains(&spoken_for), "{spoken_for}");
        assert_eq!(fs.attributes(file).await?.sectors, 4096, "and counted as its own");
        fs.unlink(fs.root(), b"short").await?;
        assert_eq!(fs.space().await?.blocks_free, before);
        fs.sync().await?;
        assert_eq!(port.device().counters().host_write_bytes_by_cause[Cause::Data as usize], 0);
        Ok(())
    });
    outcome.expect("work");
}

#[test]
fn a_read_for_one_caller_shows_dirty_pages_behind_a_hole() {
    let disk = new_disk(64 * MIB, 1024);
    let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), |fs, _| async move {
        let file = fs.create(fs.root(), b"sparse", NewNode::FILE).await?;
        fs.write(file, Position::At(5 * 4096), Content::Bytes(&[7; 4096]), Manner::default()).await?;
        let found = fs.read(file, 0, 8 * 4096, Manner { once: true, ..Manner::default() }).await?.to_vec();
        assert_eq!(found, [[0; 5 * 4096].as_slice(), &[7; 4096]].concat());
        Ok(())
    });
    outcome.expect("work");
}

#[test]
fn a_disk_full_of_promises_refuses_the_write_and_not_the_writeback() {
    for reserve_before in [false, true] {
        let disk = new_disk(16 * MIB, 1024);
        let (outcome, device) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), move |fs, _| async move {
            let file = fs.create(fs.root(), b"large", NewNode::FILE).await?;
            if reserve_before {
                fs.allocate(file, 0, MIB, Allocation::KeepSize).await?;
            }
            let full = loop {
                match append(&fs, file, 3, 100_000).await {
                    Ok(_) => (),
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, FsError::NoSpace { .. }), "{full}");
            fs.fsync(file).await?;
            let size = fs.attributes(file).await?.size;
            assert!(size > 8 * MIB, "{size}");
            fs.create(fs.root(), b"small", NewNode::FILE).await?;
            fs.unlink(fs.root(), b"large").await?;
            let other = fs.create(fs.root(), b"other", NewNode::FILE).await?;
            append(&fs, other, 4, 4 * MIB).await?;
            Ok(())
        });
        outcome.expect("work");
        let scratch = Scratch::new("delayed-full");
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

#[test]
fn what_is_delayed_is_found_by_seek_and_by_direct_reads() {
    let work = |fs: Rc<Ext4>| async move {
        let file = fs.create(fs.root(), b"sparse", NewNode::FILE).await?;
        fs.write(file, Position::At(64 * KIB), content(5, 4 * KIB), Manner::default()).await?;
        assert_eq!(fs.seek(file, 0, SeekTarget::Data).await?, 64 * KIB);
        assert_eq!(fs.seek(file, 64 * KIB, SeekTarget::Hole).await?, 68 * KIB);
        append(&fs, file, 6, 4 * KIB).await?;
        let direct = Manner { direct: true, once: false };
        let found = fs.read(file, 68 * KIB, 4 * KIB, direct).await?;
        assert_eq!(found.pages, [onewrite_fs::pattern_page(6, 0, 17)]);
        Ok(())
    };
    after("delayed-seek", MountOptions::new(Mode::Ordered), work, "stat /sparse");
}

#[test]
fn pages_written_back_and_evicted_before_their_conversion_read_as_written() {
    let options = MountOptions { cache_pages: 256, ..MountOptions::new(Mode::Ordered) };
    let work = |fs: Rc<Ext4>| async move {
        let file = fs.create(fs.root(), b"much", NewNode::FILE).await?;
        for round in 0..40 {
            append(&fs, file, 7, 64 * KIB).await?;
            for back in 0..=round {
                let data = fs.read(file, back * 64 * KIB, 4 * KIB, Manner::default()).await?;
                let expected = onewrite_fs::pattern_page(7, 0, back * 16);
                assert_eq!(data.pages, [expected], "round {round}, piece {back}");
            }
        }
        Ok(())
    };
    after("delayed-evict", options, work, "stat /much");
}

#[test]
fn a_preallocated_file_stays_unwritten_where_nothing_was_written() {
    let work = |fs: Rc<Ext4>| async move {
        let file = fs.create(fs.root(), b"pre", NewNode::FILE).await?;
        fs.allocate(file, 0, MIB, Allocation::Extend).await?;
        fs.write(file, Position::At(100 * KIB), content(8, 8 * KIB), Manner::default()).await?;
        fs.fsync(file).await
    };
    let listing = after("delayed-pre", MountOptions::new(Mode::Ordered), work, "dump_extents -l /pre");
    assert_eq!(listing.matches("Uninit").count(), 2, "{listing}");
}

#[test]
fn a_rename_onto_a_file_takes_its_content_along() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    let work = move |fs: Rc<Ext4>| async move {
        let old = fs.create(fs.root(), b"config", NewNode::FILE).await?;
        append(&fs, old, 1, 10_000).await?;
        fs.sync().await?;
        let new = fs.create(fs.root(), b"config.new", NewNode::FILE).await?;
        append(&fs, new, 2, 20_000).await?;
        fs.rename((fs.root(), b"config.new"), (fs.root(), b"config"), RenameManner::Replace).await?;
        let stat = fs.attributes(new).await?;
        log.borrow_mut().push(stat.sectors);
        Ok(())
    };
    let stat = after("delayed-rename", MountOptions::new(Mode::Ordered), work, "stat /config");
    assert!(stat.contains("Size: 20000"), "{stat}");
    assert_eq!(*seen.borrow(), [40]);
}

#[test]
fn dirty_pages_get_blocks_within_half_a_minute_without_a_sync() {
    let disk = new_disk(64 * MIB, 1024);
    let (outcome, _) = with_mount(Box::new(disk), MountOptions::new(Mode::Ordered), |fs, port| async move {
        let file = fs.create(fs.root(), b"idle", NewNode::FILE).await?;
        append(&fs, file, 1, 100_000).await?;
        port.runtime().sleep(Nanos::from_secs(41)).await;
        let written = port.device().counters().host_write_bytes_by_cause[Cause::Data as usize];
        assert_eq!(written, 25 * 4096);
        Ok(())
    });
    outcome.expect("work");
}
