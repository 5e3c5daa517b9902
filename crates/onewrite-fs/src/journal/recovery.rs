//! Recovery: reads the log once, in order, and writes the newest version of each block home.
//!
//! Recovery writes nothing before it has read and checked the whole log. It marks the log empty only when all blocks
//! are durably home. After a power loss at any point, recovery starts again from the same log and gives the same
//! blocks.
//!
//! ```text
//!   read ahead ─► transactions, checked whole ─► newest copy of each block ─► unpacked and written, part by part
//! ```
//!
//! Copies stay in memory up to a limit; recovery reads the others again when it writes them home. In a compressed log
//! it decompresses only chunks that hold a newest copy, several at once.

mod found;
mod reader;
mod scan;
mod view;

use std::collections::BTreeMap;
use std::rc::Rc;

use onewrite_block::{Cause, DevicePort, PAGE_SIZE, Page, Remap, Request};

use super::CheckpointBy;
use super::format::JournalSuperblock;
use super::home;
use super::log_map::LogMap;
use super::place::LogPlace;
use super::ring::LogBlock;
use super::stored::{LogReads, StoredLog};
use super::unpacked::UnpackedChunks;
use crate::api::FsResult;
use crate::block::BlockNo;
pub use found::Recovered;
use found::{Blocks, Copy, Frames, damage};
use scan::Scan;
pub use view::LogView;

/// Number of blocks that go home in one part.
const PART_BLOCKS: usize = 16 * 1024;

/// How a log is replayed.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// How to bring blocks home.
    pub by: CheckpointBy,
    /// Maximum bytes of log blocks kept in memory between reading and writing, in addition to those of one part.
    pub kept_bytes_max: usize,
    /// Chunks that recoveries before this one unpacked; none are remembered without it.
    pub unpacked: Option<Rc<UnpackedChunks>>,
}

/// The frames of a log in memory, and where unpacked chunks are remembered.
#[derive(Clone, Copy)]
struct Packed<'a> {
    frames: &'a Frames,
    known: Option<&'a UnpackedChunks>,
}

/// The device's content as a replay would leave it.
pub struct Prospect<'a> {
    log: &'a StoredLog<'a>,
    blocks: &'a Blocks,
    packed: Packed<'a>,
}

impl Prospect<'_> {
    /// Reads `count` blocks from `first` on; a copy in the log replaces the home block.
    ///
    /// # Errors
    /// [`FsError::Damaged`](crate::FsError::Damaged) if a copy cannot be unpacked; device errors.
    pub async fn read(&self, first: BlockNo, count: u64) -> FsResult<Vec<Page>> {
        let (mut pages, mut block, end) = (Vec::new(), first, first + count);
        while block < end {
            let part = (end - block).min(u64::from(self.log.port.geometry().transfer_pages_max)) as u32;
            pages.extend(self.log.port.request(Request::read(block.page(), part, Cause::Recovery)).await?);
            block += u64::from(part);
        }
        let from = self.blocks.partition_point(|(home, _)| *home < first);
        let to = self.blocks.partition_point(|(home, _)| *home < end);
        for (home, page) in contents(self.log, &self.blocks[from..to], self.packed).await? {
            pages[(home - first) as usize] = page;
        }
        Ok(pages)
    }
}

