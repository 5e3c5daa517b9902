//! Open: no translation. The host writes the flash blocks of an open-channel SSD itself, as zones.
//!
//! A zone is one flash block on every die; its pages lie across the dies, row by row. The pages before and behind the
//! zones are conventional: a page map of the host keeps them ([`Dftl`] with all entries in memory), as F2FS needs for
//! what it rewrites in place.
//!
//! ```text
//!   conventional page ─► Dftl ─► its own blocks        zone page ─► the same page of the zone's block
//! ```
//!
//! Invariants: the blocks of [`Dftl`] come first, then a block for each zone. The pages of a zone are programmed in
//! order ([`Flash`] asserts it). A write to a zone takes the next version of all, so of two pages of a zone the later
//! one has the higher version.
//!
//! Recovery finds the write pointer of a zone by bisection over its out-of-band areas; conventional pages as [`Dftl`]
//! does.

use std::ops::Range;
use std::sync::Arc;

use onewrite_block::{PAGE_SIZE, Zones};

use super::counters::FtlCounters;
use super::dftl::{Dftl, DftlPlan};
use super::flash::{Area, Flash, PowerLost};
use super::layer::{Ftl, FtlPlan};
use super::rules::FtlRules;
use crate::address::{FlashBlock, Lpn, each};

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
    /// The block of the first zone.
    first: FlashBlock,
}

/// What a page of the host is.
enum Place {
    /// A page of the page map.
    Conventional(Lpn),
    /// A page of a zone's block.
    Zone(FlashBlock, u32),
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
        let flash = Flash::new(map.space.blocks() + plan.zones.count as u32, plan.zone_pages());
        Open { conventional: Dftl::on(map, flash), first: FlashBlock(map.space.blocks()), plan }
    }

    fn place(&self, lpn: Lpn) -> Place {
        let zones = &self.plan.zones;
        match zones.place(lpn.wide()) {
            Some((zone, offset)) => Place::Zone(FlashBlock(self.first.0 + zone as u32), offset as u32),
            None => Place::Conventional(self.conventional_page(lpn)),
        }
    }

    /// The number of a conventional page in the page map, or where it would be for a page of a zone.
    fn conventional_page(&self, lpn: Lpn) -> Lpn {
        let (first, end) = (self.plan.zones.first.0 as u32, self.plan.zones.end() as u32);
        Lpn(if lpn.0 < end { lpn.0.min(first) } else { first + (lpn.0 - end) })
    }

    /// The blocks of all zones, in order.
    fn zone_blocks(&self) -> impl Iterator<Item = FlashBlock> + use<> {
        each(self.first..FlashBlock(self.first.0 + self.plan.zones.count as u32))
    }

    /// Erases a zone's block, unless it is blank.
    fn reset(&mut self, zone: u64) -> Result<(), PowerLost> {
        let block = FlashBlock(self.first.0 + zone as u32);
        match self.flash().filled(block) {
            0 => Ok(()),
            _ => self.flash_mut().erase(block),
        }
    }

    /// Looks for the write pointer of a zone's block in its areas; returns the version of its last page.
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
}

impl Ftl for Open {
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost> {
        match self.place(lpn) {
            Place::Conventional(page) => self.conventional.write(page),
            Place::Zone(block, offset) => {
                let stamp = self.conventional.next_stamp();
                self.flash_mut().program(block, offset, Area::InPlace(lpn), stamp)?;
                self.conventional.count_write();
                Ok(self.version_of(stamp))
            }
        }
    }

    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost> {
        match self.place(lpn) {
            Place::Conventional(page) => self.conventional.read(page),
            Place::Zone(block, offset) => {
                let page = self.flash().page(block, offset);
                match self.flash().holds(page, Area::InPlace(lpn)) {
                    true => self.flash_mut().read(page).map(|stamp| Some(self.version_of(stamp))),
                    false => Ok(None),
                }
            }
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
        for block in self.zone_blocks() {
            let newest = self.find_pointer(block)?;
            self.conventional.pass_stamp(newest);
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
        let in_zones: u64 = self.zone_blocks().map(|block| u64::from(self.flash().filled(block))).sum();
        self.conventional.mapped_pages() + in_zones
    }

    fn set_rules(&mut self, rules: Arc<dyn FtlRules>) {
        self.conventional.set_rules(rules);
    }

    fn logical_pages(&self) -> u32 {
        self.plan.logical_pages
    }

    fn zone_pointers(&self) -> Vec<u64> {
        self.zone_blocks().map(|block| self.flash().filled(block).into()).collect()
    }

    fn fork(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        self.conventional.check()?;
        for (zone, block) in (0..).zip(self.zone_blocks()) {
            for (offset, page) in (0..).zip(self.flash().filled_pages(block)) {
                let lpn = Lpn::of(self.plan.zones.start(zone)).offset(offset);
                let area = self.flash().area(page);
                if area != Area::InPlace(lpn) && area != Area::Torn {
                    return Err(format!("page {offset} of zone {zone} holds {area:?}"));
                }
            }
        }
        Ok(())
    }
}

const _: () = assert!(PAGE_SIZE == 4096, "HEAD_PAGES counts pages of 4 KiB");
