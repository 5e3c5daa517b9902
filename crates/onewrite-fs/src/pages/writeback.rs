//! Writeback: writes dirty pages to their blocks, in batches.
//!
//! The callers are the flusher and throttled writers (`line`), tasks that need room (`evict`), and users of
//! [`Pages::write_pages`]. They take no lock: a page has at most one write under way, and a caller asks for the target
//! again if the file changed meanwhile.

use std::ops::Range;

use onewrite_block::{InFlight, Page};

use super::{Backing, DirtyBytes, Outcome, PagedFile, Pages, Route, Run, Target, Tracking, page_key};
use crate::api::{FsError, FsResult};
use crate::transfer::{Durability, send_run, wait_all};

/// Maximum number of pages in one batch, approximately.
const BATCH_PAGES: usize = 1024;

/// The requests that one writer has under way: runs, requests, and the page to continue at, if there may be more.
pub(super) struct Batch<F> {
    runs: Vec<Run<F>>,
    under_way: Vec<InFlight>,
    page_count: usize,
    next: Option<u64>,
    /// Whether it ends because nothing got a target.
    is_late: bool,
}

impl Pages {
    /// Prepares and writes the dirty pages of the range that are not under way already, and waits. The caller holds no
    /// transaction.
    ///
    /// # Errors
    /// Why pages could not be written; [`Pages::sync`] reports it, too.
    pub async fn write_pages<B: Backing>(&self, backing: &B, file: &B::File, pages: Range<u64>) -> FsResult<()> {
        let mut next = Some(pages.start);
        while let Some(index) = next {
            if let Err(error) = backing.prepare(file, index..pages.end).await {
                onewrite_block::reached!("no place for a dirty page");
                file.pages().note_write_error(&error);
                return Err(error);
            }
            next = self.write_batch(backing, file, index..pages.end).await?;
        }
        self.dirty_files().note_clean(file);
        Ok(())
    }

    /// As [`Pages::write_pages`], but skips pages that are not prepared. For callers that hold a transaction.
    ///
    /// # Errors
    /// Why pages could not be written.
    pub(crate) async fn write_ready<B: Backing>(&self, backing: &B, file: &B::File, pages: Range<u64>) -> FsResult<()> {
        let mut next = Some(pages.start);
        while let Some(index) = next {
            next = self.write_batch(backing, file, index..pages.end).await?;
        }
        self.dirty_files().note_clean(file);
        Ok(())
    }