/// Replays the log that `superblock` describes and leaves it empty; then `superblock` says so. Does nothing if the log
/// is empty. Before the first write, `judge` examines the content that the replay would give.
///
/// # Errors
/// [`FsError::Damaged`](crate::FsError::Damaged) if the log names blocks outside the device or inside itself, or holds
/// a damaged block; errors
/// of `judge`; device errors.
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
    let log = StoredLog::to_recover(port, map, superblock);
    let mut scan = Scan::new(&log, superblock, options.kept_bytes_max);
    scan.run().await?;
    let (blocks, frames) = scan.newest();
    let packed = Packed { frames: &frames, known: options.unpacked.as_deref() };
    let mut done = scan.done();
    onewrite_block::reached!("log in use without a whole transaction", done.transactions == 0);
    onewrite_block::reached!("revoked copies not replayed", done.revoked_blocks > 0);
    done.written_blocks = blocks.len() as u64;
    check_homes(port, map, &blocks)?;
    judge(Prospect { log: &log, blocks: &blocks, packed }).await?;
    let can_share = |copy: &Copy| options.by == CheckpointBy::Share && matches!(copy.place, LogPlace::Exact(_));
    let (shared, copied): (Blocks, Blocks) = blocks.into_iter().partition(|(_, copy)| can_share(copy));
    onewrite_block::reached!("recovery shares blocks home", !shared.is_empty());
    onewrite_block::reached!(
        "recovery shares some blocks home, copies others",
        !shared.is_empty() && !copied.is_empty()
    );
    done.shared_blocks = shared.len() as u64;
    done.written_bytes = (copied.len() * PAGE_SIZE) as u64;
    write_home(&log, copied, packed).await?;
    share_home(&log, shared).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    superblock.start = 0;
    superblock.sequence = scan.sequence().next();
    *superblock = superblock.plain();
    superblock.encode_into(superblock_page.bytes_mut());
    let home = map.block_of(LogBlock::SUPERBLOCK);
    port.request(Request::write(home.page(), vec![superblock_page.clone()], Cause::Recovery)).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    done.nanoseconds = (port.runtime().now() - begin).0;
    Ok(done)
}

/// # Errors
/// [`FsError::Damaged`](crate::FsError::Damaged) if a home block lies outside the device or in the log.
fn check_homes(port: &DevicePort, map: &LogMap, blocks: &Blocks) -> FsResult<()> {
    let pages = port.geometry().pages;
    if let Some((block, _)) = blocks.iter().find(|(block, _)| block.0 >= pages || map.contains(*block)) {
        return Err(damage(format!("journal, tag for block {block}"), "it lies outside the device or in the log"));
    }
    Ok(())
}

/// Writes copies home in parts. Reads parts in the order of the log and writes each part in the order of the home
/// blocks. Memory stays bounded.
async fn write_home(log: &StoredLog<'_>, mut blocks: Blocks, packed: Packed<'_>) -> FsResult<()> {
    if blocks.len() > PART_BLOCKS {
        blocks.sort_by_key(|(_, copy)| (log.position(copy.place), copy.place.index()));
    }
    for part in blocks.chunks(PART_BLOCKS) {
        let mut pages = contents(log, part, packed).await?;
        pages.sort_unstable_by_key(|(block, _)| *block);
        home::copy_home(log.port, &pages, Cause::Recovery).await?;
    }
    Ok(())
}

/// The content of each block of a part.
async fn contents(log: &StoredLog<'_>, part: &[(BlockNo, Copy)], packed: Packed<'_>) -> FsResult<Vec<(BlockNo, Page)>> {
    let mut pages = Vec::with_capacity(part.len());
    let mut chunks: BTreeMap<_, Vec<(BlockNo, LogPlace)>> = BTreeMap::new();
    let mut absent: Vec<(LogBlock, BlockNo, LogPlace)> = Vec::new();
    for (home, copy) in part {
        match (copy.place, &copy.page) {
            (place @ LogPlace::Chunk(_), _) => chunks.entry(log.position(place)).or_default().push((*home, place)),
            (place, Some(page)) => pages.push((*home, place.content(page.clone()))),
            (LogPlace::Exact(block) | LogPlace::Escaped(block), None) => {
                absent.push((block, *home, copy.place));
            }
            (LogPlace::Nowhere, None) => unreachable!("such content does not leave memory"),
        }
    }
    onewrite_block::reached!("recovery reads log blocks again", !absent.is_empty());
    absent.sort_unstable_by_key(|(log_block, ..)| *log_block);
    let again = read_all(log, absent.iter().map(|(log_block, ..)| *log_block)).await?;
    pages.extend(absent.into_iter().zip(again).map(|((_, home, place), page)| (home, place.content(page))));
    unpack(log, chunks.into_values().collect(), packed, &mut pages).await?;
    Ok(pages)
}

