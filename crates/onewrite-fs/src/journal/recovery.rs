//! Recovery: reads the log once, in order, and writes the newest version of each block home.
//!
//! Nothing is written before the whole log is understood, and the log is marked empty only when everything is durably
//! home: cut anywhere, recovery starts again from the same log and ends with the same blocks.
//!
//! ```text
//!   read ahead ─► transactions, checked whole ─► newest copy of each block ─► unpacked and written, part by part
//! ```
//!
//! Copies stay in memory up to a bound; what is beyond is read again when it goes home. Of a compressed log only chunks
//! that hold a newest copy are decompressed, several at once.

mod reader;
mod scan;
mod view;

use std::collections::BTreeMap;

use onewrite_block::{Cause, DeviceError, DevicePort, JobCost, Lpn, PAGE_SIZE, Page, Remap, Request};

use super::CheckpointBy;
use super::format::frame::{self, Chunk};
use super::format::{self, JournalSuperblock};
use super::home;
use super::log::LogMap;
use super::ring::LogBlock;
use crate::api::{FsError, FsResult};
use reader::StoredLog;
use scan::Scan;
pub use view::LogView;

/// Blocks that go home in one part.
const PART_BLOCKS: usize = 16 * 1024;

/// How a log is replayed.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryOptions {
    /// How blocks come home.
    pub by: CheckpointBy,
    /// Bytes of log blocks held in memory between reading and writing, at most; those of one part come on top.
    pub kept_bytes_max: usize,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovered {
    /// Whole transactions found.
    pub transactions: u64,
    /// Log blocks read.
    pub log_blocks_read: u64,
    /// Copies of blocks in those transactions.
    pub logged_blocks: u64,
    /// Blocks written home: the newest copy of each that was not revoked.
    pub written_blocks: u64,
    /// Those of them that were shared, not written.
    pub shared_blocks: u64,
    /// Copies that a later transaction revoked.
    pub revoked_blocks: u64,
    /// Bytes written, without the log's superblock.
    pub written_bytes: u64,
    /// How long it took.
    pub nanoseconds: u64,
}

/// Where the newest copy of a block is.
#[derive(Clone, Debug)]
enum Copy {
    /// In a log block of its own.
    Block { log_block: LogBlock, is_escaped: bool, page: Option<Page> },
    /// In a chunk of a frame, by the numbers of both and the block's place in it.
    Chunk { frame: u32, chunk: u32, index: u32 },
}

impl Copy {
    /// In the order of the log.
    fn position(&self) -> (u64, u32) {
        match *self {
            Copy::Block { log_block, .. } => (u64::from(log_block.0), 0),
            Copy::Chunk { frame, chunk, index } => (u64::from(frame) << 32 | u64::from(chunk), index),
        }
    }
}

/// A frame of the log.
struct Framed {
    log_block: LogBlock,
    chunks: Vec<Chunk>,
    pages: Option<Vec<Page>>,
}

/// Newest copies with the home blocks they belong to, by these.
type Blocks = Vec<(u64, Copy)>;

/// The device as it would be after a replay.
pub struct Prospect<'a> {
    log: &'a StoredLog<'a>,
    blocks: &'a Blocks,
    frames: &'a [Framed],
}

impl Prospect<'_> {
    /// `count` blocks from `first` on, the log's copies in the place of those at home.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if a copy cannot be unpacked; device errors.
    pub async fn read(&self, first: u64, count: u64) -> FsResult<Vec<Page>> {
        let (mut pages, mut block, end) = (Vec::new(), first, first + count);
        while block < end {
            let part = (end - block).min(u64::from(self.log.port.geometry().transfer_pages_max)) as u32;
            pages.extend(self.log.port.request(Request::read(Lpn(block), part, Cause::Recovery)).await?);
            block += u64::from(part);
        }
        let from = self.blocks.partition_point(|(home, _)| *home < first);
        let to = self.blocks.partition_point(|(home, _)| *home < end);
        for (home, page) in contents(self.log, &self.blocks[from..to], self.frames).await? {
            pages[(home - first) as usize] = page;
        }
        Ok(pages)
    }
}

