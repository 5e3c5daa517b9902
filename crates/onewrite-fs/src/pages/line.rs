//! The line of dirty files: background writeback and throttling.
//!
//! Every five seconds the flusher writes the files that have been dirty for 30 s, or all files while more than a tenth
//! of the cache is dirty. While more than a fifth is dirty, a writer waits and writes back pages itself.

mod flusher;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use onewrite_cache::PageCache;

use super::backing::{Backing, PagedFile};

/// Files with dirty pages, oldest first. A clean file leaves the line when a task finds it there.
#[derive(Default)]
pub(super) struct Line {
    files: RefCell<VecDeque<u64>>,
    /// Whether a throttled writer is writing back.
    is_writing_out: Cell<bool>,
}

impl Line {
    /// # Errors
    /// If a file with dirty pages is not in the line.
    pub(super) fn check<B: Backing>(&self, cache: &PageCache, backing: &B) -> Result<(), String> {
        let files = self.files.borrow();
        let mut number = 0;
        while let Some(next) = cache.next_dirty_file(number) {
            let is_dirty = backing.file(next).is_some_and(|file| file.pages().is_dirty());
            if !is_dirty || !files.contains(&next) {
                return Err(format!("file {next} has dirty pages and is not in the line of dirty files"));
            }
            number = next + 1;
        }
        Ok(())
    }
}
