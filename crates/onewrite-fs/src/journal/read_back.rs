//! Read back: content of committed blocks that has left memory comes from the log.
//!
//! A block that is not home may leave memory only if its place in the log is known ([`Place`]). What is read is
//! believed only if the entry is still the same afterwards: until then its log blocks cannot have been used again.

use std::collections::BTreeMap;

use onewrite_block::{Cause, DeviceError, InFlight, JobCost, PAGE_SIZE, Page};

use super::Journal;
use super::format::frame::{self, Chunk};
use super::format::unescape;
use super::live::CheckpointBlock;
use super::ring::LogBlock;
use super::transaction::TransactionId;
use crate::api::{FsError, FsResult};

/// Where the log holds the content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a log block of its own, as it is.
    Exact(LogBlock),
    /// In a log block of its own, escaped.
    Escaped(LogBlock),
    /// In a chunk of a frame.
    Chunk(ChunkPlace),
    /// Where it cannot be found again by itself.
    Nowhere,
}

/// A block in a chunk of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    /// First log block of the frame.
    pub(super) frame: LogBlock,
    offset: u32,
    stored: u32,
    is_raw: bool,
    blocks: u16,
    /// Which block of the chunk.
    index: u16,
}

impl ChunkPlace {
    /// Block `index` of `chunk` in the frame that begins at log block `frame`.
    pub(super) fn new(frame: LogBlock, chunk: &Chunk, index: usize) -> ChunkPlace {
        let Chunk { offset, stored, is_raw, blocks } = *chunk;
        let (offset, stored) = (offset as u32, stored as u32);
        ChunkPlace { frame, offset, stored, is_raw, blocks: blocks as u16, index: index as u16 }
    }

    fn chunk(&self) -> Chunk {
        let (offset, stored) = (self.offset as usize, self.stored as usize);
        Chunk { offset, stored, is_raw: self.is_raw, blocks: usize::from(self.blocks) }
    }
}

/// A read of log blocks under way, and what to do with them.
struct Fetch {
    under_way: Vec<InFlight>,
    chunk: Option<Chunk>,
    /// Which of the wanted blocks it gives, each with its index in the chunk.
    wanted: Vec<(usize, usize)>,
    is_escaped: bool,
}

impl Journal {
    /// Content of `block` that is committed and not yet home, from memory or from the log; what is on its home block is
    /// older. `None` if its home block is newest.
    ///
    /// # Errors
    /// What the device says.
    pub async fn newest(&self, block: u64) -> FsResult<Option<Page>> {
        Ok(self.newest_run(block, 1).await?.pop())
    }

    /// [`Journal::newest`] of `block` and those behind it, `count` at most, up to the first whose home block is newest.
    /// What left memory together comes back together: each log block and each chunk is read once.
    ///
    /// # Errors
    /// What the device says.
    pub async fn newest_run(&self, block: u64, count: u64) -> FsResult<Vec<Page>> {
        loop {
            let known = self.newer_entries(block, count);
            let mut absent = known.iter().filter(|(_, page, _)| page.is_none()).peekable();
            if absent.peek().is_none() {
                return Ok(known.into_iter().filter_map(|(_, page, _)| page).collect());
            }
            let places: Vec<Place> = absent.map(|(.., place)| *place).collect();
            let mut fetched = self.fetch(&places).await?.into_iter();
            let mut pages = Vec::with_capacity(known.len());
            for (block, (tid, page, _)) in (block..).zip(known) {
                let page = page.or_else(|| fetched.next().flatten());
                // What was superseded or came home meanwhile is asked for anew.
                if !self.is_newest(block, tid) {
                    break;
                }
                pages.push(page.ok_or_else(|| damaged(block))?);
            }
            if !pages.is_empty() {
                return Ok(pages);
            }
        }
    }

    /// The entries of `block` and those behind it, as far as there are any.
    fn newer_entries(&self, block: u64, count: u64) -> Vec<(TransactionId, Option<Page>, Place)> {
        let live = self.live.borrow();
        let entries = (block..block + count).map_while(|block| live.newest(block));
        entries.map(|entry| (entry.tid, entry.page.clone(), entry.place)).collect()
    }

    /// Whether what is on the home block is older than what is committed.
    pub fn has_newer(&self, block: u64) -> bool {
        self.live.borrow().newest(block).is_some()
    }

