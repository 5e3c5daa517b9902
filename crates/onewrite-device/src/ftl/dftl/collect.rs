//! Garbage collection: takes the block with the fewest valid pages, a data block or a translation block.

use super::{Dftl, FREE_BLOCKS_MIN, MOVES, Stream};
use crate::address::{FlashBlock, MapEntry, Ppn};
use crate::ftl::flash::{Area, PowerLost};
use crate::ssd::mapping::Record;

impl Dftl {
    /// Collects until there are enough free blocks for the next operation.
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
        for page in self.flash.filled_pages(victim) {
            if self.is_valid(page) {
                self.carry(page, &mut uncached)?;
            }
        }
        self.map_moved(uncached)?;
        self.flash.erase(victim)?;
        self.blocks.release(victim);
        Ok(())
    }

    /// Moves a page. If it is a data page without a cached entry, its new place goes to `uncached`.
    fn carry(&mut self, source: Ppn, uncached: &mut Vec<Record>) -> Result<(), PowerLost> {
        let stamp = self.flash.read(source)?;
        let stamp = if stamp & MOVES == MOVES { stamp } else { stamp + 1 };
        let area = self.flash.area(source);
        let stream = if matches!(area, Area::Map(_)) { Stream::Map } else { Stream::Moved };
        let target = self.append(stream, area, stamp)?;
        self.invalidate(source);
        self.validate(target);
        match area {
            Area::Map(group) => {
                onewrite_block::reached!("DFTL: translation page moved");
                self.directory[group as usize] = MapEntry::at(target);
                self.counters.map_reads += 1;
                self.counters.map_programs += 1;
            }
            Area::Logged(lpn) => {
                self.counters.moved_pages += 1;
                let entry = MapEntry::at(target);
                match self.cache.get(lpn) {
                    Some(_) => self.cache.set(lpn, entry),
                    None => uncached.push(Record { lpn, entry }),
                }
            }
            other => unreachable!("a valid page holds {other:?}"),
        }
        Ok(())
    }

    /// Writes moved pages into their translation pages, one program for each translation page.
    fn map_moved(&mut self, mut uncached: Vec<Record>) -> Result<(), PowerLost> {
        uncached.sort_unstable();
        for changed in uncached.chunk_by(|one, next| Dftl::group(one.lpn) == Dftl::group(next.lpn)) {
            onewrite_block::reached!("DFTL: page moved whose entry is not cached");
            self.write_group(Dftl::group(changed[0].lpn), changed)?;
        }
        Ok(())
    }

    /// Whether a block belongs to a stream.
    pub(super) fn is_open(&self, block: FlashBlock) -> bool {
        self.open.contains(&Some(block))
    }
}
