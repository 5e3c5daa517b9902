//! Pages: keeps the content of files in memory and moves it to and from the device, for any file system.
//!
//! Its one idea: a file system says where a page lies and where it goes ([`Backing`], a small trait). This layer does
//! the rest once, for all file systems: loading, read-ahead, the line of dirty files, throttling, flushing, eviction,
//! batches, direct transfers, and the `sync` of a file. The file system's own blocks are file 0 of the same cache; the
//! file system itself reads and changes them.
//!
//! ```text
//!              put                prepare, target, assign              finished
//!   (clean) ─────────► dirty ────────────────────────────────► writing ──────────► clean
//!      ▲                 ▲ in line: flusher, throttle, sync        │ failed: dirty again
//!   lookup, newest       └─────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//! - One task at a time reads a page; other tasks wait for it.
//! - A page has at most one write under way.
//! - A file with dirty pages is in the line of dirty files ([`FilePages::is_dirty`]). It stays there until its writes
//!   under way have ended, so that `sync` finds it.
//! - Owners keep or hold privately at most [`PagesOptions::owned_pages_max`] pages in total.

mod backing;
mod cache;
mod dirty_bytes;
mod evict;
mod file;
mod line;
mod owners;
mod put;
mod read;
mod staged;
mod views;
mod writeback;

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use onewrite_block::sync::Signal;
use onewrite_block::{DevicePort, Page, PageBytes, Runtime, TaskId};
pub use onewrite_cache::Access;
use onewrite_cache::{PageCache, PageKey, Room};
use rustc_hash::FxHashSet;

use crate::api::{FsResult, Ino};
use line::Line;
use owners::Owners;

pub use backing::{Backing, Lookup, Outcome, PAGE_BYTES, PagedFile, Route, Run, Target};
pub(crate) use cache::{CACHE_PAGES_MIN, page_cache};
pub use dirty_bytes::DirtyBytes;
pub(crate) use dirty_bytes::changed_ranges;
pub use file::FilePages;
pub use owners::{OwnerId, TooManyPages};
pub use put::{Overwriting, WriteStep};
pub(crate) use read::check_direct;

/// Called with a file, a range of its pages, and what is done with them.
pub type Watcher = Box<dyn FnMut(Ino, Range<u64>, Access)>;

/// What direct reads have moved since the counters were last set to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectReads {
    /// Bytes of all direct reads.
    pub bytes: u64,
    /// Those of them that came from the page cache.
    pub cached_bytes: u64,
}

/// What the layer records about a dirty page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// Only that it is dirty.
    #[default]
    Pages,
    /// Also which bytes of it are dirty.
    DirtyBytes,
}

/// Options of a page layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesOptions {
    /// What the layer records about a dirty page.
    pub tracking: Tracking,
    /// Maximum number of pages that all owners together may keep or hold privately.
    pub owned_pages_max: usize,
    /// Whether the flusher also begins as soon as a tenth of the cache is dirty, beside the writers, as Linux's does;
    /// else it looks every five seconds, and writers write back themselves.
    pub prompt_writeback: bool,
    /// Further throttled writers that write a file back beside the first. Without, a device of many parallel units
    /// gets one file at a time.
    pub further_writers: usize,
}

/// Cache key of page `index` of a file.
pub fn page_key(file: &impl PagedFile, index: u64) -> PageKey {
    PageKey { file: file.number(), index }
}

