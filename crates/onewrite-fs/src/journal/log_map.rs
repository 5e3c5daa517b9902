//! Log map: where the blocks of the log lie on the device.

use std::ops::Range;

use super::ring::{self, LogBlock};
use crate::block::{BlockNo, BlockRange};

/// Where the log lies on the device: its ranges of blocks, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMap {
    ranges: Vec<BlockRange>,
}

impl LogMap {
    /// A log that consists of `ranges`, one after another.
    pub fn new(ranges: Vec<BlockRange>) -> LogMap {
        LogMap { ranges }
    }

    /// The ranges, in the order of the log.
    pub fn ranges(&self) -> &[BlockRange] {
        &self.ranges
    }

    /// Total number of blocks.
    pub fn length(&self) -> u64 {
        self.ranges.iter().map(|range| range.count).sum()
    }

    /// Whether `block` of the device belongs to the log.
    pub fn contains(&self, block: BlockNo) -> bool {
        self.ranges.iter().any(|range| range.contains(block))
    }

    /// Where a log block lies on the device.
    ///
    /// # Panics
    /// If the log is shorter.
    pub fn block_of(&self, log_block: LogBlock) -> BlockNo {
        self.runs(log_block.alone())[0].start
    }

    /// The runs of device blocks that hold a run of log blocks.
    ///
    /// # Panics
    /// If the log is shorter.
    pub fn runs(&self, run: Range<LogBlock>) -> Vec<BlockRange> {
        let (mut skip, mut left) = (u64::from(run.start.0), u64::from(ring::count(&run)));
        let mut runs = Vec::new();
        for range in &self.ranges {
            let taken = left.min(range.count.saturating_sub(skip));
            if taken > 0 {
                runs.push((range.start + skip).run(taken));
                left -= taken;
            }
            skip = skip.saturating_sub(range.count);
        }
        assert_eq!(left, 0, "log blocks {run:?} of {}", self.length());
        runs
    }
}
