//! SIT (segment information table): which blocks of each segment are in use. 55 entries of 74 bytes in a block.
//!
//! A checkpoint may hold newer entries in the journal of its cold-data summary.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::SegmentNo;

/// Entries of a block.
pub const ENTRIES_PER_BLOCK: usize = 55;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = size_of::<SitEntry>();
/// Bytes of a segment's bitmap.
pub const MAP_SIZE: usize = 64;

/// An entry as it lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SitEntry {
    /// Lower 10 bits: blocks in use. Upper 6 bits: what the segment is for ([`LogKind`]).
    pub vblocks: U16,
    /// A bit for each block in use; the highest bit of a byte comes first.
    pub map: [u8; MAP_SIZE],
    /// When it last changed, in seconds of mounted time.
    pub mtime: U64,
}

const _: () = {
    assert!(ENTRY_SIZE == 74);
    assert!(ENTRIES_PER_BLOCK == 4096 / ENTRY_SIZE);
};

impl SitEntry {
    /// The entry of a segment of log `log` with the blocks of `map` in use.
    pub fn new(log: u16, map: [u8; MAP_SIZE], mtime: u64) -> SitEntry {
        let count: u32 = map.iter().map(|byte| byte.count_ones()).sum();
        SitEntry { vblocks: U16::new(log << 10 | count as u16), map, mtime: U64::new(mtime) }
    }

    /// Blocks in use, as counted.
    pub fn valid_blocks(&self) -> u16 {
        self.vblocks.get() & 0x3ff
    }

    /// Number of the log that the segment belongs to; see [`LogKind`].
    pub fn log(&self) -> u16 {
        self.vblocks.get() >> 10
    }

    /// Whether block `index` of the segment is in use.
    pub fn is_valid(&self, index: usize) -> bool {
        test_bit(&self.map, index)
    }

    /// Blocks in use, by the bitmap.
    pub fn mapped_blocks(&self) -> u32 {
        self.map.iter().map(|byte| byte.count_ones()).sum()
    }
}

/// The six logs. Number 0 to 5 on disk, data before nodes, hot before cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogKind {
    /// Directory blocks.
    HotData,
    /// Content of files.
    WarmData,
    /// Content that will not change soon.
    ColdData,
    /// Direct nodes of directories.
    HotNode,
    /// Direct nodes of files.
    WarmNode,
    /// Indirect nodes.
    ColdNode,
}

impl LogKind {
    /// All, in the order of their numbers.
    pub const ALL: [LogKind; 6] = [
        LogKind::HotData,
        LogKind::WarmData,
        LogKind::ColdData,
        LogKind::HotNode,
        LogKind::WarmNode,
        LogKind::ColdNode,
    ];

    /// Whether its segments hold nodes.
    pub fn is_node(self) -> bool {
        self >= LogKind::HotNode
    }
}

/// Bit `index` of a bitmap; the highest bit of a byte comes first. `false` behind its end.
pub fn test_bit(map: &[u8], index: usize) -> bool {
    map.get(index / 8).is_some_and(|byte| byte & 0x80 >> (index % 8) != 0)
}

/// Sets bit `index` of a bitmap; the highest bit of a byte comes first.
///
/// # Panics
/// If the bitmap is too short.
pub fn set_bit(map: &mut [u8], index: usize) {
    map[index / 8] |= 0x80 >> (index % 8);
}

/// Clears bit `index` of a bitmap; the highest bit of a byte comes first.
///
/// # Panics
/// If the bitmap is too short.
pub fn clear_bit(map: &mut [u8], index: usize) {
    map[index / 8] &= !(0x80 >> (index % 8));
}

/// Block of one copy of the SIT that holds the entry of `segment`, and the entry's place in it.
pub fn position(segment: SegmentNo) -> (u64, usize) {
    (u64::from(segment.0) / ENTRIES_PER_BLOCK as u64, segment.0 as usize % ENTRIES_PER_BLOCK)
}

/// Entry `index` of a block.
///
/// # Panics
/// If `index` is not below [`ENTRIES_PER_BLOCK`] or the block is short.
pub fn entry(block: &[u8], index: usize) -> SitEntry {
    let (raw, _) = SitEntry::read_from_prefix(&block[index * ENTRY_SIZE..]).expect("an entry fits");
    raw
}

/// Puts entry `index` into a block.
///
/// # Panics
/// If `index` is not below [`ENTRIES_PER_BLOCK`] or the block is short.
pub fn put_entry(block: &mut [u8], index: usize, entry: &SitEntry) {
    assert!(index < ENTRIES_PER_BLOCK, "entry {index} of a block of the SIT");
    block[index * ENTRY_SIZE..][..ENTRY_SIZE].copy_from_slice(entry.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bit_of_a_byte_comes_first() {
        let mut map = [0; 2];
        set_bit(&mut map, 0);
        set_bit(&mut map, 9);
        assert_eq!(map, [0x80, 0x40]);
        assert!(test_bit(&map, 0) && test_bit(&map, 9) && !test_bit(&map, 1) && !test_bit(&map, 16));
    }
}
