//! Recovery of BAST: everything from the out-of-band areas of all programmed pages, by versions alone.
//!
//! 1. A block belongs to the neighbours that its pages, or its records of trims, name; one without a page that can be read
//!    is erased.
//! 2. Neighbours may have a data block, a log block and a target of a merge that was cut. A block whose every page is covered by
//!    the others (by the same version, a newer one, or a newer trim), and whose records concern none of them, is erased.
//! 3. What then is more than one block, or not in order, is gathered into a new data block. No log block is left open.
//!
//! Nothing is erased that is not covered on flash at that moment, so a cut leaves recovery to begin again.

use std::ops::Range;

use super::{Bast, NONE, PowerLost};
use crate::ftl::flash::Area;

/// What the areas say.
struct Found {
    /// Blocks of each block of neighbours.
    blocks: Vec<Vec<u32>>,
    /// Version of the newest trim by page of the host.
    trimmed: Vec<u64>,
    unreadable: Vec<u32>,
    newest: u64,
}

impl Bast {
    /// See the module's head.
    pub(super) fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.flash.power_up();
        let mut found = self.scan()?;
        self.free.clear();
        self.log.clear();
        self.data.fill(NONE);
        self.places.fill(NONE);
        self.version = found.newest;
        for block in std::mem::take(&mut found.unreadable) {
            self.erase(block)?;
        }
        self.free = self.flash.blank_blocks();
        let all = 0..self.space.data_blocks();
        all.clone().try_for_each(|neighbours| self.erase_covered(neighbours, &mut found))?;
        all.clone().try_for_each(|neighbours| self.settle(neighbours, &found))
    }

    fn scan(&mut self) -> Result<Found, PowerLost> {
        let mut found = Found {
            blocks: vec![Vec::new(); self.space.data_blocks() as usize],
            trimmed: vec![0; self.space.logical_pages as usize],
            unreadable: Vec::new(),
            newest: 0,
        };
        (0..self.flash.blocks()).try_for_each(|block| self.scan_block(block, &mut found))?;
        Ok(found)
    }

    fn scan_block(&mut self, block: u32, found: &mut Found) -> Result<(), PowerLost> {
        let mut first = None;
        for offset in 0..self.flash.filled(block) {
            let page = self.flash.page(block, offset);
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
            Some(lpn) => found.blocks[(lpn / self.space.block_pages) as usize].push(block),
            None if self.flash.filled(block) > 0 => found.unreadable.push(block),
            None => (),
        }
        Ok(())
    }

    /// Gives a page that the record names.
    fn note_trim(&self, page: u32, version: u64, found: &mut Found) -> u32 {
        let record = self.flash.record(page);
        if self.rules.trims_count() {
            let trimmed = &mut found.trimmed[record.start as usize..record.end as usize];
            trimmed.iter_mut().for_each(|known| *known = (*known).max(version));
        }
        record.start
    }

    /// Pages of the host in a block: number and flash page.
    fn pages_in(&self, block: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let pages = (0..self.flash.filled(block)).map(move |offset| self.flash.page(block, offset));
        pages.filter_map(|page| match self.flash.area(page) {
            Area::Logged(lpn) => Some((lpn, page)),
            _ => None,
        })
    }

    /// Records of trims in a block: pages and version.
    fn records_in(&self, block: u32) -> impl Iterator<Item = (Range<u32>, u64)> + '_ {
        let pages = (0..self.flash.filled(block)).map(move |offset| self.flash.page(block, offset));
        let records = pages.filter(|page| self.flash.holds(*page, Area::Trim));
        records.map(|page| (self.flash.record(page), self.flash.version(page)))
    }

    /// Erases what a merge that was cut has left over, until nothing more is covered. Comes first, for gathering needs a free block.
    fn erase_covered(&mut self, neighbours: u32, found: &mut Found) -> Result<(), PowerLost> {
        let mut blocks = std::mem::take(&mut found.blocks[neighbours as usize]);
        while blocks.len() > 1 {
            let Some(at) = (0..blocks.len()).find(|at| self.is_covered(*at, &blocks, found)) else { break };
            self.erase(blocks.remove(at))?;
        }
        found.blocks[neighbours as usize] = blocks;
        Ok(())
    }

    /// Whether nothing is lost with the block at a place of the list.
    fn is_covered(&self, at: usize, blocks: &[u32], found: &Found) -> bool {
        let others = || blocks.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, block)| *block);
        let other_pages: Vec<(u32, u64)> = others()
            .flat_map(|block| self.pages_in(block))
            .map(|(lpn, page)| (lpn, self.flash.version(page)))
            .collect();
        let has_no_page_of_its_own = self.pages_in(blocks[at]).all(|(lpn, page)| {
            let version = self.flash.version(page);
            let is_elsewhere = || {
                let mut known = other_pages.iter().filter(|(other, _)| *other == lpn);
                known.any(|(_, known)| !self.rules.is_newer(version, *known))
            };
            found.trimmed[lpn as usize] > version || is_elsewhere()
        });
        has_no_page_of_its_own
            && self.records_in(blocks[at]).all(|(record, trimmed)| {
                !other_pages.iter().any(|(lpn, version)| record.contains(lpn) && *version < trimmed)
            })
    }

    /// Makes what is left of some neighbours their data block.
    fn settle(&mut self, neighbours: u32, found: &Found) -> Result<(), PowerLost> {
        let blocks = &found.blocks[neighbours as usize];
        for (lpn, page) in blocks.iter().flat_map(|block| self.pages_in(*block)).collect::<Vec<_>>() {
            let (known, version) = (self.places[lpn as usize], self.flash.version(page));
            let is_newest = known == NONE || self.rules.is_newer(version, self.flash.version(known));
            if version > found.trimmed[lpn as usize] && is_newest {
                self.places[lpn as usize] = page;
            }
        }
        self.data[neighbours as usize] = match blocks[..] {
            [] => NONE,
            [one] if self.is_data(neighbours, one, found) => one,
            ref several => self.replace(neighbours, several)?,
        };
        Ok(())
    }

    /// Whether a block can be a data block as it is.
    fn is_data(&self, neighbours: u32, block: u32, found: &Found) -> bool {
        let start = self.pages_of(neighbours).start;
        let is_live = |(lpn, page): (u32, u32)| {
            self.flash.place(page).1 == lpn - start && self.flash.version(page) > found.trimmed[lpn as usize]
        };
        self.pages_in(block).all(is_live) && self.records_in(block).next().is_none()
    }

    fn replace(&mut self, neighbours: u32, blocks: &[u32]) -> Result<u32, PowerLost> {
        let target = self.gather(neighbours)?;
        // Blocks with records of trims go last.
        let has_records = |block: &u32| self.records_in(*block).next().is_some();
        let (last, first): (Vec<u32>, Vec<u32>) = blocks.iter().partition(|block| has_records(block));
        first.into_iter().chain(last).try_for_each(|block| self.erase(block))?;
        Ok(target)
    }
}
