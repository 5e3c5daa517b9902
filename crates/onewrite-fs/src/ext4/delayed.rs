//! Delayed allocation: in metadata scope a page gets its block when it is written out, not when it is written to.
//!
//! ```text
//!              write                 allocate                    send                     convert
//!   hole ──────────────► delayed ───────────────► unwritten ──────────────► converting ─────────────► written
//!          page dirty,            block taken, the          content is on             the map says so,
//!          space reserved         map says "unwritten"      the device                the size follows
//! ```
//!
//! So one extent holds content that was written piece by piece, and a short-lived file never gets a block. No crash
//! shows old content of a block: until the new content is on the device, the map says that the block reads as zeros.
//! The size in the inode follows the content; until then only [`Node::size`] gives the new size.
//!
//! # Invariants
//! - `delayed` holds dirty pages over holes. Each of them has one reserved block, which no other page takes.
//! - `converting` holds pages over unwritten blocks whose content is on the device: they read as written.
//! - `unwritten` holds these, and dirty pages over unwritten blocks. While there are any, blocks are kept for the
//!   extent trees that their conversion may split: the writer was told that there is room.
//! - A writer opens a handle only while none of its pages is being written, because a commit waits for those pages. The
//!   map's lock is taken inside a handle.
//!
//! Source: Linux's `delalloc` and `dioread_nolock`, its defaults; see `docs/decisions/006-delayed-allocation.md`.

pub(super) mod pending;

use std::ops::Range;

use super::backing::Found;
use super::inodes::Node;
use super::map::{MAP_CREDITS, Mapping};
use super::mode::Scope;
use super::survey::Survey;
use super::views::Contents;
use super::write::{ALLOCATION_STEP_BLOCKS, NewBlocks, map_credits};
use crate::api::FsResult;
use crate::drafts::Drafting;
use crate::pages::{PAGE_BYTES, Run};

/// Blocks kept for extent trees while any block is reserved or any page waits for its conversion: this many, plus one
/// for every [`RESERVED_PER_TREE_BLOCK`] of both.
const TREE_BLOCKS_KEPT: u64 = 32;
const RESERVED_PER_TREE_BLOCK: u64 = 64;