    fn is_newest(&self, block: u64, tid: TransactionId) -> bool {
        self.live.borrow().newest(block).is_some_and(|entry| entry.tid == tid)
    }

    /// Sees to it that the content of all `blocks` is at hand. Their log blocks cannot be used again meanwhile: only
    /// the checkpoint that asks for this moves the tail.
    pub(super) async fn read_back(&self, blocks: &mut [CheckpointBlock]) -> FsResult<()> {
        let mut missing: Vec<&mut CheckpointBlock> =
            blocks.iter_mut().filter(|homeward| homeward.page.is_none()).collect();
        let places: Vec<Place> = missing.iter().map(|homeward| homeward.place).collect();
        for (homeward, page) in missing.iter_mut().zip(self.fetch(&places).await?) {
            homeward.page = Some(page.ok_or_else(|| damaged(homeward.home_block))?);
        }
        Ok(())
    }

    /// The content at `places`, in their order; `None` for what does not decompress. Each chunk is read and
    /// decompressed once.
    async fn fetch(&self, places: &[Place]) -> Result<Vec<Option<Page>>, DeviceError> {
        let mut by_log: BTreeMap<(LogBlock, u32), Vec<usize>> = BTreeMap::new();
        for (index, place) in places.iter().enumerate() {
            let key = match place {
                Place::Exact(block) | Place::Escaped(block) => (*block, 0),
                Place::Chunk(chunk) => (chunk.frame, chunk.offset),
                Place::Nowhere => unreachable!("such content does not leave memory"),
            };
            by_log.entry(key).or_default().push(index);
        }
        let mut fetches = Vec::with_capacity(by_log.len());
        for wanted in by_log.into_values() {
            fetches.push(self.begin_fetch(places, wanted).await);
        }
        self.counters.borrow_mut().read_back_bytes += (places.len() * PAGE_SIZE) as u64;
        let mut pages = vec![None; places.len()];
        for fetch in fetches {
            for (index, page) in self.end_fetch(fetch).await? {
                pages[index] = page;
            }
        }
        Ok(pages)
    }

    /// Puts the read of one log block or one chunk under way.
    async fn begin_fetch(&self, places: &[Place], wanted: Vec<usize>) -> Fetch {
        let ring = self.live.borrow().ring();
        let (start, count, chunk) = match places[wanted[0]] {
            Place::Chunk(place) => {
                let first = place.offset / PAGE_SIZE as u32;
                let end = (place.offset + place.stored).div_ceil(PAGE_SIZE as u32);
                let chunk = Chunk { offset: place.offset as usize % PAGE_SIZE, ..place.chunk() };
                (ring.after(place.frame, first), end - first, Some(chunk))
            }
            Place::Exact(block) | Place::Escaped(block) => (block, 1, None),
            Place::Nowhere => unreachable!("such content does not leave memory"),
        };
        let index_of = |index: usize| match places[index] {
            Place::Chunk(place) => usize::from(place.index),
            _ => 0,
        };
        let is_escaped = matches!(places[wanted[0]], Place::Escaped(_));
        let wanted = wanted.into_iter().map(|index| (index, index_of(index))).collect();
        let mut under_way = Vec::new();
        for run in ring.runs(start, count) {
            under_way.extend(self.log.send_reads(run, Cause::Journal).await);
        }
        Fetch { under_way, chunk, wanted, is_escaped }
    }

    async fn end_fetch(&self, fetch: Fetch) -> Result<Vec<(usize, Option<Page>)>, DeviceError> {
        let mut pages = Vec::new();
        for read in fetch.under_way {
            pages.extend(read.await?);
        }
        let blocks = match fetch.chunk {
            None if fetch.is_escaped => pages.into_iter().map(unescape).collect(),
            None => pages,
            Some(chunk) => {
                let cost = JobCost::Decompress { bytes: (chunk.blocks * PAGE_SIZE) as u64 };
                let unpack = move || frame::unpack(&frame::slice(&pages, chunk.offset, chunk.stored), &chunk);
                self.log.runtime().job(cost, unpack).await.unwrap_or_default()
            }
        };
        Ok(fetch.wanted.into_iter().map(|(index, in_chunk)| (index, blocks.get(in_chunk).cloned())).collect())
    }
}

fn damaged(block: u64) -> FsError {
    FsError::Damaged { place: format!("copy of block {block} in the log"), problem: "it cannot be decompressed".into() }
}
