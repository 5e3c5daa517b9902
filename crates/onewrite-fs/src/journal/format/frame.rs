//! Frames: a transaction as compressed chunks with an index. Ours; source: `papers/001` §4; why: docs/decisions/008.
//!
//! A frame fills consecutive log blocks of the ring; zeros fill the rest of the last block. Numbers are big-endian.
//!
//! ```text
//!   head (80):  magic C03B3998 | kind 4F570001 | sequence u32
//!               | version u8 = 1 | codec u8 = 1 (LZ4 blocks) | blocks per chunk u16
//!               | UUID of the log [16] | seconds u64 | nanoseconds u32
//!               | blocks u32 | revokes u32 | chunks u32 | raw bytes u64 | frame bytes u64 | CRC32C u32 | 0 u32
//!   index:      for each chunk: bytes in the log u32, bit 31 set if they are not compressed
//!               for each block: home block u64
//!               for each revoke: block u64
//!   chunks:     one after another, each one LZ4 block of at most `blocks per chunk` 4 KiB blocks
//! ```
//!
//! The checksum covers the whole frame: first the bytes of the chunks, then head and index with the checksum field
//! zero. This order allows sending chunks to the device before the last one is compressed. Each chunk can be read and
//! decompressed alone. A chunk that does not shrink is stored raw.

use onewrite_block::{PAGE_SIZE, Page, crc32c};

use super::{HEADER_SIZE, Kind, Sequence, Style, UUID_SIZE, be32, put32};
use crate::block::BlockNo;

/// Number of blocks of a chunk: 128 KiB, twice the window of LZ4. This is small enough that the chunks of a usual
/// transaction occupy several cores.
pub const CHUNK_BLOCKS: usize = 32;
/// Maximum bytes of a chunk before compression that a reader accepts.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;
/// Maximum bytes of a frame that a reader accepts: an offset in it has 32 bits.
const FRAME_BYTES_MAX: usize = u32::MAX as usize;

const HEAD_SIZE: usize = 80;
const CHECKSUM_OFFSET: usize = 72;
const NOT_COMPRESSED: u32 = 1 << 31;
const VERSION: u8 = 1;
const LZ4: u8 = 1;

const _: () = {
    // A chunk of the index is one word; the bit for raw chunks fits beside the length.
    assert!(size_of::<StoredChunk>() == 2 * size_of::<u32>());
    // Header, versions and blocks of a chunk, UUID, time, three counts, two sizes, checksum, zeros.
    assert!(HEAD_SIZE == HEADER_SIZE + 4 + UUID_SIZE + 12 + 3 * 4 + 2 * 8 + 4 + 4);
    assert!(CHECKSUM_OFFSET == HEAD_SIZE - 8);
    assert!(CHUNK_BLOCKS * PAGE_SIZE == 128 * 1024);
    assert!(CHUNK_BLOCKS * PAGE_SIZE <= CHUNK_BYTES_MAX && CHUNK_BYTES_MAX < NOT_COMPRESSED as usize);
};

/// One chunk of a frame as it lies in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// They are the blocks themselves.
    pub is_raw: bool,
}

/// Place and size of one chunk in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// First byte, counted from the beginning of the frame.
    pub offset: usize,
    /// Bytes in the log.
    pub stored: usize,
    /// They are the blocks themselves.
    pub is_raw: bool,
    /// Blocks in it.
    pub blocks: usize,
}

/// Content of a frame's head and index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The transaction.
    pub sequence: Sequence,
    /// Time of the commit, in nanoseconds since 1970.
    pub civil_ns: u64,
    /// Home blocks of its blocks, in the order of the chunks.
    pub homes: Vec<BlockNo>,
    /// Blocks whose earlier copies must not be replayed.
    pub revokes: Vec<BlockNo>,
    /// Its chunks.
    pub chunks: Vec<Chunk>,
}

/// Sizes from the first block of a frame. The checksum over the frame is not verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of head and index.
    pub head_bytes: usize,
    /// Bytes of the frame.
    pub frame_bytes: usize,
    blocks: usize,
    revokes: usize,
    chunks: usize,
    chunk_blocks: usize,
}

