//! Recovery of DFTL: directory and map from the out-of-band areas of all programmed pages and the newest translation pages.
//!
//! 1. The newest readable translation page of each group is the map as of its version.
//! 2. A data page counts if no newer version (or later copy) of its logical page is found, and if its translation page is
//!    older or names the logical page: else that one was trimmed since.
//! 3. What differs from the translation pages becomes dirty entries in the cache; more than it holds are evicted.
//!
//! Until the last step nothing is written, and that step is no other than what a running device does; so a cut leaves
//! recovery to begin again.

use super::{Area, Dftl, MOVES_BITS, NONE, PowerLost};
use crate::ssd::blocks::Blocks;

impl Dftl {
    /// See the module's head.
    pub(super) fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.flash.power_up();
        self.cache.clear();
        self.directory.fill(NONE);
        self.valid.fill(0);
        self.version = 0;
        self.open = [NONE; 3];
        let newest = self.scan()?;
        self.blocks = Blocks::without_free(self.space.blocks(), 1, self.space.block_pages);
        self.take_over(&newest);
        self.sort_blocks();
        while self.cache.is_over() {
            self.make_room()?;
            self.evict()?;
        }
        Ok(())
    }

    /// Reads all areas: fills the directory and gives the newest page of each logical page.
    fn scan(&mut self) -> Result<Vec<u32>, PowerLost> {
        let mut newest = vec![NONE; self.space.logical_pages as usize];
        for block in 0..self.flash.blocks() {
            for offset in 0..self.flash.filled(block) {
                let page = self.flash.page(block, offset);
                let stamp = self.flash.read_area(page)?;
                let known = match self.flash.area(page) {
                    Area::Logged(lpn) => &mut newest[lpn as usize],
                    Area::Map(group) => &mut self.directory[group as usize],
                    _ => continue,
                };
                if *known == NONE || self.rules.is_newer(stamp, self.flash.version(*known)) {
                    *known = page;
                }
                self.version = self.version.max(stamp >> MOVES_BITS);
            }
        }
        Ok(newest)
    }

    /// The newest page of a logical page if it was not trimmed since, else none.
    fn recovered(&self, lpn: u32, newest: u32) -> u32 {
        let translation = self.directory[(lpn / super::GROUP) as usize];
        let mapped = self.flash.entry(lpn);
        if newest == NONE || translation == NONE {
            return newest;
        }
        let is_later = self.flash.version(newest) >> MOVES_BITS > self.flash.version(translation) >> MOVES_BITS;
        match is_later {
            true if !self.rules.areas_count() => mapped,
            false if mapped == NONE && self.rules.trims_count() => NONE,
            _ => newest,
        }
    }

    fn take_over(&mut self, newest: &[u32]) {
        for lpn in 0..self.space.logical_pages {
            let entry = self.recovered(lpn, newest[lpn as usize]);
            if entry != self.flash.entry(lpn) {
                self.cache.insert(lpn, entry);
                self.cache.set(lpn, entry);
            }
            if entry != NONE {
                self.validate(entry);
            }
        }
        let directory = std::mem::take(&mut self.directory);
        directory.iter().filter(|page| **page != NONE).for_each(|page| self.validate(*page));
        self.directory = directory;
    }

    /// Blank blocks are free, two begun data blocks and one of translation pages go on, all others are full.
    fn sort_blocks(&mut self) {
        for block in 0..self.flash.blocks() {
            let filled = self.flash.filled(block);
            if filled == 0 {
                self.blocks.release(block);
                continue;
            }
            self.blocks.open(block);
            let is_map = matches!(self.flash.area(self.flash.page(block, 0)), Area::Map(_));
            let mut streams = if is_map { 2..3 } else { 0..2 };
            match streams.find(|stream| self.open[*stream] == NONE && filled < self.space.block_pages) {
                Some(stream) => self.open[stream] = block,
                None => self.blocks.close(block),
            }
        }
    }
}
