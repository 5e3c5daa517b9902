//! Shrinking, extending, punching and deleting files.
//!
//! What does not fit one transaction is done in steps from the end of the file on, with the inode on the orphan list
//! meanwhile: after a crash recovery goes on where it stopped. A step frees one extent.

use std::ops::Range;
use std::rc::Rc;

use super::balloc::ALLOCATION_CREDITS;
use super::format::inode::flags;
use super::ialloc::{INODE_CREDITS, ORPHAN_CREDITS};
use super::inodes::Node;
use super::map::MAP_CREDITS;
use super::mode::Scope;
use super::views::Contents;
use super::write::{ALLOCATION_STEP_BLOCKS, NewBlocks};
use crate::api::{Allocation, FsResult};
use crate::block::BlockRange;
use crate::journal::Handle;
use crate::pages::{PAGE_BYTES, PagedFile, page_key};

/// Blocks that freeing one extent may change: it may touch two groups.
pub(super) const FREE_CREDITS: usize = MAP_CREDITS + 2 * ALLOCATION_CREDITS + 1;
/// Steps that the transaction of the change itself is made large enough for.
const STEPS_AT_ONCE: usize = 2;

/// Credits that [`Contents::delete`] needs in the transaction that took the last name.
pub(super) const DELETE_CREDITS: usize = ORPHAN_CREDITS + INODE_CREDITS + 1 + STEPS_AT_ONCE * FREE_CREDITS;

