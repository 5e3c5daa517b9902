//! BAST: a hybrid translation layer. Each log block belongs to one data block. A model of memory cards.
//!
//! ```text
//!   write of a page ─┬─ beyond what its data block holds, no log block ──► in place
//!                    └─ else ► log block of its own block ──┬─ full, in order from the first page: switch merge
//!                              (one is opened if needed)    ├─ no room, or used longest ago while another is needed:
//!                                                           │  in order ► partial merge, else ► full merge
//!                                                           └─ else it stays open
//! ```
//!
//! As many logical blocks are *open* as there are log blocks. A write to another one closes the least recently used
//! one; this costs a merge. Logical blocks share no log block. So the number of writes that go to a block before others
//! replace it decides the cost. A *switch* makes the log block the data block without a copy. A *partial merge* first
//! copies the pages beyond its end. A *full merge* gathers a new data block from both.
//!
//! Invariants, verified by [`Bast::check`]:
//! 1. A block is free, a data block or a log block, and only one of these. A logical block has at most one data block
//!    and one log block.
//! 2. `places[lpn]` is the flash page with the newest version of `lpn`, in a block of its logical block; or none.
//! 3. Pages of a data block are at their own places. The same holds, without gaps, for a log block in order.
//! 4. At least one block is free, for merges.
//! 5. The record of a trim stays in the log block of its logical block until no older version is on flash.
//!
//! The paper does not say three things. Here a trim that leaves pages of a block writes a record to its log block; a
//! trim that leaves none erases the block; recovery closes all log blocks.
//!
//! Source: Kim et al., "A space-efficient flash translation layer for CompactFlash systems", IEEE Transactions on
//! Consumer Electronics 48(2), 2002 (dissertation, reference 32); the name is from Lee et al. 2007. Cards keep a few
//! erase blocks open and collect when the host writes to another one: Bergmann, "Optimizing Linux with cheap flash
//! drives", LWN, February 2011.

mod check;
mod recover;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::counters::FtlCounters;
use super::flash::PowerLost;
use super::flash::{Area, Flash};
use super::layer::{Ftl, FtlPlan};
use super::rules::{FtlRules, SoundFtl};
use crate::address::{FlashBlock, LogicalBlock, Lpn, MapEntry, each, indices};

/// How a BAST device is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BastPlan {
    /// Flash and host space.
    pub space: FtlPlan,
    /// Most log blocks; `None` for all spare blocks except the one that merges need.
    pub log_blocks: Option<u32>,
}

/// An open log block.
#[derive(Clone, Copy, Debug)]
struct Log {
    /// Its logical block.
    logical: LogicalBlock,
    block: FlashBlock,
    /// Whether each page is at its own place, from the first one on.
    is_in_order: bool,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Bast {
    flash: Flash,
    space: FtlPlan,
    log_max: usize,
    /// Data block of each logical block.
    data: Vec<Option<FlashBlock>>,
    /// Flash page of each logical page.
    places: Vec<MapEntry>,
    /// Least recently used first.
    log: VecDeque<Log>,
    free: VecDeque<FlashBlock>,
    version: u64,
    counters: FtlCounters,
    rules: Arc<dyn FtlRules>,
}

impl BastPlan {
    /// Fewest spare blocks for BAST: a log block and one for merges.
    pub(crate) const SPARE_BLOCKS_MIN: u32 = 2;

    /// Most log blocks that the spare blocks of `space` allow.
    pub const fn log_blocks_max(space: &FtlPlan) -> u32 {
        space.spare_blocks - 1
    }
}

impl Bast {
    /// A blank device.
    ///
    /// # Panics
    /// If there are fewer spare blocks than [`BastPlan::SPARE_BLOCKS_MIN`], blocks have fewer than two pages, or the
    /// host sees more than [`FtlPlan::LOGICAL_PAGES_MAX`].
    pub fn new(plan: BastPlan) -> Bast {
        let BastPlan { space, log_blocks } = plan;
        assert!(
            space.spare_blocks >= BastPlan::SPARE_BLOCKS_MIN,
            "{} spare blocks; two are needed",
            space.spare_blocks
        );
        assert!(space.block_pages >= 2, "a block of {} pages", space.block_pages);
        assert!(space.logical_pages <= FtlPlan::LOGICAL_PAGES_MAX, "{} pages", space.logical_pages);
        let most = BastPlan::log_blocks_max(&space);
        Bast {
            flash: Flash::new(space.blocks(), space.block_pages),
            space,
            log_max: log_blocks.map_or(most, |blocks| blocks.clamp(1, most)) as usize,
            data: vec![None; space.data_blocks() as usize],
            places: vec![MapEntry::NONE; space.logical_pages as usize],
            log: VecDeque::new(),
            free: each(space.block_range()).collect(),
            version: 0,
            counters: FtlCounters::default(),
            rules: Arc::new(SoundFtl),
        }
    }

    /// The same device with other rules; for tests that break one.
    pub fn with_rules(self, rules: Arc<dyn FtlRules>) -> Bast {
        Bast { rules, ..self }
    }

