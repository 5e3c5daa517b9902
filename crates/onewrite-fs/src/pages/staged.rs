//! Staged: bytes of dirty pages that are written elsewhere before the pages are.
//!
//! A page keeps its place among the dirty pages until it is written itself. Its dirty bytes are those that nobody took,
//! so what a sync costs depends on what changed since the last one, not on all that is staged.

use std::ops::{Range, RangeInclusive};

use onewrite_block::Page;
use onewrite_cache::PageKey;

use super::{Backing, DirtyBytes, PagedFile, Pages, page_key};
use crate::api::FsResult;

impl Pages {
    /// Takes the dirty bytes of a file's dirty pages that are not under way, in order. The pages stay dirty.
    pub(crate) fn take_dirty_bytes(&self, file: &impl PagedFile) -> Vec<(u64, Page, DirtyBytes)> {
        let (cache, mut dirty_bytes) = (self.cache.borrow(), self.dirty_bytes.borrow_mut());
        let is_free = |key: &PageKey| cache.is_dirty(*key) && !cache.is_writing(*key);
        let free: Vec<PageKey> = dirty_bytes.range(keys_of(file)).map(|(key, _)| *key).filter(is_free).collect();
        let mut taken = Vec::with_capacity(free.len());
        for key in free {
            let page = cache.peek(key).expect("a dirty page is in memory").clone();
            taken.push((key.index, page, dirty_bytes.remove(&key).expect("it was just found")));
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
        let is_wanted = |(key, bytes): &(&PageKey, &DirtyBytes)| wanted(bytes) && cache.is_dirty(**key);
        for index in dirty_bytes.range(keys_of(file)).filter(is_wanted).map(|(key, _)| key.index) {
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

/// Keys of all pages of a file.
fn keys_of(file: &impl PagedFile) -> RangeInclusive<PageKey> {
    page_key(file, 0)..=page_key(file, u64::MAX)
}
