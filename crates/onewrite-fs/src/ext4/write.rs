//! Writing files: into the page cache, with blocks allocated as the scope demands.
//!
//! A write is cut into steps of at most 64 KiB (one transaction each in full scope). A step
//! 1. brings the pages that it changes in part into memory,
//! 2. allocates what is a hole, and says of unwritten blocks that they are written,
//! 3. puts the pages into the cache: into the transaction in full scope, dirty otherwise,
//! 4. stamps and saves the inode.
//!
//! If nothing of the inode changes (an overwrite within one tick of the clock), a step outside full scope needs no
//! transaction at all. The node's lock is held alone; direct overwrites share it.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;

use super::balloc::ALLOCATION_CREDITS;
use super::format::Extent;
use super::inodes::Node;
use super::map::{MAP_CREDITS, Mapping, SECTORS_PER_BLOCK};
use super::mode::Scope;
use super::read::{PAGE_BYTES, page_key};
use super::volume::Volume;
use crate::api::{FsError, FsResult, Manner};
use crate::content::Content;
use crate::journal::Handle;

/// Largest step of a write: what `write()` keeps whole in full scope.
const STEP_BYTES: u64 = 64 * 1024;
/// Largest file: 2³² blocks less one.
pub(super) const SIZE_MAX: u64 = ((1 << 32) - 1) * PAGE_BYTES;
/// Largest step of an allocation without content.
pub(super) const ALLOCATION_STEP_BLOCKS: u64 = 32_767;

/// What a step writes, and the pages that it replaces in part, as they were before: they may leave the cache before their
/// new content is put there, and blocks that they got meanwhile hold what was there once.
struct Step<'a> {
    /// Where the content begins in the file.
    offset: u64,
    content: Content<'a>,
    partial: Vec<(u64, Page)>,
}

impl Step<'_> {
    /// The page as it was; the step does not keep it, so that it is changed without being copied.
    fn take_partial(&mut self, index: u64) -> Option<Page> {
        let place = self.partial.iter().position(|(partial, _)| *partial == index)?;
        Some(self.partial.swap_remove(place).1)
    }
}

