//! Put: writes pages into the page cache, or directly to the device.

use std::ops::Range;

use onewrite_block::{Cause, PAGE_SIZE, Page};

use super::{Access, Backing, Outcome, PagedFile, Pages, Route, Run, Target, Tracking, changed_ranges, page_key};
use crate::api::{FsError, FsResult};
use crate::content::Content;
use crate::transfer::{Durability, send_run, wait_all};

/// A part of a write that the file system performs as one step.
///
/// It holds the old content of the pages that it replaces in part. Those pages may leave the cache before the step
/// writes them. The file system may have given them new blocks by then, whose content is stale.
pub struct WriteStep<'a> {
    /// Byte of the file where the content begins.
    offset: u64,
    content: Content<'a>,
    partial: Vec<(u64, Page)>,
}

impl WriteStep<'_> {
    /// Takes the old page out of the step, so that changing it needs no copy.
    fn take_partial(&mut self, index: u64) -> Option<Page> {
        let at = self.partial.iter().position(|(partial, _)| *partial == index)?;
        Some(self.partial.swap_remove(at).1)
    }
}

impl Pages {
    /// Begins a step that writes `content`, or its part that falls on `pages`, at byte `offset` of the file. Reads the
    /// first and the last page if the content covers them only in part. These reads do not count as accesses: a write
    /// is one access to each page.
    ///
    /// # Errors
    /// Device errors and damage.
    pub async fn begin_step<'a, B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: Range<u64>,
        (offset, content): (u64, Content<'a>),
    ) -> FsResult<WriteStep<'a>> {
        let mut partial = Vec::new();
        let (first, last) = (pages.start, pages.end - 1);
        let ends = if first == last { vec![first] } else { vec![first, last] };
        for index in ends {
            while content.whole_page(offset, index).is_none() {
                if let Some(page) = self.peek(page_key(file, index)) {
                    partial.push((index, page.clone()));
                    break;
                }
                self.fill(backing, file, index, index + 1).await?;
            }
        }
        Ok(WriteStep { offset, content, partial })
    }

    /// Tells the watcher that `pages` are written through the page cache.
    pub fn note_write(&self, file: &impl PagedFile, pages: Range<u64>) {
        self.tell(file, pages, Access::Write);
    }

    /// Puts the new content of one page into memory: a whole new page, or the old page with a part replaced. Gives the
    /// byte range that was written. The caller marks the page dirty or pins it before it waits.
    ///
    /// # Errors
    /// As [`Pages::make_room`].
    pub(crate) async fn put_page<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        index: u64,
        step: &mut WriteStep<'_>,
    ) -> FsResult<Range<usize>> {
        let key = page_key(file, index);
        if !self.holds(key) {
            self.make_room(backing).await?;
        }
        let mut cache = self.cache.borrow_mut();
        if let Some(page) = step.content.whole_page(step.offset, index) {
            cache.insert(key, page);
            return Ok(0..PAGE_SIZE);
        }
        let before = step.take_partial(index).expect("the first and the last page were loaded");
        onewrite_block::reached!("partly written page left memory meanwhile", cache.peek(key).is_none());
        match cache.page(key) {
            Some(_) => drop(before),
            None => cache.insert(key, before),
        }
        let (start, bytes) = step.content.part_of_page(step.offset, index);
        cache.peek_mut(key).expect("it is there").write(start, &bytes);
        Ok(start..start + bytes.len())
    }

    /// Puts the step's content of `pages` into memory as dirty pages.
    ///
    /// # Errors
    /// As [`Pages::make_room`]; the pages before the failed one are dirty.
    pub async fn put_dirty<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: Range<u64>,
        step: &mut WriteStep<'_>,
    ) -> FsResult<()> {
        for index in pages {
            let bytes = self.put_page(backing, file, index, step).await?;
            self.mark_dirty(file, index, bytes);
        }
        Ok(())
    }

    /// Changes a page that was just used and marks `bytes` of it dirty.
    ///
    /// # Panics
    /// If it is not in memory.
    pub(crate) fn change_dirty(
        &self,
        file: &impl PagedFile,
        index: u64,
        bytes: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) {
        self.change_used(file, index, bytes.clone(), change);
        self.mark_dirty(file, index, bytes);
    }

    /// Changes bytes of a page that was just used. The caller marks the page dirty or pins it.
    ///
    /// # Panics
    /// If it is not in memory.
    pub(crate) fn change_used(
        &self,
        file: &impl PagedFile,
        index: u64,
        bytes: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) {
        let mut cache = self.cache.borrow_mut();
        let page = cache.peek_mut(page_key(file, index)).expect("the page was just used");
        change(&mut page.bytes_mut()[bytes]);
    }

    /// Changes a page that was just used, and marks what differs then dirty; all of it, if dirty bytes are not tracked.
    ///
    /// # Panics
    /// If it is not in memory.
    pub(crate) fn change_compared(&self, file: &impl PagedFile, index: u64, change: impl FnOnce(&mut [u8])) {
        if self.options.tracking == Tracking::Pages {
            return self.change_dirty(file, index, 0..PAGE_SIZE, change);
        }
        let before = self.peek(page_key(file, index)).expect("the page was just used").clone();
        self.change_used(file, index, 0..PAGE_SIZE, change);
        let after = self.peek(page_key(file, index)).expect("the page was just used").clone();
        let ranges = changed_ranges(&before.bytes()[..], &after.bytes()[..], 0);
        self.mark_dirty(file, index, 0..0);
        ranges.into_iter().for_each(|range| self.mark_dirty(file, index, range));
    }

    /// Marks a page that is in memory dirty, and its file.
    pub(super) fn mark_dirty(&self, file: &impl PagedFile, index: u64, bytes: Range<usize>) {
        let key = page_key(file, index);
        self.cache.borrow_mut().mark_dirty(key);
        if self.options.tracking == Tracking::DirtyBytes && !bytes.is_empty() {
            self.dirty_bytes.borrow_mut().entry(key).or_default().add(bytes);
        }
        self.dirty_files().note_dirty(file);
    }

    /// Writes pages, in order of their indexes, directly to where [`Backing::target`] says. Each of them must have a
    /// target. Waits for all of them together.
    ///
    /// # Errors
    /// Device errors and damage.
    pub async fn write_past_cache<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: Vec<(u64, Page)>,
    ) -> FsResult<()> {
        let written = self.write_past_cache_while_room(backing, file, &pages).await?;
        match pages.get(written) {
            None => Ok(()),
            Some((index, _)) => Err(no_target(file, *index)),
        }
    }

    /// As [`Pages::write_past_cache`], but there may be no room now: gives the number of pages before the first one
    /// that has none.
    ///
    /// # Errors
    /// Device errors and damage.
    pub async fn write_past_cache_while_room<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: &[(u64, Page)],
    ) -> FsResult<usize> {
        let mut rest = pages;
        while !rest.is_empty() {
            let (sent, stopped) = self.send_past_cache(backing, file, rest).await;
            rest = &rest[sent..];
            match stopped? {
                Stopped::AtEnd => (),
                Stopped::Closed => {
                    onewrite_block::reached!("direct write waits for a checkpoint");
                    backing.until_open().await;
                }
                Stopped::NoRoom => break,
            }
        }
        Ok(pages.len() - rest.len())
    }

    /// Writes pages until something stops it, and waits for them. Gives their number, and what stopped it.
    async fn send_past_cache<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: &[(u64, Page)],
    ) -> (usize, FsResult<Stopped>) {
        let (mut under_way, mut runs) = (Vec::new(), Vec::new());
        let mut rest = pages;
        let stopped = loop {
            let Some((index, _)) = rest.first().cloned() else { break Ok(Stopped::AtEnd) };
            let beside = (index..).zip(rest).take_while(|(expected, (found, _))| expected == found).count() as u64;
            let (count, found) = match backing.target(file, index..index + beside).await {
                Ok(Target::Later) => break Ok(Stopped::Closed),
                Ok(Target::Room { count, found }) => (count.min(beside), found),
                Ok(Target::NoRoom) => break Ok(Stopped::NoRoom),
                Ok(Target::Nowhere) => break Err(no_target(file, index)),
                Err(error) => break Err(error),
            };
            let taken = index..index + count;
            let block = backing.assign(file, taken.clone(), &found);
            let (these, others) = rest.split_at(count as usize);
            let part: Vec<Page> = these.iter().map(|(_, page)| page.clone()).collect();
            backing.sending(file, taken.clone(), &found, (&part, &[]));
            let part = part.into_iter();
            under_way.extend(send_run(&self.port, block.page(), part, Durability::Volatile, Cause::Data).await);
            let (file_size, dirty) = (file.size(), Vec::new());
            runs.push(Run { pages: taken, block, file_size, found, route: Route::Direct, dirty });
            rest = others;
        };
        let sent = wait_all(under_way).await;
        let outcome = if sent.is_ok() { Outcome::Arrived } else { Outcome::Failed };
        runs.iter().for_each(|run| backing.finished(file, run, outcome));
        (pages.len() - rest.len(), sent.map_err(FsError::from).and(stopped))
    }

    /// Begins a direct write of pages while others may read the file; those readers wait. `None` if the page cache
    /// holds one of the pages, or is loading pages of the file: the write would make them stale.
    pub fn begin_overwrite<'a, F: PagedFile>(&'a self, file: &'a F, pages: Range<u64>) -> Option<Overwriting<'a, F>> {
        let is_in_memory = pages.clone().any(|index| self.holds(page_key(file, index)));
        if is_in_memory || self.is_loading(file.number()) {
            onewrite_block::reached!("direct write meets pages in memory");
            return None;
        }
        file.pages().begin_overwrite(pages.clone());
        Some(Overwriting { layer: self, file, pages })
    }
}

fn no_target(file: &impl PagedFile, index: u64) -> FsError {
    let place = format!("inode {}, page {index}", file.number());
    FsError::Damaged { place, problem: "is a hole, though just allocated".into() }
}

/// What ends a direct write, or interrupts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// All pages are written.
    AtEnd,
    /// Nothing gets a target until [`Backing::until_open`].
    Closed,
    /// There is no room.
    NoRoom,
}

/// Marks pages as being written directly, until dropped. Tasks that want to read them into the cache wait.
pub struct Overwriting<'a, F: PagedFile> {
    layer: &'a Pages,
    file: &'a F,
    pages: Range<u64>,
}

impl<F: PagedFile> Drop for Overwriting<'_, F> {
    fn drop(&mut self) {
        self.file.pages().end_overwrite(&self.pages);
        if self.layer.is_loading(self.file.number()) {
            onewrite_block::reached!("direct write ends while pages of its file load");
            self.layer.progress.notify_all();
        }
    }
}
