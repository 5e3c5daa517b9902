//! Place: where the log holds the content of a block. The live journal and recovery use it to read content back.

use std::ops::Range;

use onewrite_block::content_hash::mix;
use onewrite_block::{JobCost, PAGE_SIZE, Page};

use super::format::frame::{self, Chunk};
use super::format::unescape;
use super::ring::LogBlock;

/// Where the log holds the content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogPlace {
    /// In a log block of its own, as it is.
    Exact(LogBlock),
    /// In a log block of its own, escaped.
    Escaped(LogBlock),
    /// In a chunk of a frame.
    Chunk(ChunkPlace),
    /// In a compressed stream, which cannot be read again in part: the content stays in memory.
    Nowhere,
}

/// A block in a chunk of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    /// First log block of the frame.
    pub(super) frame: LogBlock,
    /// First byte of the chunk, counted from the beginning of the frame.
    pub(super) offset: u32,
    stored: u32,
    is_raw: bool,
    blocks: u16,
    /// Index of the block in the chunk.
    index: u16,
}

impl LogPlace {
    /// The content of the block, from the content of its log block.
    pub(super) fn content(self, page: Page) -> Page {
        if matches!(self, LogPlace::Escaped(_)) { unescape(page) } else { page }
    }

    /// Index of the block among those that one read of this place gives.
    pub(super) fn index(self) -> usize {
        if let LogPlace::Chunk(chunk) = self { usize::from(chunk.index) } else { 0 }
    }
}

impl ChunkPlace {
    /// Block `index` of `chunk` in the frame that begins at log block `frame`.
    pub(super) fn new(frame: LogBlock, chunk: &Chunk, index: usize) -> ChunkPlace {
        let Chunk { offset, stored, is_raw, blocks } = *chunk;
        let (offset, stored) = (offset as u32, stored as u32);
        ChunkPlace { frame, offset, stored, is_raw, blocks: blocks as u16, index: index as u16 }
    }

    /// The log blocks that hold the chunk, counted from the beginning of the frame.
    pub(super) fn log_blocks(&self) -> Range<u32> {
        self.offset / PAGE_SIZE as u32..(self.offset + self.stored).div_ceil(PAGE_SIZE as u32)
    }

    /// A number that two chunks share only if they are packed alike, but for rare chance.
    pub(super) fn key(&self) -> u64 {
        let skip = u64::from(self.offset) % PAGE_SIZE as u64;
        mix(u64::from(self.stored) << 32 | u64::from(self.blocks), skip << 1 | u64::from(self.is_raw))
    }

    /// Whether the same log blocks unpack to the same blocks at both places.
    pub(super) fn is_packed_as(&self, other: &ChunkPlace) -> bool {
        let packing =
            |place: &ChunkPlace| (place.offset as usize % PAGE_SIZE, place.stored, place.is_raw, place.blocks);
        packing(self) == packing(other)
    }

    /// What [`ChunkPlace::unpack`] costs.
    pub(super) fn unpack_cost(&self) -> JobCost {
        JobCost::Decompress { bytes: u64::from(self.blocks) * PAGE_SIZE as u64, packed_bytes: u64::from(self.stored) }
    }

    /// All blocks of the chunk, from the log blocks that hold it; `None` if it does not decompress.
    pub(super) fn unpack(&self, pages: &[Page]) -> Option<Vec<Page>> {
        let (offset, stored) = (self.offset as usize % PAGE_SIZE, self.stored as usize);
        let chunk = Chunk { offset, stored, is_raw: self.is_raw, blocks: usize::from(self.blocks) };
        frame::unpack(&frame::slice(pages, offset, stored), &chunk)
    }
}
