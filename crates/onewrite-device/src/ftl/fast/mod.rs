//! FAST: a hybrid translation layer. A block map for logical blocks, a page map for a log of blocks.
//!
//! ```text
//!   write of a page ─┬─ beyond what its data block holds ───────────────► in place
//!                    ├─ first page of a block, or next of the one there ► sequential log block ─┬─ full: switch merge
//!                    │                                                                          └─ left: partial merge
//!                    └─ any other ─────────────────────────────────────► random log blocks ──── oldest: full merges
//! ```
//!
//! A write to the first page of a block starts a new sequential log block; a write that breaks its stream closes it. A
//! *switch* makes it the data block without a copy. A *partial merge* first copies the remaining pages into it. A *full
//! merge* gathers a new data block from the old one and all log blocks. When the random log blocks are full, the oldest
//! is emptied: each block with a valid page in it gets a full merge. All blocks share the random log blocks: fully
//! associative.
//!
//! Invariants, verified by [`Fast::check`]:
//! 1. A block is free, a data block, the sequential one, or in the random log, and only one of these.
//! 2. `log[lpn]` is the page of the random log with the newest version of `lpn`. Or it is [`IN_PLACE`]: the newest
//!    version, if any, is at its own place in the sequential or data block of its logical block. Or it is [`TRIMMED`].
//! 3. While a logical block has the sequential block, no page there has a newer version elsewhere.
//! 4. Free, sequential and random blocks together never exceed the spare ones. So a merge always finds a free block.
//! 5. The record of a trim is in the random log until no older version is on flash.
//!
//! The paper does not say three things. Here pages of a data block are programmed in ascending order only (flash with
//! several bits in a cell demands it), so a write below its end counts as a collision. A trim leaves a record in the
//! random log. All spare blocks except two are log blocks unless the plan says less. SHARE is refused, because a data
//! block has one place for a page.
//!
//! Source: Lee et al., "A log buffer-based flash translation layer using fully-associative sector translation", ACM
//! TECS 6(3), 2007; dissertation §2.2.

mod check;
mod merge;
mod recover;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::counters::FtlCounters;
use super::flash::PowerLost;
use super::flash::{Area, Flash};
use super::layer::{Ftl, FtlPlan};
use super::rules::{FtlRules, SoundFtl};
use crate::address::{FlashBlock, LogicalBlock, Lpn, MapEntry, Ppn, each, indices};

/// Not in the random log: the newest version, if any, is at its own place.
const IN_PLACE: MapEntry = MapEntry::NONE;
/// Not in the random log: trimmed; an older version may be at its own place.
const TRIMMED: MapEntry = MapEntry::MARK;

/// How a FAST device is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPlan {
    /// Flash and host space.
    pub space: FtlPlan,
    /// Most random log blocks; `None` for all spare blocks except the sequential one and the one that merges need.
    pub random_blocks: Option<u32>,
}

/// The sequential log block.
#[derive(Clone, Copy, Debug)]
struct Sequential {
    /// The logical block of its pages.
    logical: LogicalBlock,
    block: FlashBlock,
    filled: u32,
}

/// A page of the host, its logical block and its place there.
#[derive(Clone, Copy, Debug)]
struct Home {
    lpn: Lpn,
    logical: LogicalBlock,
    offset: u32,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Fast {
    flash: Flash,
    space: FtlPlan,
    random_max: usize,
    /// Data block of each logical block.
    data: Vec<Option<FlashBlock>>,
    /// The place of the newest version of each page.
    log: Vec<MapEntry>,
    sequential: Option<Sequential>,
    random: VecDeque<FlashBlock>,
    free: VecDeque<FlashBlock>,
    version: u64,
    counters: FtlCounters,
    rules: Arc<dyn FtlRules>,
}

impl FastPlan {
    /// Fewest spare blocks for FAST: a random log block, the sequential one, and one for merges.
    pub(crate) const SPARE_BLOCKS_MIN: u32 = 3;

    /// Most random log blocks that the spare blocks of `space` allow.
    pub(crate) const fn random_blocks_max(space: &FtlPlan) -> u32 {
        space.spare_blocks - 2
    }

    fn random_max(&self) -> u32 {
        let most = FastPlan::random_blocks_max(&self.space);
        self.random_blocks.map_or(most, |blocks| blocks.clamp(1, most))
    }
}

impl Fast {
    /// A blank device.
    ///
    /// # Panics
    /// If there are fewer spare blocks than [`FastPlan::SPARE_BLOCKS_MIN`], blocks have fewer than two pages, or the
    /// host sees more than [`FtlPlan::LOGICAL_PAGES_MAX`].
    pub fn new(plan: FastPlan) -> Fast {
        let space = plan.space;
        assert!(
            space.spare_blocks >= FastPlan::SPARE_BLOCKS_MIN,
            "{} spare blocks; three are needed",
            space.spare_blocks
        );
        assert!(space.block_pages >= 2, "a block of {} pages", space.block_pages);
        assert!(space.logical_pages <= FtlPlan::LOGICAL_PAGES_MAX, "{} pages", space.logical_pages);
        Fast {
            flash: Flash::new(space.blocks(), space.block_pages),
            space,
            random_max: plan.random_max() as usize,
            data: vec![None; space.data_blocks() as usize],
            log: vec![IN_PLACE; space.logical_pages as usize],
            sequential: None,
            random: VecDeque::new(),
            free: each(space.block_range()).collect(),
            version: 0,
            counters: FtlCounters::default(),
            rules: Arc::new(SoundFtl),
        }
    }

    /// The same device with other rules; for tests that break one.
    pub fn with_rules(self, rules: Arc<dyn FtlRules>) -> Fast {
        Fast { rules, ..self }
    }

