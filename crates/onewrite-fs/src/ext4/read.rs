//! Reading files: from the page cache, filled in runs; or past it.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, Lpn, PAGE_SIZE, Page, Request};
use onewrite_cache::PageKey;

use super::inodes::Node;
use super::map::Mapping;
use super::volume::Volume;
use crate::api::{FsError, FsResult, Manner, SeekTarget};
use crate::content::Data;
use crate::journal::BlockRange;
use crate::journal::wait_all;

/// Pages that are read ahead of a sequential reader, at most: Linux's 128 KiB.
const READ_AHEAD_PAGES: u64 = 32;

pub(super) const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// A file's page in the cache.
pub(super) fn page_key(node: &Node, index: u64) -> PageKey {
    PageKey { file: u64::from(node.number), index }
}

impl Volume {
    /// # Errors
    /// If a direct transfer is not made of whole pages.
    pub(super) fn check_direct(&self, offset: u64, length: u64) -> FsResult<()> {
        if offset.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        let message = format!("direct transfer of {length} bytes at {offset}: both must be multiples of {PAGE_BYTES}");
        Err(FsError::Invalid(message))
    }

    /// See `FileSystem::read`; the node's lock is held.
    pub(super) async fn read_file(&self, node: &Node, offset: u64, length: u64, manner: Manner) -> FsResult<Data> {
        let size = node.size();
        let end = size.min(offset.saturating_add(length));
        if offset >= end {
            return Ok(Data::default());
        }
        let (first, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        let is_direct = manner.direct && !matches!(self.scope, super::mode::Scope::Full);
        let mut pages = Vec::with_capacity((last - first + 1) as usize);
        if manner.direct {
            self.count_direct(node, first..last + 1, is_direct);
        }
        if is_direct {
            self.check_direct(offset, length)?;
            self.write_pages(node, first, last + 1).await?;
            self.wait_for_writes(node).await;
            self.read_direct(node, first, last, &mut pages).await?;
        } else {
            self.tell(node.ino(), first..last + 1, false);
            let ahead = if node.read_end.get() == offset { READ_AHEAD_PAGES } else { 0 };
            let limit = size.div_ceil(PAGE_BYTES).min(last + 1 + ahead);
            for index in first..=last {
                pages.push(self.file_page(node, index, limit.min(index + 1 + (last - index) + ahead)).await?);
            }
            node.read_end.set(end);
        }
        Ok(Data { pages, skip: (offset % PAGE_BYTES) as usize, length: (end - offset) as usize })
    }

    /// Counts a direct read of `pages`, and what of it is in memory where such reads go through the page cache.
    fn count_direct(&self, node: &Node, pages: Range<u64>, is_direct: bool) {
        let count = pages.end - pages.start;
        let cache = self.cache.borrow();
        let is_cached = |index: &u64| !is_direct && cache.peek(page_key(node, *index)).is_some();
        let cached = pages.filter(is_cached).count() as u64;
        let (read, from_memory) = self.direct_reads.get();
        self.direct_reads.set((read + count * PAGE_BYTES, from_memory + cached * PAGE_BYTES));
    }

    /// Page `index` of the file; if it is not in memory it is read together with those behind it, before `limit`.
    pub(super) async fn file_page(&self, node: &Node, index: u64, mut limit: u64) -> FsResult<Page> {
        loop {
            if let Some(page) = self.cache.borrow_mut().page(page_key(node, index)) {
                return Ok(page.clone());
            }
            self.fill(node, index, limit).await?;
            // Where hardly anything can leave the cache, pages behind it may have driven it out: then it comes alone.
            limit = index + 1;
        }
    }

    /// Reads page `index` and, if they are mapped in one piece, pages behind it up to `limit` into the cache.
    pub(super) async fn fill(&self, node: &Node, index: u64, limit: u64) -> FsResult<()> {
        let Some(_loading) = self.begin_load(page_key(node, index)).await else { return Ok(()) };
        let wanted = index..limit.max(index + 1);
        self.progress.until(|| !node.is_overwriting(&wanted)).await;
        let logical = index as u32;
        let extent = match self.map(node, logical).await? {
            Mapping::Mapped(extent) if !extent.unwritten => extent,
            _ => return self.put_clean(node, index, Page::ZEROS).await,
        };
        let end = limit.min(index + u64::from(extent.length));
        let newer = self.journal.newest_run(extent.physical, end.saturating_sub(index).max(1)).await?;
        if !newer.is_empty() {
            return self.put_all_clean(node, index, newer).await;
        }
        let count = self.run_to_read(node, index, end, extent.physical);
        let transfer_max = self.port.geometry().transfer_pages_max;
        let request = Request::read(Lpn(extent.physical), count.min(transfer_max), Cause::Data);
        let pages = self.port.request(request).await?;
        self.put_all_clean(node, index, pages).await
    }

    async fn put_all_clean(&self, node: &Node, index: u64, pages: Vec<Page>) -> FsResult<()> {
        for (index, page) in (index..).zip(pages) {
            self.put_clean(node, index, page).await?;
        }
        Ok(())
    }

    /// How many pages from `index` on, before `limit`, are neither in memory nor newer in the journal.
    fn run_to_read(&self, node: &Node, index: u64, limit: u64, home: u64) -> u32 {
        let cache = self.cache.borrow();
        let is_missing =
            |next: &u64| cache.peek(page_key(node, *next)).is_none() && !self.journal.has_newer(home + next - index);
        1 + (index + 1..limit).take_while(is_missing).count() as u32
    }

    /// Puts a page into the cache unless it came there meanwhile; bytes behind the end of the file are zeros.
    async fn put_clean(&self, node: &Node, index: u64, mut page: Page) -> FsResult<()> {
        self.make_room().await?;
        let end = node.size();
        if index * PAGE_BYTES < end && end < (index + 1) * PAGE_BYTES {
            let used = (end % PAGE_BYTES) as usize;
            if page.bytes()[used..].iter().any(|byte| *byte != 0) {
                page.bytes_mut()[used..].fill(0);
            }
        }
        let mut cache = self.cache.borrow_mut();
        if cache.peek(page_key(node, index)).is_none() {
            cache.insert(page_key(node, index), page);
        }
        Ok(())
    }

    async fn read_direct(&self, node: &Node, first: u64, last: u64, pages: &mut Vec<Page>) -> FsResult<()> {
        let mut index = first;
        let transfer_max = u64::from(self.port.geometry().transfer_pages_max);
        while index <= last {
            let left = last - index + 1;
            index += match self.map(node, index as u32).await? {
                Mapping::Mapped(extent) if !extent.unwritten => {
                    let count = left.min(u64::from(extent.length)).min(transfer_max);
                    let request = Request::read(Lpn(extent.physical), count as u32, Cause::Data);
                    pages.extend(self.port.request(request).await?);
                    count
                }
                Mapping::Mapped(extent) => zeros(pages, left.min(u64::from(extent.length))),
                Mapping::Hole(length) => zeros(pages, left.min(length)),
            };
        }
        Ok(())
    }

    /// See `FileSystem::seek`. Unwritten blocks are holes; what is dirty goes out first, to be found in the map.
    pub(super) async fn seek_in_map(&self, node: &Node, offset: u64, target: SeekTarget) -> FsResult<u64> {
        if self.delays() && node.dirty_since.get().is_some() {
            self.write_pages(node, 0, u64::MAX).await?;
            self.wait_for_writes(node).await;
        }
        let size = node.size();
        let beyond = || FsError::BeyondEnd(format!("{} from byte {offset} on", node.ino()));
        let mut at = offset;
        while at < size {
            let index = at / PAGE_BYTES;
            let (is_data, length) = match self.map(node, index as u32).await? {
                Mapping::Mapped(extent) => (!extent.unwritten, u64::from(extent.length)),
                Mapping::Hole(length) => (false, length),
            };
            if is_data == (target == SeekTarget::Data) {
                return Ok(at);
            }
            at = (index + length) * PAGE_BYTES;
        }
        match target {
            SeekTarget::Hole if offset < size => Ok(size),
            _ => Err(beyond()),
        }
    }

    /// Writes pages past the cache to where they are mapped; all of them are mapped and written.
    pub(super) async fn write_direct(&self, node: &Rc<Node>, first: u64, pages: Vec<Page>) -> FsResult<()> {
        let (mut under_way, mut places) = (Vec::new(), Vec::new());
        let mut pages = pages.into_iter();
        let (mut index, end) = (first, first + pages.len() as u64);
        while index < end {
            let Mapping::Mapped(extent) = self.map(node, index as u32).await? else {
                let place = format!("{}, page {index}", node.ino());
                return Err(FsError::Damaged { place, problem: "is a hole, though just allocated".into() });
            };
            let count = (end - index).min(u64::from(extent.length));
            let part = pages.by_ref().take(count as usize);
            under_way.extend(crate::journal::send_run(&self.port, extent.physical, part, false, Cause::Data).await);
            places.push(BlockRange { start: extent.physical, count });
            index += count;
        }
        let outcome = wait_all(under_way).await;
        places.into_iter().for_each(|place| self.journal.note_data(place));
        Ok(outcome?)
    }
}

fn zeros(pages: &mut Vec<Page>, count: u64) -> u64 {
    pages.extend(std::iter::repeat_n(Page::ZEROS, count as usize));
    count
}
