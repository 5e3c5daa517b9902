//! Checks of the state in memory.

use super::file::File;
use super::name_index::Known;
use super::node_batch::OwnedNode;
use super::volume::Volume;
use crate::drafts::Drafting;
use crate::f2fs::format::Place;
use crate::f2fs::format::dentry::{self, BLOCK_SLOTS, Shape};
use crate::pages::page_key;

impl Volume {
    /// # Errors
    /// The first invariant that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        self.space.borrow().check()?;
        self.pages.check(self)?;
        self.check_stage()?;
        let (drafted, needed) = (self.space.borrow().drafted(), Drafting(self).reserved_blocks());
        if drafted != needed {
            return Err(format!("{drafted} blocks are reserved for drafts, which need {needed}"));
        }
        self.files.all().iter().filter(|file| file.is_directory()).try_for_each(|file| self.check_names(file))?;
        let numbers = self.numbers.borrow();
        for OwnedNode { owner, nid } in self.dirty_nodes.borrow().iter() {
            if !self.pages.holds(super::volume::node_key(*nid)) {
                return Err(format!("node {nid} of inode {owner} changed and left memory"));
            }
            if numbers.known(*nid).is_none() {
                return Err(format!("node {nid} of inode {owner} changed and has no entry in memory"));
            }
        }
        Ok(())
    }

    /// # Errors
    /// A block of names in memory that is not as the index says.
    fn check_names(&self, directory: &File) -> Result<(), String> {
        let (number, index) = (directory.number(), directory.names());
        for (logical, known) in index.blocks() {
            let Some(page) = self.pages.peek(page_key(directory, logical)) else { continue };
            let bytes = page.bytes();
            let mut names = dentry::entries(&bytes[..], Shape::BLOCK, Place::Inode(number), 0).flatten();
            let is_known = names.all(|name| index.may_hold(logical, index.holders(name.expected_hash())));
            let has_room = |slots| dentry::room(&bytes[..], Shape::BLOCK, slots).is_some();
            let has_more = (1..=BLOCK_SLOTS).any(|slots| has_room(slots) && !index.may_have_room(logical, slots));
            if known == Known::Hole || !is_known || has_more {
                return Err(format!("the index of names of directory {number} is wrong on block {logical}"));
            }
        }
        Ok(())
    }
}
