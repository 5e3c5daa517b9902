//! Writeback: dirty pages go to their blocks, and fsync.
//!
//! Who writes: the flusher every five seconds (files dirty for 30 s, or everything while much is dirty), a commit for
//! the files that it orders, fsync, and whoever needs room (`evict`). They take no lock: a page is under way at most
//! once, and changes to a map are seen whole.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::{Cause, InFlight, Nanos};

use super::inodes::Node;
use super::map::Mapping;
use super::mode::Scope;
use super::read::page_key;
use super::volume::Volume;
use crate::api::{FsError, FsResult, Ino};
use crate::journal::{BlockRange, send_run, wait_all};

/// Pages that one writer has under way at a time.
const BATCH_PAGES: u64 = 1024;
/// What is under way: the runs, their requests, and where to go on, if there may be more.
pub(super) type Sent = (Vec<Run>, Vec<InFlight>, Option<u64>);

/// Pages that are under way together.
pub(super) struct Run {
    pages: Range<u64>,
    /// Where the first of them goes on the device.
    home: u64,
    /// The file's when they began to be written.
    file_size: u64,
    /// Whether the map said so of their blocks.
    is_unwritten: bool,
}

/// How often the flusher looks.
const FLUSH_INTERVAL: Nanos = Nanos::from_secs(5);
/// Age at which dirty pages are written.
const DIRTY_AGE: Nanos = Nanos::from_secs(30);

impl Volume {
    /// Writes the dirty pages of the file from `first` up to `end` that are not under way already, and waits; gives
    /// blocks to those that have none. No handle is open.
    pub(super) async fn write_pages(&self, node: &Node, first: u64, end: u64) -> FsResult<()> {
        let mut next = Some(first);
        while let Some(index) = next {
            if let Err(error) = self.allocate_delayed(node, index, end).await {
                node.write_error.borrow_mut().get_or_insert(error.clone());
                return Err(error);
            }
            next = self.write_batch(node, index, end).await?;
        }
        self.note_clean(node);
        Ok(())
    }

    /// As [`Volume::write_pages`], leaving out pages that have no blocks: for those who hold a handle, and for commits.
    pub(super) async fn write_mapped(&self, node: &Node, first: u64, end: u64) -> FsResult<()> {
        let mut next = Some(first);
        while let Some(index) = next {
            next = self.write_batch(node, index, end).await?;
        }
        self.note_clean(node);
        Ok(())
    }

    /// Writes one batch and waits; gives where to go on, if there may be more.
    async fn write_batch(&self, node: &Node, first: u64, end: u64) -> FsResult<Option<u64>> {
        let (runs, under_way, next) = self.send_pages(node, first, end).await?;
        self.finish_batch(node, &runs, under_way).await?;
        Ok(next)
    }

    /// Waits for what is under way and notes what came of it.
    pub(super) async fn finish_batch(&self, node: &Node, runs: &[Run], under_way: Vec<InFlight>) -> FsResult<()> {
        let outcome = wait_all(under_way).await;
        for run in runs {
            self.end_run(node, run, outcome.is_ok());
        }
        self.progress.ring();
        if let Err(error) = outcome {
            self.keep_in_line(node);
            node.write_error.borrow_mut().get_or_insert(FsError::Device(error.clone()));
            return Err(error.into());
        }
        Ok(())
    }

    /// The pages of a run are on the device, or could not be written.
    fn end_run(&self, node: &Node, run: &Run, is_written: bool) {
        let mut cache = self.cache.borrow_mut();
        for index in run.pages.clone() {
            let key = page_key(node, index);
            if !is_written && cache.peek(key).is_some() {
                // Whoever syncs next has to try again, though somebody else is told of this failure. Dirty before the
                // write ends: a victim that is clean then is gone.
                cache.mark_dirty(key);
            }
            cache.end_write(key);
        }
        drop(cache);
        if is_written {
            self.journal.note_data(BlockRange { start: run.home, count: run.pages.end - run.pages.start });
            self.content_arrived(node, run.pages.clone(), run.file_size, run.is_unwritten);
        }
        node.pages_writing.set(node.pages_writing.get() - (run.pages.end - run.pages.start) as usize);
    }

