//! Bad blocks: blocks that are never used again. The mark lies in the flash, as that of the factory does.

use super::area::TORN;
use super::history::Remains;
use super::{Flash, PowerLost};
use crate::address::FlashBlock;

impl Flash {
    /// Whether a block carries the mark.
    pub(crate) fn is_bad(&self, block: FlashBlock) -> bool {
        self.bad[block.index()]
    }

    /// Marks a block as bad: one program. Nothing in it can be read any more.
    ///
    /// # Errors
    /// If the power fails; chance decides whether the mark is there.
    pub(crate) fn retire(&mut self, block: FlashBlock) -> Result<(), PowerLost> {
        if self.is_cut()? {
            if !matches!(self.remains(), Remains::Nothing) {
                self.spoil(block);
            }
            return Err(PowerLost);
        }
        self.counters.programs += 1;
        if let Some(clock) = &mut self.clock {
            clock.program(block, 0);
        }
        self.order_retire(block);
        self.spoil(block);
        Ok(())
    }

    fn spoil(&mut self, block: FlashBlock) {
        self.clear(block, TORN, self.block_pages());
        self.bad[block.index()] = true;
    }

    /// The power failed before the block had its mark.
    pub(super) fn unmark(&mut self, block: FlashBlock) {
        self.bad[block.index()] = false;
    }
}
