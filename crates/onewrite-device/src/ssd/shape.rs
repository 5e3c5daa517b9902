//! Shape: the number of channels, dies, blocks and pages of an SSD with a given capacity.
//!
//! A *page* is 4 KiB: the unit of the map and of a flash page. Larger pages of real flash count as more planes: a die
//! programs up to `planes` consecutive pages of one block in one operation. A *block* is the unit of erase: the same
//! block of all planes of a die. Block `n` is on die `n % dies`, die `n` on channel `n % channels`. So consecutive
//! numbers are on different channels.
//!
//! Small devices keep the profile's planes. They get smaller blocks, then fewer dies, so that every die has enough
//! blocks: open ones, spare ones and a choice of victims. The map log has its own blocks after the others.

use std::ops::Range;

use onewrite_block::PAGE_SIZE;

use super::blocks::BlockCounts;
use super::log_page::SEGMENT_ENTRIES;
use crate::address::{Aligned, FlashBlock, Numbering, Ppn};
use crate::error::Error;

/// Working blocks of a die: two open, two announced, one under emptying, one free. They are not part of the spare
/// share. So a small device has the same write amplification as a large one.
pub(crate) const WORKING_BLOCKS: u32 = 6;
const DATA_BLOCKS_MIN: u32 = 48;
const BLOCK_PAGES_MIN: u32 = 32;
const DIES_MIN: u32 = 2;

/// The flash of a profile at full size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashPlan {
    /// Channels between controller and dies.
    pub(crate) channels: u32,
    /// Number of dies.
    pub(crate) dies: u32,
    /// Pages that a die programs at once.
    pub(crate) planes: u32,
    /// Pages in an erase block, over all planes.
    pub(crate) pages_per_block: u32,
    /// Spare share of the logical capacity.
    pub(crate) spare_percent: f64,
}

/// The flash of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies in all.
    pub dies: u32,
    /// Pages that a die programs at once.
    pub planes: u32,
    /// Pages in an erase block, over all planes; a multiple of the planes.
    pub pages_per_block: u32,
    /// Blocks for content, over all dies.
    pub data_blocks: u32,
    /// Blocks for the map log, after the others.
    pub log_blocks: u32,
    /// Pages that the host sees.
    pub logical_pages: u32,
}

impl Shape {
    /// The shape of `plan` for `capacity_bytes`.
    pub(crate) fn new(plan: FlashPlan, capacity_bytes: u64) -> Result<Shape, Error> {
        let pages = capacity_bytes / PAGE_SIZE as u64;
        if !(1024..=1 << 30).contains(&pages) || !capacity_bytes.is_multiple_of(PAGE_SIZE as u64) {
            return Err(Error::Capacity { bytes: capacity_bytes });
        }
        let pages = pages as u32;
        let (mut dies, mut block_pages) = (plan.dies, plan.pages_per_block);
        let halves = |block: u32| block > BLOCK_PAGES_MIN.max(plan.planes) && block.is_multiple_of(2 * plan.planes);
        while pages / dies / block_pages < DATA_BLOCKS_MIN && halves(block_pages) {
            block_pages /= 2;
        }
        while pages / dies / block_pages < DATA_BLOCKS_MIN && dies > DIES_MIN {
            dies /= 2;
        }
        let data_per_die = pages.div_ceil(dies * block_pages);
        let spare_per_die = (f64::from(data_per_die) * plan.spare_percent / 100.0).ceil() as u32;
        Ok(Shape {
            channels: plan.channels.min(dies),
            dies,
            planes: plan.planes,
            pages_per_block: block_pages,
            data_blocks: dies * (data_per_die + spare_per_die.max(2) + WORKING_BLOCKS),
            log_blocks: log_blocks(pages, block_pages),
            logical_pages: pages,
        })
    }

    /// Blocks for content and for the map log.
    pub fn blocks(&self) -> u32 {
        self.data_blocks + self.log_blocks
    }

    /// The die of a block.
    #[inline]
    pub(crate) fn die_of(&self, block: FlashBlock) -> usize {
        (block.0 % self.dies) as usize
    }

    /// The channel of a die.
    #[inline]
    pub fn channel_of(&self, die: usize) -> usize {
        die % self.channels as usize
    }

    /// Counts of blocks for content, for [`Blocks`](super::blocks::Blocks).
    pub(crate) fn block_counts(&self) -> BlockCounts {
        BlockCounts { blocks: self.data_blocks, dies: self.dies, pages_per_block: self.pages_per_block }
    }

    /// Blocks for content.
    pub(crate) fn data_range(&self) -> Range<FlashBlock> {
        FlashBlock(0)..FlashBlock(self.data_blocks)
    }

    /// Blocks for the map log.
    pub(crate) fn log_range(&self) -> Range<FlashBlock> {
        FlashBlock(self.data_blocks)..FlashBlock(self.blocks())
    }

    /// How flash pages are numbered.
    #[inline]
    pub(crate) fn numbering(&self) -> Aligned {
        Aligned::new(self.pages_per_block)
    }

    /// Size of the number range of pages for content, with the unused numbers.
    pub(crate) fn page_numbers(&self) -> u32 {
        self.numbering().page_numbers(self.data_blocks)
    }

    /// Page `page` of a block.
    #[inline]
    pub(crate) fn ppn(&self, block: FlashBlock, page: u32) -> Ppn {
        self.numbering().ppn(block, page)
    }

    /// The block of a flash page, and the page's index in it.
    #[inline]
    pub(crate) fn place(&self, ppn: Ppn) -> (FlashBlock, u32) {
        self.numbering().place(ppn)
    }

    /// The block of a flash page.
    #[inline]
    pub(crate) fn block_of(&self, ppn: Ppn) -> FlashBlock {
        self.numbering().block(ppn)
    }

    /// Number of map segments: pieces of the map that fit one log page each.
    pub(crate) fn segments(&self) -> u32 {
        self.logical_pages.div_ceil(SEGMENT_ENTRIES as u32)
    }
}

/// Three blocks in turn (written, next, under erase), and room for three maps.
fn log_blocks(logical_pages: u32, pages_per_block: u32) -> u32 {
    let segments = logical_pages.div_ceil(SEGMENT_ENTRIES as u32);
    3 + (3 * segments).div_ceil(pages_per_block).max(2)
}

#[cfg(test)]
mod tests {
    use onewrite_block::{GIB, MIB};

    use super::*;

    const PLAN: FlashPlan = FlashPlan { channels: 8, dies: 32, planes: 4, pages_per_block: 1024, spare_percent: 7.0 };

    #[test]
    fn every_size_keeps_its_spare_share_and_enough_blocks() {
        for bytes in [4 * MIB, 32 * MIB, 100 * MIB, GIB, 16 * GIB, 64 * GIB] {
            let shape = Shape::new(PLAN, bytes).unwrap();
            let data_pages = u64::from(shape.data_blocks) * u64::from(shape.pages_per_block);
            let spare = data_pages as f64 / f64::from(shape.logical_pages) - 1.0;
            assert!(spare >= 0.07, "{bytes}: {spare}");
            assert!(shape.data_blocks / shape.dies >= 16 + WORKING_BLOCKS, "{bytes}: {shape:?}");
            assert!((shape.log_blocks - 3) * shape.pages_per_block >= 3 * shape.segments());
        }
    }

    #[test]
    fn a_capacity_without_sense_is_refused() {
        assert!(Shape::new(PLAN, 100).is_err());
        assert!(Shape::new(PLAN, GIB + 1).is_err());
    }
}