/// Bytes of head and index.
pub(crate) fn head_bytes(blocks: usize, revokes: usize) -> usize {
    HEAD_SIZE + 4 * blocks.div_ceil(CHUNK_BLOCKS) + 8 * (blocks + revokes)
}

/// Compresses the blocks of one chunk.
pub fn pack(pages: &[Page]) -> Packed {
    let mut raw = Vec::with_capacity(pages.len() * PAGE_SIZE);
    pages.iter().for_each(|page| raw.extend_from_slice(&page.bytes()[..]));
    let bytes = lz4_flex::block::compress(&raw);
    if bytes.len() < raw.len() { Packed { bytes, is_raw: false } } else { Packed { bytes: raw, is_raw: true } }
}

/// The blocks of a chunk; `None` if its bytes do not decompress to exactly `chunk.blocks` blocks.
pub(crate) fn unpack(bytes: &[u8], chunk: &Chunk) -> Option<Vec<Page>> {
    let length = chunk.blocks * PAGE_SIZE;
    let pages = |raw: &[u8]| raw.chunks_exact(PAGE_SIZE).map(Page::from_slice).collect();
    if chunk.is_raw {
        return (bytes.len() == length).then(|| pages(bytes));
    }
    let mut raw = vec![0; length];
    let filled = lz4_flex::block::decompress_into(bytes, &mut raw).ok()?;
    (filled == length).then(|| pages(&raw))
}

/// A chunk as the index of its frame has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// Bytes in the log.
    pub bytes: u32,
    /// They are not compressed.
    pub is_raw: bool,
}

impl Frame {
    /// Encodes head and index of a frame. `packed` has each chunk as it is stored.
    /// `chunks_sum` is the CRC32C register after the bytes of all chunks.
    pub(crate) fn encode_head(&self, style: &Style, packed: &[StoredChunk], chunks_sum: u32) -> Vec<u8> {
        let stored: usize = packed.iter().map(|chunk| chunk.bytes as usize).sum();
        let mut head = vec![0; HEAD_SIZE];
        super::put_header(&mut head, Kind::Frame, self.sequence);
        (head[HEADER_SIZE], head[HEADER_SIZE + 1]) = (VERSION, LZ4);
        head[14..16].copy_from_slice(&(CHUNK_BLOCKS as u16).to_be_bytes());
        head[16..16 + UUID_SIZE].copy_from_slice(&style.uuid);
        put64(&mut head, 32, self.civil_ns / 1_000_000_000);
        put32(&mut head, 40, (self.civil_ns % 1_000_000_000) as u32);
        let counts = [(44, self.homes.len()), (48, self.revokes.len()), (52, packed.len())];
        counts.into_iter().for_each(|(offset, count)| put32(&mut head, offset, count as u32));
        put64(&mut head, 56, (self.homes.len() * PAGE_SIZE) as u64);
        for StoredChunk { bytes, is_raw } in packed {
            head.extend_from_slice(&(bytes | if *is_raw { NOT_COMPRESSED } else { 0 }).to_be_bytes());
        }
        self.homes.iter().chain(&self.revokes).for_each(|block| head.extend_from_slice(&block.0.to_be_bytes()));
        let frame_bytes = (head.len() + stored) as u64;
        put64(&mut head, 64, frame_bytes);
        let sum = crc32c(chunks_sum, &head);
        put32(&mut head, CHECKSUM_OFFSET, sum);
        head
    }

