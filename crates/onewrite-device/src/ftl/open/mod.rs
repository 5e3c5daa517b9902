//! Open: no translation. The host writes the flash blocks of an open-channel SSD itself, as zones.
//!
//! A zone is one flash block on every die; its pages lie across the dies, row by row. [`ZoneBlocks`] says which: the
//! host's driver levels wear and replaces bad blocks. The pages before and behind the zones are conventional: a page
//! map of the host keeps them ([`Dftl`] with all entries in memory), as F2FS needs for what it rewrites in place.
//!
//! ```text
//!   conventional page ─► Dftl ─► its own blocks        zone page ─► the same page of the zone's block
//! ```
//!
//! Invariants: the blocks of [`Dftl`] come first, then those of zones. The pages of a zone are programmed in order
//! ([`Flash`] asserts it). A write to a zone takes the next version of all, so of two pages of a zone the later one has
//! the higher version; a page that is moved keeps its own.
//!
//! Recovery reads the first page of each block, which names its zone, and finds the write pointer by bisection over
//! out-of-band areas. Of two blocks of one zone a cut came between a move and the end of the old block; the one with
//! more pages stays. Conventional pages come back as [`Dftl`] does it.

mod zone_blocks;

use std::ops::Range;
use std::sync::Arc;

use onewrite_block::{PAGE_SIZE, Zones};

use super::counters::FtlCounters;
use super::dftl::{Dftl, DftlPlan};
use super::flash::{Area, Flash, PowerLost};
use super::layer::{Ftl, FtlPlan};
use super::rules::FtlRules;
use crate::address::{FlashBlock, Lpn, Ppn, each};
use crate::ssd::{MediumFaults, MediumOperation};
use zone_blocks::ZoneBlocks;

/// How an open-channel device is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPlan {
    /// Pages that the host sees.
    pub logical_pages: u32,
    /// The zones among them; a zone is a block.
    pub zones: Zones,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Open {
    plan: OpenPlan,
    conventional: Dftl,
    /// The first block for zones.
    first: FlashBlock,
    blocks: ZoneBlocks,
}

/// What a page of the host is.
enum Place {
    /// A page of the page map.
    Conventional(Lpn),
    /// A page of a zone.
    Zone(u64, u32),
}

impl OpenPlan {
    /// Share of the device, one page in this number, that is conventional for the metadata of F2FS: two copies of the
    /// NAT, room for a node in each block (455 entries to a block), the SSA and the SIT take 0.66%.
    const HEAD_SHARE: u32 = 128;
    /// Conventional pages beside that: superblocks, checkpoints, and areas rounded up (16 MiB).
    const HEAD_PAGES: u32 = 4096;

    /// Zones of `zone_pages` on a device of `logical_pages`. At least `tail_pages` behind them are conventional, and
    /// before them what F2FS rewrites in place. `None` if not even one zone fits.
    pub fn new(logical_pages: u32, zone_pages: u32, tail_pages: u32, open_max: u32) -> Option<OpenPlan> {
        let usable = logical_pages.checked_sub(tail_pages)?;
        let head = (usable / OpenPlan::HEAD_SHARE + OpenPlan::HEAD_PAGES).next_multiple_of(zone_pages);
        let count = u64::from(usable.checked_sub(head)? / zone_pages);
        let zones = Zones { first: onewrite_block::Lpn(head.into()), count, zone_pages: zone_pages.into(), open_max };
        (count > 0).then_some(OpenPlan { logical_pages, zones })
    }

    fn zone_pages(&self) -> u32 {
        self.zones.zone_pages as u32
    }

    /// Conventional pages.
    fn conventional_pages(&self) -> u32 {
        self.logical_pages - self.zones.count as u32 * self.zone_pages()
    }

    /// The page map: all entries fit its cache.
    fn map(&self) -> DftlPlan {
        let (logical_pages, block_pages) = (self.conventional_pages(), self.zone_pages());
        let least = DftlPlan::spare_blocks_min(logical_pages, block_pages);
        let space = FtlPlan { logical_pages, block_pages, spare_blocks: least + logical_pages / block_pages / 4 };
        DftlPlan { space, cache_bytes: (u64::from(logical_pages) + 1) * DftlPlan::ENTRY_BYTES }
    }
}

