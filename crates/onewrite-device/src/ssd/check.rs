//! Check: every invariant of a device that is not being recovered; and its power switch.

use onewrite_block::{Choices, DeviceError, Nanos, PowerCut, RecoveryReport};

use super::Ssd;
use super::nand::Oob;

impl Ssd {
    /// Verifies that every mapped page is programmed and readable.
    fn check_mapped_pages(&self) -> Result<(), String> {
        let mut problem = Ok(());
        self.map.for_each_mapped(|lpn, ppn| {
            let (block, page) = self.model.shape.place(ppn);
            match self.flash.page(block, page) {
                None => problem = Err(format!("page {lpn} is mapped to blank flash page {page} of block {block}")),
                Some(found) if found.oob.lpn >= Oob::MAP => {
                    problem =
                        Err(format!("page {lpn} is mapped to page {page} of block {block}, which is {:?}", found.oob));
                }
                Some(found) if found.oob.lpn >= self.model.shape.logical_pages => {
                    problem = Err(format!("page {lpn} is mapped to a page of nobody: {:?}", found.oob));
                }
                Some(_) => (),
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
        self.map.check(self.blocks.valid_counts(), self.model.shape.page_bits())?;
        self.blocks.check()?;
        self.log.check(self.model.shape.data_blocks..self.model.shape.blocks())?;
        self.buffer.check()?;
        self.check_mapped_pages()
    }
}