    /// Decodes the head and index of a frame from its pages; `None` if the checksum is wrong or the sizes contradict
    /// each other.
    pub fn decode(pages: &[Page], extent: &Extent) -> Option<Frame> {
        let mut head = slice(pages, 0, extent.head_bytes);
        let stored_sum = be32(&head, CHECKSUM_OFFSET);
        put32(&mut head, CHECKSUM_OFFSET, 0);
        let sum = sum_of(pages, extent.head_bytes, extent.frame_bytes);
        (crc32c(sum, &head) == stored_sum).then_some(())?;
        let numbers = HEAD_SIZE + 4 * extent.chunks;
        let mut blocks = head[numbers..].chunks_exact(8).map(|bytes| BlockNo(be64(bytes, 0)));
        let homes = blocks.by_ref().take(extent.blocks).collect();
        let frame = Frame {
            sequence: Sequence(be32(&head, 8)),
            civil_ns: be64(&head, 32).wrapping_mul(1_000_000_000).wrapping_add(u64::from(be32(&head, 40))),
            homes,
            revokes: blocks.collect(),
            chunks: chunks(&head[HEAD_SIZE..numbers], extent),
        };
        let end = frame.chunks.last().map_or(extent.head_bytes, |chunk| chunk.offset + chunk.stored);
        (end == extent.frame_bytes).then_some(frame)
    }
}

impl Extent {
    /// Number of log blocks of the frame.
    pub fn log_blocks(&self) -> usize {
        self.frame_bytes.div_ceil(PAGE_SIZE)
    }

    /// Reads the first block of a frame; `None` if it is not a frame of this log, or exceeds `log_blocks_max`.
    pub fn decode(bytes: &[u8], style: &Style, log_blocks_max: usize) -> Option<Extent> {
        let [blocks, revokes, chunks] = [44, 48, 52].map(|offset| be32(bytes, offset) as usize);
        let chunk_blocks = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
        let frame_bytes = usize::try_from(be64(bytes, 64)).ok()?;
        let is_ours = bytes[HEADER_SIZE] == VERSION
            && bytes[HEADER_SIZE + 1] == LZ4
            && bytes[16..16 + UUID_SIZE] == style.uuid
            && (1..=CHUNK_BYTES_MAX / PAGE_SIZE).contains(&chunk_blocks)
            && chunks == blocks.div_ceil(chunk_blocks);
        let head_bytes = HEAD_SIZE + 4 * chunks + 8 * (blocks + revokes);
        let fits =
            (head_bytes..=FRAME_BYTES_MAX).contains(&frame_bytes) && frame_bytes.div_ceil(PAGE_SIZE) <= log_blocks_max;
        (is_ours && fits).then_some(Extent { head_bytes, frame_bytes, blocks, revokes, chunks, chunk_blocks })
    }
}

fn chunks(index: &[u8], extent: &Extent) -> Vec<Chunk> {
    let mut offset = extent.head_bytes;
    let mut left = extent.blocks;
    let one = |bytes: &[u8]| {
        let entry = be32(bytes, 0);
        let stored = (entry & !NOT_COMPRESSED) as usize;
        let blocks = left.min(extent.chunk_blocks);
        let chunk = Chunk { offset, stored, is_raw: entry & NOT_COMPRESSED != 0, blocks };
        (offset, left) = (offset + stored, left - blocks);
        chunk
    };
    index.chunks_exact(4).map(one).collect()
}

/// `length` bytes from `offset` on of the content of `pages`.
///
/// # Panics
/// If the pages hold less.
pub fn slice(pages: &[Page], offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let (page, start) = (at / PAGE_SIZE, at % PAGE_SIZE);
        let until = PAGE_SIZE.min(start + end - at);
        bytes.extend_from_slice(&pages[page].bytes()[start..until]);
        at += until - start;
    }
    bytes
}

fn sum_of(pages: &[Page], from: usize, to: usize) -> u32 {
    let mut sum = !0;
    let mut at = from;
    while at < to {
        let (page, start) = (at / PAGE_SIZE, at % PAGE_SIZE);
        let until = PAGE_SIZE.min(start + to - at);
        sum = match start == 0 && until == PAGE_SIZE {
            true => pages[page].crc32c(sum),
            false => pages[page].with_bytes(|bytes| crc32c(sum, &bytes[start..until])),
        };
        at += until - start;
    }
    sum
}

fn be64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_be_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