    fn home(&self, lpn: Lpn) -> Home {
        let (logical, offset) = self.space.place(lpn);
        Home { lpn, logical, offset }
    }

    /// The flash page of the newest version.
    #[inline]
    fn locate(&self, home: Home) -> Option<Ppn> {
        match self.log[home.lpn.index()] {
            IN_PLACE => self.at_home(home),
            logged => logged.page(),
        }
    }

    /// The flash page at the page's own place, in the sequential block or in the data block.
    #[inline]
    fn at_home(&self, home: Home) -> Option<Ppn> {
        let sequential = self.sequential.filter(|open| open.logical == home.logical && home.offset < open.filled);
        let block = sequential.map_or(self.data[home.logical.index()], |open| Some(open.block))?;
        let page = self.flash.page(block, home.offset);
        self.flash.holds(page, Area::InPlace(home.lpn)).then_some(page)
    }

    fn take_free(&mut self) -> FlashBlock {
        self.free.pop_front().expect("spare blocks leave a free one")
    }

    fn erase(&mut self, block: FlashBlock) -> Result<(), PowerLost> {
        self.flash.erase(block)?;
        self.free.push_back(block);
        Ok(())
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Whether a write can go straight to the data block.
    fn is_beyond_data(&self, home: Home) -> bool {
        let block = self.data[home.logical.index()];
        let is_open = self.sequential.is_some_and(|open| open.logical == home.logical);
        !is_open && block.is_none_or(|block| home.offset >= self.flash.filled(block))
    }

    fn write_data(&mut self, home: Home) -> Result<(), PowerLost> {
        let block = match self.data[home.logical.index()] {
            Some(block) => block,
            None => {
                let block = self.take_free();
                self.data[home.logical.index()] = Some(block);
                block
            }
        };
        let version = self.next_version();
        self.flash.program(block, home.offset, Area::InPlace(home.lpn), version)?;
        self.log[home.lpn.index()] = IN_PLACE;
        Ok(())
    }

    fn write_log(&mut self, home: Home) -> Result<(), PowerLost> {
        if home.offset == 0 {
            self.close_sequential()?;
            let block = self.take_free();
            self.sequential = Some(Sequential { logical: home.logical, block, filled: 0 });
            return self.append_sequential(home);
        }
        match self.sequential.filter(|open| open.logical == home.logical) {
            Some(open) if open.filled == home.offset => self.append_sequential(home),
            Some(_) => {
                self.close_sequential()?;
                self.place(home)
            }
            None => self.append_random(home),
        }
    }

    /// Chooses where a write goes.
    fn place(&mut self, home: Home) -> Result<(), PowerLost> {
        if self.is_beyond_data(home) { self.write_data(home) } else { self.write_log(home) }
    }

    fn append_sequential(&mut self, home: Home) -> Result<(), PowerLost> {
        let version = self.next_version();
        let open = self.sequential.as_mut().expect("the sequential block is open");
        self.flash.program(open.block, home.offset, Area::InPlace(home.lpn), version)?;
        open.filled = home.offset + 1;
        self.log[home.lpn.index()] = IN_PLACE;
        if home.offset + 1 == self.space.block_pages {
            self.close_sequential()?;
        }
        Ok(())
    }

    fn append_random(&mut self, home: Home) -> Result<(), PowerLost> {
        let (block, offset) = self.random_place()?;
        let version = self.next_version();
        self.flash.program(block, offset, Area::Logged(home.lpn), version)?;
        self.log[home.lpn.index()] = MapEntry::at(self.flash.page(block, offset));
        Ok(())
    }

    /// The next page of the random log.
    #[inline]
    fn random_place(&mut self) -> Result<(FlashBlock, u32), PowerLost> {
        if let Some(block) =
            self.random.back().copied().filter(|block| self.flash.filled(*block) < self.space.block_pages)
        {
            return Ok((block, self.flash.filled(block)));
        }
        while self.random.len() >= self.random_max {
            onewrite_block::reached!("FAST: log full");
            self.empty_oldest()?;
        }
        let block = self.take_free();
        self.random.push_back(block);
        Ok((block, 0))
    }

    fn drop_pages(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        if !each(pages.clone()).any(|lpn| self.locate(self.home(lpn)).is_some()) {
            return Ok(());
        }
        let (block, offset) = self.random_place()?;
        let version = self.next_version();
        let trimmed = indices(&pages);
        self.flash.program_record(block, offset, pages, version)?;
        self.counters.map_programs += 1;
        self.log[trimmed].fill(TRIMMED);
        Ok(())
    }
}

impl Ftl for Fast {
    #[inline]
    fn write(&mut self, lpn: Lpn) -> Result<u64, PowerLost> {
        let home = self.home(lpn);
        self.place(home)?;
        self.counters.host_writes += 1;
        Ok(self.version)
    }

    fn read(&mut self, lpn: Lpn) -> Result<Option<u64>, PowerLost> {
        let found = self.locate(self.home(lpn));
        self.counters.host_reads += 1;
        found.map(|page| self.flash.read(page)).transpose()
    }

    fn trim(&mut self, pages: Range<Lpn>) -> Result<(), PowerLost> {
        self.space.assert_within(&pages);
        let count = each(pages.clone()).len();
        self.drop_pages(pages)?;
        self.counters.host_trims += count as u64;
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

    fn mapped_pages(&self) -> u64 {
        each(self.space.logical_range()).filter(|lpn| self.locate(self.home(*lpn)).is_some()).count() as u64
    }

    fn log_pages(&self) -> Option<u32> {
        Some(self.random_max as u32 * self.space.block_pages)
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
