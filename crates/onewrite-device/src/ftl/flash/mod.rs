//! Flash: pages with out-of-band areas instead of content, blocks, and power cuts at any operation.
//!
//! Rules of the medium, asserted here: a page is programmed once between two erases; the pages of a block are
//! programmed in ascending order; skipped pages stay blank. After a power cut the page under program is blank, torn or
//! whole; the block under erase is as before, torn or blank. Chance decides.

mod ahead;
mod area;
mod bad;
mod history;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use onewrite_block::Choices;

use thiserror::Error;

use super::clock::Clock;
use super::counters::FlashCounters;
use crate::address::{Dense, FlashBlock, Lpn, MapEntry, Numbering, Ppn, each};
pub(crate) use area::Area;
use area::{BLANK, TORN, TRIM};
pub(crate) use history::{Change, Erased};
use history::{History, Remains};

/// The power failed at a flash operation; no operation works until [`Ftl::recover`](super::Ftl::recover).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the power went in the middle of a flash operation; recover first")]
pub struct PowerLost;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Flash {
    numbering: Dense,
    words: Vec<u32>,
    versions: Vec<u64>,
    /// Pages of a block from this one on may be programmed.
    filled: Vec<u32>,
    erase_counts: Vec<u32>,
    /// Blocks that carry the mark of a bad one.
    bad: Vec<bool>,
    /// Trimmed ranges by the page of their record.
    records: BTreeMap<Ppn, Range<Lpn>>,
    counters: FlashCounters,
    /// Operations until the power fails, including the one that fails.
    operations_left: u64,
    is_dark: bool,
    choices: Choices,
    clock: Option<Box<Clock>>,
    /// Reads of out-of-band areas only.
    area_reads: u64,
    /// Entries of the newest translation pages, by page of the host; empty without such pages.
    entries: Vec<MapEntry>,
    /// Changes under way, if they take time.
    history: Option<Box<History>>,
}

impl Flash {
    /// `blocks` blank blocks of `block_pages` pages.
    ///
    /// # Panics
    /// If 32 bits are too few to number the pages.
    pub fn new(blocks: u32, block_pages: u32) -> Flash {
        let pages = blocks.checked_mul(block_pages).filter(|pages| *pages < TRIM).expect("at most 2^32 flash pages");
        Flash {
            numbering: Dense { block_pages },
            words: vec![BLANK; pages as usize],
            versions: vec![0; pages as usize],
            filled: vec![0; blocks as usize],
            erase_counts: vec![0; blocks as usize],
            bad: vec![false; blocks as usize],
            records: BTreeMap::new(),
            counters: FlashCounters::default(),
            operations_left: u64::MAX,
            is_dark: false,
            choices: Choices::new(0),
            clock: None,
            area_reads: 0,
            entries: Vec::new(),
            history: None,
        }
    }

    /// The same flash with translation pages for `logical_pages` pages of the host.
    pub(crate) fn with_entries(self, logical_pages: u32) -> Flash {
        Flash { entries: vec![MapEntry::NONE; logical_pages as usize], ..self }
    }

    /// The entry of a page of the host in the newest translation page that maps it.
    #[inline]
    pub(crate) fn entry(&self, lpn: Lpn) -> MapEntry {
        self.entries[lpn.index()]
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.filled.len() as u32
    }

    /// Pages of a block.
    pub fn block_pages(&self) -> u32 {
        self.numbering.block_pages
    }

    /// Operations so far.
    pub fn counters(&self) -> FlashCounters {
        self.counters
    }

    /// Resets the counters; erase counts of blocks stay.
    pub(crate) fn reset_counters(&mut self) {
        self.counters = FlashCounters::default();
    }

