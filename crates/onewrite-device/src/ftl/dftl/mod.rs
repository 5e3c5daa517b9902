//! DFTL: a page-level translation layer. Its map is on flash in translation pages; a bounded cache holds some of its
//! entries.
//!
//! ```text
//!   look-up ─► cache of entries (bytes bounded, LRU) ── missed ─► directory ─► translation page (a read)
//!                 └─ evicted dirty ─► its translation page anew, with all dirty entries of it (a read, a program)
//!   write   ─► data page, its area names it; the entry in the cache turns dirty, nothing else (lazy indexing)
//!   trim    ─► the translation pages of its range, at once
//! ```
//!
//! A *group* is the run of logical pages that one translation page maps. Garbage collection is greedy over data and
//! translation blocks. If the entry of a moved page is cached, it changes there. Other moved pages change their
//! translation pages, one program for each. FLUSH has no work: after a cut, the areas of pages newer than their
//! translation page replace the lost cache (PFTL's inverted index).
//!
//! Invariants, verified by [`Dftl::check`]:
//! 1. The cached entry is the map's entry. Without one it is the entry of the translation page; a clean entry equals
//!    that.
//! 2. A flash page is valid if and only if the map or the directory names it; blocks count their valid pages.
//! 3. A translation page holds the map at the time of its write: no translation page is written between the program of
//!    a data page and the change of its entry. So if a page is older than a translation page that does not name it, the
//!    page was trimmed, or a newer page superseded it.
//! 4. Free blocks suffice for a collection in which each moved page costs a translation page: [`FREE_BLOCKS_MIN`].
//!
//! Memory of the controller besides the cache: the directory, a valid bit for each flash page, counts of blocks.
//!
//! Sources: Gupta et al., "DFTL", ASPLOS 2009 (plain LRU here, segmented LRU there); `papers/002` §5.1 (PFTL: DFTL's
//! cache, lazy indexing). Neither describes recovery; this one is our design.

mod cache;
mod check;
mod collect;
mod recover;

use std::ops::Range;
use std::sync::Arc;

use super::counters::FtlCounters;
use super::flash::PowerLost;
use super::flash::{Area, Flash};
use super::layer::{Ftl, FtlPlan};
use super::rules::{FtlRules, SoundFtl};
use crate::address::{FlashBlock, Lpn, MapEntry, Ppn, each};
use crate::ssd::blocks::{BlockCounts, Blocks};
use crate::ssd::mapping::Record;
use cache::MapCache;

/// Entries in a translation page: 4 KiB of 4 bytes each.
const GROUP: u32 = 1024;
/// Collection starts below this number of free blocks: one for each stream, and two more for one collection.
const FREE_BLOCKS_MIN: usize = 5;
/// Bits of the version in the out-of-band area that count a page's moves. Of two copies the later one wins.
const MOVES_BITS: u32 = 8;
const MOVES: u64 = (1 << MOVES_BITS) - 1;

/// How a DFTL device is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DftlPlan {
    /// Flash and host space; translation pages lie in the spare blocks.
    pub space: FtlPlan,
    /// Bytes of the mapping cache; [`DftlPlan::ENTRY_BYTES`] for each entry.
    pub cache_bytes: u64,
}

/// The streams; each has its own block.
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
    directory: Vec<MapEntry>,
    cache: MapCache,
    /// The block of each stream.
    open: [Option<FlashBlock>; 3],
    version: u64,
    counters: FtlCounters,
    rules: Arc<dyn FtlRules>,
}

impl DftlPlan {
    /// Bytes of an entry in the cache: a logical page and a flash page.
    pub const ENTRY_BYTES: u64 = 8;

    /// Fewest spare blocks for `logical_pages` in blocks of `block_pages`: twice the map, and the working blocks.
    pub fn spare_blocks_min(logical_pages: u32, block_pages: u32) -> u32 {
        2 * logical_pages.div_ceil(GROUP).div_ceil(block_pages) + FREE_BLOCKS_MIN as u32 + 3
    }
}

impl Dftl {
    /// A blank device.
    ///
    /// # Panics
    /// If there are fewer spare blocks than [`DftlPlan::spare_blocks_min`], the cache holds no entry, or the host sees
    /// more than [`FtlPlan::LOGICAL_PAGES_MAX`].
    pub fn new(plan: DftlPlan) -> Dftl {
        let space = plan.space;
        let least = DftlPlan::spare_blocks_min(space.logical_pages, space.block_pages);
        assert!(space.spare_blocks >= least, "{} spare blocks; {least} are needed", space.spare_blocks);
        assert!(space.logical_pages <= FtlPlan::LOGICAL_PAGES_MAX, "{} pages", space.logical_pages);
        Dftl::on(plan, Flash::new(space.blocks(), space.block_pages))
    }

