//! Pages: the content of files in memory, on its way in and out, for any file system.
//!
//! Its one idea: a file system says where a page lies and where it goes ([`Backing`], a small trait); everything
//! between that and the API is here, once: loading and read-ahead, the line of dirty files, throttling and flushing,
//! eviction, batches, direct transfers, and the `sync` of a file. The file system's own blocks lie in the same cache as
//! file 0; it reads and changes those itself.
//!
//! ```text
//!              put                prepare, target, assign              finished
//!   (clean) ─────────► dirty ────────────────────────────────► writing ──────────► clean
//!      ▲                 ▲ in line: flusher, throttle, sync        │ failed: dirty again
//!   lookup, newest       └─────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//! - A page is read by one task at a time; who comes second waits for the first.
//! - A page is under way to the device at most once.
//! - A file with dirty pages is in the line of dirty files ([`FilePages::is_dirty`]), and so is one with pages under
//!   way that were not written yet when `sync` was called.
//! - Pages that an owner keeps or holds privately are at most [`PagesOptions::owned_pages_max`].

mod backing;
mod dirty_bytes;
mod evict;
mod file;
mod line;
mod owners;
mod put;
mod read;
mod writeback;

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::ops::Range;

use onewrite_block::sync::Signal;
use onewrite_block::{DevicePort, Page, PageBytes, Runtime, TaskId};
use onewrite_cache::{PageCache, PageKey, Room};
use rustc_hash::FxHashMap;

use crate::api::{FsResult, Ino};
use line::Line;
use owners::Owners;

pub use backing::{Backing, Lookup, Outcome, PAGE_BYTES, PagedFile, Route, Run, Target};
pub use dirty_bytes::DirtyBytes;
pub use file::FilePages;
pub use owners::{OwnerId, TooManyPages};
pub use put::{Overwriting, Step};
pub use read::check_direct;

/// Takes a file, a range of its pages, and whether they are written.
pub type Watcher = Box<dyn FnMut(Ino, Range<u64>, bool)>;

/// What is remembered of a dirty page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// That it is dirty.
    #[default]
    Pages,
    /// Which bytes of it are, too.
    DirtyBytes,
}

/// What a page layer is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesOptions {
    /// What is remembered of a dirty page.
    pub tracking: Tracking,
    /// Pages that owners may keep or hold privately, all together.
    pub owned_pages_max: usize,
}

/// A file's page in the cache.
pub fn page_key(file: &impl PagedFile, index: u64) -> PageKey {
    PageKey { file: file.number(), index }
}

/// See the module's head.
pub struct Pages {
    runtime: Runtime,
    port: DevicePort,
    options: PagesOptions,
    cache: RefCell<PageCache>,
    /// Pages being read, with how many tasks wait for each.
    loading: RefCell<FxHashMap<PageKey, usize>>,
    /// Tasks that write pages to make room.
    making_room: RefCell<Vec<TaskId>>,
    line: Line,
    /// Notified when pages were written or read, files became clean, and when the file system says so.
    progress: Signal,
    /// Victims that could not be written where they were chosen, oldest first.
    late_victims: RefCell<VecDeque<PageKey>>,
    /// Notified when late victims are in line.
    evictions: Signal,
    /// Dirty bytes of dirty pages, if they are tracked.
    dirty_bytes: RefCell<FxHashMap<PageKey, DirtyBytes>>,
    owners: RefCell<Owners>,
    watcher: RefCell<Option<Watcher>>,
    /// Bytes read directly, and those of them that were in memory.
    direct_reads: Cell<(u64, u64)>,
}

impl Pages {
    /// An empty page layer over the device on `port`.
    pub fn new(port: DevicePort, cache: PageCache, options: PagesOptions) -> Pages {
        let runtime = port.runtime().clone();
        Pages {
            progress: Signal::new(&runtime),
            evictions: Signal::new(&runtime),
            runtime,
            port,
            options,
            cache: RefCell::new(cache),
            loading: RefCell::default(),
            making_room: RefCell::default(),
            line: Line::default(),
            late_victims: RefCell::default(),
            dirty_bytes: RefCell::default(),
            owners: RefCell::default(),
            watcher: RefCell::default(),
            direct_reads: Cell::default(),
        }
    }

    /// Whether the page is in memory; does not count as an access.
    pub fn holds(&self, key: PageKey) -> bool {
        self.cache.borrow().peek(key).is_some()
    }