    /// Takes a file without dirty pages out of the line. One of which somebody has pages under way stays, so that `sync`
    /// finds it there and waits.
    pub(super) fn note_clean(&self, node: &Node) {
        let is_dirty = self.cache.borrow().dirty_pages(u64::from(node.number), 0).next().is_some();
        if !is_dirty && node.pages_writing.get() == 0 {
            node.dirty_since.set(None);
        }
    }

    /// A file with dirty pages again, which somebody may have taken out of the line of dirty files meanwhile.
    fn keep_in_line(&self, node: &Node) {
        if node.dirty_since.get().is_none() {
            node.dirty_since.set(Some(self.runtime.now()));
            self.inodes.dirty.borrow_mut().push_back(node.number);
        }
    }

    /// Puts a batch under way; gives where to go on, if there may be more.
    pub(super) async fn send_pages(&self, node: &Node, first: u64, end: u64) -> FsResult<Sent> {
        let (mut runs, mut under_way, mut index) = (Vec::new(), Vec::new(), first);
        let mut under_way_count = 0;
        while let Some((start, version)) = self.next_dirty(node, index, end) {
            if under_way_count >= BATCH_PAGES {
                return Ok((runs, under_way, Some(start)));
            }
            let mapping = self.map(node, start as u32).await;
            let Ok(mapping) = mapping else {
                wait_all(under_way).await.ok();
                runs.iter().for_each(|run| self.end_run(node, run, false));
                self.keep_in_line(node);
                return Err(mapping.expect_err("just seen"));
            };
            if node.map_version.get() != version {
                index = start;
                continue;
            }
            let Mapping::Mapped(extent) = mapping else {
                // A hole being cut around it, or a page of a file that is going; its owner knows. Or a delayed page
                // that came since this batch began.
                index = start + 1;
                continue;
            };
            let stop = end.min(start + u64::from(extent.length));
            let pages = self.take_run(node, start, stop);
            index = start + (pages.len() as u64).max(1);
            let taken = start..start + pages.len() as u64;
            under_way_count += pages.len() as u64;
            runs.push(Run {
                pages: taken,
                home: extent.physical,
                file_size: node.size(),
                is_unwritten: extent.unwritten,
            });
            under_way.extend(send_run(&self.port, extent.physical, pages.into_iter(), false, Cause::Data).await);
        }
        Ok((runs, under_way, None))
    }

    /// The next page to write, and the version of the map that its place will have to agree with.
    fn next_dirty(&self, node: &Node, from: u64, end: u64) -> Option<(u64, u64)> {
        let cache = self.cache.borrow();
        let is_free = |index: &u64| !cache.is_writing(page_key(node, *index));
        let next = cache.dirty_pages(u64::from(node.number), from).take_while(|index| *index < end).find(is_free);
        next.map(|index| (index, node.map_version.get()))
    }

    /// Begins to write the dirty pages that follow one another from `start` on.
    fn take_run(&self, node: &Node, start: u64, stop: u64) -> Vec<onewrite_block::Page> {
        let mut cache = self.cache.borrow_mut();
        let mut run = Vec::new();
        for index in start..stop {
            let key = page_key(node, index);
            if !cache.is_dirty(key) || cache.is_writing(key) {
                break;
            }
            run.push(cache.begin_write(key));
        }
        node.pages_writing.set(node.pages_writing.get() + run.len());
        run
    }

    /// Writes the dirty pages of a file of the line and waits until none is under way, whoever sent it.
    async fn write_out(&self, node: &Node) -> FsResult<()> {
        let outcome = self.write_pages(node, 0, u64::MAX).await;
        self.wait_for_writes(node).await;
        self.note_clean(node);
        outcome
    }

    /// Waits until no page of the file is under way.
    pub(super) async fn wait_for_writes(&self, node: &Node) {
        self.progress.until(|| node.pages_writing.get() == 0).await;
    }

    /// Writes all dirty pages of the file and waits, also for those that others put under way.
    ///
    /// # Errors
    /// The first error since the last call: also one that nobody was told of.
    pub(super) async fn write_all(&self, node: &Node) -> FsResult<()> {
        let outcome = self.write_pages(node, 0, u64::MAX).await;
        self.wait_for_writes(node).await;
        let missed = self.write_pages(node, 0, u64::MAX).await;
        match node.write_error.take() {
            Some(error) => Err(error),
            None => outcome.and(missed),
        }
    }