fn put64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use onewrite_block::Pattern;

    use super::super::Checksums;
    use super::*;

    const STYLE: Style =
        Style { block_size: PAGE_SIZE, is_64bit: true, checksums: Checksums::V3, seed: 5, uuid: [7; 16] };

    fn page(seed: u64) -> Page {
        Page::pattern(Pattern { seed, compressible_percent: if seed.is_multiple_of(3) { 0 } else { 80 } })
    }

    /// A frame of `count` blocks as log blocks, and its blocks.
    fn framed(count: usize, revokes: usize) -> (Vec<Page>, Vec<Page>) {
        let blocks: Vec<Page> = (0..count as u64).map(page).collect();
        let packed: Vec<Packed> = blocks.chunks(CHUNK_BLOCKS).map(pack).collect();
        let body: Vec<u8> = packed.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
        let frame = Frame {
            sequence: Sequence(9),
            civil_ns: 3_000_000_004,
            homes: (0..count as u64).map(|index| BlockNo(index << 33 | 1)).collect(),
            revokes: (0..revokes as u64).map(BlockNo).collect(),
            chunks: Vec::new(),
        };
        let sizes: Vec<_> =
            packed.iter().map(|chunk| StoredChunk { bytes: chunk.bytes.len() as u32, is_raw: chunk.is_raw }).collect();
        let head = frame.encode_head(&STYLE, &sizes, crc32c(!0, &body));
        assert_eq!(head.len(), head_bytes(count, revokes));
        let whole = [head, body].concat();
        (whole.chunks(PAGE_SIZE).map(Page::from_slice).collect(), blocks)
    }

    fn decoded(pages: &[Page]) -> Option<Frame> {
        let extent = Extent::decode(&pages[0].bytes()[..], &STYLE, 10_000)?;
        assert_eq!(extent.log_blocks(), pages.len());
        Frame::decode(pages, &extent)
    }

    #[test]
    fn frames_of_every_size_come_back() {
        for (count, revokes) in [(0, 3), (1, 0), (31, 1), (32, 0), (33, 700), (1000, 9)] {
            let (pages, blocks) = framed(count, revokes);
            let frame = decoded(&pages).expect("it is whole");
            assert_eq!((frame.sequence, frame.civil_ns), (Sequence(9), 3_000_000_004));
            assert_eq!((frame.homes.len(), frame.revokes.len()), (count, revokes));
            let unpacked = frame.chunks.iter().flat_map(|chunk| {
                unpack(&slice(&pages, chunk.offset, chunk.stored), chunk).expect("its bytes are those of its blocks")
            });
            assert_eq!(unpacked.collect::<Vec<_>>(), blocks);
        }
    }

    #[test]
    fn any_changed_block_breaks_the_frame() {
        let (pages, _) = framed(200, 3);
        for index in 0..pages.len() {
            let mut changed = pages.clone();
            changed[index].bytes_mut()[60] ^= 1;
            assert_eq!(decoded(&changed), None, "block {index} of {}", pages.len());
        }
    }

    #[test]
    fn a_chunk_that_does_not_shrink_is_kept_as_it_is() {
        let random: Vec<Page> = (0..4).map(|seed| Page::pattern(Pattern { seed, compressible_percent: 0 })).collect();
        let packed = pack(&random);
        assert!(packed.is_raw && packed.bytes.len() == 4 * PAGE_SIZE);
        assert!(pack(&vec![Page::ZEROS; 4]).bytes.len() < 200);
    }

    #[test]
    fn sizes_that_contradict_each_other_are_no_frame() {
        let (pages, _) = framed(40, 0);
        let first = pages[0].bytes();
        assert_eq!(Extent::decode(&first[..], &STYLE, pages.len() - 1), None, "larger than the log");
        let other = Style { uuid: [8; 16], ..STYLE };
        assert_eq!(Extent::decode(&first[..], &other, 10_000), None, "of another log");
        for offset in [12, 13, 15, 47, 55, 70] {
            let mut changed = *first;
            changed[offset] ^= 0x40;
            assert_eq!(
                Extent::decode(&changed, &STYLE, 10_000).and_then(|extent| {
                    (extent.log_blocks() == pages.len()).then(|| Frame::decode(&pages, &extent)).flatten()
                }),
                None,
                "byte {offset}"
            );
        }
    }
}
