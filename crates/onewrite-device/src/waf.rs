//! Write amplification: an FTL alone, without time, content or map log.
//!
//! The experiment of the dissertation's section 2.2.2: the host writes random ranges of the size of a flash block, but
//! only a share of the pages in each. The result is the number of flash pages programmed for each page of the host.
//! [`Replay`] is the page-level FTL for any trace: map and block lists of the emulated SSD on a single die, greedy
//! victims, separate blocks for host pages and moved pages. [`crate::ftl`] has the other layers.

use onewrite_block::{Choices, GIB, PAGE_SIZE};
use serde::Serialize;

use crate::address::{Aligned, FlashBlock, Lpn, MapEntry, Numbering, Ppn, each};
use crate::ftl::{Bast, BastPlan, Dftl, DftlPlan, Fast, FastPlan, Ftl, FtlPlan};
use crate::ssd::blocks::{BlockCounts, Blocks};
use crate::ssd::mapping::{Mapping, Move, NOTHING};

/// Pages of 4 KiB in a block of `ftl-16g`: 4 MiB.
const BLOCK_PAGES: u32 = 1024;
/// Capacity of `ftl-16g`.
const CAPACITY_BYTES: u64 = 16 * GIB;
/// Spare blocks of `ftl-16g`, in percent of its capacity.
const SPARE_PERCENT: u64 = 15;
/// Collection starts below this number of free blocks.
const FREE_BLOCKS_MIN: usize = 2;

/// Result of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waf {
    /// Flash pages programmed for each host page, over the second half of the random phase.
    pub waf: f64,
    /// Host pages written in total.
    pub host_pages: u64,
}

/// A stream's block and the number of its programmed pages.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: Option<FlashBlock>,
    filled: u32,
}

impl Open {
    /// Takes the next page of the block and counts it as valid.
    #[inline]
    fn append(&mut self, numbering: Aligned, blocks: &mut Blocks) -> Ppn {
        let block = self.block.expect("a stream writes to a block");
        let ppn = numbering.ppn(block, self.filled);
        self.filled += 1;
        blocks.gain(block);
        ppn
    }
}

/// A page-level FTL without time.
#[derive(Clone, Debug)]
pub struct Replay {
    map: Mapping,
    blocks: Blocks,
    host: Open,
    moved: Open,
    block_pages: u32,
    numbering: Aligned,
    host_programs: u64,
    move_programs: u64,
}

impl Replay {
    /// A blank FTL for `logical_pages` pages in blocks of `block_pages`, a power of two, with `spare_percent` percent
    /// more blocks.
    ///
    /// # Panics
    /// If there are fewer than four spare blocks: the two streams and their collection need four.
    pub fn new(logical_pages: u32, block_pages: u32, spare_percent: u64) -> Replay {
        assert!(block_pages.is_power_of_two(), "blocks of {block_pages} pages; a power of two is needed");
        let data_blocks = logical_pages.div_ceil(block_pages);
        let spare_blocks = (u64::from(data_blocks) * spare_percent).div_ceil(100) as u32;
        assert!(spare_blocks >= 4, "{spare_blocks} spare blocks; four are needed");
        let count = data_blocks + spare_blocks;
        let blocks = Blocks::new(BlockCounts { blocks: count, dies: 1, pages_per_block: block_pages });
        let closed = Open { block: None, filled: block_pages };
        Replay {
            map: Mapping::untracked(logical_pages, count * block_pages),
            blocks,
            host: closed,
            moved: closed,
            block_pages,
            numbering: Aligned::new(block_pages),
            host_programs: 0,
            move_programs: 0,
        }
    }

    /// Pages written by the host so far.
    pub fn host_pages(&self) -> u64 {
        self.host_programs
    }

    /// Pages moved by garbage collection so far.
    pub fn moved_pages(&self) -> u64 {
        self.move_programs
    }

    /// The host writes a page.
    #[inline]
    pub fn write(&mut self, lpn: Lpn) {
        if self.host.filled == self.block_pages {
            self.host = self.next_block(self.host);
            while self.blocks.free(0).len() < FREE_BLOCKS_MIN {
                self.collect();
            }
        }
        let target = self.host.append(self.numbering, &mut self.blocks);
        self.host_programs += 1;
        if let Some(stale) = self.map.point(lpn, MapEntry::at(target)) {
            self.blocks.lose(self.numbering.block(stale));
        }
    }