impl Contents<'_> {
    /// Sets the size; the node's lock is held alone.
    pub(super) async fn set_size(&self, node: &Rc<Node>, size: u64) -> FsResult<()> {
        let old = node.size();
        let mut handle = self.journal.start(ORPHAN_CREDITS + 3 + STEPS_AT_ONCE * FREE_CREDITS).await?;
        if size < old {
            self.before_cut(node).await?;
        }
        self.zero_tail(&mut handle, node, size.min(old)).await?;
        {
            let stamp = self.timestamp();
            node.set_size(size);
            let mut inode = node.inode.borrow_mut();
            (inode.mtime, inode.ctime) = (stamp, stamp);
        }
        let first = size.div_ceil(PAGE_BYTES);
        if size < old {
            self.pages.discard(node.number(), first..old.div_ceil(PAGE_BYTES));
            self.unreserve(node, first..u64::MAX);
            self.pages.wait_for_writes(&**node).await;
            self.give_up(node, first, u64::MAX);
        }
        self.load_inode_block(node.number).await?;
        self.save(&mut handle, node);
        node.data_changed_in.set(handle.tid());
        if size < old {
            handle = self.free_from(handle, node, first, STEPS_AT_ONCE).await?;
        }
        self.allocator().remove_orphan(&mut handle, node).await
    }

    /// Before blocks go that a committing transaction shows for the first time, their content has to be there. A handle
    /// is open: what commits now is an earlier transaction, and no later one begins to.
    async fn before_cut(&self, node: &Node) -> FsResult<()> {
        if self.scope == Scope::OrderedMetadata && self.journal.is_ordering(u64::from(node.number)) {
            self.pages.write_ready(self.volume, node, 0..u64::MAX).await?;
            self.pages.wait_for_writes(node).await;
        }
        Ok(())
    }

    /// Goes on with an interrupted cut: frees blocks from block `first` on and takes the file off the orphan list.
    pub(super) async fn free_behind(&self, node: &Rc<Node>, first: u64) -> FsResult<()> {
        let handle = self.journal.start(DELETE_CREDITS).await?;
        let mut handle = self.free_from(handle, node, first, STEPS_AT_ONCE).await?;
        self.allocator().remove_orphan(&mut handle, node).await
    }

    /// Frees the file's blocks from block `first` on, in this transaction as far as its credits allow (`steps`), then
    /// in further ones. The inode is saved with every step.
    async fn free_from(&self, mut handle: Handle, node: &Rc<Node>, first: u64, mut steps: usize) -> FsResult<Handle> {
        if !node.inode.borrow().has(flags::EXTENTS) {
            return Ok(handle);
        }
        loop {
            if steps == 0 {
                if !self.has_blocks_from(node, first).await? {
                    return Ok(handle);
                }
                self.allocator().add_orphan(&mut handle, node).await?;
                drop(handle);
                handle = self.journal.start(ORPHAN_CREDITS + INODE_CREDITS + 1 + FREE_CREDITS).await?;
                steps = 1;
            }
            let _map = node.map_lock.write().await;
            let Some(taken) = self.extents().take_extent(&mut handle, node, first..1 << 32).await? else {
                return Ok(handle);
            };
            self.free_taken(&mut handle, node, taken.blocks()).await?;
            steps -= 1;
        }
    }

    async fn free_taken(&self, handle: &mut Handle, node: &Node, range: BlockRange) -> FsResult<()> {
        self.allocator().free_blocks(handle, range).await?;
        node.drop_blocks(range.count);
        self.load_inode_block(node.number).await?;
        self.save(handle, node);
        Ok(())
    }

    async fn has_blocks_from(&self, node: &Node, first: u64) -> FsResult<bool> {
        let mut logical = first;
        while logical < 1 << 32 {
            match self.extents().map(node, logical as u32).await? {
                super::map::Mapping::Mapped(_) => return Ok(true),
                super::map::Mapping::Hole(length) => logical += length,
            }
        }
        Ok(false)
    }

    /// Removes an inode without names and openers, and its content; begins in `handle`.
    pub(super) async fn delete(&self, mut handle: Handle, node: &Rc<Node>) -> FsResult<()> {
        self.before_cut(node).await?;
        let pages = node.size().div_ceil(PAGE_BYTES);
        self.pages.discard(node.number(), 0..pages);
        self.unreserve(node, 0..u64::MAX);
        self.pages.wait_for_writes(&**node).await;
        self.give_up(node, 0, u64::MAX);
        self.pages.forget(&**node);
        handle = self.free_from(handle, node, 0, STEPS_AT_ONCE).await?;
        self.extended_attributes().release_attribute_block(&mut handle, node).await?;
        self.allocator().remove_orphan(&mut handle, node).await?;
        self.allocator().free_inode(&mut handle, node).await
    }

    /// See `FileSystem::allocate`; the node's lock is held alone.
    pub(super) async fn allocate_file(
        &self,
        node: &Rc<Node>,
        bytes: Range<u64>,
        allocation: Allocation,
    ) -> FsResult<()> {
        let Range { start: offset, end } = bytes;
        match allocation {
            Allocation::Extend => self.reserve(node, offset..end, node.size().max(end)).await,
            Allocation::KeepSize => self.reserve(node, offset..end, node.size()).await,
            Allocation::PunchHole => {
                let before = node.inode.borrow().mtime;
                self.punch(node, offset, end).await?;
                if node.inode.borrow().mtime == before { self.stamp_modified(node).await } else { Ok(()) }
            }
            Allocation::ZeroRange => {
                self.punch(node, offset, end).await?;
                self.reserve(node, offset..end, node.size().max(end)).await
            }
            Allocation::CollapseRange => self.collapse(node, offset..end).await,
            Allocation::InsertRange => self.insert_hole(node, offset, end - offset).await,
        }
    }

    /// Says that the content was changed, though nothing had to be done.
    async fn stamp_modified(&self, node: &Rc<Node>) -> FsResult<()> {
        let mut handle = self.journal.start(1).await?;
        self.load_inode_block(node.number).await?;
        let stamp = self.timestamp();
        (node.inode.borrow_mut().mtime, node.inode.borrow_mut().ctime) = (stamp, stamp);
        self.save(&mut handle, node);
        Ok(())
    }

    async fn reserve(&self, node: &Rc<Node>, bytes: Range<u64>, size: u64) -> FsResult<()> {
        let (mut first, stop) = (bytes.start / PAGE_BYTES, bytes.end.div_ceil(PAGE_BYTES));
        while first < stop {
            let next = stop.min(first + ALLOCATION_STEP_BLOCKS);
            let mut handle = self.journal.start(super::write::map_credits(8) * 2 + 1).await?;
            let map = node.map_lock.write().await;
            let survey = self.extents().survey(node, first..next).await?;
            let allocated = self.allocate_range(&mut handle, node, survey, NewBlocks::Unwritten).await;
            drop(map);
            if next == stop && allocated.outcome.is_ok() {
                let stamp = self.timestamp();
                if size > node.size() {
                    node.set_size(size);
                }
                let mut inode = node.inode.borrow_mut();
                (inode.mtime, inode.ctime) = (stamp, stamp);
            }
            self.load_inode_block(node.number).await?;
            self.save(&mut handle, node);
            node.data_changed_in.set(handle.tid());
            allocated.outcome?;
            first = next;
        }
        Ok(())
    }

    /// Makes the range a hole, as far as the file reaches; parts of pages at its ends become zeros. A range that covers
    /// the file's last byte covers the page that it lies in.
    pub(super) async fn punch(&self, node: &Rc<Node>, offset: u64, end: u64) -> FsResult<()> {
        let size = node.size();
        if offset >= end.min(size) {
            return Ok(());
        }
        if end >= size && size > node.inode.borrow().size {
            // The size in the inode follows content that would never arrive.
            self.write_and_convert(node).await?;
        }
        let end = if end < size { end } else { size.next_multiple_of(PAGE_BYTES) };
        let (first, stop) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let zero = |start: u64, stop: u64| vec![0; (stop - start) as usize];
        let head_end = end.min(first * PAGE_BYTES).min(size);
        if offset < head_end {
            self.write_zeros(node, offset, &zero(offset, head_end)).await?;
        }
        let tail_start = (stop * PAGE_BYTES).max(head_end);
        if tail_start < end {
            self.write_zeros(node, tail_start, &zero(tail_start, end)).await?;
        }
        if first >= stop {
            return Ok(());
        }
        // Blocks go in several transactions: until theirs, the map shows them, and they must hold what was written. So
        // in full scope, where a transaction may end at any time that holds their pages, those stay until then, too.
        if self.scope != Scope::Full {
            self.pages.write_ready(self.volume, node, first..stop).await?;
            self.pages.discard(node.number(), first..stop);
        }
        self.unreserve(node, first..stop);
        self.pages.wait_for_writes(&**node).await;
        self.give_up(node, first, stop);
        loop {
            let mut handle = self.journal.start(FREE_CREDITS + MAP_CREDITS + 1).await?;
            let _map = node.map_lock.write().await;
            let Some(taken) = self.extents().take_extent(&mut handle, node, first..stop).await? else {
                return Ok(());
            };
            self.pages.discard(node.number(), taken.logical.into()..taken.logical_end());
            let stamp = self.timestamp();
            (node.inode.borrow_mut().mtime, node.inode.borrow_mut().ctime) = (stamp, stamp);
            self.free_taken(&mut handle, node, taken.blocks()).await?;
            node.data_changed_in.set(handle.tid());
        }
    }

    /// Zeros part of a page, unless it is a hole.
    async fn write_zeros(&self, node: &Rc<Node>, offset: u64, zeros: &[u8]) -> FsResult<()> {
        let index = offset / PAGE_BYTES;
        let is_written = match self.extents().map(node, index as u32).await? {
            super::map::Mapping::Mapped(extent) => !extent.unwritten,
            super::map::Mapping::Hole(_) => false,
        };
        if !is_written && !self.pages.is_newer(page_key(&**node, index)) {
            return Ok(());
        }
        let content = crate::content::Content::Bytes(zeros);
        self.write_file(node, offset, content, crate::api::Manner::default()).await
    }
}
