//! Evict: writes dirty victims of the page cache to the device, in the policy's order; then they leave the cache.
//!
//! ```text
//!   victims ─┬─ mapped ──► sent, neighbours in one request ──► written ──► gone, before the asker goes on
//!            └─ not ready, or being dropped ──► in line ──► the eviction task gets them ready ──► written ──► gone
//! ```
//!
//! A task that needs room may hold a transaction, and [`Backing::prepare`] may need its own transaction. So the task
//! leaves unprepared victims to the eviction task and takes other victims instead. The eviction task writes them with
//! their neighbours, because they have no blocks yet.
//!
//! # Invariants
//! - All victims of one call are under way together. One request holds victims that are adjacent in the policy's order
//!   and in the file.
//! - A victim that is used again before it is written stays in the cache.

use std::ops::Range;

use onewrite_cache::PageKey;

use super::{Backing, Pages};
use crate::api::FsResult;

/// Number of pages, around a late victim, that are written with it.
const CLUSTER_PAGES: u64 = 64;

impl Pages {
    /// Writes the policy's dirty victims, and waits.
    ///
    /// # Errors
    /// The first error; the other pages are still written.
    pub(super) async fn write_victims<B: Backing>(&self, backing: &B, victims: &[PageKey]) -> FsResult<()> {
        let (mut sent, mut outcome) = (Vec::new(), Ok(()));
        for (file, pages) in neighbours(victims) {
            let pages = self.still_leaving(file, pages);
            // The pages may have been dropped while others were sent.
            onewrite_block::reached!("victim used again before it leaves", pages.is_empty());
            let Some(file) = backing.file(file).filter(|_| !pages.is_empty()) else { continue };
            match self.send_batch(backing, &file, pages).await {
                Ok(batch) => sent.push((file, batch)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        for (file, batch) in sent {
            outcome = outcome.and(self.finish_batch(backing, &file, batch).await);
            self.dirty_files().note_clean(&*file);
        }
        self.line_up(victims);
        outcome
    }

    /// The first run of pages in `pages` that are still leaving.
    fn still_leaving(&self, file: u64, pages: Range<u64>) -> Range<u64> {
        let cache = self.cache.borrow();
        let leaves = |index: &u64| cache.is_leaving(PageKey { file, index: *index });
        let start = pages.clone().find(leaves).unwrap_or(pages.end);
        let stop = (start..pages.end).find(|index| !leaves(index)).unwrap_or(pages.end);
        start..stop
    }

    /// Queues the victims that could not be written for the eviction task.
    fn line_up(&self, victims: &[PageKey]) {
        let cache = self.cache.borrow();
        let is_late = |key: &&PageKey| cache.is_leaving(**key) && cache.is_dirty(**key) && !cache.is_writing(**key);
        let mut late = self.late_victims.borrow_mut();
        let before = late.len();
        late.extend(victims.iter().filter(is_late));
        if late.len() > before {
            onewrite_block::reached!("victim left for a later write");
            self.evictions.notify_all();
        }
    }

    /// Writes late victims; never ends. A victim that cannot be written stays dirty, and [`Pages::sync`] tells why.
    pub async fn eviction_task<B: Backing>(&self, backing: &B) {
        loop {
            let next = self.late_victims.borrow_mut().pop_front();
            let Some(key) = next else {
                self.evictions.wait().await;
                continue;
            };
            let is_leaving = self.cache.borrow().is_leaving(key);
            if let Some(file) = backing.file(key.file).filter(|_| is_leaving) {
                let first = key.index - key.index % CLUSTER_PAGES;
                let _ = self.write_pages(backing, &file, first..first + CLUSTER_PAGES).await;
            }
        }
    }
}

/// Groups victims into runs of consecutive pages of one file.
fn neighbours(victims: &[PageKey]) -> Vec<(u64, Range<u64>)> {
    let mut runs: Vec<(u64, Range<u64>)> = Vec::new();
    for key in victims {
        match runs.last_mut() {
            Some((file, pages)) if *file == key.file && pages.end == key.index => pages.end += 1,
            _ => runs.push((key.file, key.index..key.index + 1)),
        }
    }
    runs
}
