//! Layer: the interface of every translation layer, and the layout of its flash.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use onewrite_block::PAGE_SIZE;

use super::counters::FtlCounters;
use super::flash::{Flash, PowerLost};
use super::rules::FtlRules;
use crate::address::{FlashBlock, LogicalBlock, Lpn};
use crate::ssd::MediumFaults;

/// A translation layer.
///
/// # Contract
/// Power may be cut at any flash operation, also in recovery. After a recovery that was not cut,
/// 1. every page reads the version of its last returned `write`, or nothing if a later `trim` of it returned;
/// 2. a page whose `write` or `trim` was cut reads as before or as after, and stays so.
pub trait Ftl: Debug + Send + Sync {
    /// Writes a page and returns its new version. Durable on return.
    ///
    /// # Errors
    /// If the power fails.
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost>;

    /// The version of a page, if it holds content.
    ///
    /// # Errors
    /// If the power fails.
    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost>;

    /// Drops pages. Durable on return.
    ///
    /// # Errors
    /// If the power fails.
    fn trim(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost>;

    /// Rebuilds all volatile state from the flash; after a cut, or at any other time.
    ///
    /// # Errors
    /// If the power fails again.
    fn recover(&mut self) -> Result<(), PowerLost>;

    /// The flash under it.
    fn flash(&self) -> &Flash;

    /// The flash under it, for a power cut or a clock.
    fn flash_mut(&mut self) -> &mut Flash;

    /// The counts since the device was new, or since [`Ftl::reset_counters`].
    fn counters(&self) -> FtlCounters;

    /// Resets the counters; erase counts of blocks stay.
    fn reset_counters(&mut self);

    /// The version for a number in an out-of-band area.
    fn version_of(&self, stamp: u64) -> u64 {
        stamp
    }

    /// Pages of the host that hold content.
    fn mapped_pages(&self) -> u64;

    /// Programmed pages of each zone, if the host writes zones itself.
    fn zone_pointers(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Makes operations of the medium fail from now on. False if the layer's medium does not fail.
    fn set_faults(&mut self, _: MediumFaults) -> bool {
        false
    }

    /// Bad blocks, if they have used up the spare ones: the device takes no more writes.
    fn worn_out(&self) -> Option<u32> {
        None
    }

    /// Pages of the log, for a hybrid layer.
    fn log_pages(&self) -> Option<u32> {
        None
    }

    /// Uses other rules from now on; for tests that break one.
    fn set_rules(&mut self, rules: Arc<dyn FtlRules>);

    /// Number of pages that the host sees.
    fn logical_pages(&self) -> u32;

    /// An independent copy.
    fn fork(&self) -> Box<dyn Ftl>;

    /// Verifies the invariants in the head of the layer's module.
    ///
    /// # Errors
    /// The first invariant that does not hold.
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
    /// Pages of a block, at least two. Blocks are erased, logged and merged as a whole.
    pub block_pages: u32,
    /// Blocks beyond those that the host's pages fill.
    pub spare_blocks: u32,
}

impl FtlPlan {
    /// Most pages that the host may see: a page number shares a word of the out-of-band area with the page's kind.
    pub(crate) const LOGICAL_PAGES_MAX: u32 = 1 << 30;

    /// `bytes` for the host in blocks of `block_pages` pages, with `spare_percent` percent more blocks.
    pub fn of_bytes(bytes: u64, block_pages: u32, spare_percent: f64) -> FtlPlan {
        let logical_pages = (bytes / PAGE_SIZE as u64) as u32;
        let spare = f64::from(logical_pages.div_ceil(block_pages)) * spare_percent / 100.0;
        FtlPlan { logical_pages, block_pages, spare_blocks: spare.ceil() as u32 }
    }

    /// Blocks that the host's pages fill.
    pub fn data_blocks(&self) -> u32 {
        self.logical_pages.div_ceil(self.block_pages)
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.data_blocks() + self.spare_blocks
    }

    /// Asserts that all pages of a trim are pages of the host.
    pub(super) fn assert_within(&self, pages: &Range<Lpn>) {
        let Range { start, end } = pages;
        assert!(
            start <= end && end.0 <= self.logical_pages,
            "a trim of pages {start}..{end} of {}",
            self.logical_pages
        );
    }

    /// The logical block of a page, and the page's index in it.
    #[inline]
    pub(super) fn place(&self, lpn: Lpn) -> (LogicalBlock, u32) {
        assert!(lpn.0 < self.logical_pages, "page {lpn} of {}", self.logical_pages);
        LogicalBlock::place(lpn, self.block_pages)
    }

    /// The pages of a logical block.
    #[inline]
    pub(super) fn pages_of(&self, logical: LogicalBlock) -> Range<Lpn> {
        let first = logical.first(self.block_pages);
        first..first.offset(self.block_pages).min(Lpn(self.logical_pages))
    }

    /// All logical blocks.
    pub(super) fn logical_blocks(&self) -> Range<LogicalBlock> {
        LogicalBlock(0)..LogicalBlock(self.data_blocks())
    }

    /// All pages that the host sees.
    pub(super) fn logical_range(&self) -> Range<Lpn> {
        Lpn(0)..Lpn(self.logical_pages)
    }

    /// All blocks of the flash.
    pub(super) fn block_range(&self) -> Range<FlashBlock> {
        FlashBlock(0)..FlashBlock(self.blocks())
    }
}
