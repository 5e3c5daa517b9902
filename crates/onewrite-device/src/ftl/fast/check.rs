//! Check: the invariants in the module's head, from the flash up.

use super::Fast;
use crate::address::{LogicalBlock, Lpn, each, from};
use crate::ftl::flash::Area;

impl Fast {
    pub(super) fn verify(&self) -> Result<(), String> {
        self.verify_roles()?;
        self.verify_data()?;
        each(self.space.logical_range()).try_for_each(|lpn| self.verify_log(lpn))
    }

    fn verify_roles(&self) -> Result<(), String> {
        let mut roles = vec![0; self.flash.blocks() as usize];
        let data = self.data.iter().flatten();
        let sequential = self.sequential.iter().map(|open| &open.block);
        data.chain(&self.random).chain(&self.free).chain(sequential).for_each(|block| roles[block.index()] += 1);
        if let Some(block) = roles.iter().position(|count| *count != 1) {
            return Err(format!("block {block} has {} roles", roles[block]));
        }
        if self.random.len() > self.random_max {
            return Err(format!("{} random log blocks, {} are allowed", self.random.len(), self.random_max));
        }
        match self.free.iter().find(|block| self.flash.filled(**block) > 0) {
            Some(block) => Err(format!("block {block} is free and not blank")),
            None if self.free.is_empty() => Err("no block is free for a merge".into()),
            None => Ok(()),
        }
    }

    fn verify_data(&self) -> Result<(), String> {
        let open = self.sequential.map(|open| (open.logical, open.block));
        let data = from(LogicalBlock(0)).zip(&self.data).filter_map(|(logical, block)| Some((logical, (*block)?)));
        for (logical, block) in data.chain(open) {
            for offset in 0..self.flash.filled(block) {
                let area = self.flash.area(self.flash.page(block, offset));
                let own = Area::InPlace(logical.first(self.space.block_pages).offset(offset));
                if area != own && area != Area::Blank && area != Area::Torn {
                    return Err(format!("place {offset} of block {block} holds {area:?}, not {own:?}"));
                }
            }
        }
        Ok(())
    }

    fn verify_log(&self, lpn: Lpn) -> Result<(), String> {
        let Some(page) = self.log[lpn.index()].page() else { return Ok(()) };
        let block = self.flash.block(page);
        if !self.flash.holds(page, Area::Logged(lpn)) || !self.random.contains(&block) {
            return Err(format!("page {lpn} is logged at {page}, which holds {:?}", self.flash.area(page)));
        }
        match self.at_home(self.home(lpn)) {
            Some(home) if self.flash.version(home) > self.flash.version(page) => {
                Err(format!("page {lpn} is newer at its own place than in the log"))
            }
            _ => Ok(()),
        }
    }
}
