//! Flusher: writes files of the line back, and throttles their writers.

use std::rc::Rc;

use onewrite_block::Nanos;
use onewrite_block::sync::either;

use crate::api::FsResult;
use crate::pages::views::DirtyFiles;
use crate::pages::{Backing, PagedFile};

/// Interval between two rounds of the flusher.
const FLUSH_INTERVAL: Nanos = Nanos::from_secs(5);
/// Age at which the flusher writes the dirty pages of a file.
const DIRTY_AGE: Nanos = Nanos::from_secs(30);
/// Time between two attempts of a throttled writer to write a file that has no place on the device yet.
const RETRY_INTERVAL: Nanos = Nanos::from_millis(10);
/// Attempts after which it goes on. What it holds may be what the place waits for.
const ATTEMPTS: u32 = 5;

impl DirtyFiles<'_> {
    /// Puts a file with dirty pages into the line, unless it is there.
    pub(in crate::pages) fn note_dirty(&self, file: &impl PagedFile) {
        if !file.pages().is_dirty() {
            self.line.enter(file, self.runtime.now());
        }
    }

    /// Takes a file without dirty pages out of the line. A file with writes under way stays, so that `sync` finds it
    /// and waits.
    pub(in crate::pages) fn note_clean(&self, file: &impl PagedFile) {
        let is_dirty = self.cache.borrow().dirty_pages(file.number(), 0).next().is_some();
        if !is_dirty && !file.pages().is_writing() {
            self.line.leave(file);
        }
    }

    /// Takes a file that is being deleted out of the line; its pages were all discarded.
    pub fn forget(&self, file: &impl PagedFile) {
        self.line.leave(file);
    }

    /// The file that became dirty first.
    fn oldest_dirty<B: Backing>(&self, backing: &B) -> Option<Rc<B::File>> {
        loop {
            let number = *self.line.files.borrow().first_key_value()?.1;
            match backing.file(number) {
                Some(file) => return Some(file),
                None => _ = self.line.files.borrow_mut().pop_first(),
            }
        }
    }

    /// Waits while more than a fifth of the cache is dirty, and writes back pages meanwhile, unless the flusher does.
    ///
    /// # Errors
    /// Why pages could not be written.
    pub async fn throttle<B: Backing>(&self, backing: &B) -> FsResult<()> {
        if self.options.prompt_writeback && self.is_dirty_beyond(10) {
            self.line.much.notify_all();
        }
        let mut attempts = 0;
        while self.is_dirty_beyond(5) && attempts < ATTEMPTS {
            let Some(file) = self.oldest_dirty(backing) else { return Ok(()) };
            let others = self.line.writing_out.get();
            if others > self.options.further_writers {
                onewrite_block::reached!("writer waits for the writeback of another");
                self.progress.wait().await;
                continue;
            }
            onewrite_block::reached!("writer writes out the oldest file");
            onewrite_block::reached!("writers write out several files", others > 0);
            self.line.writing_out.set(others + 1);
            if self.options.further_writers > 0 {
                // The next writer takes the file behind it.
                self.line.enter(&*file, self.runtime.now());
            }
            let outcome = self.write_out(backing, &file).await;
            self.line.writing_out.update(|writers| writers - 1);
            self.progress.notify_all();
            if !outcome? {
                onewrite_block::reached!("throttled writer finds no place");
                attempts += 1;
                self.runtime.sleep(RETRY_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Whether more than 1/`share` of the cache is dirty.
    fn is_dirty_beyond(&self, share: usize) -> bool {
        let cache = self.cache.borrow();
        cache.dirty_count() * share > cache.capacity()
    }

    /// The flusher task; never ends.
    pub async fn flusher<B: Backing>(&self, backing: &B) {
        let mut has_written = false;
        loop {
            let is_woken = self.rest(has_written).await;
            // Throttled writers leave the writing to the flusher that they woke.
            let all = self.options.further_writers + 1;
            let leads = is_woken && self.line.writing_out.get() == 0;
            if leads {
                self.line.writing_out.set(all);
            }
            has_written = self.round(backing).await;
            if leads {
                self.line.writing_out.update(|writers| writers - all);
                self.progress.notify_all();
            }
        }
    }

    /// Waits for the flusher's next round; whether writers want it. There is no wait if much is dirty behind a round
    /// that brought something.
    async fn rest(&self, has_written: bool) -> bool {
        let sleep = self.runtime.sleep(FLUSH_INTERVAL);
        if !self.options.prompt_writeback {
            sleep.await;
            return false;
        }
        if !has_written || !self.is_dirty_beyond(10) {
            either(sleep, self.line.much.wait()).await;
        }
        self.is_dirty_beyond(10)
    }

    /// Writes old files, or all files while much is dirty; whether any was written.
    async fn round<B: Backing>(&self, backing: &B) -> bool {
        let mut has_written = false;
        while let Some(file) = self.oldest_dirty(backing) {
            let is_old = file.pages().in_line().is_some_and(|at| at.since + DIRTY_AGE <= self.runtime.now());
            if !is_old && !self.is_dirty_beyond(10) {
                break;
            }
            let is_written = self.write_out(backing, &file).await;
            if is_written != Ok(true) {
                onewrite_block::reached!("flusher finds no place", is_written.is_ok());
                return false;
            }
            has_written = true;
            if file.pages().is_dirty() {
                onewrite_block::reached!("file dirty again once it was written out");
                // It changed during its write.
                self.line.enter(&*file, self.runtime.now());
            }
        }
        has_written
    }

    /// Writes the dirty pages of a file and waits until none of its pages is under way, including those of other tasks.
    /// False if the file is dirty and nothing was sent meanwhile: it has no place on the device yet.
    async fn write_out<B: Backing>(&self, backing: &B, file: &B::File) -> FsResult<bool> {
        let before = self.sent.get();
        let outcome = self.write_pages(backing, file, 0..u64::MAX).await;
        self.wait_for_writes(file).await;
        self.note_clean(file);
        outcome.map(|()| self.sent.get() > before || !file.pages().is_dirty())
    }

    /// Writes all dirty pages of all files.
    ///
    /// # Errors
    /// The first error; all files are tried.
    pub async fn sync_all<B: Backing>(&self, backing: &B) -> FsResult<()> {
        let numbers: Vec<u64> = self.line.files.borrow().values().copied().collect();
        let mut outcome = Ok(());
        for number in numbers {
            if let Some(file) = backing.file(number) {
                outcome = outcome.and(self.sync(backing, &file).await);
            }
        }
        outcome
    }
}