/// Replays the log that `superblock` describes, if it holds anything, and leaves it empty; `superblock` then says so.
/// Before anything is written, `judge` looks at what the replay would lead to.
///
/// # Errors
/// [`FsError::Damaged`] if the log names blocks outside the device or inside itself, or holds a damaged block; what
/// `judge` says; device errors.
pub async fn recover(
    port: &DevicePort,
    map: &LogMap,
    (superblock, superblock_page): (&mut JournalSuperblock, &mut Page),
    options: RecoveryOptions,
    judge: impl AsyncFnOnce(Prospect<'_>) -> FsResult<()>,
) -> FsResult<Recovered> {
    if superblock.start == 0 {
        return Ok(Recovered::default());
    }
    let begin = port.runtime().now();
    let log = StoredLog::new(port, map, superblock);
    let mut scan = Scan::new(&log, superblock, options.kept_bytes_max);
    scan.run().await?;
    let (blocks, frames) = scan.newest();
    let mut done = scan.done;
    done.written_blocks = blocks.len() as u64;
    check_homes(port, map, &blocks)?;
    judge(Prospect { log: &log, blocks: &blocks, frames: &frames }).await?;
    let can_share =
        |copy: &Copy| options.by == CheckpointBy::Share && matches!(copy, Copy::Block { is_escaped: false, .. });
    let (shared, copied): (Blocks, Blocks) = blocks.into_iter().partition(|(_, copy)| can_share(copy));
    done.shared_blocks = shared.len() as u64;
    done.written_bytes = (copied.len() * PAGE_SIZE) as u64;
    write_home(&log, copied, &frames).await?;
    share_home(&log, shared).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    superblock.start = 0;
    superblock.sequence = scan.sequence.wrapping_add(1);
    *superblock = superblock.plain();
    superblock.encode_into(superblock_page.bytes_mut());
    let home = map.block_of(LogBlock::SUPERBLOCK);
    port.request(Request::write(Lpn(home), vec![superblock_page.clone()], Cause::Recovery)).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    done.nanoseconds = (port.runtime().now() - begin).0;
    Ok(done)
}

/// # Errors
/// [`FsError::Damaged`] if a block has no place where it may go.
fn check_homes(port: &DevicePort, map: &LogMap, blocks: &Blocks) -> FsResult<()> {
    let pages = port.geometry().pages;
    let in_log = |block: u64| map.contains(block);
    if let Some((block, _)) = blocks.iter().find(|(block, _)| *block >= pages || in_log(*block)) {
        return Err(damage(format!("journal, tag for block {block}"), "it lies outside the device or in the log"));
    }
    Ok(())
}

/// Writes copies home in parts: each is unpacked in the order of the log and written in the order of the home blocks,
/// so that no chunk is unpacked twice and memory stays bounded.
async fn write_home(log: &StoredLog<'_>, mut blocks: Blocks, frames: &[Framed]) -> FsResult<()> {
    if blocks.len() > PART_BLOCKS {
        blocks.sort_by_key(|(_, copy)| copy.position());
    }
    for part in blocks.chunks(PART_BLOCKS) {
        let mut pages = contents(log, part, frames).await?;
        pages.sort_unstable_by_key(|(block, _)| *block);
        home::copy_home(log.port, &pages, Cause::Recovery).await?;
    }
    Ok(())
}

/// The content of each block of a part.
async fn contents(log: &StoredLog<'_>, part: &[(u64, Copy)], frames: &[Framed]) -> FsResult<Vec<(u64, Page)>> {
    let mut pages = Vec::with_capacity(part.len());
    let mut packed: BTreeMap<(u32, u32), Vec<(u64, u32)>> = BTreeMap::new();
    let mut absent: Vec<(LogBlock, u64, bool)> = Vec::new();
    let unescaped = |page, is_escaped| if is_escaped { format::unescape(page) } else { page };
    for (home, copy) in part {
        match copy {
            Copy::Chunk { frame, chunk, index } => packed.entry((*frame, *chunk)).or_default().push((*home, *index)),
            Copy::Block { is_escaped, page: Some(page), .. } => {
                pages.push((*home, unescaped(page.clone(), *is_escaped)));
            }
            Copy::Block { log_block, is_escaped, page: None } => absent.push((*log_block, *home, *is_escaped)),
        }
    }
    absent.sort_unstable();
    let again = log.read_all(absent.iter().map(|(log_block, ..)| *log_block)).await?;
    pages
        .extend(absent.into_iter().zip(again).map(|((_, home, is_escaped), page)| (home, unescaped(page, is_escaped))));
    unpack(log, packed, frames, &mut pages).await?;
    Ok(pages)
}

/// Decompresses chunks, as many at once as there are cores, and adds what is wanted of each to `pages`.
async fn unpack(
    log: &StoredLog<'_>,
    packed: BTreeMap<(u32, u32), Vec<(u64, u32)>>,
    frames: &[Framed],
    pages: &mut Vec<(u64, Page)>,
) -> FsResult<()> {
    let runtime = log.port.runtime();
    let mut unpacking = Vec::with_capacity(packed.len());
    for ((frame, chunk), wanted) in packed {
        let framed = &frames[frame as usize];
        let (bytes, chunk) = stored(log, framed, chunk as usize).await?;
        let (worker, cost) = (runtime.clone(), JobCost::Decompress { bytes: (chunk.blocks * PAGE_SIZE) as u64 });
        let unpacked = async move { worker.job(cost, move || frame::unpack(&bytes, &chunk)).await };
        unpacking.push((framed.log_block, wanted, runtime.start(unpacked)));
    }
    for (log_block, wanted, unpacked) in unpacking {
        let Some(whole) = unpacked.await else {
            let place = format!("journal, frame at {log_block}");
            return Err(damage(place, "a chunk does not decompress although its checksum holds"));
        };
        pages.extend(wanted.into_iter().map(|(home, index)| (home, whole[index as usize].clone())));
    }
    Ok(())
}

/// The bytes of a chunk as they lie in the log.
async fn stored(log: &StoredLog<'_>, framed: &Framed, chunk: usize) -> Result<(Vec<u8>, Chunk), DeviceError> {
    let chunk = framed.chunks[chunk];
    if let Some(pages) = &framed.pages {
        return Ok((frame::slice(pages, chunk.offset, chunk.stored), chunk));
    }
    let first = chunk.offset / PAGE_SIZE;
    let end = (chunk.offset + chunk.stored).div_ceil(PAGE_SIZE);
    let pages = log.read(log.after(framed.log_block, first as u32), (end - first) as u32).await?;
    Ok((frame::slice(&pages, chunk.offset - first * PAGE_SIZE, chunk.stored), chunk))
}

/// Makes the home blocks read as the log does: nothing is written.
async fn share_home(log: &StoredLog<'_>, blocks: Blocks) -> FsResult<()> {
    let pair = |(block, copy): &(u64, Copy)| {
        let Copy::Block { log_block, .. } = copy else { unreachable!("only such are shared") };
        Remap { source: log.page_of(*log_block), target: Lpn(*block) }
    };
    let pairs: Vec<Remap> = blocks.iter().map(pair).collect();
    Ok(home::share_home(log.port, &pairs, Cause::Recovery).await?)
}

fn damage(place: String, problem: &str) -> FsError {
    FsError::Damaged { place, problem: problem.into() }
}