impl Volume {
    /// See `FileSystem::write`; the node's lock is held alone.
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
        if manner.direct && self.scope != Scope::Full {
            self.check_direct(offset, length)?;
            return self.write_past_cache(node, offset, content).await;
        }
        if length > 0 {
            self.tell(node.ino(), offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES), true);
        }
        let mut start = offset;
        while start < end {
            let stop = end.min(step_end(start));
            self.throttle().await?;
            self.write_step(node, (start, stop), (offset, content)).await?;
            start = stop;
        }
        Ok(())
    }

    async fn write_step(&self, node: &Rc<Node>, (start, end): (u64, u64), whole: (u64, Content<'_>)) -> FsResult<()> {
        let (offset, content) = whole;
        let (first, last) = (start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let mut step = Step { offset, content, partial: self.load_partial(node, first, last, whole).await? };
        let needs_map = !self.is_written(node, first, last + 1).await?;
        let delays = self.delays() && (!needs_map || self.delay(node, first, last + 1).await?);
        let needs_map = needs_map && !delays;
        let grows = end > node.size() && !delays;
        let stamp = self.timestamp();
        let stamps = node.inode.borrow().mtime != stamp || node.inode.borrow().ctime != stamp;
        if self.scope != Scope::Full && !needs_map && !grows && !stamps {
            return self.put_delayed(node, (first, last), end, &mut step).await;
        }
        let pages = (last - first + 1) as usize;
        let content_credits = if self.scope == Scope::Full { pages } else { 0 };
        let map_credits = if needs_map { map_credits(pages) } else { 0 };
        if delays {
            self.put_delayed(node, (first, last), end, &mut step).await?;
            let mut handle = self.journal.start(1).await?;
            return self.finish_write(&mut handle, node, (false, 0)).await;
        }
        let mut handle = self.journal.start(content_credits + map_credits + 1).await?;
        let mut reached = last + 1;
        let mut outcome = Ok(());
        if needs_map {
            let _map = node.map_lock.exclusive().await;
            (reached, outcome) = self.allocate_range(&mut handle, node, (first, last + 1), false).await;
            if self.scope == Scope::OrderedMetadata {
                handle.order(u64::from(node.number));
            }
        }
        if reached > first {
            // On a full disk, what has blocks is written all the same: they must not show what they held before.
            match self.scope {
                Scope::Full => self.put_logged(&mut handle, node, first, reached - 1, &mut step).await?,
                _ => self.put_dirty(node, first, reached - 1, &mut step).await?,
            }
            let end = end.min(reached * PAGE_BYTES);
            self.finish_write(&mut handle, node, (grows || needs_map, end)).await?;
        }
        outcome
    }

    /// Stamps the inode, lets it grow to `end`, and saves it.
    async fn finish_write(&self, handle: &mut Handle, node: &Node, (is_needed, end): (bool, u64)) -> FsResult<()> {
        self.load_inode_block(node.number).await?;
        let stamp = self.timestamp();
        {
            let mut inode = node.inode.borrow_mut();
            (inode.mtime, inode.ctime) = (stamp, stamp);
            inode.size = inode.size.max(end);
        }
        self.save(handle, node);
        if is_needed || self.scope == Scope::Full {
            node.data_changed_in.set(handle.tid());
        }
        Ok(())
    }

    /// Brings the first and last page into memory, if the content covers them only in part, and gives them with their
    /// numbers. They are used later: a write is one access to a page.
    async fn load_partial(
        &self,
        node: &Node,
        first: u64,
        last: u64,
        (offset, content): (u64, Content<'_>),
    ) -> FsResult<Vec<(u64, Page)>> {
        let mut partial = Vec::new();
        let ends = if first == last { vec![first] } else { vec![first, last] };
        for index in ends {
            while content.whole_page(offset, index).is_none() {
                if let Some(page) = self.cache.borrow().peek(page_key(node, index)) {
                    partial.push((index, page.clone()));
                    break;
                }
                self.fill(node, index, index + 1).await?;
            }
        }
        Ok(partial)
    }

    /// Whether all pages from `first` up to `end` have blocks with content.
    async fn is_written(&self, node: &Node, first: u64, end: u64) -> FsResult<bool> {
        let mut index = first;
        while index < end {
            match self.map(node, index as u32).await? {
                Mapping::Mapped(extent) if !extent.unwritten => index += u64::from(extent.length),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Allocates blocks for the holes among the pages from `first` up to `end`; unless `unwritten`, unwritten blocks
    /// count as written from now on. The inode is the caller's to save. Gives the page before which all have blocks,
    /// which is `end` unless the outcome is an error ([`FsError::NoSpace`]).
    pub(super) async fn allocate_range(
        &self,
        handle: &mut Handle,
        node: &Node,
        (first, end): (u64, u64),
        unwritten: bool,
    ) -> (u64, FsResult<()>) {
        let mut index = first;
        while index < end {
            match self.allocate_run(handle, node, (index, end), unwritten).await {
                Ok(next) => index = next,
                Err(error) => return (index, Err(error)),
            }
        }
        (end, Ok(()))
    }

    /// The first step of [`Volume::allocate_range`]: one extent or one hole.
    pub(super) async fn allocate_run(
        &self,
        handle: &mut Handle,
        node: &Node,
        (index, end): (u64, u64),
        unwritten: bool,
    ) -> FsResult<u64> {
        let hole = match self.map(node, index as u32).await? {
            Mapping::Mapped(extent) => {
                let stop = end.min(index + u64::from(extent.length));
                if extent.unwritten && !unwritten {
                    self.mark_written(handle, node, (index, stop)).await?;
                }
                return Ok(stop);
            }
            Mapping::Hole(length) => length,
        };
        let wanted = hole.min(end - index).min(ALLOCATION_STEP_BLOCKS) as u32;
        let goal = self.goal(node, index as u32).await?;
        let is_delayed = node.delayed.borrow().contains(index);
        let wanted = if is_delayed { wanted } else { self.until_delayed(node, index, wanted) };
        let range = self.allocate_for_growth(handle, goal, (index as u32, wanted, is_delayed)).await?;
        let extent = Extent { logical: index as u32, physical: range.start, length: range.count as u32, unwritten };
        if let Err(error) = self.insert_extent(handle, node, extent).await {
            self.free_blocks(handle, range).await?;
            return Err(error);
        }
        node.inode.borrow_mut().sectors += range.count * SECTORS_PER_BLOCK;
        self.settle(node, index..index + range.count);
        Ok(index + range.count)
    }

    /// How many of the `wanted` pages from `index` on come before the next delayed one, which has a block of its own
    /// kept.
    fn until_delayed(&self, node: &Node, index: u64, wanted: u32) -> u32 {
        let next = node.delayed.borrow().first_from(index);
        next.map_or(wanted, |run| (run.start - index).min(wanted.into()) as u32)
    }

    /// The new content of one page: the whole page, or the page as it was with its part replaced.
    async fn put_page(&self, node: &Node, index: u64, step: &mut Step<'_>) -> FsResult<()> {
        let key = page_key(node, index);
        if self.cache.borrow().peek(key).is_none() {
            self.make_room().await?;
        }
        let mut cache = self.cache.borrow_mut();
        if let Some(page) = step.content.whole_page(step.offset, index) {
            cache.insert(key, page);
            return Ok(());
        }
        let before = step.take_partial(index).expect("the first and the last page were loaded");
        match cache.page(key) {
            Some(_) => drop(before),
            None => cache.insert(key, before),
        }
        let (place, bytes) = step.content.part_of_page(step.offset, index);
        cache.peek_mut(key).expect("it is there").write(place, &bytes);
        Ok(())
    }

    async fn put_dirty(&self, node: &Rc<Node>, first: u64, last: u64, step: &mut Step<'_>) -> FsResult<()> {
        for index in first..=last {
            self.put_page(node, index, step).await?;
            self.cache.borrow_mut().mark_dirty(page_key(node, index));
        }
        self.note_dirty(node);
        Ok(())
    }

    /// Puts dirty pages whose blocks are there or reserved; the file reaches to `end` at least, in memory.
    async fn put_delayed(
        &self,
        node: &Rc<Node>,
        (first, last): (u64, u64),
        end: u64,
        step: &mut Step<'_>,
    ) -> FsResult<()> {
        if self.delays() && end > node.inode.borrow().size {
            node.grown_to.set(node.grown_to.get().max(end));
        }
        self.put_dirty(node, first, last, step).await
    }

    /// Notes that the file has dirty pages.
    pub(super) fn note_dirty(&self, node: &Rc<Node>) {
        if node.dirty_since.get().is_none() {
            node.dirty_since.set(Some(self.runtime.now()));
            self.inodes.dirty.borrow_mut().push_back(node.number);
        }
    }

    async fn put_logged(
        &self,
        handle: &mut Handle,
        node: &Node,
        first: u64,
        last: u64,
        step: &mut Step<'_>,
    ) -> FsResult<()> {
        for index in first..=last {
            let Mapping::Mapped(extent) = self.map(node, index as u32).await? else {
                let place = format!("{}, page {index}", node.ino());
                return Err(FsError::Damaged { place, problem: "is a hole, though just allocated".into() });
            };
            self.put_page(node, index, step).await?;
            self.pin(handle, extent.physical, page_key(node, index));
        }
        Ok(())
    }

    /// Zeros the bytes of the file's last page from its end on, in memory and in time on the device; the caller is
    /// about to change the size.
    pub(super) async fn zero_tail(&self, handle: &mut Handle, node: &Rc<Node>, size: u64) -> FsResult<()> {
        let (index, used) = (size / PAGE_BYTES, (size % PAGE_BYTES) as usize);
        let key = page_key(node, index);
        let written = match self.map(node, index as u32).await? {
            Mapping::Mapped(extent) if !extent.unwritten => Some(extent.physical),
            _ => None,
        };
        if used == 0 || written.is_none() && self.cache.borrow().peek(key).is_none() {
            return Ok(());
        }
        let page = self.file_page(node, index, index + 1).await?;
        if page.bytes()[used..].iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        drop(page);
        self.cache.borrow_mut().peek_mut(key).expect("just loaded").bytes_mut()[used..].fill(0);
        match written {
            Some(physical) if self.scope == Scope::Full => self.pin(handle, physical, key),
            _ => {
                self.cache.borrow_mut().mark_dirty(key);
                self.note_dirty(node);
                if written.is_some() && self.scope == Scope::OrderedMetadata {
                    handle.order(u64::from(node.number));
                }
            }
        }
        Ok(())
    }

    /// Blocks first allocated as unwritten, then content, then the map says written: no crash shows stale blocks.
    async fn write_past_cache(&self, node: &Rc<Node>, offset: u64, content: Content<'_>) -> FsResult<()> {
        let end = offset + content.length();
        let (first, stop) = (offset / PAGE_BYTES, end / PAGE_BYTES);
        if first == stop {
            return Ok(());
        }
        self.write_pages(node, first, stop).await?;
        self.wait_for_writes(node).await;
        self.cache.borrow_mut().remove_file(u64::from(node.number), first, stop);
        let needs_map = !self.is_written(node, first, stop).await?;
        let credits = map_credits((stop - first) as usize);
        if needs_map {
            let mut handle = self.journal.start(credits + 1).await?;
            let map = node.map_lock.exclusive().await;
            let (_, outcome) = self.allocate_range(&mut handle, node, (first, stop), true).await;
            drop(map);
            self.load_inode_block(node.number).await?;
            self.save(&mut handle, node);
            outcome?;
        }
        let pages: Vec<Page> = (first..stop).filter_map(|index| content.whole_page(offset, index)).collect();
        self.write_direct(node, first, pages).await?;
        let stamp = self.timestamp();
        let stamps = node.inode.borrow().mtime != stamp;
        if needs_map || stamps || end > node.size() {
            let mut handle = self.journal.start(credits + 1).await?;
            if needs_map {
                let _map = node.map_lock.exclusive().await;
                self.mark_written(&mut handle, node, (first, stop)).await?;
            }
            self.finish_write(&mut handle, node, (needs_map || end > node.size(), end)).await?;
        }
        Ok(())
    }

    /// A direct write of whole pages that changes neither map nor size; the node's lock is shared. False if it is not
    /// one, or if the page cache holds or gets pages that it would make old; then nothing is done.
    pub(super) async fn overwrite_direct(&self, node: &Rc<Node>, offset: u64, content: Content<'_>) -> FsResult<bool> {
        let end = offset + content.length();
        let (first, stop) = (offset / PAGE_BYTES, end / PAGE_BYTES);
        let is_overwrite = end <= node.size() && self.is_written(node, first, stop).await?;
        let in_cache = (first..stop).any(|index| self.cache.borrow().peek(page_key(node, index)).is_some());
        if !is_overwrite || in_cache || self.is_loading(u64::from(node.number)) {
            return Ok(false);
        }
        let _overwriting = Overwriting::begin(self, node, first..stop);
        if node.inode.borrow().mtime != self.timestamp() {
            let mut handle = self.journal.start(1).await?;
            self.finish_write(&mut handle, node, (false, 0)).await?;
        }
        let pages: Vec<Page> = (first..stop).filter_map(|index| content.whole_page(offset, index)).collect();
        self.write_direct(node, first, pages).await?;
        Ok(true)
    }
}

/// Pages are written past the page cache with the node's lock shared, until this is dropped: who wants to read them into
/// the cache waits for that.
struct Overwriting<'a> {
    volume: &'a Volume,
    node: &'a Node,
    pages: Range<u64>,
}

impl<'a> Overwriting<'a> {
    fn begin(volume: &'a Volume, node: &'a Node, pages: Range<u64>) -> Overwriting<'a> {
        node.overwriting.borrow_mut().push(pages.clone());
        Overwriting { volume, node, pages }
    }
}

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        let mut overwriting = self.node.overwriting.borrow_mut();
        let place = overwriting.iter().position(|pages| *pages == self.pages).expect("it was put there");
        overwriting.swap_remove(place);
        if self.volume.is_loading(u64::from(self.node.number)) {
            self.volume.progress.ring();
        }
    }
}

/// Where the step that begins at `start` ends: steps after the first begin at multiples of their size.
fn step_end(start: u64) -> u64 {
    start + STEP_BYTES - start % PAGE_BYTES
}

/// Blocks that mapping so many pages may change: in the worst case each lies apart.
pub(super) fn map_credits(pages: usize) -> usize {
    MAP_CREDITS + ALLOCATION_CREDITS * pages.min(4) + pages.div_ceil(64)
}
