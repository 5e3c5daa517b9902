//! Writing files: into the page cache, with blocks allocated as the scope demands.
//!
//! A write is split into steps of at most 64 KiB (one transaction each in full scope). A step
//! 1. brings the pages that it changes in part into memory,
//! 2. allocates blocks for holes and marks unwritten blocks as written, or only reserves blocks (see `delayed`),
//! 3. puts the pages into the cache: into the transaction in full scope, dirty otherwise,
//! 4. stamps and saves the inode.
//!
//! If nothing of the inode changes (an overwrite within one tick of the clock), a step outside full scope needs no
//! transaction, and one in full scope logs the content without the inode. Writers hold the node's lock exclusively;
//! direct overwrites share it.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::PAGE_SIZE;

use super::balloc::{ALLOCATION_CREDITS, GrowthRequest, Source};
use super::format::Extent;
use super::guard::SIZE_MAX;
use super::inodes::Node;
use super::map::{MAP_CREDITS, Mapping};
use super::mode::Scope;
use super::survey::{Part, Survey};
use super::sync::Synced;
use super::views::Contents;
use crate::api::{FsError, FsResult, Manner};
use crate::content::Content;
use crate::journal::Handle;
use crate::pages::{PAGE_BYTES, PagedFile, WriteStep, check_direct, page_key};
use crate::transfer::step_end;

/// Largest step of an allocation without content, in blocks.
pub(super) const ALLOCATION_STEP_BLOCKS: u64 = 32_767;

/// State of new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewBlocks {
    /// Their content arrives with the same transaction or before it. Unwritten blocks in the range become written, too.
    Written,
    /// They read as zeros until the map says that they are written.
    Unwritten,
}

/// Result of [`Contents::allocate_range`].
pub(super) struct Allocated {
    /// The mapping of the pages before `reached`.
    survey: Survey,
    /// All pages before this one have blocks. It is the end of the range unless `outcome` is an error.
    reached: u64,
    /// Whether the map changed: the pages before `reached` then need their content even if `outcome` is an error.
    has_changed: bool,
    /// Success, [`FsError::NoSpace`], a device error or damage.
    pub(super) outcome: FsResult<()>,
}

impl Allocated {
    fn add(&mut self, extent: Extent) {
        self.reached = extent.logical_end();
        self.survey.push(extent);
    }
}

