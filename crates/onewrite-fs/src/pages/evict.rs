//! Evict: dirty victims of the page cache go to the device in the order in which the policy names them, then they
//! leave.
//!
//! ```text
//!   victims ─┬─ mapped ──► sent, neighbours in one request ──► written ──► gone, before the asker goes on
//!            └─ not ready, or being dropped ──► in line ──► the eviction task gets them ready ──► written ──► gone
//! ```
//!
//! Whoever needs room may hold a transaction, and [`Backing::prepare`] may need one of its own: so victims that are not
//! ready are left to a task, and the asker takes further victims instead. They are written with their neighbours, for
//! they have no place to keep yet.
//!
//! # Invariants
//! - All victims of one call are under way together; a request holds victims that follow one another by order and
//!   place.
//! - A victim that is used again before its turn stays where it is.

use std::ops::Range;

use onewrite_cache::PageKey;

use super::{Backing, Pages};
use crate::api::FsResult;

/// Pages around a late victim that are written with it.
const CLUSTER_PAGES: u64 = 64;

impl Pages {
    /// Writes the dirty pages that the policy wants to leave, and waits.
    ///
    /// # Errors
    /// The first; the other pages are written all the same.
    pub(super) async fn write_victims<B: Backing>(&self, backing: &B, victims: &[PageKey]) -> FsResult<()> {
        let (mut sent, mut outcome) = (Vec::new(), Ok(()));
        for (file, pages) in neighbours(victims) {
            let pages = self.still_leaving(file, pages);
            // Its pages may have been dropped while others were sent.
            let Some(file) = backing.file(file).filter(|_| !pages.is_empty()) else { continue };
            match self.send_batch(backing, &file, pages).await {
                Ok(batch) => sent.push((file, batch)),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        for (file, batch) in sent {
            outcome = outcome.and(self.finish_batch(backing, &file, batch).await);
            self.note_clean(&*file);
        }
        self.line_up(victims);
        outcome
    }

    /// The pages from the first that still leaves up to the first behind it that does not.
    fn still_leaving(&self, file: u64, pages: Range<u64>) -> Range<u64> {
        let cache = self.cache.borrow();
        let leaves = |index: &u64| cache.is_leaving(PageKey { file, index: *index });
        let start = pages.clone().find(leaves).unwrap_or(pages.end);
        let stop = (start..pages.end).find(|index| !leaves(index)).unwrap_or(pages.end);
        start..stop
    }

    /// Lines up the victims that could not be written.
    fn line_up(&self, victims: &[PageKey]) {
        let cache = self.cache.borrow();
        let is_late = |key: &&PageKey| cache.is_leaving(**key) && cache.is_dirty(**key) && !cache.is_writing(**key);
        let mut late = self.late_victims.borrow_mut();
        let before = late.len();
        late.extend(victims.iter().filter(is_late));
        if late.len() > before {
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

/// Victims in runs: pages of one file, one behind the other.
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