    /// Erase count of each block.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erase_counts
    }

    /// Gives operations a time from now on.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(Box::new(clock));
    }

    /// The clock, if there is one.
    pub(crate) fn clock_mut(&mut self) -> Option<&mut Clock> {
        self.clock.as_deref_mut()
    }

    /// Removes the clock: operations take no time.
    pub(crate) fn take_clock(&mut self) -> Option<Clock> {
        self.clock.take().map(|clock| *clock)
    }

    /// The power fails at the operation after `operations` more ones; `seed` decides the effect on that one.
    pub fn cut_after(&mut self, operations: u64, seed: u64) {
        self.operations_left = operations.saturating_add(1);
        self.choices = Choices::new(seed);
    }

    /// Whether the power is off.
    pub fn is_dark(&self) -> bool {
        self.is_dark
    }

    /// The power returns. An ordered cut that has not happened stays ordered.
    pub(crate) fn power_up(&mut self) {
        self.is_dark = false;
        if let Some(clock) = &mut self.clock {
            clock.forget_rows();
        }
    }

    /// Page `offset` of a block.
    #[inline]
    pub(crate) fn page(&self, block: FlashBlock, offset: u32) -> Ppn {
        self.numbering.ppn(block, offset)
    }

    /// The block of a page, and the page's index in it.
    #[inline]
    pub(crate) fn place(&self, page: Ppn) -> (FlashBlock, u32) {
        self.numbering.place(page)
    }

    /// The block of a page.
    #[inline]
    pub(crate) fn block(&self, page: Ppn) -> FlashBlock {
        self.numbering.block(page)
    }

    /// The pages of a block that cannot be programmed before an erase.
    pub(crate) fn filled_pages(&self, block: FlashBlock) -> impl Iterator<Item = Ppn> + use<> {
        each(self.numbering.pages(block, self.filled(block)))
    }

    /// All pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = Ppn> + use<> {
        each(Ppn(0)..Ppn(self.words.len() as u32))
    }

    /// Pages of a block below this number cannot be programmed before an erase.
    #[inline]
    pub(crate) fn filled(&self, block: FlashBlock) -> u32 {
        self.filled[block.index()]
    }

    /// Blocks without a programmed page, least worn first.
    pub(crate) fn blank_blocks(&self) -> VecDeque<FlashBlock> {
        let all = each(FlashBlock(0)..FlashBlock(self.blocks()));
        let mut blank: Vec<FlashBlock> = all.filter(|block| self.filled(*block) == 0).collect();
        blank.sort_by_key(|block| self.erase_counts[block.index()]);
        blank.into()
    }

    /// A page's area from the controller's memory, without an operation.
    #[inline]
    pub(crate) fn area(&self, page: Ppn) -> Area {
        Area::of(self.words[page.index()])
    }

    /// Whether a page holds `area`.
    #[inline]
    pub(crate) fn holds(&self, page: Ppn, area: Area) -> bool {
        self.words[page.index()] == area.word()
    }

    /// A page's version from the controller's memory, without an operation.
    #[inline]
    pub(crate) fn version(&self, page: Ppn) -> u64 {
        self.versions[page.index()]
    }

    /// The pages in a record of a trim.
    pub(crate) fn record(&self, page: Ppn) -> Range<Lpn> {
        self.records.get(&page).cloned().expect("a record has its range")
    }

    /// Counts an operation; true if the power fails at this one.
    #[inline]
    fn is_cut(&mut self) -> Result<bool, PowerLost> {
        if self.is_dark {
            return Err(PowerLost);
        }
        self.operations_left -= 1;
        self.is_dark = self.operations_left == 0;
        if self.is_dark {
            self.operations_left = u64::MAX;
        }
        Ok(self.is_dark)
    }

    fn remains(&mut self) -> Remains {
        Remains::by_chance(&mut self.choices)
    }

    /// Reads the out-of-band area of a page without the page; returns its version.
    #[inline]
    pub(crate) fn read_area(&mut self, page: Ppn) -> Result<u64, PowerLost> {
        if self.is_cut()? {
            return Err(PowerLost);
        }
        self.counters.reads += 1;
        self.area_reads += 1;
        if let Some(clock) = &mut self.clock {
            let (block, offset) = self.numbering.place(page);
            clock.read_area(block, offset);
        }
        Ok(self.versions[page.index()])
    }

    /// Out-of-band areas read since the flash was new; each also counts as a page read.
    pub(crate) fn area_reads(&self) -> u64 {
        self.area_reads
    }

    /// Reads a page and returns its version.
    #[inline]
    pub(crate) fn read(&mut self, page: Ppn) -> Result<u64, PowerLost> {
        if self.is_cut()? {
            return Err(PowerLost);
        }
        self.counters.reads += 1;
        if let Some(clock) = &mut self.clock {
            let (block, offset) = self.numbering.place(page);
            clock.read(block, offset);
        }
        Ok(self.versions[page.index()])
    }

    /// Programs a page.
    #[inline]
    pub(crate) fn program(
        &mut self,
        block: FlashBlock,
        offset: u32,
        area: Area,
        version: u64,
    ) -> Result<(), PowerLost> {
        let word = area.word();
        assert!(offset >= self.filled(block) && offset < self.block_pages(), "page {offset} of block {block}");
        if self.is_cut()? {
            match self.remains() {
                Remains::Nothing => (),
                Remains::Torn => self.put(block, offset, TORN, 0),
                Remains::All => self.put(block, offset, word, version),
            }
            return Err(PowerLost);
        }
        self.counters.programs += 1;
        if let Some(clock) = &mut self.clock {
            clock.program(block, offset);
        }
        self.order_program(block, offset, area, version);
        self.put(block, offset, word, version);
        Ok(())
    }

    #[inline]
    fn put(&mut self, block: FlashBlock, offset: u32, word: u32, version: u64) {
        let page = self.page(block, offset).index();
        self.filled[block.index()] = offset + 1;
        self.words[page] = word;
        self.versions[page] = version;
    }

    /// Programs the record of a trim.
    pub(crate) fn program_record(
        &mut self,
        block: FlashBlock,
        offset: u32,
        trimmed: Range<Lpn>,
        version: u64,
    ) -> Result<(), PowerLost> {
        let done = self.program(block, offset, Area::Trim, version);
        let page = self.page(block, offset);
        if self.holds(page, Area::Trim) {
            self.records.insert(page, trimmed);
        }
        done
    }

    /// Erases a block.
    pub(crate) fn erase(&mut self, block: FlashBlock) -> Result<(), PowerLost> {
        if self.is_cut()? {
            match self.remains() {
                Remains::Nothing => (),
                Remains::Torn => self.clear(block, TORN, self.block_pages()),
                Remains::All => self.clear(block, BLANK, 0),
            }
            return Err(PowerLost);
        }
        self.counters.erases += 1;
        if let Some(clock) = &mut self.clock {
            clock.erase(block);
        }
        self.order_erase(block);
        self.clear(block, BLANK, 0);
        Ok(())
    }

    fn clear(&mut self, block: FlashBlock, word: u32, filled: u32) {
        let pages = self.numbering.pages(block, self.block_pages());
        if !self.records.is_empty() {
            self.records.retain(|page, _| !pages.contains(page));
        }
        self.words[pages.start.index()..pages.end.index()].fill(word);
        self.filled[block.index()] = filled;
        self.erase_counts[block.index()] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_cut_nothing_works_until_the_power_is_back() {
        let mut flash = Flash::new(2, 4);
        flash.cut_after(1, 7);
        flash.program(FlashBlock(0), 0, Area::Logged(Lpn(3)), 1).unwrap();
        assert_eq!(flash.program(FlashBlock(0), 1, Area::Logged(Lpn(4)), 2), Err(PowerLost));
        assert_eq!(flash.read(Ppn(0)), Err(PowerLost));
        assert_eq!(flash.erase(FlashBlock(1)), Err(PowerLost));
        flash.power_up();
        assert_eq!(flash.read(Ppn(0)), Ok(1));
        assert_eq!(flash.area(Ppn(0)), Area::Logged(Lpn(3)));
    }

    #[test]
    fn a_cut_program_is_blank_torn_or_whole_and_all_of_them_happen() {
        let mut seen = [0; 3];
        for seed in 0..60 {
            let mut flash = Flash::new(1, 4);
            flash.cut_after(0, seed);
            flash.program(FlashBlock(0), 0, Area::Logged(Lpn(3)), 1).unwrap_err();
            match flash.area(Ppn(0)) {
                Area::Blank => seen[0] += 1,
                Area::Torn => seen[1] += 1,
                _ => seen[2] += 1,
            }
        }
        assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
    }

    #[test]
    #[should_panic(expected = "page 0 of block 0")]
    fn a_page_below_another_one_is_not_programmed() {
        let mut flash = Flash::new(1, 4);
        flash.program(FlashBlock(0), 1, Area::Logged(Lpn(3)), 1).unwrap();
        let _ = flash.program(FlashBlock(0), 0, Area::Logged(Lpn(4)), 2);
    }
}
