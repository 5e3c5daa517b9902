//! Garbage collection: the block with the fewest valid pages, of data or of translation pages.

use super::{Area, Dftl, FREE_BLOCKS_MIN, GROUP, MOVES, NONE, PowerLost, Stream};

impl Dftl {
    /// Collects until there are free blocks enough for the next operation.
    #[inline]
    pub(super) fn make_room(&mut self) -> Result<(), PowerLost> {
        while self.blocks.free(0).len() < FREE_BLOCKS_MIN {
            self.collect()?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), PowerLost> {
        let victim = self.blocks.fewest_valid(0).expect("spare blocks leave something to collect");
        self.blocks.choose(victim);
        let mut uncached = Vec::new();
        for offset in 0..self.flash.filled(victim) {
            let page = self.flash.page(victim, offset);
            if self.is_valid(page) {
                self.carry(page, &mut uncached)?;
            }
        }
        self.settle(uncached)?;
        self.flash.erase(victim)?;
        self.blocks.release(victim);
        Ok(())
    }

    /// Moves a page; the new place of a data page without a cached entry goes to `uncached`.
    fn carry(&mut self, source: u32, uncached: &mut Vec<(u32, u32)>) -> Result<(), PowerLost> {
        let stamp = self.flash.read(source)?;
        let stamp = if stamp & MOVES == MOVES { stamp } else { stamp + 1 };
        let area = self.flash.area(source);
        let stream = if matches!(area, Area::Map(_)) { Stream::Map } else { Stream::Moved };
        let target = self.append(stream, area, stamp)?;
        self.invalidate(source);
        self.validate(target);
        match area {
            Area::Map(group) => {
                self.directory[group as usize] = target;
                self.counters.map_reads += 1;
                self.counters.map_programs += 1;
            }
            Area::Logged(lpn) => {
                self.counters.moved_pages += 1;
                match self.cache.get(lpn) {
                    Some(_) => self.cache.set(lpn, target),
                    None => uncached.push((lpn, target)),
                }
            }
            other => unreachable!("a valid page holds {other:?}"),
        }
        Ok(())
    }

    /// Puts moved pages into their translation pages, one program for each.
    fn settle(&mut self, mut uncached: Vec<(u32, u32)>) -> Result<(), PowerLost> {
        uncached.sort_unstable();
        for changed in uncached.chunk_by(|one, next| one.0 / GROUP == next.0 / GROUP) {
            self.write_group(changed[0].0 / GROUP, changed)?;
        }
        Ok(())
    }

    /// Whether a block is one of the streams'.
    pub(super) fn is_open(&self, block: u32) -> bool {
        block != NONE && self.open.contains(&block)
    }
}
