//! Frames: compresses transactions on their way into the log (LDJ). A commit costs one FLUSH and fewer bytes.
//!
//! Each core compresses one chunk of the transaction at a time, while the next transaction gathers blocks. Large parts
//! go to the device before the last chunk is compressed. Only head and index wait for the end, because their checksum
//! covers the whole frame. Memory holds one transaction, raw and compressed.
//!
//! [`Streams`] is the journal as the papers describe it; it serves to measure its risk. It writes one stream behind its
//! length, and recovery accepts a stream if it decompresses. Source: `papers/001` §4 and §5; docs/decisions/008.

use onewrite_block::{Cause, DeviceError, InFlight, JobCost, PAGE_SIZE, Page, Runtime, crc32c};

use super::commit::{Commit, CommitFuture, Encoding, LogFeatures, Record, Written, all_at_once, encode};
use super::format::frame::{self, CHUNK_BLOCKS, Chunk, Frame, Packed, StoredChunk};
use super::format::incompat;
use super::log::Log;
use super::place::{ChunkPlace, LogPlace};
use super::ring::{self, LogBlock};
use super::transaction::Sealed;
use super::views::Packing;
use crate::block::BlockNo;
use crate::transfer::{Durability, wait_all};

/// Writes a whole frame, then one FLUSH. Recovery detects a torn frame by its checksum, which covers the whole frame.
pub struct Compressed;

impl Commit for Compressed {
    fn features(&self) -> LogFeatures {
        let incompat = incompat::REVOKE | incompat::BITS_64 | incompat::CHECKSUM_V3 | incompat::FRAMES;
        LogFeatures { compat: 0, incompat }
    }

    fn encoding(&self) -> Encoding {
        Encoding::Frames
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(all_at_once(log, record))
    }
}

/// The papers' LDJ: writes a stream behind its length, then one FLUSH. Recovery accepts every stream that decompresses.
/// So it may recover a transaction that was never committed (false recovery); use [`Compressed`].
pub struct Streams;

impl Commit for Streams {
    fn features(&self) -> LogFeatures {
        LogFeatures { compat: 0, incompat: incompat::REVOKE | incompat::BITS_64 | incompat::STREAMS }
    }

    fn encoding(&self) -> Encoding {
        Encoding::Streams
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(all_at_once(log, record))
    }
}

/// A frame under construction: the bytes known so far.
struct Building {
    head_bytes: usize,
    /// Bytes of the frame from its start; head and index are still zeros.
    bytes: Vec<u8>,
    sum: u32,
    chunks: Vec<Chunk>,
    /// Number of leading log blocks that are sent already or belong to head and index.
    sent: usize,
    under_way: Vec<InFlight>,
}

impl Building {
    fn new(blocks: usize, revokes: usize) -> Building {
        let head_bytes = frame::head_bytes(blocks, revokes);
        let sent = head_bytes.div_ceil(PAGE_SIZE);
        Building { head_bytes, bytes: vec![0; head_bytes], sum: !0, chunks: Vec::new(), sent, under_way: Vec::new() }
    }

    fn add(&mut self, packed: &Packed, blocks: usize) {
        let chunk = Chunk { offset: self.bytes.len(), stored: packed.bytes.len(), is_raw: packed.is_raw, blocks };
        onewrite_block::reached!("chunk stored as it is", packed.is_raw);
        self.chunks.push(chunk);
        self.sum = crc32c(self.sum, &packed.bytes);
        self.bytes.extend_from_slice(&packed.bytes);
    }

    /// The complete log blocks that are not sent yet, as (index of the first, pages). `None` if there are fewer than
    /// `pages_min`.
    fn ready(&mut self, pages_min: usize) -> Option<(usize, Vec<Page>)> {
        let whole = self.bytes.len() / PAGE_SIZE;
        if whole < self.sent + pages_min {
            return None;
        }
        let (from, to) = (self.sent, whole);
        self.sent = whole;
        Some((from, pages(&self.bytes[from * PAGE_SIZE..to * PAGE_SIZE])))
    }
}

fn pages(bytes: &[u8]) -> Vec<Page> {
    bytes.chunks(PAGE_SIZE).map(Page::from_slice).collect()
}

