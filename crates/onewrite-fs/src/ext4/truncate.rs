//! Shrinking, extending, punching and deleting files.
//!
//! A truncation or deletion that does not fit one transaction runs in steps, from the end of the file backwards.
//! Meanwhile the inode is on the orphan list, so after a crash the next mount continues. A step frees one extent.

use std::ops::Range;
use std::rc::Rc;

use super::balloc::ALLOCATION_CREDITS;
use super::format::inode::flags;
use super::ialloc::INODE_CREDITS;
use super::inodes::Node;
use super::map::MAP_CREDITS;
use super::mode::Scope;
use super::orphans::ORPHAN_CREDITS;
use super::views::Contents;
use super::write::{ALLOCATION_STEP_BLOCKS, NewBlocks};
use crate::api::{Allocation, FsError, FsResult};
use crate::block::BlockRange;
use crate::journal::Handle;
use crate::pages::{PAGE_BYTES, page_key};

/// Blocks that freeing one extent may change: it may touch two groups.
pub(super) const FREE_CREDITS: usize = MAP_CREDITS + 2 * ALLOCATION_CREDITS + 1;
/// Steps that the first transaction has credits for.
const STEPS_AT_ONCE: usize = 2;

/// Credits that [`Contents::delete`] needs in the transaction that removed the last name.
pub(super) const DELETE_CREDITS: usize = ORPHAN_CREDITS + INODE_CREDITS + 1 + STEPS_AT_ONCE * FREE_CREDITS;