/// The content of log blocks in ascending order. Sends all reads at once; one read covers neighbours.
async fn read_all(log: &StoredLog<'_>, blocks: impl Iterator<Item = LogBlock>) -> FsResult<Vec<Page>> {
    let mut reads = LogReads::default();
    let mut blocks = blocks.peekable();
    while let Some(first) = blocks.next() {
        let mut count = 1;
        while blocks.next_if_eq(&LogBlock(first.0 + count)).is_some() {
            count += 1;
        }
        log.send(first, count, &mut reads).await;
    }
    Ok(log.receive(reads).await?)
}

/// Decompresses chunks in parallel and adds their wanted blocks to `pages`.
async fn unpack(
    log: &StoredLog<'_>,
    chunks: Vec<Vec<(BlockNo, LogPlace)>>,
    packed: Packed<'_>,
    pages: &mut Vec<(BlockNo, Page)>,
) -> FsResult<()> {
    let runtime = log.port.runtime();
    let mut unpacking = Vec::with_capacity(chunks.len());
    for wanted in chunks {
        let LogPlace::Chunk(chunk) = wanted[0].1 else { unreachable!("only such are packed") };
        let run = chunk.log_blocks();
        let stored = match packed.frames.get(&chunk.frame) {
            Some(frame) => frame[run.start as usize..run.end as usize].to_vec(),
            None => log.read(log.after(chunk.frame, run.start), run.end - run.start).await?,
        };
        let known = packed.known.and_then(|known| known.get(&chunk, &stored));
        let (worker, kept) = (runtime.clone(), packed.known.filter(|_| known.is_none()).map(|_| stored.clone()));
        let unpack = move || known.or_else(|| chunk.unpack(&stored));
        let unpacked = async move { worker.job(chunk.unpack_cost(), unpack).await };
        unpacking.push((chunk, kept, wanted, runtime.start(unpacked)));
    }
    for (chunk, kept, wanted, unpacked) in unpacking {
        let Some(whole) = unpacked.await else {
            let place = format!("journal, frame at {}", chunk.frame);
            return Err(damage(place, "a chunk does not decompress although its checksum holds"));
        };
        pages.extend(wanted.into_iter().map(|(home, place)| (home, whole[place.index()].clone())));
        if let (Some(known), Some(stored)) = (packed.known, kept) {
            known.insert(chunk, stored, whole);
        }
    }
    Ok(())
}

/// Remaps the home blocks to their log blocks; writes no data.
async fn share_home(log: &StoredLog<'_>, blocks: Blocks) -> FsResult<()> {
    let pair = |(block, copy): &(BlockNo, Copy)| {
        let LogPlace::Exact(source) = copy.place else { unreachable!("only such are shared") };
        Remap { source: log.page_of(source), target: block.page() }
    };
    let pairs: Vec<Remap> = blocks.iter().map(pair).collect();
    Ok(home::share_home(log.port, &pairs, Cause::Recovery).await?)
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Executor, RamDisk};

    use super::*;

    #[test]
    fn a_prospect_shows_the_only_copy_in_the_log_and_home_blocks_around_it() {
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(RamDisk::new(64)));
        let read = async move {
            let map = LogMap::new(vec![BlockNo(32).run(16)]);
            let superblock = JournalSuperblock::empty(16, [3; 16]);
            let (log, frames) = (StoredLog::to_recover(&port, &map, &superblock), Frames::default());
            let newer = Page::from_slice(&[7; PAGE_SIZE]);
            let blocks = vec![(BlockNo(7), Copy { place: LogPlace::Nowhere, page: Some(newer) })];
            let packed = Packed { frames: &frames, known: None };
            let prospect = Prospect { log: &log, blocks: &blocks, packed };
            let mut seen = Vec::new();
            for (first, count) in [(7, 1), (6, 3), (5, 2), (8, 2)] {
                let pages = prospect.read(BlockNo(first), count).await.expect("no fault");
                seen.push(pages.iter().map(|page| page.bytes()[0]).collect::<Vec<u8>>());
            }
            seen
        };
        let seen = executor.block_on(read).expect("nothing halts");
        assert_eq!(seen, [vec![7], vec![0, 7, 0], vec![0, 0], vec![0, 0]]);
    }
}