    /// As [`Pages::write_ready`] for each of `runs`, with about a batch of pages under way side by side.
    ///
    /// # Errors
    /// Why pages could not be written.
    pub(crate) async fn write_ready_runs<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        runs: &[Range<u64>],
    ) -> FsResult<()> {
        let (mut sent, mut page_count) = (Vec::new(), 0);
        for run in runs {
            let batch = match self.send_batch(backing, file, run.clone()).await {
                Ok(batch) => batch,
                Err(error) => {
                    self.finish_batches(backing, file, sent).await.ok();
                    return Err(error);
                }
            };
            page_count += batch.page_count;
            let rest = batch.next.map(|next| next..run.end);
            sent.push(batch);
            if rest.is_some() || page_count >= BATCH_PAGES {
                page_count = 0;
                self.finish_batches(backing, file, std::mem::take(&mut sent)).await?;
            }
            if let Some(rest) = rest {
                self.write_ready(backing, file, rest).await?;
            }
        }
        self.finish_batches(backing, file, sent).await?;
        self.dirty_files().note_clean(file);
        Ok(())
    }

    /// Waits for all of some batches; gives the first failure.
    pub(super) async fn finish_batches<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        batches: Vec<Batch<B::Found>>,
    ) -> FsResult<()> {
        let mut outcome = Ok(());
        for batch in batches {
            outcome = outcome.and(self.finish_batch(backing, file, batch).await);
        }
        outcome
    }

    /// Writes one batch and waits; gives the page to continue at, if there may be more.
    async fn write_batch<B: Backing>(&self, backing: &B, file: &B::File, pages: Range<u64>) -> FsResult<Option<u64>> {
        let batch = self.send_batch(backing, file, pages).await?;
        let (next, is_late) = (batch.next, batch.is_late);
        self.finish_batch(backing, file, batch).await?;
        if is_late {
            backing.until_open().await;
        }
        Ok(next)
    }

    /// Waits for a batch and records its outcome.
    pub(super) async fn finish_batch<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        batch: Batch<B::Found>,
    ) -> FsResult<()> {
        let sent = wait_all(batch.under_way).await;
        let outcome = if sent.is_ok() { Outcome::Arrived } else { Outcome::Failed };
        batch.runs.iter().for_each(|run| self.end_run(backing, file, run, outcome));
        self.progress.notify_all();
        if let Err(error) = sent {
            onewrite_block::reached!("write of pages fails");
            self.dirty_files().note_dirty(file);
            let error = FsError::Device(error);
            file.pages().note_write_error(&error);
            return Err(error);
        }
        Ok(())
    }

    /// Records that the write of a run has ended.
    fn end_run<B: Backing>(&self, backing: &B, file: &B::File, run: &Run<B::Found>, outcome: Outcome) {
        for (index, at) in run.pages.clone().zip(0..) {
            let (key, mut cache) = (page_key(file, index), self.cache.borrow_mut());
            if outcome == Outcome::Failed && cache.peek(key).is_some() {
                // The next sync must try again, even if another task gets this error. Mark the page dirty before its
                // write ends: a clean victim would leave the cache then.
                cache.mark_dirty(key);
                if let Some(bytes) = run.dirty.get(at).filter(|bytes| !bytes.is_empty()) {
                    self.dirty_bytes.borrow_mut().entry(key).or_default().add_all(bytes);
                }
            }
            onewrite_block::reached!(
                "page changed while it was written",
                outcome == Outcome::Arrived && cache.is_dirty(key)
            );
            onewrite_block::reached!("page dropped while it was written", cache.peek(key).is_none());
            cache.end_write(key);
        }
        backing.finished(file, run, outcome);
        file.pages().end_writing((run.pages.end - run.pages.start) as usize);
    }

    /// Sends a batch of the dirty pages of the range.
    pub(super) async fn send_batch<B: Backing>(
        &self,
        backing: &B,
        file: &B::File,
        pages: Range<u64>,
    ) -> FsResult<Batch<B::Found>> {
        let mut batch = Batch { runs: Vec::new(), under_way: Vec::new(), page_count: 0, next: None, is_late: false };
        let mut index = pages.start;
        while let Some(start) = self.next_dirty(file, index..pages.end) {
            if batch.page_count >= BATCH_PAGES {
                onewrite_block::reached!("writeback in several batches");
                batch.next = Some(start);
                break;
            }
            let (count, found) = match backing.target(file, start..pages.end).await {
                Ok(Target::Room { count, found }) => (count, found),
                Ok(Target::Nowhere) => {
                    onewrite_block::reached!("dirty page skipped, for it has no place yet");
                    index = start + 1;
                    continue;
                }
                Ok(Target::NoRoom) => {
                    onewrite_block::reached!("writeback ends for want of room");
                    break;
                }
                Ok(Target::Later) => {
                    onewrite_block::reached!("writeback waits until a checkpoint ends");
                    (batch.next, batch.is_late) = (Some(start), true);
                    break;
                }
                Err(error) => {
                    self.give_up(backing, file, batch).await;
                    return Err(error);
                }
            };
            let limit = pages.end.min(start.saturating_add(count));
            let (content, dirty) = self.take_run(file, start..limit);
            let taken = start..start + content.len() as u64;
            index = taken.end.max(start + 1);
            if !taken.is_empty() {
                let block = backing.assign(file, taken.clone(), &found);
                backing.sending(file, taken.clone(), &found, (&content, &dirty));
                let (file_size, cause) = (file.size(), backing.cause(&found));
                batch.page_count += content.len();
                self.sent.update(|sent| sent + content.len() as u64);
                batch.runs.push(Run { pages: taken, block, file_size, found, route: Route::Buffered, dirty });
                batch
                    .under_way
                    .extend(send_run(&self.port, block.page(), content.into_iter(), Durability::Volatile, cause).await);
            }
        }
        Ok(batch)
    }

    /// Waits for a batch after an error and marks its pages as not written.
    async fn give_up<B: Backing>(&self, backing: &B, file: &B::File, batch: Batch<B::Found>) {
        wait_all(batch.under_way).await.ok();
        batch.runs.iter().for_each(|run| self.end_run(backing, file, run, Outcome::Failed));
        self.progress.notify_all();
        self.dirty_files().note_dirty(file);
    }

    /// The next dirty page that is not under way.
    fn next_dirty(&self, file: &impl PagedFile, pages: Range<u64>) -> Option<u64> {
        let cache = self.cache.borrow();
        let is_free = |index: &u64| !cache.is_writing(page_key(file, *index));
        cache.dirty_pages(file.number(), pages.start).take_while(|index| *index < pages.end).find(is_free)
    }

    /// Begins the write of the consecutive dirty pages from `pages.start` on.
    fn take_run(&self, file: &impl PagedFile, pages: Range<u64>) -> (Vec<Page>, Vec<DirtyBytes>) {
        let mut cache = self.cache.borrow_mut();
        let (mut content, mut dirty) = (Vec::new(), Vec::new());
        for index in pages {
            let key = page_key(file, index);
            if !cache.is_dirty(key) || cache.is_writing(key) {
                break;
            }
            content.push(cache.begin_write(key));
            if self.options.tracking == Tracking::DirtyBytes {
                dirty.push(self.dirty_bytes.borrow_mut().remove(&key).unwrap_or_default());
            }
        }
        file.pages().begin_writing(content.len());
        (content, dirty)
    }

    /// Waits until no page of the file is under way.
    pub async fn wait_for_writes(&self, file: &impl PagedFile) {
        onewrite_block::reached!("sync waits for writes of others", file.pages().is_writing());
        self.progress.until(|| !file.pages().is_writing()).await;
    }

    /// Writes all dirty pages of the file and waits, also for pages that other tasks are writing.
    ///
    /// # Errors
    /// The first write error since the last call, even if it came from another task.
    pub async fn sync<B: Backing>(&self, backing: &B, file: &B::File) -> FsResult<()> {
        let outcome = self.write_newest(backing, file, 0..u64::MAX).await;
        match file.pages().take_write_error() {
            Some(error) => Err(error),
            None => outcome,
        }
    }

    /// Writes the dirty pages of the range and waits, also for pages that other tasks are writing. A page may have
    /// changed since its write began: its newest content is written, too.
    ///
    /// # Errors
    /// Why pages could not be written; [`Pages::sync`] reports it, too.
    pub async fn write_newest<B: Backing>(&self, backing: &B, file: &B::File, pages: Range<u64>) -> FsResult<()> {
        let outcome = self.write_pages(backing, file, pages.clone()).await;
        self.wait_for_writes(file).await;
        onewrite_block::reached!("sync finds pages dirty again", file.pages().is_dirty());
        let missed = self.write_pages(backing, file, pages).await;
        // Another task may have been faster.
        self.wait_for_writes(file).await;
        outcome.and(missed)
    }
}