    fn take_free(&mut self) -> FlashBlock {
        self.free.pop_front().expect("spare blocks leave a free one")
    }

    fn erase(&mut self, block: FlashBlock) -> Result<(), PowerLost> {
        self.flash.erase(block)?;
        self.free.push_back(block);
        Ok(())
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Programs a page of the host and maps it.
    #[inline]
    fn put(&mut self, lpn: Lpn, block: FlashBlock, offset: u32, version: u64) -> Result<(), PowerLost> {
        self.flash.program(block, offset, Area::Logged(lpn), version)?;
        self.places[lpn.index()] = MapEntry::at(self.flash.page(block, offset));
        Ok(())
    }

    /// The data block, if the page can go straight to its place there. Takes a new block if there is none.
    fn data_beyond(&mut self, logical: LogicalBlock, offset: u32) -> Option<FlashBlock> {
        let data = &mut self.data[logical.index()];
        let free = || self.free.pop_front().expect("spare blocks leave a free one");
        let block = *data.get_or_insert_with(free);
        Some(block).filter(|block| offset >= self.flash.filled(*block))
    }

    fn place(&mut self, lpn: Lpn) -> Result<(), PowerLost> {
        let (logical, offset) = self.space.place(lpn);
        let version = self.next_version();
        let is_open = self.log.iter().any(|log| log.logical == logical);
        if let Some(block) = (!is_open).then(|| self.data_beyond(logical, offset)).flatten() {
            return self.put(lpn, block, offset, version);
        }
        let (block, next) = self.log_place(logical)?;
        let log = self.log.back_mut().expect("the log block in use is the last");
        log.is_in_order &= next == offset;
        let is_whole = log.is_in_order && next + 1 == self.space.block_pages;
        self.put(lpn, block, next, version)?;
        if is_whole { self.close_at(self.log.len() - 1) } else { Ok(()) }
    }

    /// The log block of a logical block, and its next free page. Moves the log block to the end of the queue.
    fn log_place(&mut self, logical: LogicalBlock) -> Result<(FlashBlock, u32), PowerLost> {
        if let Some(at) = self.log.iter().rposition(|log| log.logical == logical) {
            let log = self.log[at];
            let filled = self.flash.filled(log.block);
            if filled < self.space.block_pages {
                self.log.remove(at);
                self.log.push_back(log);
                return Ok((log.block, filled));
            }
            self.close_at(at)?;
        }
        while self.log.len() >= self.log_max {
            onewrite_block::reached!("BAST: log full");
            self.close_at(0)?;
        }
        let block = self.take_free();
        self.log.push_back(Log { logical, block, is_in_order: true });
        Ok((block, 0))
    }

    /// Merges a log block with its data block.
    fn close_at(&mut self, at: usize) -> Result<(), PowerLost> {
        let Log { logical, block, is_in_order } = self.log[at];
        let before = self.data[logical.index()];
        if is_in_order {
            onewrite_block::reached!("BAST: switch or partial merge");
            match self.copy_live(logical, self.flash.filled(block), block)? {
                0 => self.counters.switch_merges += 1,
                _ => self.counters.partial_merges += 1,
            }
            self.data[logical.index()] = Some(block);
        } else {
            onewrite_block::reached!("BAST: full merge");
            self.data[logical.index()] = self.gather(logical)?;
            self.counters.full_merges += 1;
        }
        self.log.remove(at);
        // The data block goes first: a record of a trim in the log block marks which of its pages are stale.
        if let Some(before) = before {
            self.erase(before)?;
        }
        if is_in_order { Ok(()) } else { self.erase(block) }
    }

    /// Copies all live pages to a new block; `None` if there are none.
    fn gather(&mut self, logical: LogicalBlock) -> Result<Option<FlashBlock>, PowerLost> {
        if each(self.space.pages_of(logical)).all(|lpn| self.places[lpn.index()] == MapEntry::NONE) {
            return Ok(None);
        }
        let target = self.take_free();
        self.copy_live(logical, 0, target)?;
        Ok(Some(target))
    }

    /// Copies the newest versions from place `from` on to their places in `target`; returns their number.
    fn copy_live(&mut self, logical: LogicalBlock, from: u32, target: FlashBlock) -> Result<u64, PowerLost> {
        let mut moved = 0;
        for (offset, lpn) in (0..).zip(each(self.space.pages_of(logical))).skip(from as usize) {
            if let Some(source) = self.places[lpn.index()].page() {
                let version = self.flash.read(source)?;
                self.put(lpn, target, offset, version)?;
                moved += 1;
            }
        }
        self.counters.moved_pages += moved;
        Ok(moved)
    }

    /// Drops pages of one logical block.
    fn drop_pages(&mut self, logical: LogicalBlock, pages: Range<Lpn>) -> Result<(), PowerLost> {
        let is_live = |lpn: &Lpn| self.places[lpn.index()] != MapEntry::NONE;
        if !each(pages.clone()).any(|lpn| is_live(&lpn)) {
            return Ok(());
        }
        if !each(self.space.pages_of(logical)).filter(is_live).all(|lpn| pages.contains(&lpn)) {
            return self.record_trim(logical, pages);
        }
        if let Some(data) = self.data[logical.index()].take() {
            self.erase(data)?;
        }
        if let Some(at) = self.log.iter().position(|log| log.logical == logical) {
            let log = self.log.remove(at).expect("found there");
            self.erase(log.block)?;
        }
        self.places[indices(&pages)].fill(MapEntry::NONE);
        Ok(())
    }

    fn record_trim(&mut self, logical: LogicalBlock, pages: Range<Lpn>) -> Result<(), PowerLost> {
        onewrite_block::reached!("BAST: TRIM record");
        let (block, offset) = self.log_place(logical)?;
        let version = self.next_version();
        self.log.back_mut().expect("the log block in use is the last").is_in_order = false;
        self.flash.program_record(block, offset, pages.clone(), version)?;
        self.counters.map_programs += 1;
        self.places[indices(&pages)].fill(MapEntry::NONE);
        Ok(())
    }
}

impl Ftl for Bast {
    #[inline]
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost> {
        self.place(lpn)?;
        self.counters.host_writes += 1;
        Ok(self.version)
    }

    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost> {
        let page = self.places[lpn.index()].page();
        self.counters.host_reads += 1;
        page.map(|page| self.flash.read(page)).transpose()
    }