    /// A device on the first blocks of a blank flash; the others belong to somebody else.
    ///
    /// # Panics
    /// As [`Dftl::new`].
    pub(super) fn on(plan: DftlPlan, flash: Flash) -> Dftl {
        let space = plan.space;
        let flash = flash.with_entries(space.logical_pages);
        Dftl {
            blocks: Blocks::new(block_counts(&space)),
            valid: vec![0; (space.blocks() as usize * space.block_pages as usize).div_ceil(64)],
            directory: vec![MapEntry::NONE; space.logical_pages.div_ceil(GROUP) as usize],
            cache: MapCache::new(space.logical_pages, (plan.cache_bytes / DftlPlan::ENTRY_BYTES) as usize),
            open: [None; 3],
            flash,
            space,
            version: 0,
            counters: FtlCounters::default(),
            rules: Arc::new(SoundFtl),
        }
    }

    /// The same device with other rules; for tests that break one.
    pub fn with_rules(self, rules: Arc<dyn FtlRules>) -> Dftl {
        Dftl { rules, ..self }
    }

    #[inline]
    fn is_valid(&self, page: Ppn) -> bool {
        self.valid[page.index() / 64] >> (page.index() % 64) & 1 == 1
    }

    #[inline]
    fn validate(&mut self, page: Ppn) {
        self.valid[page.index() / 64] |= 1 << (page.index() % 64);
        self.blocks.gain(self.flash.block(page));
    }

    #[inline]
    fn invalidate(&mut self, page: Ppn) {
        self.valid[page.index() / 64] &= !(1 << (page.index() % 64));
        self.blocks.lose(self.flash.block(page));
    }

    /// Invalidates the flash page of an entry, if it names one.
    #[inline]
    fn supersede(&mut self, entry: MapEntry) {
        if let Some(page) = entry.page() {
            self.invalidate(page);
        }
    }

    /// The stamp of the next page that is written.
    pub(super) fn next_stamp(&mut self) -> u64 {
        self.version += 1;
        self.version << MOVES_BITS
    }

    /// Later stamps are higher than this one of a page in somebody else's block.
    pub(super) fn pass_stamp(&mut self, stamp: u64) {
        self.version = self.version.max(stamp >> MOVES_BITS);
    }

    /// Counts a page of the host in somebody else's block.
    pub(super) fn count_write(&mut self) {
        self.counters.host_writes += 1;
    }

    /// Counts a page that was moved in somebody else's block.
    pub(super) fn count_move(&mut self) {
        self.counters.moved_pages += 1;
    }

    /// The group of a page.
    #[inline]
    fn group(lpn: Lpn) -> u32 {
        lpn.0 / GROUP
    }

    /// The pages of a group.
    fn members(&self, group: u32) -> Range<Lpn> {
        Lpn(group * GROUP)..Lpn(self.space.logical_pages.min((group + 1) * GROUP))
    }

    /// Programs a page in a stream's block and returns its number.
    #[inline]
    fn append(&mut self, stream: Stream, area: Area, stamp: u64) -> Result<Ppn, PowerLost> {
        let block = match self.open[stream as usize] {
            Some(block) if self.flash.filled(block) < self.space.block_pages => block,
            full => self.next_block(stream, full),
        };
        let offset = self.flash.filled(block);
        self.flash.program(block, offset, area, stamp)?;
        Ok(self.flash.page(block, offset))
    }

    /// Takes the least worn free block for a stream and closes its full block.
    fn next_block(&mut self, stream: Stream, full: Option<FlashBlock>) -> FlashBlock {
        if let Some(full) = full {
            self.blocks.close(full);
        }
        let worn = self.flash.erase_counts();
        let block = self.blocks.take_free(0, |block| worn[block.index()]).expect("collection keeps free blocks");
        self.open[stream as usize] = Some(block);
        block
    }

