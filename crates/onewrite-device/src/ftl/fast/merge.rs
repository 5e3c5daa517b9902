//! Merges: how log blocks become data blocks, and what is erased when.
//!
//! Every merge copies first and erases what it copied from last, each copy with its version. So a cut leaves either all
//! sources or a whole target, and recovery can tell which by versions alone.

use super::{Fast, Home, IN_PLACE, NONE, PowerLost};
use crate::ftl::flash::Area;

impl Fast {
    /// Makes the sequential block the data block, after copying what lies beyond its end.
    pub(super) fn close_sequential(&mut self) -> Result<(), PowerLost> {
        let Some(open) = self.sequential else { return Ok(()) };
        let moved = self.copy_live(open.neighbours, open.filled, open.block)?;
        match moved {
            0 => self.counters.switch_merges += 1,
            _ => self.counters.partial_merges += 1,
        }
        self.sequential = None;
        self.replace_data(open.neighbours, open.block)
    }

    /// Gathers a new data block from all that is live.
    pub(super) fn merge(&mut self, neighbours: u32) -> Result<(), PowerLost> {
        let is_live = self.homes(neighbours, 0).any(|home| self.locate(home).is_some());
        let target = if is_live { self.take_free() } else { NONE };
        self.copy_live(neighbours, 0, target)?;
        self.counters.full_merges += 1;
        if let Some(open) = self.sequential.take_if(|open| open.neighbours == neighbours) {
            self.erase(open.block)?;
        }
        self.replace_data(neighbours, target)
    }

    /// The neighbours from place `from` on.
    pub(super) fn homes(&self, neighbours: u32, from: u32) -> impl Iterator<Item = Home> + use<> {
        let start = neighbours * self.space.block_pages;
        let end = self.space.block_pages.min(self.space.logical_pages - start);
        (from..end).map(move |offset| Home { lpn: start + offset, neighbours, offset })
    }

    /// Copies the newest versions from place `from` on to their places in `target`; gives their number.
    fn copy_live(&mut self, neighbours: u32, from: u32, target: u32) -> Result<u64, PowerLost> {
        let mut moved = 0;
        for home in self.homes(neighbours, from) {
            if let Some(source) = self.locate(home) {
                let version = self.flash.read(source)?;
                self.flash.program(target, home.offset, Area::InPlace(home.lpn), version)?;
                moved += 1;
            }
        }
        self.homes(neighbours, from).for_each(|home| self.log[home.lpn as usize] = IN_PLACE);
        self.counters.moved_pages += moved;
        Ok(moved)
    }

    fn replace_data(&mut self, neighbours: u32, block: u32) -> Result<(), PowerLost> {
        let before = std::mem::replace(&mut self.data[neighbours as usize], block);
        if before == NONE { Ok(()) } else { self.erase(before) }
    }

    /// Empties the oldest block of the random log.
    pub(super) fn empty_oldest(&mut self) -> Result<(), PowerLost> {
        let victim = *self.random.front().expect("a full log has an oldest block");
        if self.rules.settles_before_erase() {
            for offset in 0..self.flash.filled(victim) {
                self.settle(self.flash.page(victim, offset))?;
            }
        }
        self.random.pop_front();
        self.erase(victim)
    }

    /// Sees to it that a page of the random log is not needed any more.
    fn settle(&mut self, page: u32) -> Result<(), PowerLost> {
        match self.flash.area(page) {
            Area::Logged(lpn) if self.log[lpn as usize] == page => self.merge(self.home(lpn).neighbours),
            Area::Trim => self.settle_trim(page),
            _ => Ok(()),
        }
    }

    /// Merges each block in which the record's trim left something older.
    fn settle_trim(&mut self, page: u32) -> Result<(), PowerLost> {
        let (trimmed, version) = (self.flash.record(page), self.flash.version(page));
        let first = trimmed.start / self.space.block_pages;
        for neighbours in first..trimmed.end.div_ceil(self.space.block_pages) {
            let named = |home: &Home| trimmed.contains(&home.lpn);
            if self.homes(neighbours, 0).filter(named).any(|home| self.is_older_at_home(home, version)) {
                self.merge(neighbours)?;
            }
        }
        Ok(())
    }

    /// Whether the sequential or the data block holds a version of a page from before `version`.
    fn is_older_at_home(&self, home: Home, version: u64) -> bool {
        let sequential = self.sequential.filter(|open| open.neighbours == home.neighbours).map(|open| open.block);
        let data = Some(self.data[home.neighbours as usize]).filter(|block| *block != NONE);
        sequential.into_iter().chain(data).any(|block| {
            let page = self.flash.page(block, home.offset);
            self.flash.holds(page, Area::InPlace(home.lpn)) && self.flash.version(page) < version
        })
    }
}
