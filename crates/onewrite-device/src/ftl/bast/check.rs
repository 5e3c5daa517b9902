//! Check: the invariants of the module's head, from the flash up.

use super::{Bast, NONE};
use crate::ftl::flash::Area;

impl Bast {
    pub(super) fn verify(&self) -> Result<(), String> {
        self.verify_roles()?;
        self.verify_order()?;
        (0..self.space.logical_pages).try_for_each(|lpn| self.verify_place(lpn))
    }

    fn verify_roles(&self) -> Result<(), String> {
        let mut roles = vec![0; self.flash.blocks() as usize];
        let data = self.data.iter().copied().filter(|block| *block != NONE);
        let log = self.log.iter().map(|log| log.block);
        data.chain(log).chain(self.free.iter().copied()).for_each(|block| roles[block as usize] += 1);
        if let Some(block) = roles.iter().position(|count| *count != 1) {
            return Err(format!("block {block} has {} roles", roles[block]));
        }
        let mut owners: Vec<u32> = self.log.iter().map(|log| log.neighbours).collect();
        owners.sort_unstable();
        if owners.len() > self.log_max || owners.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("log blocks of {owners:?}; {} are allowed, one each", self.log_max));
        }
        match self.free.iter().find(|block| self.flash.filled(**block) > 0) {
            Some(block) => Err(format!("block {block} is free and not blank")),
            None if self.free.is_empty() => Err("no block is free for a merge".into()),
            None => Ok(()),
        }
    }

    fn verify_order(&self) -> Result<(), String> {
        let data = (0..).zip(self.data.iter().copied()).filter(|(_, block)| *block != NONE);
        let log = self.log.iter().filter(|log| log.is_in_order).map(|log| (log.neighbours, log.block));
        for (neighbours, block) in data.chain(log) {
            let start = self.pages_of(neighbours).start;
            for offset in 0..self.flash.filled(block) {
                let area = self.flash.area(self.flash.page(block, offset));
                if ![Area::Logged(start + offset), Area::Blank, Area::Torn].contains(&area) {
                    return Err(format!("place {offset} of block {block} holds {area:?}, not page {}", start + offset));
                }
            }
        }
        Ok(())
    }

    fn verify_place(&self, lpn: u32) -> Result<(), String> {
        let page = self.places[lpn as usize];
        let neighbours = lpn / self.space.block_pages;
        let log = self.log.iter().find(|log| log.neighbours == neighbours).map(|log| log.block);
        let data = Some(self.data[neighbours as usize]).filter(|block| *block != NONE);
        let owned = || data.into_iter().chain(log);
        if page != NONE
            && !(self.flash.holds(page, Area::Logged(lpn)) && owned().any(|b| b == self.flash.place(page).0))
        {
            return Err(format!("page {lpn} is at {page}, which holds {:?}", self.flash.area(page)));
        }
        let pages = owned().flat_map(|block| (0..self.flash.filled(block)).map(move |offset| (block, offset)));
        let mut copies = pages.map(|(block, offset)| self.flash.page(block, offset));
        let known = if page == NONE { u64::MAX } else { self.flash.version(page) };
        match copies.any(|copy| self.flash.holds(copy, Area::Logged(lpn)) && self.flash.version(copy) > known) {
            true => Err(format!("page {lpn} has a newer version than that at {page}")),
            false => Ok(()),
        }
    }
}
