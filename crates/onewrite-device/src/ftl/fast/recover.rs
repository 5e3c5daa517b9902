//! Recovery of FAST: everything from the out-of-band areas of all programmed pages, by versions alone.
//!
//! 1. A block is a log block if its pages say so, else a data block of the neighbours that its pages name; one without a
//!    page that can be read is erased.
//! 2. The newest version of a page wins; where a copy and its source have the same, the one at its own place.
//! 3. A merge that was cut leaves two blocks at the same place, or three if recovery was cut too. A block whose every page
//!    is covered elsewhere (by the same version, a newer one, or a newer trim) is erased; of those that remain, a new data
//!    block is gathered.
//!
//! Nothing is erased that is not covered on flash at that moment, so a cut leaves recovery to begin again.

use std::ops::Range;

use super::{Fast, Home, IN_PLACE, NONE, PowerLost, TRIMMED};
use crate::ftl::flash::Area;

/// What the areas say.
struct Found {
    /// Newest page of the random log by page of the host.
    logged: Vec<u32>,
    /// Blocks at the place of each block of neighbours.
    at_home: Vec<Vec<u32>>,
    /// Version of the oldest page and number of each block of the log.
    random: Vec<(u64, u32)>,
    trims: Vec<(Range<u32>, u64)>,
    /// Version of the newest trim by page of the host.
    trimmed: Vec<u64>,
    unreadable: Vec<u32>,
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
            self.erase(block)?;
        }
        self.free = self.flash.blank_blocks();
        let all = 0..self.space.data_blocks();
        all.clone().try_for_each(|neighbours| self.erase_covered(neighbours, &mut found))?;
        all.clone().try_for_each(|neighbours| self.gather(neighbours, &found))?;
        found.random.sort_unstable();
        self.random = found.random.iter().map(|(_, block)| *block).collect();
        (0..self.space.logical_pages).for_each(|lpn| self.log[lpn as usize] = self.newest(lpn, &found));
        Ok(())
    }

    fn scan(&mut self) -> Result<Found, PowerLost> {
        let pages = self.space.logical_pages as usize;
        let mut found = Found {
            logged: vec![NONE; pages],
            at_home: vec![Vec::new(); self.space.data_blocks() as usize],
            random: Vec::new(),
            trims: Vec::new(),
            trimmed: vec![0; pages],
            unreadable: Vec::new(),
            newest: 0,
        };
        for block in 0..self.flash.blocks() {
            self.scan_block(block, &mut found)?;
        }
        if self.rules.trims_count() {
            for (range, version) in &found.trims {
                let trimmed = &mut found.trimmed[range.start as usize..range.end as usize];
                trimmed.iter_mut().for_each(|known| *known = (*known).max(*version));
            }
        }
        Ok(found)
    }

    fn scan_block(&mut self, block: u32, found: &mut Found) -> Result<(), PowerLost> {
        let mut first = None;
        for offset in 0..self.flash.filled(block) {
            let page = self.flash.page(block, offset);
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
            Some((Area::InPlace(lpn), _)) => found.at_home[self.home(lpn).neighbours as usize].push(block),
            Some((_, version)) => found.random.push((version, block)),
            None if self.flash.filled(block) > 0 => found.unreadable.push(block),
            None => (),
        }
        Ok(())
    }

    fn note_logged(&self, lpn: u32, page: u32, found: &mut Found) {
        let known = found.logged[lpn as usize];
        if known == NONE || self.rules.is_newer(self.flash.version(page), self.flash.version(known)) {
            found.logged[lpn as usize] = page;
        }
    }

    /// Erases what a merge that was cut has left over. Comes first, for gathering needs a free block.
    fn erase_covered(&mut self, neighbours: u32, found: &mut Found) -> Result<(), PowerLost> {
        let mut blocks = std::mem::take(&mut found.at_home[neighbours as usize]);
        let mut place = 0;
        while place < blocks.len() && blocks.len() > 1 {
            let block = blocks.remove(place);
            if self.is_covered(neighbours, block, &blocks, found) {
                self.erase(block)?;
            } else {
                blocks.insert(place, block);
                place += 1;
            }
        }
        found.at_home[neighbours as usize] = blocks;
        Ok(())
    }

    fn version_in(&self, block: u32, home: Home) -> Option<u64> {
        let page = self.flash.page(block, home.offset);
        self.flash.holds(page, Area::InPlace(home.lpn)).then(|| self.flash.version(page))
    }

    fn logged_version(&self, home: Home, found: &Found) -> Option<u64> {
        let page = found.logged[home.lpn as usize];
        (page != NONE).then(|| self.flash.version(page))
    }

    /// Whether each page of `block` is elsewhere in the same version or a newer one, or trimmed since.
    fn is_covered(&self, neighbours: u32, block: u32, others: &[u32], found: &Found) -> bool {
        self.homes(neighbours, 0).all(|home| {
            let Some(version) = self.version_in(block, home) else { return true };
            let other = others.iter().filter_map(|other| self.version_in(*other, home)).max();
            let covers = |known: Option<u64>| known.is_some_and(|known| !self.rules.is_newer(version, known));
            covers(other) || covers(self.logged_version(home, found)) || found.trimmed[home.lpn as usize] > version
        })
    }

    /// Names the data block, a new one if there are several.
    fn gather(&mut self, neighbours: u32, found: &Found) -> Result<(), PowerLost> {
        self.data[neighbours as usize] = match found.at_home[neighbours as usize][..] {
            [] => NONE,
            [one] => one,
            ref several => self.gather_several(neighbours, several, found)?,
        };
        Ok(())
    }

    fn gather_several(&mut self, neighbours: u32, blocks: &[u32], found: &Found) -> Result<u32, PowerLost> {
        let target = self.take_free();
        for home in self.homes(neighbours, 0) {
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

    /// Entry of the page map.
    fn newest(&self, lpn: u32, found: &Found) -> u32 {
        let home = self.home(lpn);
        let logged = self.logged_version(home, found);
        let data = Some(self.data[home.neighbours as usize]).filter(|block| *block != NONE);
        let at_home = data.and_then(|block| self.version_in(block, home));
        let newer = match (logged, at_home) {
            (Some(logged), Some(known)) => self.rules.is_newer(logged, known),
            (logged, _) => logged.is_some(),
        };
        match found.trimmed[lpn as usize] > logged.max(at_home).unwrap_or(0) {
            true => TRIMMED,
            false if newer => found.logged[lpn as usize],
            false => IN_PLACE,
        }
    }
}
