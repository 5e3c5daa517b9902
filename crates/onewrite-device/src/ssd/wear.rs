//! Wear: erase counts, and static wear levelling.
//!
//! Dynamic levelling chooses free blocks. Host pages have short lives and get the least worn block; moved pages have
//! long lives and get the most worn one. Static levelling moves pages that never change: if the erase counts of a die
//! differ too much, its least worn block is collected although another would gain more. This happens at most once in
//! `PAUSE_ERASES` erases.

use serde::Serialize;

use super::Ssd;
use crate::address::{FlashBlock, each};

/// Erases of a die between two victims of static wear levelling.
const PAUSE_ERASES: u32 = 8;

/// How evenly the blocks of a device are worn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Fewest erases of a block.
    pub erases_min: u32,
    /// Most erases of a block.
    pub erases_max: u32,
    /// Erases of a block on average.
    pub erases_mean: f64,
    /// Standard deviation of the erases of a block.
    pub erases_deviation: f64,
    /// Blocks that failed.
    pub bad_blocks: u32,
}

impl Ssd {
    /// How evenly the blocks for content are worn, without bad blocks.
    pub fn wear(&self) -> Wear {
        let blocks = || each(self.model.shape.data_range()).filter(|&block| self.is_in_use(block));
        let counts = || blocks().map(|block| self.flash.erase_count(block));
        let number = counts().count().max(1) as f64;
        let mean = counts().map(f64::from).sum::<f64>() / number;
        let variance = counts().map(|count| (f64::from(count) - mean).powi(2)).sum::<f64>() / number;
        Wear {
            erases_min: counts().min().unwrap_or(0),
            erases_max: counts().max().unwrap_or(0),
            erases_mean: mean,
            erases_deviation: variance.sqrt(),
            bad_blocks: self.model.shape.data_blocks - blocks().count() as u32,
        }
    }

    /// Notes the erase of a block of the die: the pause of static levelling gets shorter.
    pub(super) fn note_erase(&mut self, die: usize) {
        self.dies[die].wear_pause = self.dies[die].wear_pause.saturating_sub(1);
    }

    /// The block of a die that static levelling wants to collect, if the erase counts differ too much.
    pub(super) fn least_worn_victim(&mut self, die: usize) -> Option<FlashBlock> {
        let spread_max = self.model.wear_spread_max?;
        if self.dies[die].wear_pause > 0 {
            return None;
        }
        let count = |block| self.flash.erase_count(block);
        let own = self.model.shape.block_counts().of_die(die);
        let most = own.filter(|&block| self.is_in_use(block)).map(count).max()?;
        let least = self.blocks.best(die, |block| Some(u64::from(u32::MAX - count(block))))?;
        if most - count(least) <= spread_max {
            return None;
        }
        self.dies[die].wear_pause = PAUSE_ERASES;
        Some(least)
    }
}
