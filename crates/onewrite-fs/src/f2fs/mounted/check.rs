//! Checks of the state in memory.

use super::node_batch::OwnedNode;
use super::volume::Volume;
use crate::drafts::Drafting;

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
}