/// See the module's head.
pub struct Pages {
    runtime: Runtime,
    port: DevicePort,
    options: PagesOptions,
    cache: RefCell<PageCache>,
    /// Pages being read.
    loading: RefCell<FxHashSet<PageKey>>,
    /// Tasks that write pages to make room.
    making_room: RefCell<Vec<TaskId>>,
    line: Line,
    /// Pages that writeback has sent so far.
    sent: Cell<u64>,
    /// Notified when pages were written or read, when files became clean, and by the file system.
    progress: Signal,
    /// Victims that the task that chose them could not write, oldest first.
    late_victims: RefCell<VecDeque<PageKey>>,
    /// Notified when late victims wait for the eviction task.
    evictions: Signal,
    /// Dirty bytes of dirty pages, if the layer tracks them: those that nobody took. A page that has none is not here.
    dirty_bytes: RefCell<BTreeMap<PageKey, DirtyBytes>>,
    owners: RefCell<Owners>,
    watcher: RefCell<Option<Watcher>>,
    direct_reads: Cell<DirectReads>,
}

impl Pages {
    /// An empty page layer over the device on `port`.
    pub fn new(port: DevicePort, cache: PageCache, options: PagesOptions) -> Pages {
        let runtime = port.runtime().clone();
        Pages {
            progress: Signal::new(&runtime),
            line: Line::new(&runtime),
            sent: Cell::default(),
            evictions: Signal::new(&runtime),
            runtime,
            port,
            options,
            cache: RefCell::new(cache),
            loading: RefCell::default(),
            making_room: RefCell::default(),
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
    pub(crate) fn read_in_place<R>(&self, key: PageKey, read: impl FnOnce(&Page) -> R) -> Option<R> {
        self.cache.borrow_mut().page(key).map(read)
    }

    /// Changes a page that is in memory; counts as an access. The caller then marks it dirty or pins it.
    pub fn change<R>(&self, key: PageKey, change: impl FnOnce(&mut PageBytes) -> R) -> Option<R> {
        self.cache.borrow_mut().page_mut(key).map(|page| change(page.bytes_mut()))
    }

    /// Changes a page that is pinned and gives it as it is then; does not count as an access.
    ///
    /// # Panics
    /// If it is not in memory.
    pub(crate) fn change_pinned(&self, key: PageKey, change: impl FnOnce(&mut Page)) -> Page {
        let mut cache = self.cache.borrow_mut();
        let page = cache.peek_mut(key).expect("a pinned page is in memory");
        change(page);
        page.clone()
    }

    /// Inserts a clean page, or replaces the content of the page in memory.
    pub fn insert(&self, key: PageKey, page: Page) {
        self.cache.borrow_mut().insert(key, page);
    }

    /// Keeps a page in memory until the transaction is committed; see [`PageCache::pin`].
    pub fn pin(&self, key: PageKey, transaction: u64) {
        self.cache.borrow_mut().pin(key, transaction);
    }

    /// Undoes [`Pages::pin`] for all these pages.
    pub fn unpin(&self, keys: impl Iterator<Item = PageKey>, transaction: u64) {
        let mut cache = self.cache.borrow_mut();
        keys.for_each(|key| cache.unpin(key, transaction));
    }

    /// Whether the page holds content that is not on the device yet: it is dirty, or its write is under way.
    pub fn is_newer(&self, key: PageKey) -> bool {
        let cache = self.cache.borrow();
        cache.is_dirty(key) || cache.is_writing(key)
    }

    /// The page, if it holds content that is not on the device yet; does not count as an access.
    pub(super) fn newer(&self, key: PageKey) -> Option<Page> {
        self.is_newer(key).then(|| self.peek(key).map(|page| page.clone())).flatten()
    }

    /// The first of these pages of the file that is dirty.
    pub fn first_dirty(&self, file: &impl PagedFile, pages: Range<u64>) -> Option<u64> {
        self.cache.borrow().dirty_pages(file.number(), pages.start).next().filter(|index| *index < pages.end)
    }

    /// Dirty pages of all files.
    pub fn dirty_count(&self) -> usize {
        self.cache.borrow().dirty_count()
    }

    /// Whether at least `count` pages of the file are dirty.
    pub fn has_dirty_pages(&self, file: &impl PagedFile, count: usize) -> bool {
        self.cache.borrow().dirty_pages(file.number(), 0).take(count).count() == count
    }

    /// Drops pages of a file in any state. Their writes under way continue.
    pub fn discard(&self, file: u64, pages: Range<u64>) {
        self.cache.borrow_mut().remove_file(file, pages.start, pages.end);
        if self.options.tracking == Tracking::DirtyBytes {
            let key = |index| PageKey { file, index };
            let mut dirty_bytes = self.dirty_bytes.borrow_mut();
            // Its cost is that of the pages dropped; `BTreeMap::append` would build the map anew.
            while let Some((&first, _)) = dirty_bytes.range(key(pages.start)..key(pages.end)).next() {
                dirty_bytes.remove(&first);
            }
        }
    }

    /// Drops the clean pages of `file` that may leave; `None` means all files.
    pub fn drop_clean(&self, file: Option<u64>) {
        let mut cache = self.cache.borrow_mut();
        match file {
            Some(file) => cache.drop_clean(file),
            None => cache.drop_all_clean(),
        }
    }

    /// Notified when pages were written or read. The file system also notifies it after changes that tasks of this
    /// layer wait for.
    pub fn progress(&self) -> &Signal {
        &self.progress
    }

    /// Calls `watcher` for every read and write of file content through the page cache.
    pub fn watch(&self, watcher: Watcher) {
        *self.watcher.borrow_mut() = Some(watcher);
    }

    /// Calls the watcher, if there is one.
    pub(crate) fn tell(&self, file: &impl PagedFile, pages: Range<u64>, access: Access) {
        if let Some(watcher) = &mut *self.watcher.borrow_mut() {
            watcher(Ino(file.number()), pages, access);
        }
    }

    /// What direct reads have moved.
    pub(crate) fn direct_reads(&self) -> DirectReads {
        self.direct_reads.get()
    }

    /// Sets the counters of direct reads to zero.
    pub fn reset_counters(&self) {
        self.direct_reads.take();
    }

    /// Announces that this task reads the page; `None` if the page is in memory. Waits while another task reads it.
    pub(crate) async fn begin_load(&self, key: PageKey) -> Option<Loading<'_>> {
        loop {
            if self.holds(key) {
                return None;
            }
            if self.loading.borrow_mut().insert(key) {
                return Some(Loading { pages: self, key });
            }
            onewrite_block::reached!("load waits for the same load");
            self.progress.wait().await;
        }
    }

    /// Whether pages of `file` are being read.
    fn is_loading(&self, file: u64) -> bool {
        self.loading.borrow().iter().any(|key| key.file == file)
    }

    /// Waits until one more page fits into the cache, or no page can leave. A task that already writes victims gets no
    /// room here when it reads their map; the cache then briefly exceeds its capacity.
    ///
    /// # Errors
    /// Errors of writing the victims.
    pub async fn make_room<B: Backing>(&self, backing: &B) -> FsResult<()> {
        let task = self.runtime.current_task();
        if self.making_room.borrow().contains(&task) {
            return Ok(());
        }
        loop {
            let room = self.cache.borrow_mut().make_room();
            onewrite_block::reached!("page cache stuck above its capacity", matches!(room, Room::Stuck));
            match room {
                Room::Made | Room::Stuck => return Ok(()),
                Room::Write(victims) => {
                    onewrite_block::reached!("eviction writes dirty pages");
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
    /// The first violated invariant.
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

/// Marks a page as being read, until dropped.
pub struct Loading<'a> {
    pages: &'a Pages,
    key: PageKey,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        // Direct writes wait for it, too, and are not counted.
        self.pages.loading.borrow_mut().remove(&self.key);
        self.pages.progress.notify_all();
    }
}

/// Marks a task as making room, until dropped.
struct MakingRoom<'a> {
    pages: &'a Pages,
    task: TaskId,
}

impl Drop for MakingRoom<'_> {
    fn drop(&mut self) {
        self.pages.making_room.borrow_mut().retain(|task| *task != self.task);
    }
}
