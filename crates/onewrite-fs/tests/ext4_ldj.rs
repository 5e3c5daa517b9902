//! What LDJ does beside compressing: blocks leave memory and come back from the log, and log space is trimmed before it is
//! used again.

mod support;

use onewrite_block::{Choices, Geometry, Image, Nanos, PAGE_SIZE, RamDisk, TrimRead};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FsResult, Ino, Manner, NewNode, Position};
use support::volume::{image, new_disk, save, with_mount};
use support::{Scratch, assert_clean, run, text};

const MIB: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_SIZE as u64;

/// A disk with an ext4 whose log has so many blocks.
fn disk(journal_blocks: u32, trim_read: TrimRead) -> RamDisk {
    let made = new_disk(128 * MIB, journal_blocks);
    let geometry = Geometry { trim_read, ..Geometry::plain("ram", 128 * MIB / PAGE) };
    RamDisk::with_image(made.image().clone(), geometry)
}

/// The content of version `version` of page `page`: a half of it does not compress.
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
