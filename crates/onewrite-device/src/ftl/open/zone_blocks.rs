//! Zone blocks: the flash block of each zone, and the blank ones.
//!
//! A zone takes the least worn blank block at its first page, and gives it back erased at its reset, so all blocks wear
//! alike. There are more blocks than zones. If a program fails, the driver moves the zone's pages to another block and
//! retires the first; if an erase fails, it retires the block.
//!
//! ```text
//!   blank ──first page──► of a zone ──reset, erased──► blank
//!                            └──program or erase failed──► bad
//! ```
//!
//! Invariant: a block is blank, of one zone, or bad; there are as many that are not bad as zones, or more.

use std::collections::BTreeSet;

use crate::address::FlashBlock;
use crate::ssd::{MediumFaults, MediumOperation};

/// With fewer spare blocks the device takes no more writes into zones. What is under way may need the last one.
const SPARE_MIN: u32 = 2;
/// One spare block for as many zones, and [`SPARES_LEAST`] at least. A guess: makers promise 2% bad blocks at most.
const ZONES_PER_SPARE: u32 = 50;
const SPARES_LEAST: u32 = 6;

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct ZoneBlocks {
    of: Vec<Option<FlashBlock>>,
    /// By erase count.
    blank: BTreeSet<(u32, FlashBlock)>,
    bad: u32,
    /// All of them.
    count: u32,
    faults: Option<MediumFaults>,
}

impl ZoneBlocks {
    /// Blocks for this number of zones.
    pub(super) fn blocks_for(zones: u32) -> u32 {
        zones + (zones / ZONES_PER_SPARE).max(SPARES_LEAST)
    }

    /// The blocks of blank zones; the caller adds each.
    pub(super) fn new(zones: u32) -> ZoneBlocks {
        let count = ZoneBlocks::blocks_for(zones);
        ZoneBlocks { of: vec![None; zones as usize], blank: BTreeSet::new(), bad: 0, count, faults: None }
    }

    /// Forgets where everything is, and keeps the faults.
    pub(super) fn forget(&mut self) {
        let faults = self.faults.take();
        *self = ZoneBlocks { faults, ..ZoneBlocks::new(self.of.len() as u32) };
    }

    pub(super) fn set_faults(&mut self, faults: MediumFaults) {
        self.faults = Some(faults);
    }

    /// Blocks that may still become bad.
    fn spares(&self) -> u32 {
        self.count - self.bad - self.of.len() as u32
    }

    /// Bad blocks, if too few spare ones are left.
    pub(super) fn worn_out(&self) -> Option<u32> {
        (self.spares() < SPARE_MIN).then_some(self.bad)
    }

    /// Whether an operation of the medium fails now. If so, its block counts as bad, and the caller retires it. The
    /// last spare block does not fail: a zone behind a torn page takes it before it gives its own back.
    pub(super) fn fails(&mut self, operation: MediumOperation) -> bool {
        let has_spare = self.spares() > 1;
        let fails = self.faults.as_mut().is_some_and(|faults| faults.strikes(operation)) && has_spare;
        self.bad += u32::from(fails);
        fails
    }

    pub(super) fn of(&self, zone: u64) -> Option<FlashBlock> {
        self.of[zone as usize]
    }

    /// Gives a zone its block, or takes it away; returns the one before.
    pub(super) fn set(&mut self, zone: u64, block: Option<FlashBlock>) -> Option<FlashBlock> {
        std::mem::replace(&mut self.of[zone as usize], block)
    }

    /// Takes the least worn blank block.
    pub(super) fn take_blank(&mut self) -> FlashBlock {
        self.blank.pop_first().expect("there are as many good blocks as zones").1
    }

    /// Adds a blank block that was erased `erases` times.
    pub(super) fn add_blank(&mut self, block: FlashBlock, erases: u32) {
        self.blank.insert((erases, block));
    }

    pub(super) fn bad(&self) -> u32 {
        self.bad
    }

    /// Counts a block that recovery finds marked as bad.
    pub(super) fn add_bad(&mut self) {
        self.bad += 1;
    }

    /// The zones that have a block.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, FlashBlock)> + '_ {
        (0..).zip(&self.of).filter_map(|(zone, block)| Some((zone, (*block)?)))
    }

    /// # Errors
    /// If a block is missing or counted twice.
    pub(super) fn check(&self) -> Result<(), String> {
        let held: BTreeSet<FlashBlock> = self.held().map(|(_, block)| block).collect();
        let blank: BTreeSet<FlashBlock> = self.blank.iter().map(|(_, block)| *block).collect();
        let (zones, good) = (self.held().count(), (self.count - self.bad) as usize);
        if held.len() != zones || !held.is_disjoint(&blank) || held.len() + blank.len() != good {
            return Err(format!("{zones} zones have {} blocks, {} are blank, {good} good", held.len(), blank.len()));
        }
        Ok(())
    }
}
