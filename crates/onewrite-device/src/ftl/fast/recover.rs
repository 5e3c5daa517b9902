//! Recovery of FAST: rebuilds everything from the versions in the out-of-band areas of all programmed pages.
//!
//! 1. The pages of a block show whether it is a log block. If not, it is a data block of the logical block that its
//!    pages name. A block without a readable page is erased.
//! 2. The newest version of a page wins. If a copy and its source have the same version, the one at its own place wins.
//! 3. A cut merge leaves two blocks at the same place, or three if recovery was cut too. A block is erased if all its
//!    pages are covered elsewhere (with the same version, a newer one, or a newer trim). The remaining blocks are
//!    gathered into a new data block.
//!
//! Recovery erases only blocks that are covered on flash at that moment. So after a cut it can start again.

use std::ops::Range;

use super::{Fast, Home, IN_PLACE, TRIMMED};
use crate::address::{FlashBlock, LogicalBlock, Lpn, MapEntry, Ppn, each, indices};
use crate::ftl::flash::{Area, PowerLost};

/// The content of the areas.
struct Found {
    /// Newest page of the random log by page of the host.
    logged: Vec<MapEntry>,
    /// Blocks that hold pages of each logical block at their own places.
    at_home: Vec<Vec<FlashBlock>>,
    /// Blocks of the log, each with the version of its oldest page.
    random: Vec<(u64, FlashBlock)>,
    trims: Vec<(Range<Lpn>, u64)>,
    /// Version of the newest trim by page of the host.
    trimmed: Vec<u64>,
    unreadable: Vec<FlashBlock>,
    newest: u64,
}

