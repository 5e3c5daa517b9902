//! Blocks written for two data blocks and their two metadata blocks (`papers/000` figure 3-3).
//!
//! Two files are overwritten by one block each; their inodes lie in two blocks of the inode table. Then come one commit
//! and one checkpoint. Counted are pages written as data, to the log and home. The log's descriptor and commit blocks
//! (JD and JC of the figure), which begin with jbd2's magic number, are not counted.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::{Cause, Choices, DevicePort, Executor, MIB, Nanos, Operation, PAGE_SIZE, Page, RamDisk, Request};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
use onewrite_fs::{Content, FileSystem, FileView, Ino, Manner, NewNode, Position};

use crate::error::LabError;
use crate::session::{FormatOptions, format};

const LOG_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
/// Inodes of 256 bytes in one block of the inode table.
const INODES_PER_BLOCK: u64 = (PAGE_SIZE / 256) as u64;
const DISK_BYTES: u64 = 64 * MIB;

/// Blocks written in `mode`; see the module's head.
pub(super) fn count(mode: Mode) -> Result<f64, LabError> {
    let executor = Executor::ideal();
    let recording = Rc::new(RefCell::new(Recording::default()));
    let disk = Box::new(RamDisk::volatile(DISK_BYTES / PAGE_SIZE as u64));
    let port = executor.runtime().attach(Box::new(Recorded::new(disk, Rc::clone(&recording))));
    let recorded = Rc::clone(&recording);
    executor.block_on(async move { overwrite_two(port, mode, recorded).await })??;
    let recording = recording.borrow();
    let requests = recording.events.iter().filter_map(|event| match event {
        RecordedEvent::Submitted(_, request) => Some(request),
        _ => None,
    });
    Ok(requests.map(counted).sum::<usize>() as f64)
}

fn counted(request: &Request) -> usize {
    let Operation::Write { pages, .. } = &request.operation else { return 0 };
    match request.cause {
        Cause::Data | Cause::Checkpoint => pages.len(),
        Cause::Journal => pages.iter().filter(|page| !is_log_structure(page)).count(),
        _ => 0,
    }
}

fn is_log_structure(page: &Page) -> bool {
    page.bytes().starts_with(&LOG_MAGIC)
}

async fn overwrite_two(port: DevicePort, mode: Mode, recording: Rc<RefCell<Recording>>) -> Result<(), LabError> {
    let options = FormatOptions { is_zeroed: true, ..FormatOptions::default() };
    format(&port, &options, &mut Choices::new(1)).await?;
    let fs = Ext4::mount(port.clone(), MountOptions::new(mode)).await?;
    let files = two_files(&fs).await?;
    fs.unmount().await?;
    // Waits for a later tick, so that the modification times change.
    port.runtime().sleep(Nanos::from_secs(1)).await;
    let fs = Ext4::mount(port, MountOptions::new(mode)).await?;
    recording.borrow_mut().events.clear();
    for ino in files {
        write_block(&fs, ino, 2).await?;
    }
    fs.sync().await?;
    fs.unmount().await?;
    Ok(())
}

/// Makes two files of one block, with inodes in different blocks.
async fn two_files(fs: &Ext4) -> Result<[Ino; 2], LabError> {
    let mut first: Option<Ino> = None;
    for number in 0.. {
        let name = format!("file{number}");
        let ino = fs.create(fs.root(), name.as_bytes(), NewNode::FILE).await?;
        write_block(fs, ino, 1).await?;
        let block = |ino: Ino| (ino.0 - 1) / INODES_PER_BLOCK;
        match first {
            Some(first) if block(first) != block(ino) => return Ok([first, ino]),
            _ => first = first.or(Some(ino)),
        }
    }
    unreachable!("the image is full before the numbers are")
}

async fn write_block(fs: &Ext4, ino: Ino, seed: u64) -> Result<(), LabError> {
    let content = Content::Pattern { seed, compressible_percent: 0, length: PAGE_SIZE as u64 };
    fs.write(ino, Position::At(0), content, Manner::default()).await?;
    Ok(())
}
