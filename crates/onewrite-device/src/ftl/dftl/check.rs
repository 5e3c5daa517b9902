//! Check: the invariants of the module's head, from the flash up.

use super::{Area, Dftl, NONE};

impl Dftl {
    pub(super) fn verify(&self) -> Result<(), String> {
        self.blocks.check()?;
        self.cache.check(|lpn| self.flash.entry(lpn))?;
        let mut counted = vec![0; self.flash.blocks() as usize];
        let mut note = |page: u32, area: Area| {
            if !self.is_valid(page) || !self.flash.holds(page, area) {
                return Err(format!("page {page} should hold {area:?} and holds {:?}", self.flash.area(page)));
            }
            counted[self.flash.place(page).0 as usize] += 1;
            Ok(())
        };
        for lpn in 0..self.space.logical_pages {
            match self.entry(lpn) {
                NONE => (),
                page => note(page, Area::Logged(lpn))?,
            }
        }
        for (group, page) in (0..).zip(&self.directory).filter(|(_, page)| **page != NONE) {
            note(*page, Area::Map(group))?;
        }
        match (0..self.flash.blocks()).find(|block| counted[*block as usize] != self.blocks.valid(*block)) {
            Some(block) => Err(format!("block {block} counts {} valid pages", self.blocks.valid(block))),
            None => self.verify_roles(),
        }
    }

    fn verify_roles(&self) -> Result<(), String> {
        let blank = |block: &u32| self.flash.filled(*block) == 0;
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
