//! DFTL: a page-level translation layer whose map lies on flash, in translation pages, of which a bounded cache holds entries.
//!
//! ```text
//!   look-up ─► cache of entries (bytes bounded, LRU) ── missed ─► directory ─► translation page (a read)
//!                 └─ evicted dirty ─► its translation page anew, with all dirty entries of that page (a read, a program)
//!   write   ─► data page, its area names it; the entry in the cache turns dirty, nothing else (lazy indexing)
//!   trim    ─► the translation pages of its range, at once
//! ```
//!
//! A *group* is the neighbours that one translation page maps. Garbage collection is greedy over data and translation blocks.
//! Moved pages whose entries are cached change there; the others change their translation pages, one program for each.
//! FLUSH has nothing to do: after a cut, the areas of pages that are newer than their translation page make up for what
//! the cache had (PFTL's inverted index).
//!
//! Invariants, verified by [`Dftl::check`]:
//! 1. The map is the cache's entry where there is one, else that of the translation page. A clean entry equals it.
//! 2. A flash page is valid exactly if the map or the directory names it; blocks count their valid pages.
//! 3. A translation page says what the map was when it was written: between a data page's program and the change of its
//!    entry no translation page is written. So a page that is older than one that does not name it has been trimmed, or is
//!    superseded by a newer page.
//! 4. Free blocks suffice for a collection in which each moved page costs a translation page: [`FREE_BLOCKS_MIN`].
//!
//! The controller's memory besides the cache: directory, a bit for each flash page (valid), counts of blocks.
//!
//! Sources: Gupta et al., "DFTL", ASPLOS 2009 (plain LRU here, segmented there); `papers/002` §5.1 (PFTL: DFTL's cache,
//! lazy indexing). Recovery is ours: neither says how.

mod cache;
mod check;
mod collect;
mod recover;

use std::sync::Arc;

use super::counters::FtlCounters;
use super::flash::{Area, Flash};
use super::rules::{FtlRules, SoundFtl};
use super::{Ftl, FtlPlan, NONE, PowerLost};
use crate::ssd::blocks::Blocks;
use cache::MapCache;

/// Entries in a translation page: 4 KiB of 4 bytes each.
const GROUP: u32 = 1024;
/// Collection begins below so many free blocks: one for each stream, two for what one collection may take in excess.
const FREE_BLOCKS_MIN: usize = 5;
/// A page's version in the out-of-band area stands above so many bits that count its moves, so that of two copies the later wins.
const MOVES_BITS: u32 = 8;
const MOVES: u64 = (1 << MOVES_BITS) - 1;

/// How a DFTL device is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DftlPlan {
    /// Flash and host space; translation pages lie in the spare blocks.
    pub space: FtlPlan,
    /// Bytes of the mapping cache; an entry takes [`DftlPlan::ENTRY_BYTES`].
    pub cache_bytes: u64,
}

/// Which block takes a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Host,
    Moved,
    Map,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Dftl {
    flash: Flash,
    space: FtlPlan,
    blocks: Blocks,
    /// One bit for each flash page.
    valid: Vec<u64>,
    /// Newest translation page of each group.
    directory: Vec<u32>,
    cache: MapCache,
    /// Block of each stream.
    open: [u32; 3],
    version: u64,
    counters: FtlCounters,
    rules: Arc<dyn FtlRules>,
}

impl DftlPlan {
    /// Bytes of an entry in the cache: a logical page and a flash page.
    pub const ENTRY_BYTES: u64 = 8;

    /// Spare blocks that `logical_pages` need at least in blocks of `block_pages`: twice the map, and those to work with.
    pub fn spare_blocks_min(logical_pages: u32, block_pages: u32) -> u32 {
        2 * logical_pages.div_ceil(GROUP).div_ceil(block_pages) + FREE_BLOCKS_MIN as u32 + 3
    }
}

