//! Inode allocation.
//!
//! A new inode goes to its parent's group, so that files stay near their directory. A directory in the root goes to the
//! group with the fewest directories, then the most free blocks, among groups with free inodes. So directories spread.

use std::rc::Rc;

use super::balloc::{Bit, next_clear, set_bits};
use super::format::group::INODE_UNINIT;
use super::format::{Inode, InodeNo, ROOT_INODE};
use super::inodes::Node;
use super::views::Allocator;
use super::volume::block_key;
use crate::api::{FileKind, FsError, FsResult};
use crate::journal::Handle;

/// Blocks that taking or freeing an inode may change: bitmap, descriptors, table.
pub(super) const INODE_CREDITS: usize = 3;

impl Allocator<'_> {
    /// Takes a free inode and puts `inode` into it, as part of a transaction.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if none is free.
    pub(super) async fn allocate_inode(
        &self,
        handle: &mut Handle,
        parent: InodeNo,
        mut inode: Inode,
    ) -> FsResult<Rc<Node>> {
        let kind = inode.kind().unwrap_or(FileKind::Regular);
        let first = self.preferred_group(parent, kind);
        let groups = self.groups().len();
        for group in (first..groups).chain(0..first) {
            if self.groups().descriptor(group).free_inodes() == 0 {
                continue;
            }
            let Some(number) = self.free_inode_in(group).await? else { continue };
            onewrite_block::reached!("inode from another group", group != first);
            self.expect_unused(number)?;
            inode.generation = self.runtime().civil_now().0 as u32 ^ number.0.rotate_left(16);
            self.mark_inode(handle, number, kind, Bit::Taken);
            let node = Node::new(self.runtime(), number, inode);
            self.save_new(handle, &node);
            self.inodes().insert(Rc::clone(&node), |tid| self.journal().is_committed(tid));
            return Ok(node);
        }
        Err(FsError::NoSpace { what: "inodes", needed: 1, free: self.groups().free_inodes() })
    }

    /// # Errors
    /// [`FsError::Damaged`] if the inode, which its bitmap calls free, has names or is in use. Its table block must be
    /// in memory.
    fn expect_unused(&self, number: InodeNo) -> FsResult<()> {
        let (block, offset) = self.inode_position(number);
        let page = self.pages().peek(block_key(block)).expect("the block of a free inode was just loaded");
        let links = page.bytes()[offset + 0x1a..offset + 0x1c] != [0; 2];
        let node = self.inodes().get(number);
        match links || node.is_some_and(|node| node.inode().links > 0 || node.is_open()) {
            false => Ok(()),
            true => Err(FsError::Damaged {
                place: format!("inode bitmap of group {}", self.layout().group_of_inode(number)),
                problem: format!("inode {number} in use is marked free"),
            }),
        }
    }

    fn preferred_group(&self, parent: InodeNo, kind: FileKind) -> u32 {
        let parent_group = self.layout().group_of_inode(parent);
        if kind != FileKind::Directory || parent != ROOT_INODE {
            return parent_group;
        }
        let roomy = |group: &u32| self.groups().descriptor(*group).free_inodes() > 0;
        let rank = |group: &u32| {
            let descriptor = self.groups().descriptor(*group);
            (descriptor.used_directories(), std::cmp::Reverse(descriptor.free_blocks()))
        };
        (0..self.groups().len()).filter(roomy).min_by_key(rank).unwrap_or(parent_group)
    }

    /// A free inode of `group`, if any. Afterwards all blocks that change when it is taken are in memory.
    async fn free_inode_in(&self, group: u32) -> FsResult<Option<InodeNo>> {
        loop {
            self.load_descriptor(group).await?;
            let bitmap_block = self.load_inode_bitmap(group).await?;
            let index = {
                let Some(bitmap) = self.pages().peek(block_key(bitmap_block)) else { continue };
                let reserved = if group == 0 { self.layout().first_inode.0 - 1 } else { 0 };
                next_clear(&bitmap.bytes(), reserved..self.layout().inodes_per_group)
            };
            let Some(index) = index else { return Ok(None) };
            let number = self.layout().inode_at(group, index);
            self.load_inode_block(number).await?;
            if self.can_mark_inode(number) {
                return Ok(Some(number));
            }
        }
    }

    /// Whether all blocks that change when the inode is taken are in memory, and the inode is still free.
    fn can_mark_inode(&self, number: InodeNo) -> bool {
        let group = self.layout().group_of_inode(number);
        let bitmap_block = self.groups().descriptor(group).inode_bitmap();
        let index = self.layout().position_of_inode(number).index;
        let bitmap = self.pages().peek(block_key(bitmap_block));
        bitmap.is_some_and(|page| page.bytes()[index as usize / 8] >> (index % 8) & 1 == 0)
            && self.is_loaded(self.layout().position_of_descriptor(group).0)
            && self.is_loaded(self.inode_position(number).0)
    }

    /// Sets or clears the bit of an inode and updates its group's descriptor.
    fn mark_inode(&self, handle: &mut Handle, number: InodeNo, kind: FileKind, value: Bit) {
        let (taken, is_directory) = (value == Bit::Taken, kind == FileKind::Directory);
        let position = self.layout().position_of_inode(number);
        let bitmap_block = self.groups().descriptor(position.group).inode_bitmap();
        self.change(handle, bitmap_block, |bitmap| set_bits(bitmap, position.index..position.index + 1, value));
        let page = self.pages().peek(block_key(bitmap_block)).expect("it has just been changed").clone();
        let bitmap = &page.bytes()[..];
        let per_group = self.layout().inodes_per_group;
        self.change_descriptor(handle, position.group, |descriptor| {
            let was_unused = descriptor.has(INODE_UNINIT, self.layout());
            onewrite_block::reached!("first inode of an INODE_UNINIT group", was_unused);
            descriptor.flip_in_inode_bitmap_checksum(bitmap, position.index, self.layout());
            let unused = if was_unused { per_group } else { descriptor.unused_inodes() };
            if taken {
                descriptor.set_unused_inodes(unused.min(per_group - position.index - 1));
                descriptor.flags.set(descriptor.flags.get() & !INODE_UNINIT);
            }
            let (free, directories) = (descriptor.free_inodes(), descriptor.used_directories());
            descriptor.set_free_inodes(if taken { free.saturating_sub(1) } else { free + 1 });
            if is_directory {
                descriptor.set_used_directories(if taken { directories + 1 } else { directories.saturating_sub(1) });
            }
            debug_assert!(
                descriptor.verify_inode_bitmap(bitmap, position.group, self.layout()).is_ok(),
                "bitmap {bitmap_block}"
            );
        });
    }

    /// Frees an inode whose content is gone.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the bitmap already calls the inode free; device errors.
    pub(super) async fn free_inode(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        let group = self.layout().group_of_inode(node.number());
        let (bitmap_block, index) = loop {
            self.load_descriptor(group).await?;
            self.load_inode_block(node.number()).await?;
            let bitmap_block = self.load_inode_bitmap(group).await?;
            let table_block = self.inode_position(node.number()).0;
            if self.is_loaded(self.layout().position_of_descriptor(group).0) && self.is_loaded(table_block) {
                break (bitmap_block, self.layout().position_of_inode(node.number()).index);
            }
        };
        let is_taken = {
            let bitmap = self.pages().peek(block_key(bitmap_block)).expect("just loaded");
            bitmap.bytes()[index as usize / 8] >> (index % 8) & 1 == 1
        };
        if !is_taken {
            let place = format!("inode bitmap of group {group}");
            return Err(FsError::Damaged { place, problem: format!("inode {} in use is marked free", node.number()) });
        }
        {
            let mut inode = node.inode_mut();
            inode.dtime = (self.runtime().civil_now().0 / 1_000_000_000) as u32;
            (inode.size, inode.links) = (0, 0);
        }
        self.save(handle, node);
        self.mark_inode(handle, node.number(), node.kind(), Bit::Free);
        node.note_deleted();
        self.inodes().remove(node.number());
        Ok(())
    }
}
