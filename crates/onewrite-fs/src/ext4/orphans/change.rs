//! Inodes join the orphan list and leave it.

use crate::api::FsResult;
use crate::ext4::inodes::Node;
use crate::ext4::views::Allocator;
use crate::journal::Handle;

impl Allocator<'_> {
    /// Whether the node is on the orphan list.
    fn is_orphan(&self, node: &Node) -> bool {
        self.orphans().contains(node.number())
    }

    /// Puts the node on the orphan list, unless it is already there.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::ext4) async fn add_orphan(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        if self.is_orphan(node) {
            return Ok(());
        }
        loop {
            self.load_superblock().await?;
            self.load_inode_block(node.number()).await?;
            if self.is_loaded(self.layout().superblock_block()) {
                break;
            }
        }
        let head = self.superblock().last_orphan.get();
        node.inode_mut().dtime = head;
        self.save(handle, node);
        self.change_superblock(handle, |superblock| superblock.last_orphan.set(node.number().0));
        self.orphans().push(node.number());
        onewrite_block::reached!("orphan chain of two", self.orphans().numbers.borrow().len() == 2);
        onewrite_block::reached!("orphan chain of three", self.orphans().numbers.borrow().len() == 3);
        Ok(())
    }

    /// Removes the node from the orphan list, if it is there, and sets its `dtime` to zero.
    ///
    /// # Errors
    /// Device errors.
    pub(in crate::ext4) async fn remove_orphan(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        if !self.is_orphan(node) {
            return Ok(());
        }
        let before = loop {
            self.load_superblock().await?;
            self.load_inode_block(node.number()).await?;
            let number = self.orphans().before(node.number());
            let before = match number {
                Some(number) => Some(self.node_or_orphan(number.into()).await?),
                None => None,
            };
            if let Some(before) = &before {
                self.load_inode_block(before.number()).await?;
            }
            // Other inodes may join or leave the list while these reads wait.
            let is_loaded = |number| self.is_loaded(self.inode_position(number).0);
            if number == self.orphans().before(node.number())
                && self.is_loaded(self.layout().superblock_block())
                && is_loaded(node.number())
                && number.is_none_or(is_loaded)
            {
                break before;
            }
        };
        onewrite_block::reached!("orphan leaves the middle of its chain", before.is_some());
        let next = std::mem::take(&mut node.inode_mut().dtime);
        self.save(handle, node);
        match before {
            Some(before) => {
                before.inode_mut().dtime = next;
                self.save(handle, &before);
            }
            None => self.change_superblock(handle, |superblock| superblock.last_orphan.set(next)),
        }
        self.orphans().remove(node.number());
        Ok(())
    }
}
