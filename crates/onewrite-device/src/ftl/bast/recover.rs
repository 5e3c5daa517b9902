//! Recovery of BAST: rebuilds everything from the versions in the out-of-band areas of all programmed pages.
//!
//! 1. The pages of a block, or its records of trims, name its logical block. A block without a readable page is erased.
//! 2. A logical block may have a data block, a log block and the target of a cut merge. A block is erased if two things
//!    hold: the others cover every page of it (with the same version, a newer one, or a newer trim), and its records
//!    concern no page of the others.
//! 3. If more than one block is left, or the block is not in order, a new data block is gathered. No log block stays
//!    open.
//!
//! Recovery erases only blocks that are covered on flash at that moment. So after a cut it can start again.

use std::ops::Range;

use super::Bast;
use crate::address::{FlashBlock, LogicalBlock, Lpn, MapEntry, Ppn, each, indices};
use crate::ftl::flash::{Area, PowerLost};

/// The content of the areas.
struct Found {
    /// Blocks of each logical block.
    blocks: Vec<Vec<FlashBlock>>,
    /// Version of the newest trim by page of the host.
    trimmed: Vec<u64>,
    unreadable: Vec<FlashBlock>,
    newest: u64,
}

impl Bast {
    /// See the module's head.
    pub(super) fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.flash.power_up();
        let mut found = self.scan()?;
        self.free.clear();
        self.log.clear();
        self.data.fill(None);
        self.places.fill(MapEntry::NONE);
        self.version = found.newest;
        for block in std::mem::take(&mut found.unreadable) {
            onewrite_block::reached!("BAST: recovery erases an unreadable block");
            self.erase(block)?;
        }
        self.free = self.flash.blank_blocks();
        let all = each(self.space.logical_blocks());
        all.clone().try_for_each(|logical| self.erase_covered(logical, &mut found))?;
        all.clone().try_for_each(|logical| self.close(logical, &found))
    }

    fn scan(&mut self) -> Result<Found, PowerLost> {
        let mut found = Found {
            blocks: vec![Vec::new(); self.space.data_blocks() as usize],
            trimmed: vec![0; self.space.logical_pages as usize],
            unreadable: Vec::new(),
            newest: 0,
        };
        each(self.space.block_range()).try_for_each(|block| self.scan_block(block, &mut found))?;
        Ok(found)
    }

    fn scan_block(&mut self, block: FlashBlock, found: &mut Found) -> Result<(), PowerLost> {
        let mut first = None;
        for page in self.flash.filled_pages(block) {
            let version = self.flash.read_area(page)?;
            let lpn = match self.flash.area(page) {
                Area::Logged(lpn) => lpn,
                Area::Trim => self.note_trim(page, version, found),
                _ => continue,
            };
            found.newest = found.newest.max(version);
            first.get_or_insert(lpn);
        }
        match first {
            Some(lpn) => found.blocks[self.space.place(lpn).0.index()].push(block),
            None if self.flash.filled(block) > 0 => found.unreadable.push(block),
            None => (),
        }
        Ok(())
    }

    /// Notes the trim of a record; returns a page that it names.
    fn note_trim(&self, page: Ppn, version: u64, found: &mut Found) -> Lpn {
        let record = self.flash.record(page);
        if self.rules.trims_count() {
            let trimmed = &mut found.trimmed[indices(&record)];
            trimmed.iter_mut().for_each(|known| *known = (*known).max(version));
        }
        record.start
    }

    /// Pages of the host in a block: logical page and flash page.
    fn pages_in(&self, block: FlashBlock) -> impl Iterator<Item = (Lpn, Ppn)> + '_ {
        self.flash.filled_pages(block).filter_map(|page| match self.flash.area(page) {
            Area::Logged(lpn) => Some((lpn, page)),
            _ => None,
        })
    }

    /// Records of trims in a block: pages and version.
    fn records_in(&self, block: FlashBlock) -> impl Iterator<Item = (Range<Lpn>, u64)> + '_ {
        let records = self.flash.filled_pages(block).filter(|page| self.flash.holds(*page, Area::Trim));
        records.map(|page| (self.flash.record(page), self.flash.version(page)))
    }

    /// Erases the leftovers of a cut merge until no block is covered. It comes first, because gathering needs a free
    /// block.
    fn erase_covered(&mut self, logical: LogicalBlock, found: &mut Found) -> Result<(), PowerLost> {
        let mut blocks = std::mem::take(&mut found.blocks[logical.index()]);
        while blocks.len() > 1 {
            let Some(at) = (0..blocks.len()).find(|at| self.is_covered(*at, &blocks, found)) else { break };
            onewrite_block::reached!("BAST: recovery erases a covered block");
            self.erase(blocks.remove(at))?;
        }
        found.blocks[logical.index()] = blocks;
        Ok(())
    }

    /// Whether the block at index `at` can go without a loss.
    fn is_covered(&self, at: usize, blocks: &[FlashBlock], found: &Found) -> bool {
        let others = || blocks.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, block)| *block);
        let other_pages: Vec<(Lpn, u64)> = others()
            .flat_map(|block| self.pages_in(block))
            .map(|(lpn, page)| (lpn, self.flash.version(page)))
            .collect();
        let has_no_page_of_its_own = self.pages_in(blocks[at]).all(|(lpn, page)| {
            let version = self.flash.version(page);
            let is_elsewhere = || {
                let mut known = other_pages.iter().filter(|(other, _)| *other == lpn);
                known.any(|(_, known)| !self.rules.is_newer(version, *known))
            };
            found.trimmed[lpn.index()] > version || is_elsewhere()
        });
        has_no_page_of_its_own
            && self.records_in(blocks[at]).all(|(record, trimmed)| {
                !other_pages.iter().any(|(lpn, version)| record.contains(lpn) && *version < trimmed)
            })
    }

    /// Makes the remaining blocks of a logical block its data block.
    fn close(&mut self, logical: LogicalBlock, found: &Found) -> Result<(), PowerLost> {
        let blocks = &found.blocks[logical.index()];
        for (lpn, page) in blocks.iter().flat_map(|block| self.pages_in(*block)).collect::<Vec<_>>() {
            let version = self.flash.version(page);
            let beats = |known| self.rules.is_newer(version, self.flash.version(known));
            let is_newest = self.places[lpn.index()].page().is_none_or(beats);
            if version > found.trimmed[lpn.index()] && is_newest {
                self.places[lpn.index()] = MapEntry::at(page);
            }
        }
        self.data[logical.index()] = match blocks[..] {
            [] => None,
            [one] if self.is_data(one, found) => Some(one),
            ref several => self.replace(logical, several)?,
        };
        Ok(())
    }

    /// Whether a block can be a data block without a copy.
    fn is_data(&self, block: FlashBlock, found: &Found) -> bool {
        let is_live = |(lpn, page): (Lpn, Ppn)| {
            self.flash.place(page).1 == self.space.place(lpn).1 && self.flash.version(page) > found.trimmed[lpn.index()]
        };
        self.pages_in(block).all(is_live) && self.records_in(block).next().is_none()
    }

    fn replace(&mut self, logical: LogicalBlock, blocks: &[FlashBlock]) -> Result<Option<FlashBlock>, PowerLost> {
        onewrite_block::reached!("BAST: recovery gathers one block from several");
        let target = self.gather(logical)?;
        // Blocks with records of trims go last.
        let has_records = |block: &FlashBlock| self.records_in(*block).next().is_some();
        let (last, first): (Vec<FlashBlock>, Vec<FlashBlock>) = blocks.iter().partition(|block| has_records(block));
        first.into_iter().chain(last).try_for_each(|block| self.erase(block))?;
        Ok(target)
    }
}