    fn trim(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        self.space.assert_within(&pages);
        for logical in each(LogicalBlock::touched(&pages, self.space.block_pages)) {
            let own = self.space.pages_of(logical);
            self.drop_pages(logical, own.start.max(pages.start)..own.end.min(pages.end))?;
        }
        self.counters.host_trims += each(pages).len() as u64;
        Ok(())
    }

    fn recover(&mut self) -> Result<(), PowerLost> {
        self.rebuild()
    }

    fn flash(&self) -> &Flash {
        &self.flash
    }

    fn flash_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    fn counters(&self) -> FtlCounters {
        FtlCounters { flash: self.flash.counters(), ..self.counters }
    }

    fn reset_counters(&mut self) {
        self.counters = FtlCounters::default();
        self.flash.reset_counters();
    }

    fn logical_pages(&self) -> u32 {
        self.space.logical_pages
    }

    fn mapped_pages(&self) -> u64 {
        self.places.iter().filter(|entry| **entry != MapEntry::NONE).count() as u64
    }

    fn log_pages(&self) -> Option<u32> {
        Some(self.log_max as u32 * self.space.block_pages)
    }

    fn set_rules(&mut self, rules: Arc<dyn FtlRules>) {
        self.rules = rules;
    }

    fn fork(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        self.verify()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen full blocks of four pages, with two log blocks.
    fn filled() -> Bast {
        let space = FtlPlan { logical_pages: 64, block_pages: 4, spare_blocks: 4 };
        let mut device = Bast::new(BastPlan { space, log_blocks: Some(2) });
        for lpn in each(space.logical_range()) {
            device.write(lpn).unwrap();
        }
        device.reset_counters();
        device
    }

    /// Merges by kind, and programs.
    #[derive(Debug, PartialEq, Eq)]
    struct Done {
        switch: u64,
        partial: u64,
        full: u64,
        programs: u64,
    }

    /// The merges and programs of these writes.
    fn after(writes: &[u32]) -> Done {
        let mut device = filled();
        for lpn in writes {
            device.write(Lpn(*lpn)).unwrap();
        }
        device.check().unwrap();
        let FtlCounters { switch_merges: switch, partial_merges: partial, full_merges: full, flash, .. } =
            device.counters();
        Done { switch, partial, full, programs: flash.programs }
    }

    #[test]
    fn a_block_written_in_order_is_switched_even_between_writes_to_another() {
        assert_eq!(after(&[0, 1, 2, 3]), Done { switch: 1, partial: 0, full: 0, programs: 4 });
        assert_eq!(after(&[0, 8, 1, 9, 2, 10, 3, 11]), Done { switch: 2, partial: 0, full: 0, programs: 8 });
    }

    #[test]
    fn a_third_block_closes_the_one_used_longest_ago() {
        assert_eq!(
            after(&[0, 9, 13]),
            Done { switch: 0, partial: 1, full: 0, programs: 4 + 2 },
            "the rest of the first is copied"
        );
        assert_eq!(
            after(&[1, 9, 1, 13]),
            Done { switch: 0, partial: 0, full: 1, programs: 4 + 4 },
            "the second, which is not in order, is gathered"
        );
        assert_eq!(after(&[1, 9, 1, 9, 1, 9]), Done { switch: 0, partial: 0, full: 0, programs: 6 }, "two stay open");
    }

    #[test]
    fn a_full_log_block_out_of_order_is_merged() {
        assert_eq!(after(&[1, 1, 1, 1]), Done { switch: 0, partial: 0, full: 0, programs: 4 });
        assert_eq!(after(&[1, 1, 1, 1, 1]), Done { switch: 0, partial: 0, full: 1, programs: 4 + 4 + 1 });
    }
}
