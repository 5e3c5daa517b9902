//! LDJ apart from compression: blocks leave memory and come back from the log, and LDJ trims log space before it reuses
//! it.

use std::rc::Rc;

use onewrite_block::{Choices, Executor, Geometry, HostProfile, Image, Nanos, PAGE_SIZE, RamDisk, Time, TrimRead};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Ino, Manner, NewNode, Position};

use crate::support::volume::{contents, image, new_disk, save, with_mount};
use crate::support::{Scratch, assert_clean, run, text};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;

/// A disk with an ext4 and a log of `journal_blocks`.
fn disk(journal_blocks: u32, trim_read: TrimRead) -> RamDisk {
    let made = new_disk(128 * MIB, journal_blocks);
    let geometry = Geometry { trim_read, ..Geometry::plain("ram", 128 * MIB / PAGE) };
    RamDisk::with_image(made.image().clone(), geometry)
}

/// The content of version `version` of page `page`; half of it does not compress.
fn content(page: u64, version: u64) -> Vec<u8> {
    let mut choices = Choices::new(page << 32 | version);
    let mut bytes: Vec<u8> = (0..PAGE_SIZE / 16).flat_map(|_| choices.bits().to_be_bytes()).collect();
    bytes.resize(PAGE_SIZE, version as u8);
    bytes
}

async fn write(fs: &Ext4, file: Ino, page: u64, version: u64) -> FsResult<()> {
    let bytes = content(page, version);
    fs.write(file, Position::At(page * PAGE), Content::Bytes(&bytes), Manner::default()).await.map(drop)
}

