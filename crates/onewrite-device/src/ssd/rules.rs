//! Rules: the decisions of the FTL on which crash consistency depends. Each is one line, so that a test can break it.
//!
//! Every device follows [`Sound`]. A test implements [`Rules`] with one broken rule and shows that the model test
//! notices: a canary.

use std::fmt::Debug;

/// Decisions on which durability, atomicity and the reference counts of SHARE depend.
pub trait Rules: Debug {
    /// Whether a flash page that lost an owner and has `owners_left` more is garbage.
    fn is_garbage(&self, owners_left: usize) -> bool {
        owners_left == 0
    }

    /// Whether an emptied block may be erased. `batch_needed` is the batch that must be durable first, `batch_durable`
    /// the newest durable one.
    fn may_erase(&self, batch_needed: u64, batch_durable: u64) -> bool {
        batch_needed <= batch_durable
    }

    /// Whether FLUSH waits for the map after it drained the buffer.
    fn flush_persists_map(&self) -> bool {
        true
    }

    /// Number of the `pairs` of a SHARE on the first of several map-log pages.
    fn share_pairs_together(&self, pairs: usize) -> usize {
        pairs
    }

    /// The first page of an open block of which recovery reads the out-of-band area. The map covers `covered` pages.
    fn scan_start(&self, covered: u32) -> u32 {
        covered
    }
}

/// The correct rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sound;

impl Rules for Sound {}
