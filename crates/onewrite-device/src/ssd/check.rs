//! Check: every invariant of a device outside recovery; and its power switch.

use onewrite_block::{Choices, DeviceError, Nanos, PowerCut, RecoveryReport};

use super::Ssd;
use super::oob::Holds;

impl Ssd {
    /// Verifies that every mapped page is programmed and readable.
    fn check_mapped_pages(&self) -> Result<(), String> {
        let mut problem = Ok(());
        self.map.for_each_mapped(|lpn, ppn| {
            let (block, page) = self.model.shape.place(ppn);
            match self.flash.page(block, page) {
                None => problem = Err(format!("page {lpn} is mapped to blank flash page {page} of block {block}")),
                Some(found) => match found.oob.holds {
                    Holds::Page(owner) if owner.0 < self.model.shape.logical_pages => (),
                    other => {
                        let what = format!("page {page} of block {block}, which holds {other:?}");
                        problem = Err(format!("page {lpn} is mapped to {what}"));
                    }
                },
            }
        });
        problem
    }
}

impl PowerCut for Ssd {
    fn cut_points(&self) -> u64 {
        self.cut_points
    }

    fn arm(&mut self, point: u64) {
        self.armed = Some(point);
        self.is_dark |= self.cut_points >= point;
    }

    fn fork(&self) -> Box<dyn PowerCut> {
        Box::new(self.clone())
    }

    fn cut(&mut self, choices: &mut Choices) {
        self.cut_power(choices);
    }

    fn recover(&mut self, now: Nanos) -> Result<RecoveryReport, DeviceError> {
        if !self.is_cut {
            self.cut_power(&mut Choices::new(self.cut_points));
        }
        self.power_up(now)
    }

    fn check(&self) -> Result<(), String> {
        if self.is_cut {
            return Ok(());
        }
        self.map.check(self.blocks.valid_counts(), self.model.shape.numbering())?;
        self.blocks.check()?;
        self.log.check(&self.model.shape.log_range())?;
        self.buffer.check()?;
        self.check_mapped_pages()
    }
}
