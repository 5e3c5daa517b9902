//! Which blocks of the main area something owns: a bit for each.

use crate::f2fs::format::SegmentNo;
use crate::f2fs::format::sit::{MAP_SIZE, set_bit, test_bit};

/// See the module's head.
pub(super) struct Claims(Vec<u8>);

impl Claims {
    pub(super) fn new(blocks: usize) -> Claims {
        Claims(vec![0; blocks.div_ceil(8)])
    }

    /// Claims a block. False if something owns it already.
    pub(super) fn claim(&mut self, segment: SegmentNo, index: usize) -> bool {
        let bit = segment.0 as usize * MAP_SIZE * 8 + index;
        let is_free = !test_bit(&self.0, bit);
        set_bit(&mut self.0, bit);
        is_free
    }

    /// The bits of a segment.
    pub(super) fn of(&self, segment: SegmentNo) -> &[u8] {
        &self.0[segment.0 as usize * MAP_SIZE..][..MAP_SIZE]
    }

    /// Number of blocks claimed.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }
}
