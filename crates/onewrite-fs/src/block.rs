//! Blocks: addresses of a file system's blocks, and runs of them.
//!
//! Blocks are counted from the beginning of the image. What is mounted has blocks of 4 KiB: then block and device page
//! have one number ([`BlockNo::page`]).

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
    /// The first block of an image. What refers to content never names it: where a reference holds it, there is none.
    pub const FIRST: BlockNo = BlockNo(0);

    /// Whether the block can be one that something refers to; see [`BlockNo::FIRST`].
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether a reference that holds it names nothing; see [`BlockNo::FIRST`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The device page that the block is, where blocks have 4 KiB.
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

    /// The block so many behind, or the last number that there is.
    pub const fn saturating_add(self, count: u64) -> BlockNo {
        BlockNo(self.0.saturating_add(count))
    }
}

/// The number.
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

/// The block so many behind.
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

/// How many blocks lie between; the other one is not behind.
impl Sub for BlockNo {
    type Output = u64;

    fn sub(self, other: BlockNo) -> u64 {
        self.0 - other.0
    }
}

impl BlockRange {
    /// The blocks from `start` up to `end`.
    pub fn between(start: BlockNo, end: BlockNo) -> BlockRange {
        start.run(end.0.saturating_sub(start.0))
    }

    /// The block behind the last; the last number that there is, if a damaged image says more.
    pub const fn end(&self) -> BlockNo {
        self.start.saturating_add(self.count)
    }

    /// Whether no block comes at or behind `end`, whatever the numbers are.
    pub fn ends_by(&self, end: BlockNo) -> bool {
        self.start.0.checked_add(self.count).is_some_and(|own| own <= end.0)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `block` is one of them.
    pub fn contains(&self, block: BlockNo) -> bool {
        block >= self.start && block.0 - self.start.0 < self.count
    }

    /// Each of them.
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