    /// The host drops a page.
    pub fn trim(&mut self, lpn: Lpn) {
        if let Some(stale) = self.map.point(lpn, NOTHING) {
            self.blocks.lose(self.numbering.block(stale));
        }
    }

    /// A free block for a stream; closes its full block.
    fn next_block(&mut self, full: Open) -> Open {
        if let Some(full) = full.block {
            self.blocks.close(full);
        }
        let block = self.blocks.take_free(0, |_| 0).expect("collection keeps free blocks");
        Open { block: Some(block), filled: 0 }
    }

    /// Collects the block with the fewest valid pages.
    fn collect(&mut self) {
        let victim = self.blocks.fewest_valid(0).expect("spare blocks leave something to collect");
        self.blocks.choose(victim);
        for source in each(self.numbering.pages(victim, self.block_pages)) {
            if self.map.is_valid(source) {
                self.carry(source);
            }
        }
        let count = self.blocks.valid(victim);
        (0..count).for_each(|_| self.blocks.lose(victim));
        self.blocks.release(victim);
    }

    #[inline]
    fn carry(&mut self, source: Ppn) {
        if self.moved.filled == self.block_pages {
            self.moved = self.next_block(self.moved);
        }
        let target = self.moved.append(self.numbering, &mut self.blocks);
        self.move_programs += 1;
        self.map.move_all(Move { source, target });
    }

    /// Verifies map, counts and lists.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.map.check(self.blocks.valid_counts(), self.numbering)?;
        self.blocks.check()
    }
}

/// The operations of an FTL that the experiment needs.
trait Subject {
    fn put(&mut self, lpn: Lpn);
    fn host_pages(&self) -> u64;
    fn programs(&self) -> u64;
}

impl Subject for Replay {
    #[inline]
    fn put(&mut self, lpn: Lpn) {
        self.write(lpn);
    }

    fn host_pages(&self) -> u64 {
        self.host_programs
    }

    fn programs(&self) -> u64 {
        self.host_programs + self.move_programs
    }
}

impl<T: Ftl> Subject for T {
    #[inline]
    fn put(&mut self, lpn: Lpn) {
        self.write(lpn).expect("nobody cuts the power");
    }

    fn host_pages(&self) -> u64 {
        self.counters().host_writes
    }

    fn programs(&self) -> u64 {
        self.counters().flash.programs
    }
}

/// Runs the experiment on `ftl-16g`. First it writes the capacity once in order. Then it writes three capacities of
/// random 4 MiB blocks in the first `range_bytes`. In each block it writes a random `block_utilization_percent` percent
/// of the pages, in ascending order.
///
/// # Panics
/// If the share is not 1 to 100 percent, or the range is smaller than a block or larger than the device.
pub fn run(block_utilization_percent: u32, range_bytes: u64, seed: u64) -> Waf {
    let pages = (CAPACITY_BYTES / PAGE_SIZE as u64) as u32;
    measure(&mut Replay::new(pages, BLOCK_PAGES, SPARE_PERCENT), block_utilization_percent, range_bytes, seed)
}

/// The size and layout of the experiment's device, for a layer.
pub fn space() -> FtlPlan {
    FtlPlan::of_bytes(CAPACITY_BYTES, BLOCK_PAGES, SPARE_PERCENT as f64)
}

/// [`run`] on FAST instead, with at most `random_blocks` random log blocks; `None` for as many as the spare blocks
/// allow.
///
/// # Panics
/// Like [`run`].
pub fn run_fast(block_utilization_percent: u32, range_bytes: u64, seed: u64, random_blocks: Option<u32>) -> Waf {
    let space = space();
    measure(&mut Fast::new(FastPlan { space, random_blocks }), block_utilization_percent, range_bytes, seed)
}

/// [`run`] on BAST instead, with at most `log_blocks` log blocks; `None` for as many as the spare blocks allow.
///
/// # Panics
/// Like [`run`].
pub fn run_bast(block_utilization_percent: u32, range_bytes: u64, seed: u64, log_blocks: Option<u32>) -> Waf {
    let space = space();
    measure(&mut Bast::new(BastPlan { space, log_blocks }), block_utilization_percent, range_bytes, seed)
}

