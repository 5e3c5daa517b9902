//! Content of files in drafts: read, written, truncated.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{PAGE_SIZE, Page};

use super::claims::Drafting;
use super::host::{Claimable, DraftHost, FileOf, Spills};
use crate::api::{FsResult, Ino, Position};
use crate::atomic::DraftId;
use crate::content::{Content, Data};
use crate::pages::{Access, PAGE_BYTES, PagedFile, page_key};
use crate::runs::Runs;

/// The first page that no file can have.
const PAGES_END: u64 = 1 << 32;

impl<H: DraftHost> Drafting<'_, H> {
    /// See [`AtomicFiles::draft_read`](crate::AtomicFiles::draft_read).
    pub(crate) async fn read(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<Data> {
        let node = self.file(draft, ino)?.node;
        let _held = node.lock().read().await;
        let file = self.file(draft, ino)?;
        let end = file.size.min(offset.saturating_add(length));
        if offset >= end {
            return Ok(Data::default());
        }
        let pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        self.page_layer().tell(&*node, pages.clone(), Access::Read);
        let mut read = Vec::with_capacity((pages.end - pages.start) as usize);
        for index in pages.clone() {
            read.push(self.page(draft, &file, index, pages.end).await?);
        }
        Ok(Data { pages: read, skip: (offset % PAGE_BYTES) as usize, length: (end - offset) as usize })
    }

    /// A page as the draft has it; reads the pages behind it, before `stop`, with it. The caller holds the node's lock.
    async fn page(&self, draft: DraftId, file: &FileOf<H>, index: u64, stop: u64) -> FsResult<Page> {
        let committed = file.node.size();
        if file.private.contains(index) {
            let key = page_key(&*file.node, index);
            let page = self.page_layer().owned_pages().private_page(draft.owner(), key);
            return Ok(page.expect("the page layer keeps what `private` names"));
        }
        if let Some(end) = file.spilled.end_at(index) {
            onewrite_block::reached!("spilled page read back");
            return self.spills().spilled_page(file, index, end.min(stop)).await;
        }
        if file.dropped.contains(index) || index * PAGE_BYTES >= committed {
            return Ok(Page::ZEROS);
        }
        let limit = committed.div_ceil(PAGE_BYTES).min(stop);
        let mut page = self.page_layer().file_page(self.0, &file.node, index, limit).await?;
        clear(&mut page, (committed - index * PAGE_BYTES).min(PAGE_BYTES) as usize..PAGE_SIZE);
        Ok(page)
    }

    /// Writes all of `content` as one change of the draft; returns where it begins.
    pub(super) async fn try_write(
        &self,
        draft: DraftId,
        ino: Ino,
        position: Position,
        content: Content<'_>,
    ) -> FsResult<u64> {
        let node = self.file(draft, ino)?.node;
        let _held = self.lock_to_change(draft, &node).await?;
        let mut file = self.file(draft, ino)?;
        let (offset, end) = self.place(&file, position, content)?;
        if content.length() == 0 {
            return Ok(offset);
        }
        self.page_layer().tell(&*node, offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES), Access::Write);
        let tail = self.last_page_if_passed(draft, &file, offset / PAGE_BYTES).await?;
        file.size = file.size.max(end);
        self.write_pages(draft, file, (offset..end, tail), (offset, content)).await?;
        Ok(offset)
    }

    /// Where a write begins and ends.
    pub(super) fn place(&self, file: &FileOf<H>, position: Position, content: Content<'_>) -> FsResult<(u64, u64)> {
        let offset = match position {
            Position::At(offset) => offset,
            Position::End => file.size,
        };
        let end = offset.saturating_add(content.length());
        self.expect_end(&file.node, end)?;
        Ok((offset, end))
    }

    /// Puts the pages of `bytes`, with the content that is written from byte `offset` on, and `pages` into the draft.
    pub(super) async fn write_pages(
        &self,
        draft: DraftId,
        file: FileOf<H>,
        (bytes, mut pages): (Range<u64>, Vec<(u64, Page)>),
        (offset, content): (u64, Content<'_>),
    ) -> FsResult<()> {
        for index in bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES) {
            let page = match content.whole_page(offset, index) {
                Some(page) => page,
                None => {
                    let mut page = self.page(draft, &file, index, index + 1).await?;
                    let (place, bytes) = content.part_of_page(offset, index);
                    page.write(place, &bytes);
                    page
                }
            };
            pages.push((index, page));
        }
        self.put_pages(draft, file, pages).await
    }

    /// See [`AtomicFiles::draft_set_size`](crate::AtomicFiles::draft_set_size).
    pub(crate) async fn set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()> {
        self.with_room(draft, async || self.try_set_size(draft, ino, size).await).await
    }

    async fn try_set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()> {
        let node = self.file(draft, ino)?.node;
        let _held = self.lock_to_change(draft, &node).await?;
        let mut file = self.file(draft, ino)?;
        self.expect_end(&node, size)?;
        let pages = if size >= file.size {
            let next = if size > file.size { u64::MAX } else { 0 };
            self.last_page_if_passed(draft, &file, next).await?
        } else {
            self.zeroed(draft, &file, size..size.next_multiple_of(PAGE_BYTES)).await?
        };
        if size < file.size {
            self.drop_pages(&mut file, size.div_ceil(PAGE_BYTES)..PAGES_END).await?;
        }
        file.size = size;
        self.put_pages(draft, file, pages).await?;
        self.spills().free_unused(draft, &node).await
    }

    /// See [`AtomicFiles::draft_punch`](crate::AtomicFiles::draft_punch).
    pub(crate) async fn punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()> {
        self.with_room(draft, async || self.try_punch(draft, ino, offset, length).await).await
    }

    async fn try_punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()> {
        let node = self.file(draft, ino)?.node;
        let _held = self.lock_to_change(draft, &node).await?;
        let mut file = self.file(draft, ino)?;
        let end = offset.saturating_add(length).min(file.size);
        if offset >= end {
            return Ok(());
        }
        let end = if end < file.size { end } else { end.next_multiple_of(PAGE_BYTES) };
        let (first, stop) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let mut pages = self.zeroed(draft, &file, offset..end.min(first * PAGE_BYTES)).await?;
        if stop >= first {
            pages.extend(self.zeroed(draft, &file, stop * PAGE_BYTES..end).await?);
            self.drop_pages(&mut file, first..stop).await?;
        }
        self.put_pages(draft, file, pages).await?;
        self.spills().free_unused(draft, &node).await
    }

    /// The page of the draft's last byte, with zeros behind the end of the file, if the file is about to grow beyond
    /// it and it is not private yet. Its block may hold anything behind the end.
    pub(super) async fn last_page_if_passed(
        &self,
        draft: DraftId,
        file: &FileOf<H>,
        next: u64,
    ) -> FsResult<Vec<(u64, Page)>> {
        let last = file.size / PAGE_BYTES;
        let is_whole = file.size.is_multiple_of(PAGE_BYTES);
        if is_whole || next <= last || file.private.contains(last) || file.dropped.contains(last) {
            return Ok(Vec::new());
        }
        Ok(vec![(last, self.page(draft, file, last, last + 1).await?)])
    }

    /// The page of `bytes`, which lie in one page, with zeros there; nothing if it has zeros there already.
    async fn zeroed(&self, draft: DraftId, file: &FileOf<H>, bytes: Range<u64>) -> FsResult<Vec<(u64, Page)>> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let index = bytes.start / PAGE_BYTES;
        let mut page = self.page(draft, file, index, index + 1).await?;
        let start = (bytes.start % PAGE_BYTES) as usize;
        let changed = clear(&mut page, start..start + (bytes.end - bytes.start) as usize);
        Ok(if changed { vec![(index, page)] } else { Vec::new() })
    }

    /// Drops `pages` of a file: they read as zeros. The caller puts the file.
    async fn drop_pages(&self, file: &mut FileOf<H>, pages: Range<u64>) -> FsResult<()> {
        file.private.remove(pages.clone());
        file.spilled.remove(pages.clone());
        file.dropped.insert(pages.clone());
        self.plan_dropped(file, pages).await
    }

    /// Puts a changed file and the new content of some of its pages into the draft, all or nothing.
    pub(super) async fn put_pages(&self, draft: DraftId, mut file: FileOf<H>, pages: Vec<(u64, Page)>) -> FsResult<()> {
        let before = self.file(draft, file.node.ino())?.private;
        let mut added = 0;
        for (index, _) in &pages {
            if !file.private.contains(*index) {
                onewrite_block::reached!("draft writes a page that it dropped", file.dropped.contains(*index));
                onewrite_block::reached!("spilled page written again", file.spilled.contains(*index));
                self.plan_page(&mut file, *index).await?;
                added += file.private.insert(*index..*index + 1);
                file.spilled.remove(*index..*index + 1);
            }
        }
        let node = Rc::clone(&file.node);
        let gone = match before.count() + added == file.private.count() {
            true => Runs::default(),
            false => before.without(&file.private),
        };
        self.put_file(draft, file)?;
        let owned = self.page_layer().owned_pages();
        gone.runs().for_each(|run| owned.drop_private_range(draft.owner(), node.number(), run));
        for (index, page) in pages {
            let put = owned.put_private(draft.owner(), page_key(&*node, index), page);
            put.expect("all drafts together fit into one transaction, and that into the bound of owned pages");
        }
        Ok(())
    }
}

/// Sets bytes of a page to zero; returns whether one was not.
fn clear(page: &mut Page, bytes: Range<usize>) -> bool {
    let changes = page.bytes()[bytes.clone()].iter().any(|byte| *byte != 0);
    if changes {
        page.bytes_mut()[bytes].fill(0);
    }
    changes
}