impl Open {
    /// A blank device.
    ///
    /// # Panics
    /// If 32 bits are too few to number the flash pages.
    pub fn new(plan: OpenPlan) -> Open {
        let map = plan.map();
        let zones = plan.zones.count as u32;
        let flash = Flash::new(map.space.blocks() + ZoneBlocks::blocks_for(zones), plan.zone_pages());
        let (conventional, first) = (Dftl::on(map, flash), FlashBlock(map.space.blocks()));
        let mut open = Open { conventional, first, blocks: ZoneBlocks::new(zones), plan };
        open.zone_blocks().for_each(|block| open.blocks.add_blank(block, 0));
        open
    }

    fn place(&self, lpn: Lpn) -> Place {
        let zones = &self.plan.zones;
        match zones.place(lpn.wide()) {
            Some((zone, offset)) => Place::Zone(zone, offset as u32),
            None => Place::Conventional(self.conventional_page(lpn)),
        }
    }

    /// The number of a conventional page in the page map, or where it would be for a page of a zone.
    fn conventional_page(&self, lpn: Lpn) -> Lpn {
        let (first, end) = (self.plan.zones.first.0 as u32, self.plan.zones.end() as u32);
        Lpn(if lpn.0 < end { lpn.0.min(first) } else { first + (lpn.0 - end) })
    }

    /// The blocks for zones.
    fn zone_blocks(&self) -> impl Iterator<Item = FlashBlock> + use<> {
        each(self.first..FlashBlock(self.first.0 + ZoneBlocks::blocks_for(self.plan.zones.count as u32)))
    }

    /// The flash page of page `offset` of a zone, if it holds content.
    fn page_of(&self, zone: u64, offset: u32) -> Option<Ppn> {
        let page = self.flash().page(self.blocks.of(zone)?, offset);
        self.flash().holds(page, Area::InPlace(self.lpn(zone, offset))).then_some(page)
    }

    fn lpn(&self, zone: u64, offset: u32) -> Lpn {
        Lpn::of(self.plan.zones.start(zone)).offset(offset)
    }

    /// Pages of a block that hold content. The last program may have been cut short; nothing lies behind it.
    fn written(&self, block: FlashBlock) -> u32 {
        let filled = self.flash().filled(block);
        let is_torn = |last: u32| self.flash().area(self.flash().page(block, last)) == Area::Torn;
        if filled > 0 && is_torn(filled - 1) { filled - 1 } else { filled }
    }

    /// Erases a zone's block, unless the zone is blank.
    fn reset(&mut self, zone: u64) -> Result<(), PowerLost> {
        match self.blocks.set(zone, None) {
            None => Ok(()),
            Some(block) => self.clear(block),
        }
    }

    /// Erases a block for its next zone; if that fails, it is bad.
    fn clear(&mut self, block: FlashBlock) -> Result<(), PowerLost> {
        let fails = self.blocks.fails(MediumOperation::Erase);
        self.flash_mut().erase(block)?;
        if fails {
            onewrite_block::reached!("zone block fails to erase");
            return self.flash_mut().retire(block);
        }
        let erases = self.flash().erase_counts()[block.index()];
        self.blocks.add_blank(block, erases);
        Ok(())
    }

    /// Programs the next page of a zone; elsewhere if its block fails.
    fn append(&mut self, zone: u64, offset: u32, stamp: u64) -> Result<(), PowerLost> {
        let mut block = match self.blocks.of(zone) {
            Some(block) if self.flash().filled(block) > offset => {
                onewrite_block::reached!("zone goes on behind a torn page");
                assert_eq!(self.written(block), offset, "zone {zone} is written at its pointer");
                self.relocate(zone, block, offset)?
            }
            Some(block) => block,
            None => self.blocks.take_blank(),
        };
        while !self.try_program(block, offset, Area::InPlace(self.lpn(zone, offset)), stamp)? {
            onewrite_block::reached!("zone moved for a failed program");
            let to = self.copy(block, offset)?;
            self.blocks.set(zone, Some(to));
            self.flash_mut().retire(block)?;
            block = to;
        }
        self.blocks.set(zone, Some(block));
        Ok(())
    }