    /// The page, if it is in memory; does not count as an access.
    pub fn peek(&self, key: PageKey) -> Option<Ref<'_, Page>> {
        Ref::filter_map(self.cache.borrow(), |cache| cache.peek(key)).ok()
    }

    /// The page, if it is in memory; counts as an access.
    pub fn page(&self, key: PageKey) -> Option<Page> {
        self.cache.borrow_mut().page(key).cloned()
    }

    /// Reads the page in place, if it is in memory; counts as an access.
    pub fn read_in_place<R>(&self, key: PageKey, read: impl FnOnce(&Page) -> R) -> Option<R> {
        self.cache.borrow_mut().page(key).map(read)
    }

    /// Changes a page that is in memory, which the caller marks dirty or pins; counts as an access.
    pub fn change<R>(&self, key: PageKey, change: impl FnOnce(&mut PageBytes) -> R) -> Option<R> {
        self.cache.borrow_mut().page_mut(key).map(|page| change(page.bytes_mut()))
    }

    /// Puts a clean page in, or replaces the content of the one that is there.
    pub fn insert(&self, key: PageKey, page: Page) {
        self.cache.borrow_mut().insert(key, page);
    }

    /// Keeps a page in memory until the transaction is committed; see [`PageCache::pin`].
    pub fn pin(&self, key: PageKey, transaction: u64) {
        self.cache.borrow_mut().pin(key, transaction);
    }

    /// Ends what [`Pages::pin`] began, for all these pages.
    pub fn unpin(&self, keys: impl Iterator<Item = PageKey>, transaction: u64) {
        let mut cache = self.cache.borrow_mut();
        keys.for_each(|key| cache.unpin(key, transaction));
    }

    /// Whether the page holds content that is not on the device yet: it is dirty or under way.
    pub fn is_newer(&self, key: PageKey) -> bool {
        let cache = self.cache.borrow();
        cache.is_dirty(key) || cache.is_writing(key)
    }

    /// Drops pages of a file, whatever their state. A write of them that is under way goes on.
    pub fn discard(&self, file: u64, pages: Range<u64>) {
        self.cache.borrow_mut().remove_file(file, pages.start, pages.end);
        if self.options.tracking == Tracking::DirtyBytes {
            self.dirty_bytes.borrow_mut().retain(|key, _| key.file != file || !pages.contains(&key.index));
        }
    }

    /// Drops the pages of `file` that are clean and free to leave; of all files if there is none.
    pub fn drop_clean(&self, file: Option<u64>) {
        let mut cache = self.cache.borrow_mut();
        match file {
            Some(file) => cache.drop_clean(file),
            None => cache.drop_all_clean(),
        }
    }

    /// Notified when pages were written or read; the file system notifies it, too, when it changed something that tasks
    /// of the page layer may wait for.
    pub fn progress(&self) -> &Signal {
        &self.progress
    }

    /// Lets `watcher` know of every read and write of a file's content that goes through the page cache.
    pub fn watch(&self, watcher: Watcher) {
        *self.watcher.borrow_mut() = Some(watcher);
    }

    /// Tells the watcher, if there is one, of pages that are read or written.
    fn tell(&self, file: &impl PagedFile, pages: Range<u64>, is_write: bool) {
        if let Some(watcher) = &mut *self.watcher.borrow_mut() {
            watcher(Ino(file.number()), pages, is_write);
        }
    }

    /// Bytes read directly, and those of them that were in memory.
    pub fn direct_reads(&self) -> (u64, u64) {
        self.direct_reads.get()
    }

    /// Starts counting direct reads anew.
    pub fn reset_counters(&self) {
        self.direct_reads.set((0, 0));
    }

    /// Announces that the page is being read; `None` if another task did so in the meantime and it is here now.
    pub async fn begin_load(&self, key: PageKey) -> Option<Loading<'_>> {
        loop {
            if self.holds(key) {
                return None;
            }
            if !self.loading.borrow().contains_key(&key) {
                self.loading.borrow_mut().insert(key, 0);
                return Some(Loading { pages: self, key });
            }
            *self.loading.borrow_mut().get_mut(&key).expect("just seen") += 1;
            self.progress.wait().await;
        }
    }

    /// Whether pages of `file` are being read.
    fn is_loading(&self, file: u64) -> bool {
        self.loading.borrow().keys().any(|key| key.file == file)
    }

    /// Waits until one more page fits into the cache, or nothing in it can leave. A task that writes pages for this
    /// reads their map without making room for it in turn: the cache is then larger for a moment.
    ///
    /// # Errors
    /// What the device says of the pages that had to be written.
    pub async fn make_room<B: Backing>(&self, backing: &B) -> FsResult<()> {
        let task = self.runtime.current_task();
        if self.making_room.borrow().contains(&task) {
            return Ok(());
        }
        loop {
            let room = self.cache.borrow_mut().make_room();
            match room {
                Room::Made | Room::Stuck => return Ok(()),
                Room::Write(victims) => {
                    self.making_room.borrow_mut().push(task);
                    let _until_written = MakingRoom { pages: self, task };
                    Box::pin(self.write_victims(backing, &victims)).await?;
                }
            }
        }
    }

    /// Verifies the invariants of the cache and of this layer.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check<B: Backing>(&self, backing: &B) -> Result<(), String> {
        let cache = self.cache.borrow();
        let (pages, capacity) = (cache.len(), cache.capacity());
        let owned = self.owners.borrow().check(self.options.owned_pages_max)?;
        if pages > 2 * capacity + owned {
            return Err(format!("the page cache holds {pages} pages; it has room for {capacity}"));
        }
        self.line.check(&cache, backing)?;
        cache.check()
    }
}

/// Says that a page is being read, until dropped.
pub struct Loading<'a> {
    pages: &'a Pages,
    key: PageKey,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let waiters = self.pages.loading.borrow_mut().remove(&self.key);
        if waiters.is_some_and(|count| count > 0) {
            self.pages.progress.notify_all();
        }
    }
}

/// A task makes room, until this is dropped.
struct MakingRoom<'a> {
    pages: &'a Pages,
    task: TaskId,
}

impl Drop for MakingRoom<'_> {
    fn drop(&mut self) {
        self.pages.making_room.borrow_mut().retain(|task| *task != self.task);
    }
}
