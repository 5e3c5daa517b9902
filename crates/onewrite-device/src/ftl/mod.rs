//! Translation layers as state machines: map, merges and erases; alone without content, or as a device with all of it.
//!
//! [`Fast`] and [`Bast`] are hybrid layers, with log blocks that all share and with log blocks of one data block each;
//! [`Dftl`] is a page-level one with a bounded mapping cache. Each is a synchronous machine on a [`Flash`] that keeps no content but
//! the out-of-band area of every page: what it holds and which *version*, a number that every write of the host takes
//! anew. A page's version stands for its content, so that a test can ask for it back, and moved pages keep theirs.
//!
//! ```text
//!   host page ─► Ftl ─► Flash: read, program, erase ─► Clock (if time is asked for)
//!                         └─ power may go at any of them: PowerLost, then Ftl::recover
//! ```
//!
//! What is durable: a write when it returns (its area names it), a trim when it returns (its record is on flash). There is
//! no write buffer in these machines; [`TimedFtl`] estimates what one does to time. [`FtlDevice`] is a layer as a device that
//! file systems run on: requests, a buffer, content, events, power cuts. Decision 026 says how they relate to the event-driven SSD.

mod bast;
mod clock;
mod counters;
mod device;
mod dftl;
mod fast;
mod flash;
mod rules;
mod timed;

use std::fmt::Debug;
use std::sync::Arc;

use onewrite_block::PAGE_SIZE;
use thiserror::Error;

pub use bast::{Bast, BastPlan};
pub use clock::Clock;
pub use counters::{FlashCounters, FtlCounters};
pub use device::FtlDevice;
pub use dftl::{Dftl, DftlPlan};
pub use fast::{Fast, FastPlan};
pub use flash::{Area, Flash};
pub use rules::{FtlRules, SoundFtl};
pub use timed::TimedFtl;

/// In place of a block, a page or an entry: none.
pub(crate) const NONE: u32 = u32::MAX;

/// The power went at a flash operation; nothing works until [`Ftl::recover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the power went in the middle of a flash operation; recover first")]
pub struct PowerLost;

/// A translation layer.
///
/// # Contract
/// After a power cut at any flash operation, in recovery too, and a recovery that was not cut,
/// 1. every page reads the version whose `write` returned last, or nothing if a `trim` of it returned after that;
/// 2. a page whose `write` or `trim` was cut reads as before or as after, and goes on to do so.
pub trait Ftl: Debug + Send + Sync {
    /// Writes a page and gives the version that it has from now on. Durable on return.
    ///
    /// # Errors
    /// If the power goes.
    fn write(&mut self, lpn: u32) -> Result<u64, PowerLost>;

    /// The version of a page, if it holds anything.
    ///
    /// # Errors
    /// If the power goes.
    fn read(&mut self, lpn: u32) -> Result<Option<u64>, PowerLost>;

    /// Drops `count` pages from `start` on. Durable on return.
    ///
    /// # Errors
    /// If the power goes.
    fn trim(&mut self, start: u32, count: u32) -> Result<(), PowerLost>;

    /// Makes everything volatile anew from what the flash says; after a cut, or at any other time.
    ///
    /// # Errors
    /// If the power goes again.
    fn recover(&mut self) -> Result<(), PowerLost>;

    /// The flash under it.
    fn flash(&self) -> &Flash;

    /// The flash under it, to cut its power or to give it a clock.
    fn flash_mut(&mut self) -> &mut Flash;

    /// What was done since the device was new, or since [`Ftl::reset_counters`].
    fn counters(&self) -> FtlCounters;

    /// Begins to count anew; erase counts of blocks stay.
    fn reset_counters(&mut self);

    /// The version that a number in an out-of-band area stands for.
    fn version_of(&self, stamp: u64) -> u64 {
        stamp
    }

    /// Pages of the host that hold something.
    fn mapped_pages(&self) -> u64;

    /// Pages of the log, of a hybrid layer.
    fn log_pages(&self) -> Option<u32> {
        None
    }

    /// Goes by other rules from now on; for tests that break one.
    fn set_rules(&mut self, rules: Arc<dyn FtlRules>);

    /// Pages that the host sees.
    fn logical_pages(&self) -> u32;

    /// A copy that goes its own way.
    fn fork(&self) -> Box<dyn Ftl>;

    /// Verifies the invariants that the layer's module states.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self) -> Result<(), String>;
}

impl Clone for Box<dyn Ftl> {
    fn clone(&self) -> Box<dyn Ftl> {
        self.fork()
    }
}

/// Flash and host space of a translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlPlan {
    /// Pages that the host sees.
    pub logical_pages: u32,
    /// Pages of a block, any number from two on; blocks are erased, logged and merged as a whole.
    pub block_pages: u32,
    /// Blocks beyond those that the host's pages fill.
    pub spare_blocks: u32,
}

impl FtlPlan {
    /// Most pages that the host may see: their numbers share a word of the out-of-band area with what the page is.
    pub const LOGICAL_PAGES_MAX: u32 = 1 << 30;

    /// `bytes` for the host in blocks of `block_pages` pages, and `spare_percent` percent of further blocks.
    pub fn of_bytes(bytes: u64, block_pages: u32, spare_percent: f64) -> FtlPlan {
        let logical_pages = (bytes / PAGE_SIZE as u64) as u32;
        let spare = f64::from(logical_pages.div_ceil(block_pages)) * spare_percent / 100.0;
        FtlPlan { logical_pages, block_pages, spare_blocks: spare.ceil() as u32 }
    }

    /// Blocks that the host's pages fill.
    pub fn data_blocks(&self) -> u32 {
        self.logical_pages.div_ceil(self.block_pages)
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u32 {
        self.data_blocks() + self.spare_blocks
    }

    /// The page after the last of a trim.
    ///
    /// # Panics
    /// If that lies beyond what the host sees.
    fn end_of_trim(&self, start: u32, count: u32) -> u32 {
        let end = start.checked_add(count).filter(|end| *end <= self.logical_pages);
        end.unwrap_or_else(|| panic!("a trim of {count} pages from {start} on, of {}", self.logical_pages))
    }
}