impl Packing<'_> {
    /// Writes a sealed transaction as a frame.
    pub(super) async fn write_frame(&self, sealed: &Sealed) -> Result<Written, DeviceError> {
        let mut building = Building::new(sealed.blocks.len(), sealed.revokes.len());
        let first_body_block = building.sent;
        let start = self.live.borrow().head();
        self.pack_chunks(sealed, &mut building, start).await?;
        let count = building.bytes.len().div_ceil(PAGE_SIZE);
        let head = self.head_of(sealed, &building);
        building.bytes[..building.head_bytes].copy_from_slice(&head);
        // The FLUSH covers only completed writes.
        wait_all(std::mem::take(&mut building.under_way)).await?;
        onewrite_block::reached!("frame of several chunks", building.chunks.len() > 1);
        onewrite_block::reached!("frame with a head of several blocks", building.head_bytes > PAGE_SIZE);
        self.live.borrow_mut().take(count as u32);
        let rest = building.bytes.get(building.sent * PAGE_SIZE..).unwrap_or_default();
        let mut runs = self.runs_of(start, building.sent, pages(rest));
        let mut first = pages(&building.bytes[..(first_body_block * PAGE_SIZE).min(building.bytes.len())]);
        let commit = first.remove(0);
        runs.extend(self.runs_of(start, 1, first));
        let free = self.live.borrow().free_runs();
        self.options.commit.commit(&self.log, Record { runs, commit_at: start, commit, free }).await?;
        self.count_packed(sealed, building.bytes.len(), count);
        let place = |index: usize| {
            LogPlace::Chunk(ChunkPlace::new(start, &building.chunks[index / CHUNK_BLOCKS], index % CHUNK_BLOCKS))
        };
        Ok(Written { start, count: count as u32, places: (0..sealed.blocks.len()).map(place).collect() })
    }

    /// Compresses all chunks in parallel and adds them to the frame in order. Sends large parts to the log at once.
    async fn pack_chunks(&self, sealed: &Sealed, building: &mut Building, start: LogBlock) -> Result<(), DeviceError> {
        let runtime = self.log.runtime().clone();
        let begin = runtime.now();
        let pack = |chunk: &[(BlockNo, Page)]| {
            let blocks: Vec<Page> = chunk.iter().map(|(_, page)| page.clone()).collect();
            let (count, worker) = (blocks.len(), runtime.clone());
            let work =
                async move { compression(&worker, count, move || frame::pack(&blocks), |p| p.bytes.len()).await };
            (count, runtime.start(work))
        };
        let under_way: Vec<_> = sealed.blocks.chunks(CHUNK_BLOCKS).map(pack).collect();
        let pages_min = self.log.port().geometry().transfer_pages_max as usize;
        for (blocks, packed) in under_way {
            building.add(&packed.await, blocks);
            if let Some((from, pages)) = building.ready(pages_min) {
                onewrite_block::reached!("frame sent before it is whole");
                for (log_block, pages) in self.runs_of(start, from, pages) {
                    building
                        .under_way
                        .extend(self.log.send(log_block, pages, Durability::Volatile, Cause::Journal).await);
                }
            }
        }
        self.counters.borrow_mut().packing_ns += (runtime.now() - begin).0;
        Ok(())
    }

    fn head_of(&self, sealed: &Sealed, building: &Building) -> Vec<u8> {
        let frame = Frame {
            sequence: sealed.tid.on_disk(),
            civil_ns: self.log.runtime().civil_now().0,
            homes: sealed.blocks.iter().map(|(block, _)| *block).collect(),
            revokes: sealed.revokes.clone(),
            chunks: Vec::new(),
        };
        let stored = |chunk: &Chunk| StoredChunk { bytes: chunk.stored as u32, is_raw: chunk.is_raw };
        let chunks: Vec<_> = building.chunks.iter().map(stored).collect();
        frame.encode_head(&self.log.style(), &chunks, building.sum)
    }

    /// Splits pages for the log blocks from `offset` behind `start` into runs of the ring.
    fn runs_of(&self, start: LogBlock, offset: usize, pages: Vec<Page>) -> Vec<(LogBlock, Vec<Page>)> {
        let ring = self.live.borrow().ring();
        let places = ring.runs(ring.after(start, offset as u32), pages.len() as u32);
        let mut pages = pages.into_iter();
        places.iter().map(|run| (run.start, pages.by_ref().take(ring::count(run) as usize).collect())).collect()
    }

    fn count_packed(&self, sealed: &Sealed, bytes: usize, log_blocks: usize) {
        let mut counters = self.counters.borrow_mut();
        counters.packed_raw_bytes += (sealed.blocks.len() * PAGE_SIZE) as u64;
        counters.packed_bytes += bytes as u64;
        counters.journal_bytes += (log_blocks * PAGE_SIZE) as u64;
    }

    /// Writes a sealed transaction as a stream: four bytes of length, then its plain log blocks, compressed.
    pub(super) async fn write_stream(&self, sealed: &Sealed) -> Result<Written, DeviceError> {
        let runtime = self.log.runtime();
        let begin = runtime.now();
        let (style, sequence, civil_ns) = (self.log.style(), sealed.tid.on_disk(), runtime.civil_now().0);
        let (blocks, revokes) = (sealed.blocks.clone(), sealed.revokes.clone());
        let count = blocks.len();
        let packed = move || {
            let plain = encode(&style, sequence, civil_ns, &blocks, &revokes).pages;
            let raw: Vec<u8> = plain.iter().flat_map(|page| *page.bytes()).collect();
            let stream = lz4_flex::block::compress(&raw);
            [&(stream.len() as u32).to_be_bytes()[..], &stream].concat()
        };
        let bytes = compression(runtime, count, packed, Vec::len).await;
        self.counters.borrow_mut().packing_ns += (runtime.now() - begin).0;
        let start = self.live.borrow().head();
        let mut pages = pages(&bytes);
        let count = pages.len();
        self.live.borrow_mut().take(count as u32);
        let commit = pages.remove(0);
        let runs = self.runs_of(start, 1, pages);
        let free = self.live.borrow().free_runs();
        self.options.commit.commit(&self.log, Record { runs, commit_at: start, commit, free }).await?;
        self.count_packed(sealed, bytes.len(), count);
        Ok(Written { start, count: count as u32, places: vec![LogPlace::Nowhere; sealed.blocks.len()] })
    }
}

/// Compresses `blocks` blocks; `packed_bytes` tells the size of the result, on which its time depends.
async fn compression<T: Send + 'static>(
    runtime: &Runtime,
    blocks: usize,
    work: impl FnOnce() -> T + Send + 'static,
    packed_bytes: impl FnOnce(&T) -> usize,
) -> T {
    let bytes = (blocks * PAGE_SIZE) as u64;
    let cost = |packed_bytes| JobCost::Compress { bytes, packed_bytes };
    runtime.job_by_result(cost(bytes), work, |result| cost(packed_bytes(result) as u64)).await
}