impl Contents<'_> {
    /// See `FileSystem::write`. The caller holds the node's lock exclusively.
    pub(super) async fn write_file(
        &self,
        node: &Rc<Node>,
        offset: u64,
        content: Content<'_>,
        manner: Manner,
    ) -> FsResult<()> {
        let length = content.length();
        let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
        let Some(end) = end else {
            return Err(FsError::TooLarge { ino: node.ino(), size: offset.saturating_add(length), size_max: SIZE_MAX });
        };
        if manner.direct && self.scope() != Scope::Full {
            check_direct(offset, length)?;
            self.before_content_at(node, offset).await?;
            return self.write_past_cache(node, offset, content).await;
        }
        if length > 0 {
            self.before_content_at(node, offset).await?;
            self.pages().note_write(&**node, offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
        }
        let mut start = offset;
        while start < end {
            let stop = step_end(start, end);
            self.pages().dirty_files().throttle(self.volume()).await?;
            self.write_step(node, start..stop, (offset, content)).await?;
            start = stop;
        }
        Ok(())
    }

    /// A page on which the file ended must not show what lies behind that end once the file reaches beyond the page.
    async fn before_content_at(&self, node: &Rc<Node>, offset: u64) -> FsResult<()> {
        match offset / PAGE_BYTES > node.size() / PAGE_BYTES {
            true => self.before_growth(node).await,
            false => Ok(()),
        }
    }

    /// Zeros what lies behind the end of the file on its last page. The caller holds the node's lock exclusively.
    pub(super) async fn before_growth(&self, node: &Rc<Node>) -> FsResult<()> {
        let size = node.size();
        if size.is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        let mut handle = self.journal().start(1).await?;
        self.zero_tail(&mut handle, node, size).await
    }

    async fn write_step(&self, node: &Rc<Node>, bytes: Range<u64>, whole: (u64, Content<'_>)) -> FsResult<()> {
        let Range { start, end } = bytes;
        let (first, last) = (start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let mut step = self.pages().begin_step(self.volume(), node, first..last + 1, whole).await?;
        let mut survey = self.extents().survey(node, first..last + 1).await?;
        let needs_map = !survey.is_written();
        let delays = self.delays() && (!needs_map || self.delay(node, &survey));
        let needs_map = needs_map && !delays;
        let grows = end > node.size() && !delays;
        let stamp = self.timestamp();
        let stamps = node.inode().mtime != stamp || node.inode().ctime != stamp;
        if self.scope() != Scope::Full && !needs_map && !grows && !stamps {
            return self.put_delayed(node, first..last + 1, end, &mut step).await;
        }
        let pages = (last - first + 1) as usize;
        let content_credits = if self.scope() == Scope::Full { pages } else { 0 };
        let map_credits = if needs_map { map_credits(pages) } else { 0 };
        if delays {
            self.put_delayed(node, first..last + 1, end, &mut step).await?;
            let mut handle = self.journal().start(1).await?;
            return self.finish_write(&mut handle, node, 0, Synced::Everything).await;
        }
        let mut handle = self.journal().start(content_credits + map_credits + 1).await?;
        let mut reached = last + 1;
        let mut outcome = Ok(());
        if needs_map {
            let _map = node.map_lock().write().await;
            if self.delays() {
                onewrite_block::reached!("no room to delay an allocation");
                // Others may have given blocks to delayed pages meanwhile.
                survey = self.extents().survey(node, first..last + 1).await?;
            }
            let allocated = self.allocate_range(&mut handle, node, survey, NewBlocks::Written).await;
            if !allocated.has_changed && matches!(allocated.outcome, Err(FsError::Device(_))) {
                return allocated.outcome;
            }
            (survey, reached, outcome) = (allocated.survey, allocated.reached, allocated.outcome);
            if self.scope() == Scope::OrderedMetadata {
                handle.order(node.file_number());
            }
        }
        if reached > first {
            // On a full disk, pages with blocks are still written: their blocks must not show old content.
            match self.scope() {
                Scope::Full => self.put_logged(&mut handle, node, first..reached, &survey, &mut step).await?,
                _ => self.pages().put_dirty(self.volume(), node, first..reached, &mut step).await?,
            }
            let end = end.min(reached * PAGE_BYTES);
            match (grows || needs_map, stamps) {
                (true, _) => self.finish_write(&mut handle, node, end, Synced::Data).await?,
                (false, true) => self.finish_write(&mut handle, node, end, Synced::Everything).await?,
                (false, false) => node.note_content_change(handle.tid()),
            }
        }
        outcome
    }

    /// Stamps the inode, lets it grow to `end`, and saves it. `by` is the least sync that has to make this durable.
    async fn finish_write(&self, handle: &mut Handle, node: &Node, end: u64, by: Synced) -> FsResult<()> {
        self.load_inode_block(node.number()).await?;
        let stamp = self.timestamp();
        node.stamp_modified(stamp);
        node.keep_size(end);
        self.save(handle, node);
        if by == Synced::Data || self.scope() == Scope::Full {
            node.note_data_change(handle.tid());
        }
        Ok(())
    }

    /// Whether all pages from `first` up to `end` have blocks with content.
    async fn is_written(&self, node: &Node, first: u64, end: u64) -> FsResult<bool> {
        let mut index = first;
        while index < end {
            match self.extents().map(node, index as u32).await? {
                Mapping::Mapped(extent) if !extent.unwritten => index += u64::from(extent.length),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Allocates blocks for the holes in `survey`. The survey must still be valid: the caller holds the map's lock, or
    /// nobody else changes the map. The caller saves the inode.
    pub(super) async fn allocate_range(
        &self,
        handle: &mut Handle,
        node: &Node,
        survey: Survey,
        kind: NewBlocks,
    ) -> Allocated {
        let mut done = Allocated { survey: Survey::default(), reached: 0, has_changed: false, outcome: Ok(()) };
        for part in survey.into_parts() {
            done.outcome = match part {
                Part::Mapped(extent) => self.take_mapped(handle, node, extent, kind, &mut done).await,
                Part::Hole(pages) => self.fill_hole(handle, node, pages, kind, &mut done).await,
            };
            if done.outcome.is_err() {
                break;
            }
        }
        done
    }

    /// Adds a mapped extent to `done`; marks it as written if `kind` asks for that.
    async fn take_mapped(
        &self,
        handle: &mut Handle,
        node: &Node,
        extent: Extent,
        kind: NewBlocks,
        done: &mut Allocated,
    ) -> FsResult<()> {
        done.reached = extent.logical.into();
        if extent.unwritten && kind == NewBlocks::Written {
            let pages = extent.logical.into()..extent.logical_end();
            done.has_changed = true;
            self.extents().mark_written(handle, node, pages.clone()).await?;
            self.end_unwritten(node, pages);
        }
        done.add(extent);
        Ok(())
    }

    async fn fill_hole(
        &self,
        handle: &mut Handle,
        node: &Node,
        pages: Range<u64>,
        kind: NewBlocks,
        done: &mut Allocated,
    ) -> FsResult<()> {
        let mut index = pages.start;
        done.reached = index;
        while index < pages.end {
            let extent = self.allocate_extent(handle, node, index..pages.end, kind).await?;
            done.has_changed = true;
            index = extent.logical_end();
            done.add(extent);
        }
        Ok(())
    }

    /// Allocates one extent at the beginning of a hole. The caller saves the inode.
    ///
    /// # Errors
    /// [`FsError::NoSpace`]; device errors and damage.
    pub(super) async fn allocate_extent(
        &self,
        handle: &mut Handle,
        node: &Node,
        hole: Range<u64>,
        kind: NewBlocks,
    ) -> FsResult<Extent> {
        let index = hole.start;
        let wanted = (hole.end - index).min(ALLOCATION_STEP_BLOCKS) as u32;
        let goal = self.extents().goal(node, index as u32).await?;
        let is_delayed = node.pending().is_delayed(index);
        let wanted = if is_delayed { wanted } else { self.until_delayed(node, index, wanted) };
        let from = if is_delayed { Source::KeptBlocks } else { Source::FreeBlocks };
        let request = GrowthRequest { logical: index as u32, wanted, from };
        let range = self.allocator().allocate_for_growth(handle, goal, request).await?;
        let unwritten = kind == NewBlocks::Unwritten;
        onewrite_block::reached!("allocation shorter than wanted", range.count < u64::from(wanted));
        let extent = Extent { logical: index as u32, physical: range.start, length: range.count as u32, unwritten };
        if let Err(error) = self.extents().insert_extent(handle, node, extent).await {
            onewrite_block::reached!("blocks given back, for their tree finds no room");
            self.allocator().free_blocks(handle, range).await?;
            return Err(error);
        }
        node.add_blocks(range.count);
        let pages = index..index + range.count;
        // A truncation or deletion may have given some up meanwhile; it frees their blocks next.
        let delayed = node.pending().delayed_within(&pages);
        if unwritten {
            delayed.into_iter().for_each(|run| self.note_unwritten(node, run));
        }
        self.unreserve(node, pages);
        Ok(extent)
    }

    /// Number of pages from `index` on, at most `wanted`, before the next delayed page. That page has its own reserved
    /// block.
    fn until_delayed(&self, node: &Node, index: u64, wanted: u32) -> u32 {
        let next = node.pending().next_delayed(index);
        next.map_or(wanted, |run| (run.start - index).min(wanted.into()) as u32)
    }

    /// Puts dirty pages into the cache; their blocks exist or are reserved. The size in memory grows to at least `end`.
    async fn put_delayed(
        &self,
        node: &Rc<Node>,
        pages: Range<u64>,
        end: u64,
        step: &mut WriteStep<'_>,
    ) -> FsResult<()> {
        if self.delays() && end > node.inode().size {
            node.pending().grow_to(end);
        }
        self.pages().put_dirty(self.volume(), node, pages, step).await
    }

    async fn put_logged(
        &self,
        handle: &mut Handle,
        node: &Node,
        pages: Range<u64>,
        survey: &Survey,
        step: &mut WriteStep<'_>,
    ) -> FsResult<()> {
        for index in pages {
            let block = survey.block_of(index).expect("pages before the one that was reached have blocks");
            self.pages().put_page(self.volume(), node, index, step).await?;
            self.pin(handle, block, page_key(node, index));
        }
        Ok(())
    }

    /// Zeros the bytes behind byte `size` in its page, in memory now and on the device later: where data are ordered,
    /// before the transaction of `handle` is durable. The caller is about to change the file's size.
    pub(super) async fn zero_tail(&self, handle: &mut Handle, node: &Rc<Node>, size: u64) -> FsResult<()> {
        let (index, used) = (size / PAGE_BYTES, (size % PAGE_BYTES) as usize);
        let key = page_key(&**node, index);
        let written = match self.extents().map(node, index as u32).await? {
            Mapping::Mapped(extent) if !extent.unwritten => Some(extent.physical),
            _ => None,
        };
        if used == 0 || written.is_none() && !self.pages().holds(key) {
            return Ok(());
        }
        let page = self.pages().file_page(self.volume(), node, index, index + 1).await?;
        let is_zeros = page.bytes()[used..].iter().all(|byte| *byte == 0);
        drop(page);
        let is_hidden = node.pages().take_hidden_tail(index) && written.is_some();
        if !is_zeros || is_hidden {
            onewrite_block::reached!("bytes behind a truncation zeroed");
            let tail = used..PAGE_SIZE;
            match written {
                Some(physical) if self.scope() == Scope::Full => {
                    self.pages().change_used(&**node, index, tail, |bytes| bytes.fill(0));
                    self.pin(handle, physical, key);
                }
                _ => self.pages().change_dirty(&**node, index, tail, |bytes| bytes.fill(0)),
            }
        }
        let is_ordered = written.is_some() && self.scope() == Scope::OrderedMetadata;
        // Even if the page held zeros already, its block may still hold something else.
        if is_ordered && self.pages().is_newer(key) {
            handle.order(node.file_number());
        }
        Ok(())
    }

    /// Writes past the page cache: allocates unwritten blocks, writes the content, then marks the blocks as written. So
    /// no crash shows stale blocks.
    async fn write_past_cache(&self, node: &Rc<Node>, offset: u64, content: Content<'_>) -> FsResult<()> {
        let end = offset + content.length();
        let (first, stop) = (offset / PAGE_BYTES, end / PAGE_BYTES);
        if first == stop {
            return Ok(());
        }
        self.pages().write_newest(self.volume(), node, first..stop).await?;
        self.pages().discard(node.file_number(), first..stop);
        let needs_map = !self.is_written(node, first, stop).await?;
        let credits = map_credits((stop - first) as usize);
        if needs_map {
            let mut handle = self.journal().start(credits + 1).await?;
            let map = node.map_lock().write().await;
            onewrite_block::reached!("direct write into a hole");
            let survey = self.extents().survey(node, first..stop).await?;
            let allocated = self.allocate_range(&mut handle, node, survey, NewBlocks::Unwritten).await;
            drop(map);
            self.load_inode_block(node.number()).await?;
            self.save(&mut handle, node);
            allocated.outcome?;
        }
        let pages = (first..stop).filter_map(|index| Some((index, content.whole_page(offset, index)?))).collect();
        self.pages().write_past_cache(self.volume(), node, pages).await?;
        let stamp = self.timestamp();
        let stamps = node.inode().mtime != stamp;
        if needs_map || stamps || end > node.size() {
            let mut handle = self.journal().start(credits + 1).await?;
            if needs_map {
                let _map = node.map_lock().write().await;
                self.extents().mark_written(&mut handle, node, first..stop).await?;
                self.end_unwritten(node, first..stop);
            }
            let by = if needs_map || end > node.size() { Synced::Data } else { Synced::Everything };
            self.finish_write(&mut handle, node, end, by).await?;
        }
        Ok(())
    }

    /// A direct write of whole pages that changes neither map nor size. The caller shares the node's lock. Returns
    /// false and does nothing if the write would change map or size, or if the page cache holds or loads pages that the
    /// write would make stale.
    pub(super) async fn overwrite_direct(&self, node: &Rc<Node>, offset: u64, content: Content<'_>) -> FsResult<bool> {
        let end = offset + content.length();
        let (first, stop) = (offset / PAGE_BYTES, end / PAGE_BYTES);
        let is_overwrite = end <= node.size() && self.is_written(node, first, stop).await?;
        if !is_overwrite {
            return Ok(false);
        }
        let Some(_overwriting) = self.pages().begin_overwrite(&**node, first..stop) else { return Ok(false) };
        if node.inode().mtime != self.timestamp() {
            let mut handle = self.journal().start(1).await?;
            self.finish_write(&mut handle, node, 0, Synced::Everything).await?;
        }
        let pages = (first..stop).filter_map(|index| Some((index, content.whole_page(offset, index)?))).collect();
        self.pages().write_past_cache(self.volume(), node, pages).await?;
        Ok(true)
    }
}

/// Blocks that mapping `pages` pages may change: the map, the bitmaps and descriptors of up to four groups, and one
/// block for every 64 pages.
pub(super) fn map_credits(pages: usize) -> usize {
    MAP_CREDITS + ALLOCATION_CREDITS * pages.min(4) + pages.div_ceil(64)
}