    /// Moves the first `pages` pages of a zone to another block, and erases the old one.
    fn relocate(&mut self, zone: u64, from: FlashBlock, pages: u32) -> Result<FlashBlock, PowerLost> {
        let to = self.copy(from, pages)?;
        self.blocks.set(zone, Some(to));
        self.clear(from)?;
        Ok(to)
    }

    /// Copies the first `pages` pages of a block to a blank one.
    fn copy(&mut self, from: FlashBlock, pages: u32) -> Result<FlashBlock, PowerLost> {
        loop {
            let to = self.blocks.take_blank();
            if self.copy_to(from, to, pages)? {
                return Ok(to);
            }
            onewrite_block::reached!("block fails while a zone is moved there");
            self.flash_mut().retire(to)?;
        }
    }

    /// False if a program failed.
    fn copy_to(&mut self, from: FlashBlock, to: FlashBlock, pages: u32) -> Result<bool, PowerLost> {
        for offset in 0..pages {
            let page = self.flash().page(from, offset);
            let (stamp, area) = (self.flash_mut().read(page)?, self.flash().area(page));
            if !self.try_program(to, offset, area, stamp)? {
                return Ok(false);
            }
            self.conventional.count_move();
        }
        Ok(true)
    }

    /// Programs a page; false if that fails, which leaves it torn.
    fn try_program(&mut self, block: FlashBlock, offset: u32, area: Area, stamp: u64) -> Result<bool, PowerLost> {
        match self.blocks.fails(MediumOperation::Program) {
            true => self.flash_mut().program(block, offset, Area::Torn, 0).map(|()| false),
            false => self.flash_mut().program(block, offset, area, stamp).map(|()| true),
        }
    }

    /// Looks for the write pointer of a block in its areas; returns the version of its last page.
    fn find_pointer(&mut self, block: FlashBlock) -> Result<u64, PowerLost> {
        let (mut blank_from, mut filled) = (self.plan.zone_pages(), 0);
        let mut newest = 0;
        while filled < blank_from {
            let middle = (filled + blank_from) / 2;
            let page = self.flash().page(block, middle);
            let stamp = self.flash_mut().read_area(page)?;
            match self.flash().area(page) {
                Area::Blank => blank_from = middle,
                _ => (filled, newest) = (middle + 1, newest.max(stamp)),
            }
        }
        debug_assert_eq!(filled, self.flash().filled(block), "bisection finds what the flash knows");
        // The last page may be torn, without a version: the one before has it.
        if let Some(before) = filled.checked_sub(2) {
            newest = newest.max(self.flash().version(self.flash().page(block, before)));
        }
        Ok(newest)
    }

    /// The zone that a block belongs to, by its first page; `None` if that is torn.
    fn find_zone(&self, block: FlashBlock) -> Option<u64> {
        match self.flash().area(self.flash().page(block, 0)) {
            Area::InPlace(lpn) => self.plan.zones.place(lpn.wide()).map(|(zone, _)| zone),
            _ => None,
        }
    }

    /// Finds out which block each zone has; gives those that are to be erased.
    fn find_blocks(&mut self) -> Result<Vec<FlashBlock>, PowerLost> {
        self.blocks.forget();
        let mut left = Vec::new();
        for block in self.zone_blocks() {
            let first = self.flash().page(block, 0);
            self.flash_mut().read_area(first)?;
            match self.find_zone(block) {
                _ if self.flash().is_bad(block) => self.blocks.add_bad(),
                _ if self.flash().filled(block) == 0 => {
                    self.blocks.add_blank(block, self.flash().erase_counts()[block.index()]);
                }
                None => left.push(block),
                Some(zone) => {
                    let newest = self.find_pointer(block)?;
                    self.conventional.pass_stamp(newest);
                    left.extend(self.claim(zone, block));
                }
            }
        }
        Ok(left)
    }