impl Dftl {
    /// A blank device.
    ///
    /// # Panics
    /// If there are fewer spare blocks than [`DftlPlan::spare_blocks_min`], the cache holds no entry, or the host sees more
    /// than [`FtlPlan::LOGICAL_PAGES_MAX`].
    pub fn new(plan: DftlPlan) -> Dftl {
        let space = plan.space;
        let least = DftlPlan::spare_blocks_min(space.logical_pages, space.block_pages);
        assert!(space.spare_blocks >= least, "{} spare blocks; {least} are needed", space.spare_blocks);
        assert!(space.logical_pages <= FtlPlan::LOGICAL_PAGES_MAX, "{} pages", space.logical_pages);
        let flash = Flash::new(space.blocks(), space.block_pages).with_entries(space.logical_pages);
        Dftl {
            blocks: Blocks::new(space.blocks(), 1, space.block_pages),
            valid: vec![0; (space.blocks() as usize * space.block_pages as usize).div_ceil(64)],
            directory: vec![NONE; space.logical_pages.div_ceil(GROUP) as usize],
            cache: MapCache::new(space.logical_pages, (plan.cache_bytes / DftlPlan::ENTRY_BYTES) as usize),
            open: [NONE; 3],
            flash,
            space,
            version: 0,
            counters: FtlCounters::default(),
            rules: Arc::new(SoundFtl),
        }
    }

    /// The same device by other rules; for tests that break one.
    pub fn with_rules(self, rules: Arc<dyn FtlRules>) -> Dftl {
        Dftl { rules, ..self }
    }

    #[inline]
    fn is_valid(&self, page: u32) -> bool {
        self.valid[page as usize / 64] >> (page % 64) & 1 == 1
    }

    #[inline]
    fn validate(&mut self, page: u32) {
        self.valid[page as usize / 64] |= 1 << (page % 64);
        self.blocks.gain(self.flash.place(page).0);
    }

    #[inline]
    fn invalidate(&mut self, page: u32) {
        if page != NONE {
            self.valid[page as usize / 64] &= !(1 << (page % 64));
            self.blocks.lose(self.flash.place(page).0);
        }
    }

    fn next_stamp(&mut self) -> u64 {
        self.version += 1;
        self.version << MOVES_BITS
    }

    /// The groups that a range of pages touches.
    fn groups(start: u32, end: u32) -> std::ops::Range<u32> {
        start / GROUP..end.div_ceil(GROUP)
    }

    /// The pages of a group.
    fn members(&self, group: u32) -> std::ops::Range<u32> {
        group * GROUP..self.space.logical_pages.min((group + 1) * GROUP)
    }

    /// Programs a page in a stream's block and gives its number.
    #[inline]
    fn append(&mut self, stream: Stream, area: Area, stamp: u64) -> Result<u32, PowerLost> {
        let mut block = self.open[stream as usize];
        if block == NONE || self.flash.filled(block) == self.space.block_pages {
            block = self.next_block(block);
            self.open[stream as usize] = block;
        }
        let offset = self.flash.filled(block);
        self.flash.program(block, offset, area, stamp)?;
        Ok(self.flash.page(block, offset))
    }

    /// The least worn free block in place of a full one.
    fn next_block(&mut self, full: u32) -> u32 {
        if full != NONE {
            self.blocks.close(full);
        }
        let worn = self.flash.erase_counts();
        self.blocks.take_free(0, |block| worn[block as usize]).expect("collection keeps free blocks")
    }

    /// The map's entry of a page, in the cache from now on.
    fn look_up(&mut self, lpn: u32) -> Result<u32, PowerLost> {
        if let Some(entry) = self.cache.touch(lpn) {
            self.counters.map_hits += 1;
            return Ok(entry);
        }
        self.counters.map_misses += 1;
        while self.cache.is_full() {
            self.evict()?;
        }
        let page = self.directory[(lpn / GROUP) as usize];
        if page != NONE {
            self.flash.read(page)?;
            self.counters.map_reads += 1;
        }
        let entry = self.flash.entry(lpn);
        self.cache.insert(lpn, entry);
        Ok(entry)
    }

    fn evict(&mut self) -> Result<(), PowerLost> {
        let lpn = self.cache.oldest().expect("a full cache has an oldest entry");
        if self.cache.is_dirty(lpn) {
            self.write_group(lpn / GROUP, &[])?;
        }
        self.cache.remove(lpn);
        Ok(())
    }