/// [`run`] on DFTL instead, with a mapping cache of `cache_bytes`.
///
/// # Panics
/// Like [`run`], or if the cache holds no entry.
pub fn run_dftl(block_utilization_percent: u32, range_bytes: u64, seed: u64, cache_bytes: u64) -> Waf {
    let space = FtlPlan::of_bytes(CAPACITY_BYTES, BLOCK_PAGES, SPARE_PERCENT as f64);
    measure(&mut Dftl::new(DftlPlan { space, cache_bytes }), block_utilization_percent, range_bytes, seed)
}

fn measure(ftl: &mut impl Subject, block_utilization_percent: u32, range_bytes: u64, seed: u64) -> Waf {
    assert!(
        (1..=100).contains(&block_utilization_percent),
        "a share of 1 to 100 percent, not {block_utilization_percent}"
    );
    let block_bytes = u64::from(BLOCK_PAGES) * PAGE_SIZE as u64;
    assert!(
        (block_bytes..=CAPACITY_BYTES).contains(&range_bytes),
        "a range of 4 MiB to 16 GiB, not {range_bytes} bytes"
    );
    let pages = (CAPACITY_BYTES / PAGE_SIZE as u64) as u32;
    each(Lpn(0).run(pages)).for_each(|lpn| ftl.put(lpn));
    let mut writer = Writer::new(block_utilization_percent, range_bytes / block_bytes, seed);
    let half = 3 * u64::from(pages) / 2;
    writer.write(ftl, half);
    let (host, programs) = (ftl.host_pages(), ftl.programs());
    writer.write(ftl, half);
    let (host, programs) = (ftl.host_pages() - host, ftl.programs() - programs);
    Waf { waf: programs as f64 / host as f64, host_pages: ftl.host_pages() }
}

/// Writes random blocks.
struct Writer {
    choices: Choices,
    range_blocks: u64,
    pages_per_block: usize,
    order: Vec<u32>,
    chosen: Vec<bool>,
}

impl Writer {
    fn new(percent: u32, range_blocks: u64, seed: u64) -> Writer {
        Writer {
            choices: Choices::new(seed).stream("waf", 0),
            range_blocks,
            pages_per_block: (BLOCK_PAGES * percent).div_ceil(100) as usize,
            order: (0..BLOCK_PAGES).collect(),
            chosen: vec![false; BLOCK_PAGES as usize],
        }
    }

    /// Writes whole blocks until at least `pages` pages are written.
    fn write(&mut self, ftl: &mut impl Subject, pages: u64) {
        let end = ftl.host_pages() + pages;
        while ftl.host_pages() < end {
            let start = Lpn(self.choices.below(self.range_blocks) as u32 * BLOCK_PAGES);
            self.choose_pages();
            (0..BLOCK_PAGES).filter(|page| self.chosen[*page as usize]).for_each(|page| ftl.put(start.offset(page)));
        }
    }

    /// Chooses random pages by the first steps of a shuffle.
    fn choose_pages(&mut self) {
        self.chosen.fill(false);
        for place in 0..self.pages_per_block {
            let other = place + self.choices.index(self.order.len() - place);
            self.order.swap(place, other);
            self.chosen[self.order[place] as usize] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_written_once() {
        let mut ftl = Replay::new(64 * BLOCK_PAGES, BLOCK_PAGES, 15);
        let mut writer = Writer::new(100, 64, 1);
        each(Lpn(0).run(64 * BLOCK_PAGES)).for_each(|lpn| ftl.write(lpn));
        writer.write(&mut ftl, 300 * u64::from(BLOCK_PAGES));
        assert_eq!(ftl.moved_pages(), 0);
        ftl.check().unwrap();
    }

    #[test]
    fn a_trimmed_page_is_not_moved() {
        let mut ftl = Replay::new(64 * 64, 64, 15);
        each(Lpn(0).run(64 * 64)).for_each(|lpn| ftl.write(lpn));
        each(Lpn(0).run(32 * 64)).for_each(|lpn| ftl.trim(lpn));
        let mut choices = Choices::new(3);
        (0..100_000).for_each(|_| ftl.write(Lpn(2048 + choices.below(2048) as u32)));
        ftl.check().unwrap();
        let amplification = 1.0 + ftl.moved_pages() as f64 / 100_000.0;
        assert!(amplification < 1.3, "half of the device is free: {amplification}");
    }
}
