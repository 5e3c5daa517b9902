//! Rules: the decisions of the FTL that crash consistency depends on, each one line, so that a test can break it.
//!
//! [`Sound`] is what every device follows. A test crate implements [`Rules`] with one rule broken and shows that the
//! model test notices: a canary.

use std::fmt::Debug;

/// Decisions that durability, atomicity and the reference counts of SHARE depend on.
pub trait Rules: Debug {
    /// Whether a flash page that lost an owner and has `owners_left` is garbage.
    fn is_garbage(&self, owners_left: usize) -> bool {
        owners_left == 0
    }

    /// Whether a block may be erased that was emptied when the map log needed `batch_needed` to know about it, now that
    /// `batch_durable` is durable.
    fn may_erase(&self, batch_needed: u64, batch_durable: u64) -> bool {
        batch_needed <= batch_durable
    }

    /// Whether FLUSH waits for the map after the buffer is drained.
    fn flush_persists_map(&self) -> bool {
        true
    }

    /// How many of the `pairs` of a SHARE may stand on the first of several map-log pages.
    fn share_pairs_together(&self, pairs: usize) -> usize {
        pairs
    }

    /// Where recovery begins to look at the out-of-band areas of an open block of which the map covers `covered` pages.
    fn scan_start(&self, covered: u32) -> u32 {
        covered
    }
}

/// The rules as they must be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sound;

impl Rules for Sound {}