impl Contents<'_> {
    /// Sets the size. The caller holds the node's lock exclusively.
    pub(super) async fn set_size(&self, node: &Rc<Node>, size: u64) -> FsResult<()> {
        let old = node.size();
        let first = size.div_ceil(PAGE_BYTES);
        // As Linux does, a truncation to the size that it has gives back what `fallocate` took behind it.
        let frees = size < old || (size == old && self.extents().mapped_end(node).await? > first);
        let mut handle = self.journal().start(ORPHAN_CREDITS + 3 + STEPS_AT_ONCE * FREE_CREDITS).await?;
        if frees {
            self.before_truncation(node).await?;
        }
        self.zero_tail(&mut handle, node, size.min(old)).await?;
        {
            let stamp = self.timestamp();
            node.set_size(size);
            node.stamp_modified(stamp);
        }
        if frees {
            onewrite_block::reached!("truncation while pages are written", self.pages().is_writing(&**node));
            self.pages().discard(node.file_number(), first..old.div_ceil(PAGE_BYTES));
            self.unreserve(node, first..u64::MAX);
            self.pages().wait_for_writes(&**node).await;
            self.give_up(node, first, u64::MAX);
        }
        self.load_inode_block(node.number()).await?;
        self.save(&mut handle, node);
        node.note_data_change(handle.tid());
        if frees {
            handle = self.free_from(handle, node, first, STEPS_AT_ONCE).await?;
        }
        self.end_truncation(&mut handle, node).await
    }

    /// Writes the file's content before its blocks are freed, if a committing transaction refers to those blocks for
    /// the first time. The caller has an open handle: the committing transaction is an earlier one, and no later one
    /// begins to commit.
    async fn before_truncation(&self, node: &Node) -> FsResult<()> {
        if self.scope() == Scope::OrderedMetadata && self.journal().is_ordering(node.file_number()) {
            onewrite_block::reached!("truncation writes ordered data first");
            self.pages().write_ready(self.volume(), node, 0..u64::MAX).await?;
            self.pages().wait_for_writes(node).await;
        }
        Ok(())
    }

    /// Finishes an interrupted truncation: frees blocks from block `first` on and takes the file off the orphan list.
    pub(super) async fn free_behind(&self, node: &Rc<Node>, first: u64) -> FsResult<()> {
        let handle = self.journal().start(DELETE_CREDITS).await?;
        let mut handle = self.free_from(handle, node, first, STEPS_AT_ONCE).await?;
        self.end_truncation(&mut handle, node).await
    }

    /// Takes the file off the orphan list; one without a name stays there, for the mount after a crash deletes it.
    async fn end_truncation(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        let links = node.inode().links;
        if links == 0 { Ok(()) } else { self.allocator().remove_orphan(handle, node).await }
    }

    /// Frees the file's blocks from block `first` on: `steps` extents in this transaction, the rest in further
    /// transactions. Saves the inode with every step.
    async fn free_from(&self, mut handle: Handle, node: &Rc<Node>, first: u64, mut steps: usize) -> FsResult<Handle> {
        if !node.inode().has(flags::EXTENTS) {
            return Ok(handle);
        }
        loop {
            if steps == 0 {
                if !self.has_blocks_from(node, first).await? {
                    return Ok(handle);
                }
                onewrite_block::reached!("truncation over several transactions");
                self.allocator().add_orphan(&mut handle, node).await?;
                drop(handle);
                handle = self.journal().start(ORPHAN_CREDITS + INODE_CREDITS + 1 + FREE_CREDITS).await?;
                steps = 1;
            }
            match self.free_last(&mut handle, node, first).await {
                Ok(true) => steps -= 1,
                Ok(false) => return Ok(handle),
                Err(error) => return Err(self.leave_to_mount(&mut handle, node, error).await),
            }
        }
    }

    /// Frees the file's last extent, as far as it lies behind block `first`. Returns whether there was one.
    async fn free_last(&self, handle: &mut Handle, node: &Rc<Node>, first: u64) -> FsResult<bool> {
        let _map = node.map_lock().write().await;
        let Some(taken) = self.extents().take_extent(handle, node, first..1 << 32).await? else { return Ok(false) };
        self.free_taken(handle, node, taken.blocks()).await?;
        Ok(true)
    }

    /// Puts a node whose deletion or truncation the device stopped on the orphan list, so that the next mount goes on
    /// with it; returns the error.
    async fn leave_to_mount(&self, handle: &mut Handle, node: &Node, error: FsError) -> FsError {
        if matches!(error, FsError::Device(_)) {
            onewrite_block::reached!("failed truncation left to the mount");
            // If this fails, too, the first error says more.
            let _ = self.allocator().add_orphan(handle, node).await;
        }
        error
    }

    async fn free_taken(&self, handle: &mut Handle, node: &Node, range: BlockRange) -> FsResult<()> {
        self.allocator().free_blocks(handle, range).await?;
        node.drop_blocks(range.count);
        self.load_inode_block(node.number()).await?;
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

    /// Deletes an inode without names and openers, and its content; begins in `handle`.
    pub(super) async fn delete(&self, mut handle: Handle, node: &Rc<Node>) -> FsResult<()> {
        self.before_truncation(node).await?;
        let pages = node.size().div_ceil(PAGE_BYTES);
        onewrite_block::reached!("deletion while pages are written", self.pages().is_writing(&**node));
        self.pages().discard(node.file_number(), 0..pages);
        self.unreserve(node, 0..u64::MAX);
        self.pages().wait_for_writes(&**node).await;
        self.give_up(node, 0, u64::MAX);
        self.pages().dirty_files().forget(&**node);
        handle = self.free_from(handle, node, 0, STEPS_AT_ONCE).await?;
        let freed = self.free_without_content(&mut handle, node).await;
        match freed {
            Ok(()) => Ok(()),
            Err(error) => Err(self.leave_to_mount(&mut handle, node, error).await),
        }
    }

    async fn free_without_content(&self, handle: &mut Handle, node: &Node) -> FsResult<()> {
        self.extended_attributes().release_attribute_block(handle, node).await?;
        self.allocator().remove_orphan(handle, node).await?;
        self.allocator().free_inode(handle, node).await
    }

    /// Ends one open of the node. Deletes the inode if it has no other opener and no name.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(super) async fn release(&self, node: &Rc<Node>) -> FsResult<()> {
        node.drop_opener();
        if node.is_open() || node.inode().links > 0 {
            return Ok(());
        }
        let _held = node.lock().write().await;
        onewrite_block::reached!("last opener of a nameless file leaves");
        if node.is_deleted() || node.is_open() {
            return Ok(());
        }
        let handle = self.journal().start(DELETE_CREDITS).await?;
        self.delete(handle, node).await
    }

    /// Deletes the inodes without a name that are still open: nobody reaches them once the image is unmounted. One that
    /// cannot be deleted is left to the next mount.
    ///
    /// # Errors
    /// Device errors.
    pub(super) async fn delete_nameless(&self) -> FsResult<()> {
        for number in self.orphans().all() {
            let Some(node) = self.inodes().get(number) else { continue };
            let _held = node.lock().write().await;
            if node.is_deleted() || node.inode().links > 0 {
                continue;
            }
            let handle = self.journal().start(DELETE_CREDITS).await?;
            match self.delete(handle, &node).await {
                Err(FsError::Damaged { .. }) => (),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Frees the blocks of `pages` in this transaction, with [`FREE_CREDITS`] for each extent, and drops the pages from
    /// the cache. The caller holds the node's lock exclusively.
    pub(super) async fn free_range(&self, handle: &mut Handle, node: &Rc<Node>, pages: Range<u64>) -> FsResult<()> {
        let _map = node.map_lock().write().await;
        while let Some(taken) = self.extents().take_extent(handle, node, pages.clone()).await? {
            self.pages().discard(node.file_number(), taken.logical.into()..taken.logical_end());
            self.free_taken(handle, node, taken.blocks()).await?;
        }
        self.pages().discard(node.file_number(), pages);
        Ok(())
    }

    /// Frees the blocks of `pages`, extent by extent; leaves size and times. The caller holds the node's lock
    /// exclusively, and has neither dirty pages nor pages being written there.
    pub(super) async fn free_blocks_of(&self, node: &Rc<Node>, pages: Range<u64>) -> FsResult<()> {
        loop {
            let mut handle = self.journal().start(FREE_CREDITS + MAP_CREDITS + 1).await?;
            let _map = node.map_lock().write().await;
            let Some(taken) = self.extents().take_extent(&mut handle, node, pages.clone()).await? else {
                return Ok(());
            };
            self.pages().discard(node.file_number(), taken.logical.into()..taken.logical_end());
            self.free_taken(&mut handle, node, taken.blocks()).await?;
            node.note_data_change(handle.tid());
        }
    }

    /// See `FileSystem::allocate`. The caller holds the node's lock exclusively.
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
                let before = node.inode().mtime;
                self.punch(node, offset, end).await?;
                if node.inode().mtime == before { self.stamp_modified(node).await } else { Ok(()) }
            }
            Allocation::ZeroRange => {
                self.punch(node, offset, end).await?;
                self.reserve(node, offset..end, node.size().max(end)).await
            }
            Allocation::CollapseRange => self.collapse(node, offset..end).await,
            Allocation::InsertRange => self.insert_hole(node, offset, end - offset).await,
        }
    }

    /// Stamps the file as modified although no content changed.
    async fn stamp_modified(&self, node: &Rc<Node>) -> FsResult<()> {
        let mut handle = self.journal().start(1).await?;
        self.load_inode_block(node.number()).await?;
        let stamp = self.timestamp();
        node.stamp_modified(stamp);
        self.save(&mut handle, node);
        Ok(())
    }

    async fn reserve(&self, node: &Rc<Node>, bytes: Range<u64>, size: u64) -> FsResult<()> {
        let (mut first, stop) = (bytes.start / PAGE_BYTES, bytes.end.div_ceil(PAGE_BYTES));
        if size > node.size() {
            self.before_growth(node).await?;
        }
        while first < stop {
            let next = stop.min(first + ALLOCATION_STEP_BLOCKS);
            let mut handle = self.journal().start(super::write::map_credits(8) * 2 + 1).await?;
            // A device that cannot read it refuses before anything has changed.
            self.load_inode_block(node.number()).await?;
            let map = node.map_lock().write().await;
            let survey = self.extents().survey(node, first..next).await?;
            let allocated = self.allocate_range(&mut handle, node, survey, NewBlocks::Unwritten).await;
            drop(map);
            if next == stop && allocated.outcome.is_ok() {
                let stamp = self.timestamp();
                if size > node.size() {
                    node.set_size(size);
                }
                node.stamp_modified(stamp);
            }
            self.load_inode_block(node.number()).await?;
            self.save(&mut handle, node);
            node.note_data_change(handle.tid());
            allocated.outcome?;
            first = next;
        }
        Ok(())
    }

    /// Makes the range a hole, up to the end of the file. Partial pages at its ends become zeros. A range that includes
    /// the file's last byte includes the whole page of that byte.
    pub(super) async fn punch(&self, node: &Rc<Node>, offset: u64, end: u64) -> FsResult<()> {
        let size = node.size();
        if offset >= end.min(size) {
            return Ok(());
        }
        if end >= size && size > node.inode().size {
            onewrite_block::reached!("hole punched over delayed growth");
            // The size in the inode waits for content that the punch would drop: write that content first.
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
        // Several transactions free the blocks. The map shows a block until the transaction that frees it, so the block
        // must hold what was written until then. In full scope a transaction that holds those pages may end at any
        // time, so the pages stay in memory until then, too.
        if self.scope() != Scope::Full {
            self.pages().write_ready(self.volume(), node, first..stop).await?;
            self.pages().discard(node.file_number(), first..stop);
        }
        self.unreserve(node, first..stop);
        self.pages().wait_for_writes(&**node).await;
        self.give_up(node, first, stop);
        loop {
            let mut handle = self.journal().start(FREE_CREDITS + MAP_CREDITS + 1).await?;
            let _map = node.map_lock().write().await;
            let Some(taken) = self.extents().take_extent(&mut handle, node, first..stop).await? else {
                return Ok(());
            };
            self.pages().discard(node.file_number(), taken.logical.into()..taken.logical_end());
            let stamp = self.timestamp();
            node.stamp_modified(stamp);
            self.free_taken(&mut handle, node, taken.blocks()).await?;
            node.note_data_change(handle.tid());
        }
    }

    /// Zeros part of a page, unless the page is a hole.
    async fn write_zeros(&self, node: &Rc<Node>, offset: u64, zeros: &[u8]) -> FsResult<()> {
        let index = offset / PAGE_BYTES;
        let is_written = match self.extents().map(node, index as u32).await? {
            super::map::Mapping::Mapped(extent) => !extent.unwritten,
            super::map::Mapping::Hole(_) => false,
        };
        if !is_written && !self.pages().is_newer(page_key(&**node, index)) {
            return Ok(());
        }
        let content = crate::content::Content::Bytes(zeros);
        self.write_file(node, offset, content, crate::api::Manner::default()).await
    }
}
