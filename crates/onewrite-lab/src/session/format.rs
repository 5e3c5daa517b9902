//! Format: writes an empty ext4 or F2FS image to a device.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use onewrite_block::{Cause, Choices, DevicePort, Lpn, PAGE_SIZE, Page, Request};
use onewrite_fs::BlockNo;
use onewrite_fs::ext4::mkfs::{self, MkfsOptions};
use onewrite_fs::f2fs::format::checkpoint::verified_head;
use onewrite_fs::f2fs::format::layout::SEGMENT_BLOCKS;
use onewrite_fs::f2fs::mkfs as f2fs;

use crate::error::LabError;

/// Options of a new file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes of the journal; `None` for the size that mke2fs chooses.
    pub journal_bytes: Option<u64>,
    /// Bytes at the end of the device for the staging area of an F2FS; 0 for none.
    pub stage_bytes: u64,
    /// Whether the device reads zeros where it was never written.
    pub is_zeroed: bool,
    /// Creation time, in seconds since 1970.
    pub unix_time: u32,
    /// User and group that own the root directory.
    pub root_owner: (u32, u32),
    /// Name of the volume.
    pub label: String,
}

/// Sizes of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// Bytes of the file system.
    pub size_bytes: u64,
    /// Bytes of its journal.
    pub journal_bytes: u64,
    /// Bytes written to make it.
    pub written_bytes: u64,
}

/// An empty file system that is not written yet.
pub struct Plan {
    blocks: Vec<(BlockNo, Page)>,
    /// A block by which it is recognised, besides the first; written when all others are durable.
    mark: Option<(BlockNo, Page)>,
    formatted: Formatted,
}

impl Plan {
    /// Writes the file system and makes it durable.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn write(self, port: &DevicePort) -> Result<Formatted, LabError> {
        if let Some(zones) = port.geometry().zones {
            let reset = Request::trim(zones.first, zones.count * zones.zone_pages, Cause::Metadata);
            port.request(reset).await.map_err(onewrite_fs::FsError::from)?;
        }
        write(port, self.blocks).await?;
        write(port, self.mark.into_iter().collect()).await?;
        Ok(self.formatted)
    }
}

/// Writes an empty ext4 to the device behind `port` and makes it durable. Its UUID comes from `choices`.
///
/// # Errors
/// As [`plan_ext4`]; if the device fails.
pub async fn format(port: &DevicePort, options: &FormatOptions, choices: &mut Choices) -> Result<Formatted, LabError> {
    plan_ext4(port, options, choices)?.write(port).await
}

/// An empty ext4 for the device behind `port`. Its UUID comes from `choices`.
///
/// # Errors
/// If the device is too small for the file system and its journal; if an option is out of range.
pub fn plan_ext4(port: &DevicePort, options: &FormatOptions, choices: &mut Choices) -> Result<Plan, LabError> {
    let size_bytes = port.geometry().pages * PAGE_SIZE as u64;
    if port.geometry().zones.is_some() {
        let cure = "--ftl dftl puts a host's translation layer between (PFTL)";
        return Err(LabError::Option(format!("ext4 writes anywhere, and this device has zones; {cure}")));
    }
    let given = options.journal_bytes.map(journal_blocks).transpose()?;
    let journal_blocks = given.unwrap_or_else(|| default_journal(size_bytes));
    let plan = mkfs::plan(&MkfsOptions {
        journal_blocks: Some(journal_blocks),
        unix_time: options.unix_time,
        root_owner: options.root_owner,
        label: options.label.clone(),
        device_is_zeroed: options.is_zeroed,
        ..MkfsOptions::new(size_bytes, choices)
    })?;
    if journal_blocks == 0 {
        let cure = "make it at least 8 MiB large, or give --journal-size 4MiB or more";
        let problem = format!("{size_bytes} bytes without a journal, and nothing here mounts that; {cure}");
        return Err(LabError::Option(problem));
    }
    let written_bytes = (plan.len() * PAGE_SIZE) as u64;
    let journal_bytes = u64::from(journal_blocks) * PAGE_SIZE as u64;
    Ok(Plan { blocks: plan, mark: None, formatted: Formatted { size_bytes, journal_bytes, written_bytes } })
}

/// An empty F2FS for the device behind `port`. Its UUID comes from `choices`.
///
/// # Errors
/// If a journal is asked for; if size or label are impossible.
pub fn plan_f2fs(port: &DevicePort, options: &FormatOptions, choices: &mut Choices) -> Result<Plan, LabError> {
    if options.journal_bytes.is_some() {
        return Err(LabError::Option("--journal-size: F2FS has no journal; leave it out".into()));
    }
    let size_bytes = port.geometry().pages * PAGE_SIZE as u64;
    let plan = f2fs::plan(&f2fs::MkfsOptions {
        stage_bytes: options.stage_bytes,
        zones: port.geometry().zones,
        unix_time: options.unix_time,
        root_owner: options.root_owner,
        label: options.label.clone(),
        device_is_zeroed: options.is_zeroed,
        ..f2fs::MkfsOptions::new(size_bytes, choices)
    });
    let mut blocks = plan.map_err(|error| LabError::Option(error.to_string()))?;
    let written_bytes = (blocks.len() * PAGE_SIZE) as u64;
    // The second superblock, in ascending order behind the first.
    let mark = Some(blocks.remove(1));
    Ok(Plan { blocks, mark, formatted: Formatted { size_bytes, journal_bytes: 0, written_bytes } })
}

