//! The line of dirty files: background writeback and throttling.
//!
//! Every five seconds the flusher writes the files that have been dirty for 30 s, or all files while more than a tenth
//! of the cache is dirty. While more than a fifth is dirty, a writer waits and writes back pages itself. With
//! [`super::PagesOptions::prompt_writeback`] writers wake the flusher at a tenth, and wait for it at a fifth.
//!
//! # Invariant
//! A file is in the line once, at the place that its [`super::FilePages`] names, or not at all. Places are in the order
//! in which the files became dirty.

mod flusher;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use onewrite_block::sync::Signal;
use onewrite_block::{Nanos, Runtime};
use onewrite_cache::PageCache;

use super::backing::{Backing, PagedFile};
use super::file::InLine;

/// Files with dirty pages, oldest first.
pub(super) struct Line {
    /// Numbers of the files, by their places.
    files: RefCell<BTreeMap<u64, u64>>,
    /// Places given so far.
    places: Cell<u64>,
    /// Throttled writers that are writing back. The flusher that a writer woke takes the places of all of them.
    writing_out: Cell<usize>,
    /// Notified when so much is dirty that the flusher is to begin.
    much: Signal,
}

impl Line {
    pub(super) fn new(runtime: &Runtime) -> Line {
        Line {
            files: RefCell::default(),
            places: Cell::default(),
            writing_out: Cell::default(),
            much: Signal::new(runtime),
        }
    }

    /// Puts a file at the end of the line; takes it away from where it was.
    fn enter(&self, file: &impl PagedFile, now: Nanos) {
        let place = self.places.get() + 1;
        self.places.set(place);
        let before = file.pages().set_in_line(Some(InLine { since: now, place }));
        let mut files = self.files.borrow_mut();
        if let Some(before) = before {
            files.remove(&before.place);
        }
        files.insert(place, file.number());
    }

    /// Takes a file out of the line, if it is there.
    fn leave(&self, file: &impl PagedFile) {
        if let Some(before) = file.pages().set_in_line(None) {
            self.files.borrow_mut().remove(&before.place);
        }
    }

    /// # Errors
    /// If a file with dirty pages is not in the line, or the line's order is wrong.
    pub(super) fn check<B: Backing>(&self, cache: &PageCache, backing: &B) -> Result<(), String> {
        let mut number = 0;
        while let Some(next) = cache.next_dirty_file(number) {
            if !backing.file(next).is_some_and(|file| file.pages().is_dirty()) {
                return Err(format!("file {next} has dirty pages and is not in the line of dirty files"));
            }
            number = next + 1;
        }
        let mut latest = Nanos::ZERO;
        for (place, number) in &*self.files.borrow() {
            let in_line = backing.file(*number).and_then(|file| file.pages().in_line());
            let Some(in_line) = in_line.filter(|in_line| in_line.place == *place && in_line.since >= latest) else {
                return Err(format!("file {number} stands at place {place} of the dirty files, and not by its age"));
            };
            latest = in_line.since;
        }
        Ok(())
    }
}