    /// Gives a zone its block; gives back the one of two that has less.
    fn claim(&mut self, zone: u64, block: FlashBlock) -> Option<FlashBlock> {
        let other = self.blocks.set(zone, Some(block))?;
        onewrite_block::reached!("two blocks of one zone after a cut");
        // If both have all of it, a page of the older one is torn.
        let worth = |block: FlashBlock| (self.written(block), self.written(block) == self.flash().filled(block));
        if worth(other) <= worth(block) {
            return Some(other);
        }
        self.blocks.set(zone, Some(other))
    }
}

impl Ftl for Open {
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost> {
        match self.place(lpn) {
            Place::Conventional(page) => self.conventional.write(page),
            Place::Zone(zone, offset) => {
                let stamp = self.conventional.next_stamp();
                self.append(zone, offset, stamp)?;
                self.conventional.count_write();
                Ok(self.version_of(stamp))
            }
        }
    }

    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost> {
        match self.place(lpn) {
            Place::Conventional(page) => self.conventional.read(page),
            Place::Zone(zone, offset) => match self.page_of(zone, offset) {
                Some(page) => self.flash_mut().read(page).map(|stamp| Some(self.version_of(stamp))),
                None => Ok(None),
            },
        }
    }

    fn trim(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        let count = u64::from(pages.end.0 - pages.start.0);
        for zone in self.plan.zones.touched(pages.start.wide(), count) {
            self.reset(zone)?;
        }
        let conventional = self.conventional_page(pages.start)..self.conventional_page(pages.end);
        if conventional.is_empty() { Ok(()) } else { self.conventional.trim(conventional) }
    }

    fn recover(&mut self) -> Result<(), PowerLost> {
        self.conventional.recover()?;
        for block in self.find_blocks()? {
            self.clear(block)?;
        }
        Ok(())
    }

    fn flash(&self) -> &Flash {
        self.conventional.flash()
    }

    fn flash_mut(&mut self) -> &mut Flash {
        self.conventional.flash_mut()
    }

    fn counters(&self) -> FtlCounters {
        self.conventional.counters()
    }

    fn reset_counters(&mut self) {
        self.conventional.reset_counters();
    }

    fn version_of(&self, stamp: u64) -> u64 {
        self.conventional.version_of(stamp)
    }

    fn mapped_pages(&self) -> u64 {
        let in_zones: u64 = self.blocks.held().map(|(_, block)| u64::from(self.written(block))).sum();
        self.conventional.mapped_pages() + in_zones
    }

    fn set_rules(&mut self, rules: Arc<dyn FtlRules>) {
        self.conventional.set_rules(rules);
    }

    fn logical_pages(&self) -> u32 {
        self.plan.logical_pages
    }

    fn zone_pointers(&self) -> Vec<u64> {
        let pointer = |zone| self.blocks.of(zone).map_or(0, |block| self.written(block).into());
        (0..self.plan.zones.count).map(pointer).collect()
    }

    fn set_faults(&mut self, faults: MediumFaults) -> bool {
        self.blocks.set_faults(faults);
        true
    }

    fn worn_out(&self) -> Option<u32> {
        self.blocks.worn_out()
    }

    fn fork(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        self.conventional.check()?;
        self.blocks.check()?;
        for (zone, block) in self.blocks.held() {
            for offset in 0..self.written(block) {
                if self.page_of(zone, offset).is_none() {
                    let area = self.flash().area(self.flash().page(block, offset));
                    return Err(format!("page {offset} of zone {zone} holds {area:?}"));
                }
            }
        }
        match self.zone_blocks().filter(|block| self.flash().is_bad(*block)).count() as u32 == self.blocks.bad() {
            true => Ok(()),
            false => Err("blocks marked as bad, and counted ones, differ".into()),
        }
    }
}

const _: () = assert!(PAGE_SIZE == 4096, "HEAD_PAGES counts pages of 4 KiB");