#[test]
fn blocks_that_left_memory_come_back_from_the_log() {
    for mode in [Mode::Ldj, Mode::DataLazy] {
        let options = MountOptions { cache_pages: MountOptions::CACHE_PAGES_MIN, ..MountOptions::new(mode) };
        let (counters, device) =
            with_mount(Box::new(disk(16_000, TrimRead::Zeros)), options, move |fs, _| async move {
                let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
                let mut versions = vec![0; 2000];
                let mut choices = Choices::new(7);
                for step in 1..4000 {
                    let page = choices.below(versions.len() as u64);
                    versions[page as usize] = step;
                    write(&fs, file, page, step).await?;
                    if step % 50 == 0 {
                        fs.fsync(file).await?;
                    }
                }
                for (page, version) in (0..).zip(&versions) {
                    let read = fs.read(file, page * PAGE, PAGE, Manner::default()).await?;
                    let expected = if *version == 0 { vec![0; PAGE_SIZE] } else { content(page, *version) };
                    if (page + 1) * PAGE <= fs.attributes(file).await?.size {
                        assert_eq!(read.to_vec(), expected, "{mode}: page {page}");
                    }
                }
                Ok(fs.counters())
            });
        let counters = counters.expect("no error");
        assert!(counters.read_back_bytes > 1000 * PAGE, "{mode}: {counters:?}");
        assert_eq!(counters.forced_checkpoints, 0, "{mode}: the log has room for all");
        let scratch = Scratch::new(&format!("come-back-{mode}"));
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

/// The log of an image, as debugfs reads it.
fn log_of(image: &Image, name: &str) -> Vec<u8> {
    let scratch = Scratch::new(&format!("log-{name}"));
    let (path, log) = (scratch.path("image"), scratch.path("log"));
    save(image, &path);
    assert_clean(&path);
    run("debugfs", &["-R", &format!("dump <8> {}", text(&log)), text(&path)]);
    std::fs::read(log).expect("the log")
}

#[test]
fn log_space_before_the_tail_reads_zeros() {
    for trim_read in [TrimRead::Zeros, TrimRead::Unsupported, TrimRead::Undefined] {
        let options = MountOptions::new(Mode::Ldj);
        let (outcome, device) = with_mount(Box::new(disk(1024, trim_read)), options, |fs, port| async move {
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            for step in 0..5000 {
                write(&fs, file, step % 700, step).await?;
                if step % 20 == 0 {
                    fs.fsync(file).await?;
                    port.runtime().sleep(Nanos::from_millis(1)).await;
                }
            }
            Ok((fs.counters(), port.device().counters()))
        });
        let (fs, disk) = outcome.expect("no error");
        let log_blocks = fs.journal_bytes / PAGE;
        assert!(fs.checkpoints > 0 && log_blocks > 2048, "{trim_read:?}: the log went round: {log_blocks} blocks");
        if trim_read == TrimRead::Zeros {
            assert!(disk.trimmed_pages > log_blocks / 2, "{} of {log_blocks} trimmed", disk.trimmed_pages);
        }
        let log = log_of(&image(device), &format!("{trim_read:?}"));
        assert_eq!(log.len(), 1024 * PAGE_SIZE);
        assert!(log[PAGE_SIZE..].iter().all(|byte| *byte == 0), "{trim_read:?}: something is left in the log");
    }
}

/// A compressed log holds more blocks than it has itself, and one transaction may revoke all of them.
#[test]
fn a_transaction_revokes_more_blocks_than_a_compressed_log_has() {
    for mode in [Mode::DataCmp, Mode::Ldj, Mode::LdjPaper] {
        let options = MountOptions { checkpoint_age: Nanos::from_secs(3600), ..MountOptions::new(mode) };
        let (outcome, device) =
            with_mount(Box::new(disk(1024, TrimRead::Zeros)), options, move |fs, port| async move {
                let pages = 12_000;
                let zeros = Content::Pattern { seed: 1, compressible_percent: 100, length: pages * PAGE };
                let file = fs.create(fs.root(), b"old", NewNode::FILE).await?;
                fs.write(file, Position::At(0), zeros, Manner::default()).await?;
                fs.fsync(file).await?;
                fs.unlink(fs.root(), b"old").await?;
                fs.sync().await?;
                let new = fs.create(fs.root(), b"new", NewNode::FILE).await?;
                for page in 0..4000 {
                    let bytes = [page as u8 | 1; PAGE_SIZE];
                    fs.write(new, Position::At(page * PAGE), Content::Bytes(&bytes), Manner::default()).await?;
                }
                fs.sync().await?;
                let cut = RamDisk::with_image(contents(&port).await?, port.geometry().clone());
                Ok((fs.counters(), cut))
            });
        let (counters, cut) = outcome.expect("no error");
        assert_eq!(counters.forced_checkpoints, 0, "{mode}: all was in the log when it was revoked");
        // The blocks of the old file are the new one's; recovery must not bring their old content back.
        let recovered = with_mount(Box::new(cut), MountOptions::new(mode), move |fs, _| async move {
            let new = fs.lookup(fs.root(), b"new").await?;
            for page in 0..4000 {
                let read = fs.read(new, page * PAGE, PAGE, Manner::default()).await?.to_vec();
                assert!(read == [page as u8 | 1; PAGE_SIZE], "{mode}: page {page}");
            }
            Ok(())
        });
        recovered.0.expect("no error");
        for (name, device) in [("unmounted", device), ("recovered", recovered.1)] {
            let scratch = Scratch::new(&format!("revokes-{mode}-{name}"));
            save(&image(device), &scratch.path("image"));
            assert_clean(&scratch.path("image"));
        }
    }
}

/// Modes with content in the log that need no special device.
const CONTENT_MODES: [Mode; 5] = [Mode::Data, Mode::DataAsync, Mode::DataLazy, Mode::DataCmp, Mode::Ldj];

#[test]
fn a_write_of_eight_logs_goes_in_transactions_of_a_quarter_of_a_log() {
    const LOG_BLOCKS: u64 = 1024;
    for mode in CONTENT_MODES {
        let work = move |fs: Rc<Ext4>, _| async move {
            let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
            let content = Content::Pattern { seed: 1, compressible_percent: 30, length: 8 * LOG_BLOCKS * PAGE };
            fs.write(file, Position::At(0), content, Manner::default()).await?;
            fs.fsync(file).await?;
            for page in 0..8 * LOG_BLOCKS {
                let read = fs.read(file, page * PAGE, PAGE, Manner::default()).await?.to_vec();
                assert!(read == content.whole_page(0, page).expect("a whole page").bytes()[..], "{mode}: page {page}");
            }
            Ok(fs.counters())
        };
        let made = Box::new(disk(LOG_BLOCKS as u32, TrimRead::Zeros));
        let (counters, device) = with_mount(made, MountOptions::new(mode), work);
        let commits = counters.expect("no error").commits;
        assert!(commits >= 4 * 8, "{mode}: {commits} commits");
        let scratch = Scratch::new(&format!("larger-than-the-log-{mode}"));
        save(&image(device), &scratch.path("image"));
        assert_clean(&scratch.path("image"));
    }
}

/// On a host with `cores` cores that each compress 1 MB a second: the duration of compression, and the number of pages
/// that another task wrote while 8 MB went into the log.
fn packed_beside(cores: usize) -> (u64, u64) {
    let host = HostProfile { cores, compress_mb_per_s: [1; 3], ..HostProfile::ideal() };
    let executor = Executor::new(Time::Virtual, host);
    let runtime = executor.runtime();
    let port = runtime.attach(Box::new(disk(16_000, TrimRead::Zeros)));
    let work = async move {
        let fs = Rc::new(Ext4::mount(port, MountOptions::new(Mode::Ldj)).await?);
        let (file, other) =
            (fs.create(fs.root(), b"file", NewNode::FILE).await?, fs.create(fs.root(), b"other", NewNode::FILE).await?);
        let content = Content::Pattern { seed: 1, compressible_percent: 50, length: 2000 * PAGE };
        fs.write(file, Position::At(0), content, Manner::default()).await?;
        let syncing = Rc::clone(&fs);
        let synced = runtime.start(async move { syncing.fsync(file).await });
        let before = fs.counters().commits;
        let mut gathered = 0;
        while fs.counters().commits == before {
            runtime.sleep(Nanos::from_millis(10)).await;
            write(&fs, other, gathered, 1).await?;
            gathered += 1;
        }
        synced.await?;
        let packing_ns = fs.counters().packing_ns;
        fs.unmount().await?;
        FsResult::Ok((packing_ns, gathered))
    };
    executor.block_on(work).expect("nothing halts").expect("no error")
}

#[test]
fn a_transaction_is_compressed_on_all_cores_while_the_next_one_gathers() {
    let ((alone, gathered_alone), (beside, gathered)) = (packed_beside(1), packed_beside(4));
    assert!((350..=450).contains(&(alone * 100 / beside)), "{alone} ns on one core, {beside} ns on four");
    assert!(gathered > 100 && gathered_alone > 400, "{gathered} pages written beside, {gathered_alone} on one core");
}
