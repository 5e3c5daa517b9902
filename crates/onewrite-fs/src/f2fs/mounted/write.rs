//! Writing files: into the page cache, with blocks reserved in the map; writeback gives them addresses.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::Page;

use super::file::File;
use super::map::size_max;
use super::views::Contents;
use crate::api::{FsError, FsResult, Manner};
use crate::content::Content;
use crate::f2fs::format::DataAddress;
use crate::pages::{Overwriting, PAGE_BYTES, PagedFile, check_direct, page_key};
use crate::transfer::step_end;

/// Checkpoints after which a direct write gives up that finds no room.
const ATTEMPTS: usize = 8;

impl Contents<'_> {
    /// # Errors
    /// [`FsError::TooLarge`] if no map reaches byte `end`.
    pub(super) fn check_end(&self, file: &File, end: u64) -> FsResult<()> {
        match end <= size_max(file) {
            true => Ok(()),
            false => Err(FsError::TooLarge { ino: file.ino(), size: end, size_max: size_max(file) }),
        }
    }

    /// See `FileSystem::write`. The caller holds the file's lock alone.
    pub(super) async fn write_file(
        &self,
        file: &Rc<File>,
        offset: u64,
        content: Content<'_>,
        manner: Manner,
    ) -> FsResult<()> {
        let end = offset.saturating_add(content.length());
        self.check_end(file, end)?;
        if manner.direct {
            check_direct(offset, content.length())?;
            return self.write_past_cache(file, offset, content).await;
        }
        self.pages.note_write(&**file, offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
        let mut start = offset;
        while start < end {
            let stop = step_end(start, end);
            self.pages.dirty_files().throttle(self.volume()).await?;
            self.cleaner().balance().await?;
            self.write_step(file, start..stop, (offset, content)).await?;
            start = stop;
        }
        Ok(())
    }

    async fn write_step(&self, file: &Rc<File>, bytes: Range<u64>, whole: (u64, Content<'_>)) -> FsResult<()> {
        let _changes = self.changes.read().await;
        self.check_writable()?;
        self.move_out_content(file).await?;
        self.before_content_at(file, bytes.start).await?;
        let (first, last) = (bytes.start / PAGE_BYTES, (bytes.end - 1) / PAGE_BYTES);
        let mut step = self.pages.begin_step(self.volume(), file, first..last + 1, whole).await?;
        let (reached, outcome) = self.reserve_pages(file, first..last + 1).await;
        if reached > first {
            self.pages.put_dirty(self.volume(), file, first..reached, &mut step).await?;
            self.grow_to(file, bytes.end.min(reached * PAGE_BYTES));
            self.stamp_written(file);
        }
        outcome
    }

    /// A page on which the file ended must not show what lies behind that end once the file reaches beyond the page.
    async fn before_content_at(&self, file: &Rc<File>, offset: u64) -> FsResult<()> {
        match offset / PAGE_BYTES > file.size() / PAGE_BYTES {
            true => Box::pin(self.zero_tail(file, file.size())).await,
            false => Ok(()),
        }
    }

    /// Reserves a block for each page without one. Gives the page before which all have one.
    pub(super) async fn reserve_pages(&self, file: &Rc<File>, pages: Range<u64>) -> (u64, FsResult<()>) {
        let mut index = pages.start;
        while index < pages.end {
            let slot = match self.maps().find_or_make(file, index).await {
                Ok(slot) => slot,
                Err(error) => return (index, Err(error)),
            };
            let stop = pages.end.min(index + slot.left);
            let first = index;
            while index < stop {
                let slot = slot.behind(index - first);
                if self.maps().address(&slot) == DataAddress::Hole {
                    if let Err(error) = self.space.borrow_mut().reserve(1) {
                        return (index, Err(error));
                    }
                    self.maps().set_address(file, &slot, DataAddress::Reserved);
                    self.maps().add_blocks(file, 1);
                }
                index += 1;
            }
        }
        (pages.end, Ok(()))
    }

    fn grow_to(&self, file: &File, end: u64) {
        if end > file.size() {
            file.change_raw(|raw| raw.i_size.set(end));
            self.nodes().note_unsaved(file);
        }
    }

    async fn write_past_cache(&self, file: &Rc<File>, offset: u64, content: Content<'_>) -> FsResult<()> {
        let (first, stop) = (offset / PAGE_BYTES, (offset + content.length()) / PAGE_BYTES);
        if first == stop {
            return Ok(());
        }
        self.cleaner().balance().await?;
        let mut attempts = 0;
        while !self.prepare_direct(file, offset, first..stop).await? {
            // The older content of the pages is in memory only. If this write fails, that content must be there.
            onewrite_block::reached!("content under a direct write finds no segment");
            attempts += 1;
            self.make_segments(attempts, stop - first).await?;
        }
        let pages = (first..stop).filter_map(|index| Some((index, content.whole_page(offset, index)?)));
        self.send_direct(file, &pages.collect::<Vec<_>>()).await
    }

    /// Writes what these pages hold in memory, and gives each a block or a reservation. `false` if there is no segment
    /// for what they hold.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there is no block for a page; device errors and damage.
    async fn prepare_direct(&self, file: &Rc<File>, offset: u64, pages: Range<u64>) -> FsResult<bool> {
        let _changes = self.changes.read().await;
        self.check_writable()?;
        self.move_out_content(file).await?;
        self.before_content_at(file, offset).await?;
        self.pages.write_newest(self.volume(), file, pages.clone()).await?;
        if self.pages.first_dirty(&**file, pages.clone()).is_some() {
            return Ok(false);
        }
        let (reached, outcome) = self.reserve_pages(file, pages.clone()).await;
        debug_assert!(outcome.is_err() || reached == pages.end, "all pages have a block");
        outcome.map(|()| true)
    }

    /// Makes segments free that are free behind a checkpoint, or that cleaning empties. For a writer of `needed` pages
    /// that found no segment, `attempts` times in succession.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there were too many attempts; device errors and damage.
    async fn make_segments(&self, attempts: usize, needed: u64) -> FsResult<()> {
        if attempts == ATTEMPTS {
            return Err(FsError::NoSpace { what: "segments for content", needed, free: 0 });
        }
        self.checkpoints().checkpoint().await?;
        self.cleaner().clean_if_short().await
    }

    /// Writes pages side by side that have a block or a reservation, and lets the file reach behind them. The caller
    /// holds the file's lock alone, and no `changes`: checkpoints make room.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if they make none; device errors.
    async fn send_direct(&self, file: &Rc<File>, pages: &[(u64, Page)]) -> FsResult<()> {
        let (mut rest, mut attempts) = (pages, 0);
        loop {
            let written = self.send_direct_while_room(file, rest).await?;
            rest = &rest[written..];
            if rest.is_empty() {
                return Ok(());
            }
            onewrite_block::reached!("direct write finds no segment");
            attempts = if written > 0 { 0 } else { attempts + 1 };
            self.make_segments(attempts, rest.len() as u64).await?;
        }
    }

    /// The same, up to the first page without room. Gives the number of pages written.
    async fn send_direct_while_room(&self, file: &Rc<File>, pages: &[(u64, Page)]) -> FsResult<usize> {
        let (Some((first, _)), Some((last, _))) = (pages.first(), pages.last()) else { return Ok(0) };
        // A checkpoint or a staged sync in between would have the new content with the old size.
        let _changes = self.changes.read().await;
        let _overwriting = self.begin_overwrite(file, *first..last + 1).await;
        let written = self.pages.write_past_cache_while_room(self.volume(), file, pages).await?;
        if let Some((last, _)) = pages[..written].last() {
            self.grow_to(file, (last + 1) * PAGE_BYTES);
            self.stamp_written(file);
        }
        Ok(written)
    }

    /// Drops pages of the file from memory, and keeps readers from bringing them back.
    async fn begin_overwrite<'a>(&'a self, file: &'a File, pages: Range<u64>) -> Overwriting<'a, File> {
        loop {
            // Cleaning may bring a page back until the pages are marked, and what it moved may be under way.
            self.pages.wait_for_writes(file).await;
            self.pages.discard(file.number().0.into(), pages.clone());
            match self.pages.begin_overwrite(file, pages.clone()) {
                Some(overwriting) => return overwriting,
                None => self.pages.progress().wait().await,
            }
        }
    }

    /// Zeros the bytes behind byte `size` in its page. The caller holds the file's lock alone and is about to change
    /// the size.
    pub(super) async fn zero_tail(&self, file: &Rc<File>, size: u64) -> FsResult<()> {
        let (index, used) = (size / PAGE_BYTES, (size % PAGE_BYTES) as usize);
        if used == 0 || !self.is_written(file, index).await? {
            return Ok(());
        }
        let page = self.pages.file_page(self.volume(), file, index, index + 1).await?;
        if file.pages().take_hidden_tail(index) || page.bytes()[used..].iter().any(|byte| *byte != 0) {
            self.pages.change_dirty(&**file, index, used..PAGE_BYTES as usize, |bytes| bytes.fill(0));
        }
        Ok(())
    }

    /// Whether page `index` has content: a block, or a dirty page that gets one.
    pub(super) async fn is_written(&self, file: &File, index: u64) -> FsResult<bool> {
        Ok(match self.maps().find(file, index).await? {
            super::map::Named::By(slot) => {
                let is_block = matches!(self.maps().address(&slot), DataAddress::Block(_));
                is_block || self.pages.is_newer(page_key(file, index))
            }
            super::map::Named::Nothing { .. } => false,
        })
    }

    /// Whether a block is named or reserved for page `index`.
    pub(super) async fn is_named(&self, file: &File, index: u64) -> FsResult<bool> {
        Ok(match self.maps().find(file, index).await? {
            super::map::Named::By(slot) => self.maps().address(&slot) != DataAddress::Hole,
            super::map::Named::Nothing { .. } => false,
        })
    }
}
