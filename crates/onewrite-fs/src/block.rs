//! Blocks: addresses of a file system's blocks, and runs of them.
//!
//! Numbers count from the beginning of the image. A mounted image has blocks of 4 KiB, so a block and its device page
//! have the same number ([`BlockNo::page`]).

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use onewrite_block::Lpn;

/// Number of a block of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u64);

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockRange {
    /// First block.
    pub start: BlockNo,
    /// Number of blocks.
    pub count: u64,
}

impl BlockNo {
    /// The first block of an image. It never holds referenced content; a reference with this number means "no block".
    pub const FIRST: BlockNo = BlockNo(0);

    /// Whether a reference with this number names a block; see [`BlockNo::FIRST`].
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether a reference with this number names no block; see [`BlockNo::FIRST`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The device page of the block, if blocks have 4 KiB.
    pub const fn page(self) -> Lpn {
        Lpn(self.0)
    }

    /// `count` blocks from this one on.
    pub const fn run(self, count: u64) -> BlockRange {
        BlockRange { start: self, count }
    }

    /// This block alone.
    pub const fn alone(self) -> BlockRange {
        self.run(1)
    }

    /// The block `count` places behind; the largest number if there is none.
    pub const fn saturating_add(self, count: u64) -> BlockNo {
        BlockNo(self.0.saturating_add(count))
    }
}

/// Writes the number.
impl fmt::Display for BlockNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BlockNo> for u64 {
    fn from(block: BlockNo) -> u64 {
        block.0
    }
}

/// The block `count` places behind.
impl Add<u64> for BlockNo {
    type Output = BlockNo;

    fn add(self, count: u64) -> BlockNo {
        BlockNo(self.0 + count)
    }
}

impl AddAssign<u64> for BlockNo {
    fn add_assign(&mut self, count: u64) {
        self.0 += count;
    }
}

/// Number of blocks from `other` to `self`; `other` must not be larger.
impl Sub for BlockNo {
    type Output = u64;

    fn sub(self, other: BlockNo) -> u64 {
        self.0 - other.0
    }
}

impl BlockRange {
    /// The blocks from `start` up to but not including `end`; empty if `end` is not larger.
    pub fn between(start: BlockNo, end: BlockNo) -> BlockRange {
        start.run(end.0.saturating_sub(start.0))
    }

    /// The block behind the last; the largest number if a damaged image says more.
    pub const fn end(&self) -> BlockNo {
        self.start.saturating_add(self.count)
    }

    /// Whether all blocks lie before `end`. No overflow, even for numbers from a damaged image.
    pub(crate) fn ends_by(&self, end: BlockNo) -> bool {
        self.start.0.checked_add(self.count).is_some_and(|own| own <= end.0)
    }

    /// Whether the run has no blocks.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `block` is in the run.
    pub fn contains(&self, block: BlockNo) -> bool {
        block >= self.start && block.0 - self.start.0 < self.count
    }

    /// The blocks of the run, in order.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = BlockNo> + Clone + use<> {
        (self.start.0..self.end().0).map(BlockNo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_holds_its_blocks_and_no_other() {
        let run = BlockNo(7).run(3);
        assert_eq!(run.blocks().collect::<Vec<_>>(), [BlockNo(7), BlockNo(8), BlockNo(9)]);
        assert_eq!([6, 7, 9, 10].map(|block| run.contains(BlockNo(block))), [false, true, true, false]);
        assert_eq!(run, BlockRange::between(BlockNo(7), BlockNo(10)));
        assert!(BlockRange::between(BlockNo(7), BlockNo(7)).is_empty());
    }

    #[test]
    fn a_run_beyond_all_numbers_ends_nowhere() {
        let run = BlockNo(u64::MAX).run(2);
        assert!(!run.ends_by(BlockNo(u64::MAX)));
        assert!(BlockNo(u64::MAX).alone().contains(BlockNo(u64::MAX)) && !run.contains(BlockNo(0)));
    }
}
