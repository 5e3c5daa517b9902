//! Removes ranges from a file and inserts holes: `fallocate`'s collapse and insert.
//!
//! No content moves: extents behind the place get new logical numbers. Before that, all dirty pages of the file are
//! written and the pages behind the place leave the cache, because the cache knows a page by its index in the file.
//!
//! Steps: a collapse first makes the range a hole (see `punch`); then one step moves the extents behind it and reduces
//! the size. An insertion is one step. After a crash between the steps of a collapse, the range is a hole, as it may be
//! on Linux. Unless content is logged, the shift is durable when the call returns: what is then written in place would
//! else show at another place of the file after a crash, where nobody wrote it.

use std::ops::Range;
use std::rc::Rc;

use super::guard::SIZE_MAX;
use super::inodes::Node;
use super::map::MAP_CREDITS;
use super::map::shift::Shift;
use super::mode::Scope;
use super::views::Contents;
use crate::api::{FsError, FsResult};
use crate::pages::PAGE_BYTES;

impl Contents<'_> {
    /// See `Allocation::CollapseRange`. The caller holds the node's lock exclusively.
    pub(super) async fn collapse(&self, node: &Rc<Node>, bytes: Range<u64>) -> FsResult<()> {
        let Range { start: offset, end } = bytes;
        expect_whole_pages(offset, end - offset)?;
        if end >= node.size() {
            let message = format!("a range up to byte {end} of {} in a file of {} bytes", node.ino(), node.size());
            return Err(FsError::Invalid(message + " cannot be collapsed: truncate it"));
        }
        let shift = Shift { from: (end / PAGE_BYTES) as u32, to: (offset / PAGE_BYTES) as u32 };
        self.extents().nodes_behind(node, shift.from).await?;
        self.quiesce(node, offset / PAGE_BYTES).await?;
        self.punch(node, offset, end).await?;
        self.shift_file(node, shift, node.size() - (end - offset)).await
    }

    /// See `Allocation::InsertRange`. The caller holds the node's lock exclusively.
    pub(super) async fn insert_hole(&self, node: &Rc<Node>, offset: u64, length: u64) -> FsResult<()> {
        expect_whole_pages(offset, length)?;
        if offset >= node.size() {
            let message = format!("byte {offset} of {}, a file of {} bytes", node.ino(), node.size());
            return Err(FsError::Invalid(message + ": nothing lies behind a hole there; extend the file"));
        }
        let mapped_end = self.extents().mapped_end(node).await? * PAGE_BYTES;
        self.check_end(node, node.size().max(mapped_end).saturating_add(length))?;
        let from = (offset / PAGE_BYTES) as u32;
        self.before_growth(node).await?;
        self.quiesce(node, u64::from(from)).await?;
        let shift = Shift { from, to: from + (length / PAGE_BYTES) as u32 };
        self.shift_file(node, shift, node.size() + length).await
    }

    /// Writes all content of the file to the blocks that its map names, and drops its pages from `first` on from
    /// memory.
    async fn quiesce(&self, node: &Node, first: u64) -> FsResult<()> {
        self.write_and_convert(node).await?;
        if self.scope() == Scope::Full {
            // The running transaction knows its pages by their index in the file.
            self.commit_now().await?;
        }
        self.pages().discard(node.file_number(), first..u64::MAX);
        Ok(())
    }

    async fn shift_file(&self, node: &Rc<Node>, shift: Shift, size: u64) -> FsResult<()> {
        let nodes = self.extents().nodes_behind(node, shift.from).await?.len();
        let mut handle = self.journal().start(MAP_CREDITS + nodes + 2).await?;
        let map = node.map_lock().write().await;
        self.extents().split_extent(&mut handle, node, shift.from).await?;
        self.extents().shift_map(&mut handle, node, shift).await?;
        drop(map);
        node.set_size(size);
        let stamp = self.timestamp();
        node.stamp_modified(stamp);
        self.load_inode_block(node.number()).await?;
        self.save(&mut handle, node);
        node.note_data_change(handle.tid());
        drop(handle);
        if self.scope() != Scope::Full {
            // What is written in place from now on must not show where the blocks lay before.
            self.commit_now().await?;
        }
        Ok(())
    }

    /// # Errors
    /// [`FsError::TooLarge`] if `end` is beyond the largest file size.
    pub(super) fn check_end(&self, node: &Node, end: u64) -> FsResult<()> {
        match end > SIZE_MAX {
            true => Err(FsError::TooLarge { ino: node.ino(), size: end, size_max: SIZE_MAX }),
            false => Ok(()),
        }
    }
}

fn expect_whole_pages(offset: u64, length: u64) -> FsResult<()> {
    match offset.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES) {
        true => Ok(()),
        false => {
            let message = format!("{length} bytes at {offset}: both must be multiples of {PAGE_BYTES} to be shifted");
            Err(FsError::Invalid(message))
        }
    }
}
