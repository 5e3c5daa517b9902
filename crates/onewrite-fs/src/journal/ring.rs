//! Ring: the log blocks that hold transactions. After the last block the ring continues at the first.

use std::fmt;
use std::ops::Range;

/// A block of the log, counted from the log's superblock, which is block 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogBlock(pub u32);

impl fmt::Display for LogBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log block {}", self.0)
    }
}

impl LogBlock {
    /// The log's superblock.
    pub const SUPERBLOCK: LogBlock = LogBlock(0);

    /// `count` blocks from this one on. They must not pass the end of the log.
    pub const fn run(self, count: u32) -> Range<LogBlock> {
        self..LogBlock(self.0 + count)
    }

    /// This block alone.
    pub const fn alone(self) -> Range<LogBlock> {
        self.run(1)
    }
}

/// Number of blocks in a run.
pub(super) const fn count(run: &Range<LogBlock>) -> u32 {
    run.end.0 - run.start.0
}

/// The blocks of a run, in order.
pub(super) fn blocks(run: Range<LogBlock>) -> impl Iterator<Item = LogBlock> {
    (run.start.0..run.end.0).map(LogBlock)
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    first: LogBlock,
    end: LogBlock,
}

impl Ring {
    /// The blocks from `first` up to `end`.
    pub(super) fn new(first: LogBlock, end: LogBlock) -> Ring {
        Ring { first, end: end.max(first) }
    }

    /// The first block.
    pub(super) fn first(&self) -> LogBlock {
        self.first
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.end.0 - self.first.0
    }

    /// The block `count` places behind `block`, wrapping at the end.
    pub(super) fn after(&self, block: LogBlock, count: u32) -> LogBlock {
        LogBlock(self.first.0 + (block.0 - self.first.0 + count) % self.blocks())
    }

    /// Number of blocks from `from` to `to`, wrapping at the end.
    pub(super) fn distance(&self, from: LogBlock, to: LogBlock) -> u32 {
        if to >= from { to.0 - from.0 } else { self.blocks() - (from.0 - to.0) }
    }

    /// Number of blocks from `block` to the end of the ring.
    pub(super) fn until_end(&self, block: LogBlock) -> u32 {
        self.end.0 - block.0
    }

    /// `count` blocks from `start` on: one run, or two if they wrap. No run is empty.
    pub(super) fn runs(&self, start: LogBlock, count: u32) -> Vec<Range<LogBlock>> {
        let before_end = self.until_end(start).min(count);
        let runs = [start.run(before_end), self.first.run(count - before_end)];
        runs.into_iter().filter(|run| !run.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_the_end_goes_on_at_the_beginning() {
        let ring = Ring::new(LogBlock(1), LogBlock(11));
        assert_eq!(ring.blocks(), 10);
        assert_eq!((ring.after(LogBlock(9), 1), ring.after(LogBlock(9), 2)), (LogBlock(10), LogBlock(1)));
        assert_eq!((ring.distance(LogBlock(9), LogBlock(10)), ring.distance(LogBlock(9), LogBlock(1))), (1, 2));
        assert_eq!(ring.runs(LogBlock(9), 2), [LogBlock(9)..LogBlock(11)]);
        assert_eq!(ring.runs(LogBlock(9), 4), [LogBlock(9)..LogBlock(11), LogBlock(1)..LogBlock(3)]);
        assert_eq!(ring.runs(LogBlock(5), 0), []);
    }
}
