//! Staged: bytes of dirty pages that are written elsewhere before the pages are.
//!
//! A page keeps its place among the dirty pages until it is written itself. Its dirty bytes are those that nobody took.

use std::ops::Range;

use onewrite_block::Page;

use super::{Backing, DirtyBytes, PagedFile, Pages, page_key};
use crate::api::FsResult;

impl Pages {
    /// Takes the dirty bytes of a file's dirty pages that are not under way, in order. The pages stay dirty.
    pub(crate) fn take_dirty_bytes(&self, file: &impl PagedFile) -> Vec<(u64, Page, DirtyBytes)> {
        let cache = self.cache.borrow();
        let mut dirty_bytes = self.dirty_bytes.borrow_mut();
        let mut taken = Vec::new();
        for index in cache.dirty_pages(file.number(), 0) {
            let key = page_key(file, index);
            let Some(bytes) = dirty_bytes.get_mut(&key).filter(|bytes| !bytes.is_empty()) else { continue };
            if let Some(page) = cache.peek(key).filter(|_| !cache.is_writing(key)) {
                taken.push((index, page.clone(), std::mem::take(bytes)));
            }
        }
        taken
    }

    /// Writes the dirty pages of a file whose dirty bytes are `wanted`, and waits for all that are under way.
    ///
    /// # Errors
    /// The first write error since the last call of this or of [`Pages::sync`].
    pub(crate) async fn sync_wanted<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        wanted: impl Fn(&DirtyBytes) -> bool,
    ) -> FsResult<()> {
        let runs = self.dirty_runs(file, wanted);
        // All runs are under way together, but what a batch leaves over.
        let (mut outcome, mut sent) = (Ok(()), Vec::new());
        for run in &runs {
            match self.send_batch(backing, file, run.clone()).await {
                Ok(batch) => sent.push(batch),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome = outcome.and(self.finish_batches(backing, file, sent).await);
        for run in self.still_dirty(file, runs) {
            outcome = outcome.and(self.write_pages(backing, file, run).await);
        }
        self.dirty_files().note_clean(file);
        self.wait_for_writes(file).await;
        match file.pages().take_write_error() {
            Some(error) => Err(error),
            None => outcome,
        }
    }

    /// Runs of dirty pages of a file whose dirty bytes are `wanted`.
    fn dirty_runs(&self, file: &impl PagedFile, wanted: impl Fn(&DirtyBytes) -> bool) -> Vec<Range<u64>> {
        let (cache, dirty_bytes) = (self.cache.borrow(), self.dirty_bytes.borrow());
        let mut runs: Vec<Range<u64>> = Vec::new();
        for index in cache.dirty_pages(file.number(), 0) {
            if !dirty_bytes.get(&page_key(file, index)).is_some_and(&wanted) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }

    /// The runs that still have a dirty page.
    fn still_dirty(&self, file: &impl PagedFile, runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let cache = self.cache.borrow();
        let is_dirty =
            |run: &Range<u64>| cache.dirty_pages(file.number(), run.start).next().is_some_and(|at| at < run.end);
        runs.into_iter().filter(is_dirty).collect()
    }

    /// Whether pages of a file are under way to the device.
    pub(crate) fn is_writing(&self, file: &impl PagedFile) -> bool {
        file.pages().is_writing()
    }

    /// Whether the page is dirty in memory.
    pub(crate) fn is_dirty(&self, file: &impl PagedFile, index: u64) -> bool {
        self.cache.borrow().is_dirty(page_key(file, index))
    }
}