    /// Lets a writer wait while more than a fifth of the cache is dirty: it writes some itself.
    pub(super) async fn throttle(&self) -> FsResult<()> {
        loop {
            let (dirty, capacity) = {
                let cache = self.cache.borrow();
                (cache.dirty_count(), cache.capacity())
            };
            if dirty * 5 <= capacity {
                return Ok(());
            }
            let Some(node) = self.oldest_dirty() else { return Ok(()) };
            if self.set_writeout(true) {
                self.progress.wait().await;
                continue;
            }
            let outcome = self.write_out(&node).await;
            self.set_writeout(false);
            self.progress.ring();
            outcome?;
        }
    }

    /// The file that became dirty first.
    fn oldest_dirty(&self) -> Option<Rc<Node>> {
        loop {
            let number = *self.inodes.dirty.borrow().front()?;
            match self.inodes.get(number).filter(|node| node.dirty_since.get().is_some()) {
                Some(node) => return Some(node),
                None => drop(self.inodes.dirty.borrow_mut().pop_front()),
            }
        }
    }

    /// The flusher: never ends.
    pub(super) async fn flusher(&self) {
        loop {
            self.runtime.sleep(FLUSH_INTERVAL).await;
            loop {
                let Some(node) = self.oldest_dirty() else { break };
                let is_old = node.dirty_since.get().is_some_and(|since| since + DIRTY_AGE <= self.runtime.now());
                let is_much = {
                    let cache = self.cache.borrow();
                    cache.dirty_count() * 10 > cache.capacity()
                };
                if !is_old && !is_much || self.write_out(&node).await.is_err() {
                    break;
                }
                if node.dirty_since.get().is_some() {
                    // Changed while it was written: it goes to the end of the line.
                    let mut dirty = self.inodes.dirty.borrow_mut();
                    dirty.retain(|number| *number != node.number);
                    dirty.push_back(node.number);
                    node.dirty_since.set(Some(self.runtime.now()));
                }
            }
        }
    }

    /// See `FileSystem::fsync`; `data_only` is fdatasync.
    pub(super) async fn sync_file(&self, node: &Rc<Node>, data_only: bool) -> FsResult<()> {
        if self.scope != Scope::Full {
            // Shared, so that no hole is being cut around pages that have to be written.
            let _held = node.lock.shared().await;
            self.write_all(node).await?;
            self.convert(node).await?;
        }
        let tid = if data_only { node.data_changed_in.get() } else { node.changed_in.get() };
        if self.journal.is_committed(tid) {
            self.journal.check_aborted()?;
            return self.journal.settle().await;
        }
        let is_late = self.journal.has_flushed(tid);
        self.journal.request_commit(tid);
        self.journal.wait_committed(tid).await?;
        if is_late { self.journal.settle().await } else { Ok(()) }
    }

    /// Writes all dirty pages of all files.
    ///
    /// # Errors
    /// The first error; all files are tried.
    pub(super) async fn write_everything(&self) -> FsResult<()> {
        let numbers: Vec<u32> = self.inodes.dirty.borrow().iter().copied().collect();
        let mut outcome = Ok(());
        for number in numbers {
            if let Some(node) = self.inodes.get(number) {
                outcome = outcome.and(self.write_all(&node).await);
            }
        }
        self.inodes
            .dirty
            .borrow_mut()
            .retain(|number| self.inodes.get(*number).is_some_and(|node| node.dirty_since.get().is_some()));
        outcome.and(self.convert_everything().await)
    }

    /// Commits what runs, and waits.
    ///
    /// # Errors
    /// If the journal is or gets aborted.
    pub(super) async fn commit_now(&self) -> FsResult<()> {
        let tid = self.journal.running_tid();
        if self.journal.is_running_empty() {
            let before = tid.previous();
            return self.journal.wait_committed(before).await;
        }
        self.journal.request_commit(tid);
        self.journal.wait_committed(tid).await
    }

    /// The node of a file that a transaction orders.
    pub(super) fn ordered_node(&self, file: u64) -> Option<Rc<Node>> {
        self.inodes.get(Ino(file).0 as u32)
    }
}