    /// The map's entry of a page; it is in the cache from now on.
    fn look_up(&mut self, lpn: Lpn) -> Result<MapEntry, PowerLost> {
        if let Some(entry) = self.cache.touch(lpn) {
            self.counters.map_hits += 1;
            return Ok(entry);
        }
        self.counters.map_misses += 1;
        while self.cache.is_full() {
            self.evict()?;
        }
        if let Some(translation) = self.directory[Dftl::group(lpn) as usize].page() {
            self.flash.read(translation)?;
            self.counters.map_reads += 1;
        }
        let entry = self.flash.entry(lpn);
        self.cache.insert(lpn, entry);
        Ok(entry)
    }

    fn evict(&mut self) -> Result<(), PowerLost> {
        let lpn = self.cache.oldest().expect("a full cache has an oldest entry");
        if self.cache.is_dirty(lpn) {
            onewrite_block::reached!("DFTL: dirty entry leaves the cache");
            self.write_group(Dftl::group(lpn), &[])?;
        }
        self.cache.remove(lpn);
        Ok(())
    }

    /// Writes a group's translation page again with the `changed` entries and the dirty entries of the cache. These are
    /// clean then.
    fn write_group(&mut self, group: u32, changed: &[Record]) -> Result<(), PowerLost> {
        let before = self.directory[group as usize];
        if let Some(before) = before.page() {
            self.flash.read(before)?;
            self.counters.map_reads += 1;
        }
        let stamp = self.next_stamp();
        let programmed = self.append(Stream::Map, Area::Map(group), stamp);
        let block = self.open[Stream::Map as usize].expect("the stream has its block");
        let last = self.flash.page(block, self.flash.filled(block).max(1) - 1);
        if self.flash.holds(last, Area::Map(group)) && self.flash.version(last) == stamp {
            self.fill_group(group, changed);
        }
        let page = programmed?;
        self.counters.map_programs += 1;
        self.supersede(before);
        self.validate(page);
        self.directory[group as usize] = MapEntry::at(page);
        Ok(())
    }

    /// Sets the entries of the translation page that is now on flash, even if the power failed at its program.
    fn fill_group(&mut self, group: u32, changed: &[Record]) {
        for lpn in each(self.members(group)) {
            if let Some(entry) = self.cache.clean(lpn) {
                self.flash.set_entry(lpn, entry);
            }
        }
        changed.iter().for_each(|record| self.flash.set_entry(record.lpn, record.entry));
    }

    /// The map's entry of a page, from the cache or from flash.
    fn entry(&self, lpn: Lpn) -> MapEntry {
        self.cache.get(lpn).unwrap_or_else(|| self.flash.entry(lpn))
    }

    /// Drops the pages that are in a group.
    fn trim_group(&mut self, group: u32, pages: &Range<Lpn>) -> Result<(), PowerLost> {
        let members = self.members(group);
        let range = members.start.max(pages.start)..members.end.min(pages.end);
        let is_mapped = |lpn: &Lpn| self.entry(*lpn) != MapEntry::NONE;
        let dropped = |lpn| Record { lpn, entry: MapEntry::NONE };
        let mapped: Vec<Record> = each(range).filter(is_mapped).map(dropped).collect();
        if mapped.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        for Record { lpn, .. } in &mapped {
            self.supersede(self.entry(*lpn));
            self.cache.drop_entry(*lpn);
        }
        self.write_group(group, &mapped)
    }
}

impl Ftl for Dftl {
    #[inline]
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost> {
        self.make_room()?;
        let before = self.look_up(lpn)?;
        let stamp = self.next_stamp();
        let page = self.append(Stream::Host, Area::Logged(lpn), stamp)?;
        self.cache.set(lpn, MapEntry::at(page));
        self.supersede(before);
        self.validate(page);
        self.counters.host_writes += 1;
        Ok(self.version)
    }

    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost> {
        self.make_room()?;
        let entry = self.look_up(lpn)?;
        self.counters.host_reads += 1;
        let found = entry.page().map(|page| self.flash.read(page)).transpose()?;
        Ok(found.map(|stamp| stamp >> MOVES_BITS))
    }

    fn trim(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        self.space.assert_within(&pages);
        let groups = Dftl::group(pages.start)..pages.end.0.div_ceil(GROUP);
        groups.into_iter().try_for_each(|group| self.trim_group(group, &pages))?;
        self.counters.host_trims += each(pages).len() as u64;
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
        each(self.space.logical_range()).filter(|lpn| self.entry(*lpn) != MapEntry::NONE).count() as u64
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

/// The blocks of the flash, as if on one die.
fn block_counts(space: &FtlPlan) -> BlockCounts {
    BlockCounts { blocks: space.blocks(), dies: 1, pages_per_block: space.block_pages }
}
