//! Recovery of DFTL: rebuilds directory and map from the out-of-band areas of all programmed pages and from the newest
//! translation pages.
//!
//! 1. The newest readable translation page of each group gives the map at its version.
//! 2. A data page counts if there is no newer version (or later copy) of its logical page, and its translation page is
//!    older or names this logical page. Otherwise the logical page was trimmed later.
//! 3. Differences from the translation pages become dirty entries in the cache; entries beyond its capacity are
//!    evicted.
//!
//! Only the last step writes, in the same way as a running device. So after a cut recovery can start again.

use super::{Dftl, MOVES_BITS, block_counts};
use crate::address::{Lpn, MapEntry, Ppn, each};
use crate::ftl::flash::{Area, PowerLost};
use crate::ssd::blocks::Blocks;

impl Dftl {
    /// See the module's head.
    pub(super) fn rebuild(&mut self) -> Result<(), PowerLost> {
        self.flash.power_up();
        self.cache.clear();
        self.directory.fill(MapEntry::NONE);
        self.valid.fill(0);
        self.version = 0;
        self.open = [None; 3];
        let newest = self.scan()?;
        self.blocks = Blocks::without_free(block_counts(&self.space));
        self.take_over(&newest);
        self.sort_blocks();
        while self.cache.is_over() {
            onewrite_block::reached!("DFTL: recovery writes translation pages");
            self.make_room()?;
            self.evict()?;
        }
        Ok(())
    }

    /// Reads all areas. Fills the directory and returns the newest page of each logical page.
    fn scan(&mut self) -> Result<Vec<MapEntry>, PowerLost> {
        let mut newest = vec![MapEntry::NONE; self.space.logical_pages as usize];
        for block in each(self.space.block_range()) {
            for page in self.flash.filled_pages(block) {
                let stamp = self.flash.read_area(page)?;
                let known = match self.flash.area(page) {
                    Area::Logged(lpn) => &mut newest[lpn.index()],
                    Area::Map(group) => &mut self.directory[group as usize],
                    _ => continue,
                };
                let beats = |known: Ppn| self.rules.is_newer(stamp, self.flash.version(known));
                if known.page().is_none_or(beats) {
                    *known = MapEntry::at(page);
                }
                self.version = self.version.max(stamp >> MOVES_BITS);
            }
        }
        Ok(newest)
    }

    /// The newest page of a logical page; none if it was trimmed later.
    fn recovered(&self, lpn: Lpn, newest: MapEntry) -> MapEntry {
        let translation = self.directory[Dftl::group(lpn) as usize];
        let (Some(page), Some(translation)) = (newest.page(), translation.page()) else { return newest };
        let mapped = self.flash.entry(lpn);
        let is_later = self.flash.version(page) >> MOVES_BITS > self.flash.version(translation) >> MOVES_BITS;
        onewrite_block::reached!("DFTL: page newer than its translation", is_later);
        onewrite_block::reached!("DFTL: page trimmed before the cut", !is_later && mapped == MapEntry::NONE);
        match is_later {
            true if !self.rules.areas_count() => mapped,
            false if mapped == MapEntry::NONE && self.rules.trims_count() => MapEntry::NONE,
            _ => newest,
        }
    }

    fn take_over(&mut self, newest: &[MapEntry]) {
        for lpn in each(self.space.logical_range()) {
            let entry = self.recovered(lpn, newest[lpn.index()]);
            if entry != self.flash.entry(lpn) {
                self.cache.insert(lpn, entry);
                self.cache.set(lpn, entry);
            }
            if let Some(page) = entry.page() {
                self.validate(page);
            }
        }
        let directory = std::mem::take(&mut self.directory);
        directory.iter().filter_map(|entry| entry.page()).for_each(|page| self.validate(page));
        self.directory = directory;
    }

    /// Blank blocks are free. Two partly filled data blocks and one of translation pages stay open; all others are
    /// full.
    fn sort_blocks(&mut self) {
        for block in each(self.space.block_range()) {
            let filled = self.flash.filled(block);
            if filled == 0 {
                self.blocks.release(block);
                continue;
            }
            self.blocks.open(block);
            let is_map = matches!(self.flash.area(self.flash.page(block, 0)), Area::Map(_));
            let mut streams = if is_map { 2..3 } else { 0..2 };
            match streams.find(|stream| self.open[*stream].is_none() && filled < self.space.block_pages) {
                Some(stream) => self.open[stream] = Some(block),
                None => self.blocks.close(block),
            }
        }
    }
}