impl Contents<'_> {
    /// Whether allocation waits for writeback.
    pub(super) fn delays(&self) -> bool {
        self.scope() != Scope::Full && self.options().delayed_allocation
    }

    /// Free blocks kept for delayed pages and for the extent trees that will map them.
    pub(super) fn kept_blocks(&self) -> u64 {
        kept(self.groups().reserved_blocks(), self.groups().unwritten_pages())
    }

    /// Reserves blocks for the holes in `survey`, and keeps some for the conversion of its unwritten extents; their
    /// pages are about to become dirty. Does not wait. Returns false and reserves nothing if free space is scarce; the
    /// caller must then allocate the blocks at once.
    pub(super) fn delay(&self, node: &Node, survey: &Survey) -> bool {
        let is_new = |page: &u64| !node.pending().is_delayed(*page);
        let holes: Vec<u64> = survey.holes().flatten().filter(is_new).collect();
        let unwritten: u64 = survey.unwritten().map(|pages| pages.end - pages.start).sum();
        let reserved = self.groups().reserved_blocks() + holes.len() as u64;
        if kept(reserved, self.groups().unwritten_pages() + unwritten) > self.groups().available_blocks() {
            return false;
        }
        self.groups().reserve(reserved);
        node.pending().delay(holes.into_iter());
        survey.unwritten().for_each(|pages| self.note_unwritten(node, pages));
        true
    }

    /// Notes pages over unwritten blocks that got content: blocks are kept for their conversion.
    pub(super) fn note_unwritten(&self, node: &Node, pages: Range<u64>) {
        self.groups().convert_later(self.groups().unwritten_pages() + node.pending().note_unwritten(pages));
    }

    /// Notes that pages need no conversion any more.
    pub(super) fn end_unwritten(&self, node: &Node, pages: Range<u64>) {
        self.groups().convert_later(self.groups().unwritten_pages() - node.pending().end_unwritten(pages));
    }

    /// Whether `more` blocks can be reserved.
    pub(super) fn can_reserve(&self, more: u64) -> bool {
        let reserved = self.groups().reserved_blocks() + more;
        kept(reserved, self.groups().unwritten_pages()) <= self.groups().available_blocks()
    }

    /// Ends the delay of `pages`, which were dropped or have blocks now; gives back their reserved blocks.
    pub(super) fn unreserve(&self, node: &Node, pages: Range<u64>) {
        let unreserved = node.pending().end_delay(pages);
        self.groups().reserve(self.groups().reserved_blocks() - unreserved);
    }

    /// Gives up the content of pages `first..end`: it needs neither blocks nor conversion.
    pub(super) fn give_up(&self, node: &Node, first: u64, end: u64) {
        self.unreserve(node, first..end);
        node.pending().end_converting(first..end);
        self.end_unwritten(node, first..end);
    }

    /// Allocates unwritten blocks for the delayed pages in `pages`. The caller has no open handle and no page being
    /// written.
    pub(super) async fn allocate_delayed(&self, node: &Node, pages: Range<u64>) -> FsResult<()> {
        let mut index = pages.start;
        loop {
            let next = node.pending().next_delayed(index).filter(|run| run.start < pages.end);
            let Some(run) = next else { return Ok(()) };
            let mut handle = self.journal().start(map_credits(8) + 1).await?;
            let _map = node.map_lock().write().await;
            // A truncation may have come first.
            let Some(still) = node.pending().next_delayed(run.start).filter(|still| still.start == run.start) else {
                onewrite_block::reached!("delayed pages allocated by others meanwhile");
                index = run.start + 1;
                continue;
            };
            let stop = still.end.min(run.start + ALLOCATION_STEP_BLOCKS);
            // The page may already have an unwritten block, from a preallocation.
            index = match self.extents().map(node, run.start as u32).await? {
                Mapping::Mapped(extent) => stop.min(run.start + u64::from(extent.length)),
                Mapping::Hole(length) => {
                    let hole = run.start..stop.min(run.start + length);
                    self.allocate_extent(&mut handle, node, hole, NewBlocks::Unwritten).await?.logical_end()
                }
            };
            self.load_inode_block(node.number()).await?;
            self.save(&mut handle, node);
        }
    }

    /// Notes that the content of a run is on the device.
    pub(super) fn content_arrived(&self, node: &Node, run: &Run<Found>) {
        if !self.delays() {
            return;
        }
        let end = run.file_size.min(run.pages.end * PAGE_BYTES);
        // A truncation may wait for this write: what it cut off has not arrived.
        node.pending().note_arrived(end.min(node.size()));
        if run.found.is_unwritten {
            node.pending().begin_converting(run.pages.clone());
        }
        if self.needs_conversion(node) {
            self.conversions().join(node.number(), node.pending());
        }
    }

    pub(super) fn needs_conversion(&self, node: &Node) -> bool {
        let arrived = node.pending().arrived_to().min(node.size());
        node.pending().is_converting() || arrived > node.inode().size
    }

    /// Updates the map and the size to the content that has arrived on the device. Does nothing to a file that was
    /// deleted meanwhile: another may have its inode. The caller has no open handle and no page being written.
    pub(super) async fn convert(&self, node: &Node) -> FsResult<()> {
        while self.needs_conversion(node) {
            let mut handle = self.journal().start(2 * MAP_CREDITS + 1).await?;
            let _map = node.map_lock().write().await;
            let next = node.pending().next_converting(0);
            if let Some(run) = next {
                let (length, is_unwritten) = match self.extents().map_as_stored(node, run.start as u32).await? {
                    Mapping::Mapped(extent) => (u64::from(extent.length), extent.unwritten),
                    Mapping::Hole(length) => (length, false),
                };
                onewrite_block::reached!("conversion meets a second extent", run.end > run.start + length);
                onewrite_block::reached!("conversion meets blocks that are written already", !is_unwritten);
                let stop = run.end.min(run.start + length);
                if is_unwritten {
                    self.extents().mark_written(&mut handle, node, run.start..stop).await?;
                    self.extents().flatten(&mut handle, node).await?;
                }
                node.pending().end_converting(run.start..stop);
                self.end_unwritten(node, run.start..stop);
            }
            self.load_inode_block(node.number()).await?;
            // From here to the save nothing waits.
            if node.is_deleted() {
                onewrite_block::reached!("file deleted before its content is converted");
                return Ok(());
            }
            if !node.pending().is_converting() {
                let arrived = node.pending().arrived_to().min(node.size());
                node.keep_size(arrived);
            }
            self.save(&mut handle, node);
            node.note_data_change(handle.tid());
        }
        Ok(())
    }

    /// Verifies that the number of reserved blocks equals the number of delayed pages and what drafts need, and that
    /// of pages that wait for their conversion.
    ///
    /// # Errors
    /// A sentence with both numbers if they differ.
    pub(super) fn check_delayed(&self) -> Result<(), String> {
        let (reserved, delayed) = (self.groups().reserved_blocks(), self.inodes().delayed_pages());
        let drafted = Drafting(self.volume()).reserved_blocks();
        if reserved != delayed + drafted {
            return Err(format!("{reserved} blocks are reserved for {delayed} delayed pages and {drafted} in drafts"));
        }
        let (counted, unwritten) = (self.groups().unwritten_pages(), self.inodes().unwritten_pages());
        if counted != unwritten {
            return Err(format!("{counted} pages count as waiting for their conversion, {unwritten} wait"));
        }
        Ok(())
    }

    /// [`Contents::check_delayed`] in debug builds.
    ///
    /// # Panics
    /// If the numbers differ.
    pub(super) fn debug_check_delayed(&self) {
        if cfg!(debug_assertions)
            && let Err(broken) = self.check_delayed()
        {
            panic!("delayed allocation: {broken}");
        }
    }

    /// Converts in the background, one file after another; ends when the journal is aborted.
    pub(super) async fn conversion_task(&self) {
        loop {
            // The file stays in the line during its conversion, so that `sync` finds it there.
            let number = self.conversions().first().await;
            let node = self.inodes().get(number);
            if let Some(node) = &node
                && self.convert(node).await.is_err()
                && self.journal().abort_reason().is_some()
            {
                return;
            }
            self.conversions().leave_first(node.as_ref().map(|node| node.pending()));
        }
    }

    /// Converts everything that has arrived.
    pub(super) async fn convert_everything(&self) -> FsResult<()> {
        for node in self.conversions().files().into_iter().filter_map(|number| self.inodes().get(number)) {
            self.convert(&node).await?;
        }
        Ok(())
    }
}

/// Free blocks that must remain while `reserved` blocks are reserved and `unwritten` pages wait for their conversion.
fn kept(reserved: u64, unwritten: u64) -> u64 {
    match reserved + unwritten {
        0 => 0,
        both => reserved + TREE_BLOCKS_KEPT + both / RESERVED_PER_TREE_BLOCK,
    }
}