/// Bytes of the journal in modes that write blocks home late: an eighth of the device, at least 4 MiB and at most 5
/// GiB. Source of the maximum: the LDJ papers.
pub fn lazy_journal_bytes(size_bytes: u64) -> u64 {
    let eighth = size_bytes / 8;
    (eighth - eighth % PAGE_SIZE as u64).clamp(1024 * PAGE_SIZE as u64, 5 << 30)
}

fn default_journal(size_bytes: u64) -> u32 {
    mkfs::default_journal_blocks(size_bytes / PAGE_SIZE as u64)
}

fn journal_blocks(bytes: u64) -> Result<u32, LabError> {
    let refuse =
        || LabError::Option(format!("--journal-size of {bytes} bytes; write whole blocks of 4 KiB, below 16 TiB"));
    if !bytes.is_multiple_of(PAGE_SIZE as u64) {
        return Err(refuse());
    }
    u32::try_from(bytes / PAGE_SIZE as u64).map_err(|_| refuse())
}

/// Writes blocks in ascending order and makes them durable; adjacent blocks go in one request. No blocks, no FLUSH.
async fn write(port: &DevicePort, plan: Vec<(BlockNo, Page)>) -> Result<(), LabError> {
    if plan.is_empty() {
        return Ok(());
    }
    let (most, zones) = (port.geometry().transfer_pages_max as usize, port.geometry().zones);
    let mut run: Vec<Page> = Vec::new();
    let mut start = BlockNo::FIRST;
    for (block, page) in plan {
        let is_edge = zones.is_some_and(|zones| zones.place(block.page()).is_some_and(|(_, offset)| offset == 0));
        if !run.is_empty() && (block != start + run.len() as u64 || run.len() == most || is_edge) {
            send(port, start, std::mem::take(&mut run)).await?;
        }
        if run.is_empty() {
            start = block;
        }
        run.push(page);
    }
    if !run.is_empty() {
        send(port, start, run).await?;
    }
    port.request(Request::flush(Cause::Metadata)).await.map_err(onewrite_fs::FsError::from)?;
    Ok(())
}

async fn send(port: &DevicePort, start: BlockNo, pages: Vec<Page>) -> Result<(), LabError> {
    let request = Request::write(start.page(), pages, Cause::Metadata);
    port.request(request).await.map_err(onewrite_fs::FsError::from)?;
    Ok(())
}

/// What the device seems to hold: a file system by its magic number, or bytes that are not zero. `None` if nothing.
///
/// Looks at the first MiB and at the last page, where boot sectors, partition tables and superblocks are, and at the
/// checkpoints of F2FS.
///
/// # Errors
/// If the device cannot be read.
pub async fn held_by(port: &DevicePort) -> Result<Option<String>, LabError> {
    let pages = port.geometry().pages;
    let count = pages.min(256).min(u64::from(port.geometry().transfer_pages_max));
    let first = read(port, 0, count as u32).await?;
    if let Some(page) = first.first()
        && let Some(name) = name_of(&page.bytes()[..])
    {
        return Ok(Some(name.to_owned()));
    }
    let last = read(port, pages - 1, 1).await?;
    if !first.iter().chain(&last).all(Page::is_zeros) {
        return Ok(Some("data of an unknown kind".to_owned()));
    }
    left_by_f2fs(port).await
}

/// The checkpoints of an F2FS whose superblocks are gone, if they lie where both mkfs put them.
async fn left_by_f2fs(port: &DevicePort) -> Result<Option<String>, LabError> {
    for (pack, start) in [SEGMENT_BLOCKS, 2 * SEGMENT_BLOCKS].into_iter().enumerate() {
        if start < port.geometry().pages {
            let head = read(port, start, 1).await?;
            if verified_head(&head[0].bytes()[..], pack as u8).is_ok() {
                return Ok(Some("what is left of an F2FS file system without its superblocks".to_owned()));
            }
        }
    }
    Ok(None)
}

/// A valuable content that a file or disk begins with, as far as it can be read.
pub fn held_in(path: &Path) -> Option<&'static str> {
    let mut page = Vec::new();
    let is_content = std::fs::metadata(path).is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
    if is_content {
        File::open(path).and_then(|file| file.take(PAGE_SIZE as u64).read_to_end(&mut page)).ok()?;
    }
    page.resize(PAGE_SIZE, 0);
    name_of(&page)
}

async fn read(port: &DevicePort, start: u64, count: u32) -> Result<Vec<Page>, LabError> {
    let outcome = port.request(Request::read(Lpn(start), count, Cause::Metadata)).await;
    Ok(outcome.map_err(onewrite_fs::FsError::from)?)
}

/// Magic numbers of valuable contents: offset in the first page, bytes, name.
const KNOWN: [(usize, &[u8], &str); 6] = [
    (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0, b"XFSB", "an XFS file system"),
    (0, b"LUKS", "an encrypted volume"),
    (0x200, b"EFI PART", "a partition table"),
    (0x1fe, &[0x55, 0xaa], "a boot sector or partition table"),
];

fn name_of(page: &[u8]) -> Option<&'static str> {
    KNOWN.iter().find(|(offset, magic, _)| page[*offset..].starts_with(magic)).map(|(_, _, name)| *name)
}
