//! Check: the invariants in the module's head, from the flash up.

use super::Dftl;
use crate::address::{FlashBlock, Ppn, each};
use crate::ftl::flash::Area;

impl Dftl {
    pub(super) fn verify(&self) -> Result<(), String> {
        self.blocks.check()?;
        self.cache.check(|lpn| self.flash.entry(lpn))?;
        let mut counted = vec![0; self.flash.blocks() as usize];
        let mut note = |page: Ppn, area: Area| {
            if !self.is_valid(page) || !self.flash.holds(page, area) {
                return Err(format!("page {page} should hold {area:?} and holds {:?}", self.flash.area(page)));
            }
            counted[self.flash.block(page).index()] += 1;
            Ok(())
        };
        for lpn in each(self.space.logical_range()) {
            self.entry(lpn).page().map_or(Ok(()), |page| note(page, Area::Logged(lpn)))?;
        }
        for (group, entry) in (0..).zip(&self.directory) {
            entry.page().map_or(Ok(()), |page| note(page, Area::Map(group)))?;
        }
        match each(self.space.block_range()).find(|block| counted[block.index()] != self.blocks.valid(*block)) {
            Some(block) => Err(format!("block {block} counts {} valid pages", self.blocks.valid(block))),
            None => self.verify_roles(),
        }
    }

    fn verify_roles(&self) -> Result<(), String> {
        let blank = |block: &FlashBlock| self.flash.filled(*block) == 0;
        if let Some(block) = self.blocks.free(0).iter().find(|block| !blank(block) || self.is_open(**block)) {
            return Err(format!("block {block} is free and not blank"));
        }
        let marked: u32 = self.valid.iter().map(|word| word.count_ones()).sum();
        match self.blocks.valid_counts().iter().sum::<u32>() {
            counted if counted == marked => Ok(()),
            counted => Err(format!("{marked} pages are marked valid, blocks count {counted}")),
        }
    }
}