impl Fast {
    /// See the module's head.
    pub(super) fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.flash.power_up();
        let mut found = self.scan()?;
        self.free.clear();
        self.sequential = None;
        self.version = found.newest;
        for block in std::mem::take(&mut found.unreadable) {
            onewrite_block::reached!("FAST: recovery erases an unreadable block");
            self.erase(block)?;
        }
        self.free = self.flash.blank_blocks();
        let all = each(self.space.logical_blocks());
        all.clone().try_for_each(|logical| self.erase_covered(logical, &mut found))?;
        all.clone().try_for_each(|logical| self.gather(logical, &found))?;
        found.random.sort_unstable();
        self.random = found.random.iter().map(|(_, block)| *block).collect();
        each(self.space.logical_range()).for_each(|lpn| self.log[lpn.index()] = self.newest(lpn, &found));
        Ok(())
    }

    fn scan(&mut self) -> Result<Found, PowerLost> {
        let pages = self.space.logical_pages as usize;
        let mut found = Found {
            logged: vec![MapEntry::NONE; pages],
            at_home: vec![Vec::new(); self.space.data_blocks() as usize],
            random: Vec::new(),
            trims: Vec::new(),
            trimmed: vec![0; pages],
            unreadable: Vec::new(),
            newest: 0,
        };
        for block in each(self.space.block_range()) {
            self.scan_block(block, &mut found)?;
        }
        if self.rules.trims_count() {
            for (range, version) in &found.trims {
                let trimmed = &mut found.trimmed[indices(range)];
                trimmed.iter_mut().for_each(|known| *known = (*known).max(*version));
            }
        }
        Ok(found)
    }

    fn scan_block(&mut self, block: FlashBlock, found: &mut Found) -> Result<(), PowerLost> {
        let mut first = None;
        for page in self.flash.filled_pages(block) {
            let version = self.flash.read_area(page)?;
            let area = self.flash.area(page);
            match area {
                Area::Logged(lpn) => self.note_logged(lpn, page, found),
                Area::Trim => found.trims.push((self.flash.record(page), version)),
                Area::InPlace(_) => (),
                Area::Blank | Area::Torn | Area::Map(_) => continue,
            }
            found.newest = found.newest.max(version);
            first.get_or_insert((area, version));
        }
        match first {
            Some((Area::InPlace(lpn), _)) => found.at_home[self.home(lpn).logical.index()].push(block),
            Some((_, version)) => found.random.push((version, block)),
            None if self.flash.filled(block) > 0 => found.unreadable.push(block),
            None => (),
        }
        Ok(())
    }

    fn note_logged(&self, lpn: Lpn, page: Ppn, found: &mut Found) {
        let beats = |known: Ppn| self.rules.is_newer(self.flash.version(page), self.flash.version(known));
        if found.logged[lpn.index()].page().is_none_or(beats) {
            found.logged[lpn.index()] = MapEntry::at(page);
        }
    }

    /// Erases the leftovers of a cut merge. It comes first, because gathering needs a free block.
    fn erase_covered(&mut self, logical: LogicalBlock, found: &mut Found) -> Result<(), PowerLost> {
        let mut blocks = std::mem::take(&mut found.at_home[logical.index()]);
        let mut index = 0;
        while index < blocks.len() && blocks.len() > 1 {
            let block = blocks.remove(index);
            if self.is_covered(logical, block, &blocks, found) {
                onewrite_block::reached!("FAST: recovery erases a covered block");
                self.erase(block)?;
            } else {
                blocks.insert(index, block);
                index += 1;
            }
        }
        found.at_home[logical.index()] = blocks;
        Ok(())
    }

    fn version_in(&self, block: FlashBlock, home: Home) -> Option<u64> {
        let page = self.flash.page(block, home.offset);
        self.flash.holds(page, Area::InPlace(home.lpn)).then(|| self.flash.version(page))
    }

    fn logged_version(&self, home: Home, found: &Found) -> Option<u64> {
        found.logged[home.lpn.index()].page().map(|page| self.flash.version(page))
    }

    /// Whether each page of `block` is elsewhere in the same or a newer version, or was trimmed later.
    fn is_covered(&self, logical: LogicalBlock, block: FlashBlock, others: &[FlashBlock], found: &Found) -> bool {
        self.homes(logical, 0).all(|home| {
            let Some(version) = self.version_in(block, home) else { return true };
            let other = others.iter().filter_map(|other| self.version_in(*other, home)).max();
            let covers = |known: Option<u64>| known.is_some_and(|known| !self.rules.is_newer(version, known));
            covers(other) || covers(self.logged_version(home, found)) || found.trimmed[home.lpn.index()] > version
        })
    }

    /// Sets the data block; gathers a new one if there are several.
    fn gather(&mut self, logical: LogicalBlock, found: &Found) -> Result<(), PowerLost> {
        self.data[logical.index()] = match found.at_home[logical.index()][..] {
            [] => None,
            [one] => Some(one),
            ref several => Some(self.gather_several(logical, several, found)?),
        };
        Ok(())
    }

    fn gather_several(
        &mut self,
        logical: LogicalBlock,
        blocks: &[FlashBlock],
        found: &Found,
    ) -> Result<FlashBlock, PowerLost> {
        onewrite_block::reached!("FAST: recovery gathers one block from several");
        let target = self.take_free();
        for home in self.homes(logical, 0) {
            let source = blocks.iter().copied().max_by_key(|block| self.version_in(*block, home));
            let source = source.filter(|block| self.version_in(*block, home) > self.logged_version(home, found));
            if let Some(block) = source {
                let version = self.flash.read(self.flash.page(block, home.offset))?;
                self.flash.program(target, home.offset, Area::InPlace(home.lpn), version)?;
                self.counters.moved_pages += 1;
            }
        }
        blocks.iter().try_for_each(|block| self.erase(*block))?;
        Ok(target)
    }

    /// The entry of the page map.
    fn newest(&self, lpn: Lpn, found: &Found) -> MapEntry {
        let home = self.home(lpn);
        let logged = self.logged_version(home, found);
        let data = self.data[home.logical.index()];
        let at_home = data.and_then(|block| self.version_in(block, home));
        let newer = match (logged, at_home) {
            (Some(logged), Some(known)) => self.rules.is_newer(logged, known),
            (logged, _) => logged.is_some(),
        };
        match found.trimmed[lpn.index()] > logged.max(at_home).unwrap_or(0) {
            true => TRIMMED,
            false if newer => found.logged[lpn.index()],
            false => IN_PLACE,
        }
    }
}
