//! Merges: how log blocks become data blocks, and the order of erases.
//!
//! Every merge copies first, each page with its version, and erases the sources last. So a cut leaves either all
//! sources or a whole target, and the versions tell recovery which one.

use super::{Fast, Home, IN_PLACE};
use crate::address::{FlashBlock, LogicalBlock, Ppn, each};
use crate::ftl::flash::{Area, PowerLost};

impl Fast {
    /// Makes the sequential block the data block, after a copy of the pages beyond its end.
    pub(super) fn close_sequential(&mut self) -> Result<(), PowerLost> {
        let Some(open) = self.sequential else { return Ok(()) };
        let moved = self.copy_live(open.logical, open.filled, open.block)?;
        onewrite_block::reached!("FAST: switch merge", moved == 0);
        onewrite_block::reached!("FAST: partial merge", moved > 0);
        match moved {
            0 => self.counters.switch_merges += 1,
            _ => self.counters.partial_merges += 1,
        }
        self.sequential = None;
        self.replace_data(open.logical, Some(open.block))
    }

    /// Gathers a new data block from all live pages.
    pub(super) fn merge(&mut self, logical: LogicalBlock) -> Result<(), PowerLost> {
        let is_live = self.homes(logical, 0).any(|home| self.locate(home).is_some());
        let target = is_live.then(|| self.take_free());
        if let Some(target) = target {
            self.copy_live(logical, 0, target)?;
        } else {
            self.forget_logged(logical, 0);
        }
        onewrite_block::reached!("FAST: full merge");
        self.counters.full_merges += 1;
        if let Some(open) = self.sequential.take_if(|open| open.logical == logical) {
            onewrite_block::reached!("FAST: full merge ends the sequential block");
            self.erase(open.block)?;
        }
        self.replace_data(logical, target)
    }

    /// The pages of a logical block from place `from` on.
    pub(super) fn homes(&self, logical: LogicalBlock, from: u32) -> impl Iterator<Item = Home> + use<> {
        let pages = self.space.pages_of(logical);
        let start = pages.start;
        (from..each(pages).len() as u32).map(move |offset| Home { lpn: start.offset(offset), logical, offset })
    }

    /// Copies the newest versions from place `from` on to their places in `target`; returns their number.
    fn copy_live(&mut self, logical: LogicalBlock, from: u32, target: FlashBlock) -> Result<u64, PowerLost> {
        let mut moved = 0;
        for home in self.homes(logical, from) {
            if let Some(source) = self.locate(home) {
                let version = self.flash.read(source)?;
                self.flash.program(target, home.offset, Area::InPlace(home.lpn), version)?;
                moved += 1;
            }
        }
        self.forget_logged(logical, from);
        self.counters.moved_pages += moved;
        Ok(moved)
    }

    /// Notes that the random log has no newest version of the pages from place `from` on.
    fn forget_logged(&mut self, logical: LogicalBlock, from: u32) {
        self.homes(logical, from).for_each(|home| self.log[home.lpn.index()] = IN_PLACE);
    }

    fn replace_data(&mut self, logical: LogicalBlock, block: Option<FlashBlock>) -> Result<(), PowerLost> {
        let before = std::mem::replace(&mut self.data[logical.index()], block);
        before.map_or(Ok(()), |block| self.erase(block))
    }

    /// Empties and erases the oldest block of the random log.
    pub(super) fn empty_oldest(&mut self) -> Result<(), PowerLost> {
        let victim = *self.random.front().expect("a full log has an oldest block");
        if self.rules.supersedes_before_erase() {
            self.flash.filled_pages(victim).try_for_each(|page| self.supersede(page))?;
        }
        self.random.pop_front();
        self.erase(victim)
    }

    /// Merges the logical blocks that still need a page of the random log, so that its block can be erased.
    fn supersede(&mut self, page: Ppn) -> Result<(), PowerLost> {
        match self.flash.area(page) {
            Area::Logged(lpn) if self.log[lpn.index()].page() == Some(page) => self.merge(self.home(lpn).logical),
            Area::Trim => self.supersede_trim(page),
            _ => Ok(()),
        }
    }

    /// Merges each logical block in which the trim of this record left an older version.
    fn supersede_trim(&mut self, page: Ppn) -> Result<(), PowerLost> {
        let (trimmed, version) = (self.flash.record(page), self.flash.version(page));
        for logical in each(LogicalBlock::touched(&trimmed, self.space.block_pages)) {
            let named = |home: &Home| trimmed.contains(&home.lpn);
            if self.homes(logical, 0).filter(named).any(|home| self.is_older_at_home(home, version)) {
                onewrite_block::reached!("FAST: merge for a TRIM record");
                self.merge(logical)?;
            }
        }
        Ok(())
    }

    /// Whether the sequential or the data block holds a version of a page older than `version`.
    fn is_older_at_home(&self, home: Home, version: u64) -> bool {
        let sequential = self.sequential.filter(|open| open.logical == home.logical).map(|open| open.block);
        let data = self.data[home.logical.index()];
        sequential.into_iter().chain(data).any(|block| {
            let page = self.flash.page(block, home.offset);
            self.flash.holds(page, Area::InPlace(home.lpn)) && self.flash.version(page) < version
        })
    }
}
