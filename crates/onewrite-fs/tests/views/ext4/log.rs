//! Logs made by hand: their content is nonsense, or newer than the home blocks.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use onewrite_block::{DevicePort, Executor, Geometry, RamDisk};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, replay};
use onewrite_fs::{FileView, FsError, FsResult, Manner};

use super::make;
use crate::seen::{by_view, names, on_view};
use crate::support::volume::load;
use crate::support::{Scratch, text};

const BLOCK: usize = 4096;
/// First bytes of log blocks, and the kind of the log's superblock.
const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
const SUPERBLOCK_KIND: u32 = 4;

/// An image without checksums that holds `/file` of five blocks.
fn image(scratch: &Scratch) -> PathBuf {
    let (tree, image) = (scratch.path("tree"), scratch.path("image"));
    fs::create_dir_all(&tree).expect("directory");
    fs::write(tree.join("file"), content([1, 2, 3, 4, 5])).expect("file");
    make(&image, &format!("-t ext4 -b 4096 -O ^metadata_csum,^64bit -d {}", text(&tree)), "16M");
    image
}

/// Five blocks, each filled with one of `bytes`.
fn content(bytes: [u8; 5]) -> Vec<u8> {
    bytes.map(|byte| [byte; BLOCK]).concat()
}

/// The block where the log begins.
fn log_start(bytes: &[u8]) -> u32 {
    let head = [MAGIC, SUPERBLOCK_KIND.to_be_bytes()].concat();
    bytes.chunks(BLOCK).position(|block| block.starts_with(&head)).expect("a log") as u32
}

/// The block filled with `byte`.
fn block_of(bytes: &[u8], byte: u8) -> u32 {
    bytes.chunks(BLOCK).position(|block| block.iter().all(|&at| at == byte)).expect("such a block") as u32
}

/// Writes one transaction to the log, with a copy for each of `homes`.
fn log(path: &Path, homes: &[(u32, [u8; BLOCK])]) {
    let image = fs::OpenOptions::new().read(true).write(true).open(path).expect("image");
    let start = u64::from(log_start(&fs::read(path).expect("image"))) * BLOCK as u64;
    let put = |offset: u64, bytes: &[u8]| image.write_all_at(bytes, offset).expect("image");
    let head = |kind: u32| [MAGIC, kind.to_be_bytes(), 1_u32.to_be_bytes()].concat();
    // The superblock of the log: first transaction, where it begins, no features.
    put(start + 24, &1_u32.to_be_bytes());
    put(start + 28, &1_u32.to_be_bytes());
    put(start + 36, &[0; 12]);
    let mut descriptor = head(1);
    for (index, (home, _)) in homes.iter().enumerate() {
        let (same, last) = (if index > 0 { 2 } else { 0 }, if index + 1 == homes.len() { 8 } else { 0 });
        descriptor.extend([home.to_be_bytes(), (same | last as u32).to_be_bytes()].concat());
        descriptor.extend(if index == 0 { &[0; 16][..] } else { &[] });
    }
    descriptor.resize(BLOCK, 0);
    put(start + BLOCK as u64, &descriptor);
    for (index, (_, content)) in homes.iter().enumerate() {
        put(start + (2 + index as u64) * BLOCK as u64, content);
    }
    let mut commit = head(2);
    commit.resize(BLOCK, 0);
    put(start + (2 + homes.len() as u64) * BLOCK as u64, &commit);
    // The superblock says that the log waits.
    let mut features = [0; 4];
    image.read_exact_at(&mut features, 1024 + 96).expect("image");
    features[0] |= 4;
    put(1024 + 96, &features);
}

/// Runs `work` on the image; returns its result and the number of bytes written.
fn on_port<T: 'static>(path: &Path, work: impl AsyncFnOnce(DevicePort) -> FsResult<T> + 'static) -> (FsResult<T>, u64) {
    let image = load(path);
    let geometry = Geometry::plain("ram", image.pages());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let door = port.clone();
    let done = executor.block_on(async move { work(door).await }).expect("nothing halts");
    (done, port.device().counters().host_write_bytes_by_cause.iter().sum())
}

fn mounted(path: &Path) -> (FsResult<()>, u64) {
    on_port(path, async |port| Ext4::mount(port, MountOptions::new(Mode::Ordered)).await.map(drop))
}

/// The content of `/file` as a view reads it.
fn file_by_view(path: &Path) -> Vec<u8> {
    let read = on_view(path, false, async |view| {
        let all = names(view, view.root()).await?;
        let ino = all.iter().find(|(name, _)| name == "file").expect("a file").1;
        Ok(view.read(ino, 0, 5 * BLOCK as u64, Manner::default()).await?.to_vec())
    });
    read.expect("a view")
}

#[test]
fn a_log_that_would_replace_superblock_or_descriptors_by_nonsense_is_refused_before_a_byte_is_written() {
    for (home, content, place) in [(0, [0xff; BLOCK], "superblock"), (1, [0; BLOCK], "block 0")] {
        let scratch = Scratch::new(&format!("view-log-{home}"));
        let path = image(&scratch);
        log(&path, &[(home, content)]);
        let replayed = on_port(&path, async |port| replay(&port).await.map(drop));
        for (refused, written) in [mounted(&path), replayed] {
            let error = refused.expect_err("refused");
            assert!(matches!(error, FsError::Damaged { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains(place) && said.contains("nothing was written"), "{said}");
            assert_eq!(written, 0, "{said}");
        }
    }
}

#[test]
fn a_log_that_brings_a_sound_superblock_and_other_blocks_is_replayed() {
    let scratch = Scratch::new("view-log-sound");
    let path = image(&scratch);
    let whole = fs::read(&path).expect("image");
    let head = whole[..BLOCK].try_into().expect("a block");
    log(&path, &[(0, head), (block_of(&whole, 5), [9; BLOCK])]);
    let (replayed, written) = on_port(&path, async |port| replay(&port).await);
    let recovered = replayed.expect("replayed").expect("something to replay");
    assert_eq!((recovered.transactions, recovered.written_blocks), (1, 2));
    assert!(written >= 2 * BLOCK as u64, "{written}");
}

#[test]
fn the_last_block_of_a_run_is_read_from_the_log_if_the_log_has_a_newer_one() {
    let scratch = Scratch::new("view-log-last");
    let path = image(&scratch);
    let whole = fs::read(&path).expect("image");
    log(&path, &[(block_of(&whole, 2), [7; BLOCK]), (block_of(&whole, 5), [9; BLOCK])]);
    assert!(file_by_view(&path) == content([1, 7, 3, 4, 9]));
}

#[test]
fn a_log_that_names_a_block_of_its_own_is_neither_laid_over_the_image_nor_replayed() {
    for at in [0, 3] {
        let scratch = Scratch::new(&format!("view-log-own-{at}"));
        let path = image(&scratch);
        let own = log_start(&fs::read(&path).expect("image")) + at;
        log(&path, &[(own, [b'A'; BLOCK])]);
        let (refused, written) = mounted(&path);
        for error in [refused.expect_err("refused"), by_view(&path, false).err().expect("refused")] {
            assert!(error.to_string().contains(&format!("tag for block {own}")), "{error}");
        }
        assert_eq!(written, 0);
    }
}
