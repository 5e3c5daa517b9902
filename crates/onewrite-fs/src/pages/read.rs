//! Read: reads files through the page cache, which it fills in runs, or directly from the device.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, Page, Request};

use super::{Access, Backing, DirectReads, Lookup, PAGE_BYTES, PagedFile, Pages, page_key};
use crate::api::{FsError, FsResult, Manner, SeekTarget};
use crate::content::Data;

/// Maximum number of pages read ahead for a sequential reader: Linux's 128 KiB.
const READ_AHEAD_PAGES: u64 = 32;

/// # Errors
/// If a direct transfer is not made of whole pages.
pub(crate) fn check_direct(offset: u64, length: u64) -> FsResult<()> {
    if offset.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES) {
        return Ok(());
    }
    let message = format!("direct transfer of {length} bytes at {offset}: both must be multiples of {PAGE_BYTES}");
    Err(FsError::Invalid(message))
}

impl Pages {
    /// See `FileView::read`. The caller holds the file's lock.
    ///
    /// # Errors
    /// Device errors, damage, or a direct transfer that is not made of whole pages.
    pub async fn read<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        bytes: Range<u64>,
        manner: Manner,
    ) -> FsResult<Data> {
        let (offset, end) = (bytes.start, file.size().min(bytes.end));
        if offset >= end {
            return Ok(Data::default());
        }
        let (first, stop) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let is_direct = manner.direct && backing.allows_direct();
        if manner.direct {
            let cached = if is_direct { 0 } else { self.cached_pages(file, first..stop) };
            self.count_direct(stop - first, cached);
        }
        let pages = if is_direct {
            check_direct(offset, bytes.end - offset)?;
            self.read_past_cache(backing, file, first..stop).await?
        } else if manner.once {
            self.read_once(backing, file, first..stop).await?
        } else {
            let ahead = if file.pages().reads_on(offset) { READ_AHEAD_PAGES } else { 0 };
            let pages = self.read_through_cache(backing, file, first..stop, ahead).await?;
            file.pages().note_read(end);
            pages
        };
        Ok(Data { pages, skip: (offset % PAGE_BYTES) as usize, length: (end - offset) as usize })
    }

    async fn read_through_cache<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        range: Range<u64>,
        ahead: u64,
    ) -> FsResult<Vec<Page>> {
        self.tell(file, range.clone(), Access::Read);
        let limit = file.size().div_ceil(PAGE_BYTES).min(range.end + ahead);
        let mut pages = Vec::with_capacity((range.end - range.start) as usize);
        for index in range {
            pages.push(self.file_page(backing, file, index, limit).await?);
        }
        Ok(pages)
    }

    /// Reads pages for one caller: those in memory from there, the others past it. Does not change what is in memory.
    async fn read_once<B: Backing>(&self, backing: &B, file: &B::File, range: Range<u64>) -> FsResult<Vec<Page>> {
        self.tell(file, range.clone(), Access::Read);
        let count = (range.end - range.start) as usize;
        let mut pages = Vec::with_capacity(count);
        while pages.len() < count {
            let index = range.start + pages.len() as u64;
            if let Some(page) = self.page(page_key(file, index)) {
                pages.push(page);
            } else if let Some(_loading) = self.begin_load(page_key(file, index)).await {
                pages.append(&mut self.load(backing, file, index..range.end).await?);
            }
        }
        Ok(pages)
    }

    /// Number of these pages that are in memory.
    fn cached_pages(&self, file: &impl PagedFile, pages: Range<u64>) -> u64 {
        pages.filter(|index| self.holds(page_key(file, *index))).count() as u64
    }

    /// Counts a direct read of `page_count` pages, `cached_count` of them from memory.
    fn count_direct(&self, page_count: u64, cached_count: u64) {
        let DirectReads { bytes, cached_bytes } = self.direct_reads.get();
        self.direct_reads.set(DirectReads {
            bytes: bytes + page_count * PAGE_BYTES,
            cached_bytes: cached_bytes + cached_count * PAGE_BYTES,
        });
    }

    /// Page `index` of the file. If it is not in memory, reads it together with the pages behind it, before `limit`.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(crate) async fn file_page<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        index: u64,
        mut limit: u64,
    ) -> FsResult<Page> {
        loop {
            if let Some(page) = self.page(page_key(file, index)) {
                return Ok(page);
            }
            self.fill(backing, file, index, limit).await?;
            // If few pages can leave the cache, the pages read behind this one may have evicted it. Then read it alone.
            limit = index + 1;
        }
    }

    /// Reads page `index` into the cache, with the pages behind it, before `limit`, that lie in consecutive blocks.
    ///
    /// # Errors
    /// Device errors and damage.
    pub async fn fill<B: Backing>(&self, backing: &B, file: &B::File, index: u64, limit: u64) -> FsResult<()> {
        let Some(_loading) = self.begin_load(page_key(file, index)).await else { return Ok(()) };
        let pages = self.load(backing, file, index..limit.max(index + 1)).await?;
        for (index, page) in (index..).zip(pages) {
            self.put_clean(backing, file, index, page).await?;
        }
        Ok(())
    }

    /// Reads single pages of files into the cache, side by side. Leaves out those that are there, those that somebody
    /// reads or overwrites, and those that no block holds, or not their newest content.
    ///
    /// # Errors
    /// Device errors and damage.
    pub(crate) async fn fill_scattered<B: Backing>(&self, backing: &B, wanted: &[(Rc<B::File>, u64)]) -> FsResult<()> {
        let mut sent = Vec::new();
        for (file, index) in wanted {
            let key = page_key(&**file, *index);
            let is_read = self.loading.borrow().contains(&key);
            if is_read || file.pages().is_overwriting(&(*index..index + 1)) {
                continue;
            }
            let Some(loading) = self.begin_load(key).await else { continue };
            let Lookup::At { block, .. } = backing.lookup(file, *index).await? else { continue };
            if !backing.has_newer(block) {
                let read = self.port.send(Request::read(block.page(), 1, Cause::Data)).await;
                sent.push((file, *index, loading, read));
            }
        }
        onewrite_block::reached!("pages read side by side", sent.len() > 1);
        for (file, index, _loading, read) in sent {
            for page in read.await? {
                self.put_clean(backing, file, index, page).await?;
            }
        }
        Ok(())
    }

    /// Reads the first of these pages, which is not in memory, with those behind it that lie in consecutive blocks and
    /// are not in memory either: what is on the device may be older than what is in memory.
    async fn load<B: Backing>(&self, backing: &B, file: &B::File, wanted: Range<u64>) -> FsResult<Vec<Page>> {
        let index = wanted.start;
        onewrite_block::reached!("read waits for a direct write", file.pages().is_overwriting(&wanted));
        self.progress.until(|| !file.pages().is_overwriting(&wanted)).await;
        let Lookup::At { block, count } = backing.lookup(file, index).await? else {
            return Ok(vec![Page::ZEROS]);
        };
        let behind = index + 1..wanted.end.min(index + count);
        let missing = behind.take_while(|next| !self.holds(page_key(file, *next))).count() as u64;
        let newer = backing.newest(block, 1 + missing).await?;
        if !newer.is_empty() {
            onewrite_block::reached!("content read from the log");
            return Ok(newer);
        }
        let older = (1..=missing).take_while(|next| !backing.has_newer(block + *next)).count() as u32;
        let transfer_max = self.port.geometry().transfer_pages_max;
        let request = Request::read(block.page(), (1 + older).min(transfer_max), Cause::Data);
        Ok(self.port.request(request).await?)
    }

    /// Puts a page into the cache, unless it is there by now. Sets the bytes behind the end of the file to zero.
    async fn put_clean<B: Backing>(&self, backing: &B, file: &B::File, index: u64, mut page: Page) -> FsResult<()> {
        self.make_room(backing).await?;
        let end = file.size();
        if index * PAGE_BYTES < end && end < (index + 1) * PAGE_BYTES {
            let used = (end % PAGE_BYTES) as usize;
            if page.bytes()[used..].iter().any(|byte| *byte != 0) {
                onewrite_block::reached!("bytes behind the end cleared at a load");
                page.bytes_mut()[used..].fill(0);
                file.pages().note_hidden_tail(index);
            }
        }
        onewrite_block::reached!("page written while it was loaded", self.holds(page_key(file, index)));
        if !self.holds(page_key(file, index)) {
            self.insert(page_key(file, index), page);
        }
        Ok(())
    }

    async fn read_past_cache<B: Backing>(&self, backing: &B, file: &B::File, range: Range<u64>) -> FsResult<Vec<Page>> {
        onewrite_block::reached!("direct read writes dirty pages first", file.pages().is_dirty());
        self.write_newest(backing, file, range.clone()).await?;
        let mut pages = Vec::with_capacity((range.end - range.start) as usize);
        let transfer_max = u64::from(self.port.geometry().transfer_pages_max);
        let mut index = range.start;
        while index < range.end {
            if let Some(page) = self.newer(page_key(file, index)) {
                onewrite_block::reached!("direct read of a page that is still dirty");
                pages.push(page);
                index += 1;
                continue;
            }
            let left = self.first_dirty(file, index..range.end).unwrap_or(range.end) - index;
            index += match backing.lookup(file, index).await? {
                Lookup::At { block, count } => {
                    let count = left.min(count).min(transfer_max);
                    let request = Request::read(block.page(), count as u32, Cause::Data);
                    pages.extend(self.port.request(request).await?);
                    count
                }
                Lookup::Nothing { count } => {
                    let count = left.min(count);
                    pages.extend(std::iter::repeat_n(Page::ZEROS, count as usize));
                    count
                }
            };
        }
        Ok(pages)
    }

    /// See `FileView::seek`. Dirty pages count as data; pages that were written must be visible in [`Backing::lookup`].
    ///
    /// # Errors
    /// [`FsError::BeyondEnd`] if there is no such byte; device errors and damage.
    pub async fn seek<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        offset: u64,
        target: SeekTarget,
    ) -> FsResult<u64> {
        let size = file.size();
        let beyond = || FsError::BeyondEnd(format!("inode {} from byte {offset} on", file.number()));
        let mut at = offset;
        while at < size {
            let index = at / PAGE_BYTES;
            let (is_data, count) = match backing.lookup(file, index).await? {
                Lookup::At { count, .. } => (true, count),
                Lookup::Nothing { count } => match self.first_dirty(file, index..index.saturating_add(count)) {
                    Some(dirty) if dirty == index => (true, 1),
                    dirty => (false, dirty.map_or(count, |dirty| dirty - index)),
                },
            };
            if is_data == (target == SeekTarget::Data) {
                return Ok(at);
            }
            at = (index + count) * PAGE_BYTES;
        }
        match target {
            SeekTarget::Hole if offset < size => Ok(size),
            _ => Err(beyond()),
        }
    }
}
