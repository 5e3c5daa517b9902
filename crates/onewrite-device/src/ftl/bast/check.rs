//! Check: the invariants in the module's head, from the flash up.

use super::Bast;
use crate::address::{LogicalBlock, Lpn, each, from};
use crate::ftl::flash::Area;

impl Bast {
    pub(super) fn verify(&self) -> Result<(), String> {
        self.verify_roles()?;
        self.verify_order()?;
        each(self.space.logical_range()).try_for_each(|lpn| self.verify_place(lpn))
    }

    fn verify_roles(&self) -> Result<(), String> {
        let mut roles = vec![0; self.flash.blocks() as usize];
        let data = self.data.iter().copied().flatten();
        let log = self.log.iter().map(|log| log.block);
        data.chain(log).chain(self.free.iter().copied()).for_each(|block| roles[block.index()] += 1);
        if let Some(block) = roles.iter().position(|count| *count != 1) {
            return Err(format!("block {block} has {} roles", roles[block]));
        }
        let mut owners: Vec<LogicalBlock> = self.log.iter().map(|log| log.logical).collect();
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
        let data = from(LogicalBlock(0)).zip(&self.data).filter_map(|(logical, block)| Some((logical, (*block)?)));
        let log = self.log.iter().filter(|log| log.is_in_order).map(|log| (log.logical, log.block));
        for (logical, block) in data.chain(log) {
            let start = logical.first(self.space.block_pages);
            for offset in 0..self.flash.filled(block) {
                let area = self.flash.area(self.flash.page(block, offset));
                let own = start.offset(offset);
                if ![Area::Logged(own), Area::Blank, Area::Torn].contains(&area) {
                    return Err(format!("place {offset} of block {block} holds {area:?}, not page {own}"));
                }
            }
        }
        Ok(())
    }

    fn verify_place(&self, lpn: Lpn) -> Result<(), String> {
        let page = self.places[lpn.index()].page();
        let (logical, _) = self.space.place(lpn);
        let log = self.log.iter().find(|log| log.logical == logical).map(|log| log.block);
        let owned = || self.data[logical.index()].into_iter().chain(log);
        let is_own = |page| self.flash.holds(page, Area::Logged(lpn)) && owned().any(|b| b == self.flash.block(page));
        if let Some(page) = page.filter(|page| !is_own(*page)) {
            return Err(format!("page {lpn} is at {page}, which holds {:?}", self.flash.area(page)));
        }
        let mut copies = owned().flat_map(|block| self.flash.filled_pages(block));
        let known = page.map_or(u64::MAX, |page| self.flash.version(page));
        match copies.any(|copy| self.flash.holds(copy, Area::Logged(lpn)) && self.flash.version(copy) > known) {
            true => Err(format!("page {lpn} has a newer version than that at {page:?}")),
            false => Ok(()),
        }
    }
}