    /// Writes a group's translation page anew: with `changed` entries, and the dirty ones of the cache, which are clean then.
    fn write_group(&mut self, group: u32, changed: &[(u32, u32)]) -> Result<(), PowerLost> {
        let before = self.directory[group as usize];
        if before != NONE {
            self.flash.read(before)?;
            self.counters.map_reads += 1;
        }
        let stamp = self.next_stamp();
        let programmed = self.append(Stream::Map, Area::Map(group), stamp);
        let block = self.open[Stream::Map as usize];
        let last = self.flash.page(block, self.flash.filled(block).max(1) - 1);
        if self.flash.holds(last, Area::Map(group)) && self.flash.version(last) == stamp {
            self.fill_group(group, changed);
        }
        let page = programmed?;
        self.counters.map_programs += 1;
        self.invalidate(before);
        self.validate(page);
        self.directory[group as usize] = page;
        Ok(())
    }

    /// The content of the translation page that was just programmed, by the power that was lost or not.
    fn fill_group(&mut self, group: u32, changed: &[(u32, u32)]) {
        for lpn in self.members(group) {
            if let Some(entry) = self.cache.clean(lpn) {
                self.flash.set_entry(lpn, entry);
            }
        }
        changed.iter().for_each(|(lpn, entry)| self.flash.set_entry(*lpn, *entry));
    }

    /// The map's entry of a page, wherever it is.
    fn entry(&self, lpn: u32) -> u32 {
        self.cache.get(lpn).unwrap_or_else(|| self.flash.entry(lpn))
    }

    fn trim_group(&mut self, group: u32, start: u32, end: u32) -> Result<(), PowerLost> {
        let members = self.members(group);
        let range = members.start.max(start)..members.end.min(end);
        let mapped: Vec<(u32, u32)> = range.filter(|lpn| self.entry(*lpn) != NONE).map(|lpn| (lpn, NONE)).collect();
        if mapped.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        for (lpn, _) in &mapped {
            self.invalidate(self.entry(*lpn));
            self.cache.drop_entry(*lpn);
        }
        self.write_group(group, &mapped)
    }
}

impl Ftl for Dftl {
    #[inline]
    fn write(&mut self, lpn: u32) -> Result<u64, PowerLost> {
        self.make_room()?;
        let before = self.look_up(lpn)?;
        let stamp = self.next_stamp();
        let page = self.append(Stream::Host, Area::Logged(lpn), stamp)?;
        self.cache.set(lpn, page);
        self.invalidate(before);
        self.validate(page);
        self.counters.host_writes += 1;
        Ok(self.version)
    }

    fn read(&mut self, lpn: u32) -> Result<Option<u64>, PowerLost> {
        self.make_room()?;
        let page = self.look_up(lpn)?;
        self.counters.host_reads += 1;
        let found = (page != NONE).then(|| self.flash.read(page)).transpose()?;
        Ok(found.map(|stamp| stamp >> MOVES_BITS))
    }

    fn trim(&mut self, start: u32, count: u32) -> Result<(), PowerLost> {
        let end = self.space.end_of_trim(start, count);
        Dftl::groups(start, end).try_for_each(|group| self.trim_group(group, start, end))?;
        self.counters.host_trims += u64::from(count);
        Ok(())
    }

    fn recover(&mut self) -> Result<(), PowerLost> {
        self.rebuild()
    }

    fn flash(&self) -> &Flash {
        &self.flash
    }

    fn flash_mut(&mut self) -> &mut Flash {
        &mut self.flash
    }

    fn counters(&self) -> FtlCounters {
        FtlCounters { flash: self.flash.counters(), ..self.counters }
    }

    fn reset_counters(&mut self) {
        self.counters = FtlCounters::default();
        self.flash.reset_counters();
    }

    fn logical_pages(&self) -> u32 {
        self.space.logical_pages
    }

    fn version_of(&self, stamp: u64) -> u64 {
        stamp >> MOVES_BITS
    }

    fn mapped_pages(&self) -> u64 {
        (0..self.space.logical_pages).filter(|lpn| self.entry(*lpn) != NONE).count() as u64
    }

    fn set_rules(&mut self, rules: Arc<dyn FtlRules>) {
        self.rules = rules;
    }

    fn fork(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        self.verify()
    }
}
