//! Volume: everything that the operations of a mounted ext4 share, and the way to its blocks.
//!
//! Its one idea: a block of structure is read into the page cache once, checked then, and changed only through a
//! handle. [`Volume::block`] and [`Volume::load`] wait for the device; [`Volume::change`] never waits, so that a change
//! to several blocks is seen by other tasks whole or not at all.
//!
//! # Invariants
//! - A page of structure that differs from what is committed is pinned by the transaction that changed it.
//! - A page is read by one task at a time; who comes second waits for the first.
//! - What is committed and not home is read from the journal, not from its home block.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::Signal;
use onewrite_block::{Cause, DevicePort, Lpn, Nanos, Page, PageBytes, Request, Runtime, TaskId};
use onewrite_cache::{PageCache, PageKey, Room};
use rustc_hash::FxHashMap;

use super::balloc::Groups;
use super::format::error::located;
use super::format::{FormatError, Layout, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use super::guard::Structure;
use super::inodes::Inodes;
use super::mode::Scope;
use super::mount::MountOptions;
use crate::api::{FsError, FsResult, Ino, Timestamp};
use crate::journal::{Handle, Joined, Journal, Owner};
use zerocopy::{FromBytes, IntoBytes};

/// A page of structure: file 0, the block's number.
pub(super) const fn block_key(block: u64) -> PageKey {
    PageKey { file: 0, index: block }
}

/// Takes a file, a range of its pages, and whether they are written.
pub(super) type Watcher = Box<dyn FnMut(Ino, Range<u64>, bool)>;

pub(super) struct Volume {
    pub(super) runtime: Runtime,
    pub(super) port: DevicePort,
    pub(super) layout: Layout,
    pub(super) scope: Scope,
    pub(super) options: MountOptions,
    pub(super) cache: RefCell<PageCache>,
    pub(super) journal: Rc<Journal>,
    pub(super) superblock: RefCell<RawSuperblock>,
    pub(super) groups: Groups,
    pub(super) structure: Structure,
    pub(super) inodes: Inodes,
    /// Rings when pages were written or read, files became dirty, freed blocks were released.
    pub(super) progress: Signal,
    /// Rings when there is something to convert.
    pub(super) conversions: Signal,
    /// Rings when victims are in line.
    pub(super) evictions: Signal,
    /// Victims that could not be written where they were chosen, oldest first.
    pub(super) late_victims: RefCell<VecDeque<PageKey>>,
    /// Told of the pages of files that are read and written through the page cache.
    pub(super) watcher: RefCell<Option<Watcher>>,
    /// Rings once, at unmount.
    pub(super) stopped: Signal,
    pub(super) is_unmounted: Cell<bool>,
    loading: RefCell<FxHashMap<PageKey, usize>>,
    /// Tasks that write pages to make room.
    making_room: RefCell<Vec<TaskId>>,
    writeout: Cell<bool>,
    /// Bytes read directly, and those of them that were in memory.
    pub(super) direct_reads: Cell<(u64, u64)>,
}

impl From<FormatError> for FsError {
    fn from(error: FormatError) -> FsError {
        match error {
            FormatError::Unsupported { what } => FsError::Unsupported(what),
            FormatError::Damaged { structure, place, problem } => {
                FsError::Damaged { place: located(structure, place), problem: problem.to_string() }
            }
        }
    }
}

/// What a volume is put together from.
pub(super) struct Parts {
    pub(super) port: DevicePort,
    pub(super) layout: Layout,
    pub(super) options: MountOptions,
    pub(super) cache: PageCache,
    pub(super) journal: Rc<Journal>,
    pub(super) superblock: RawSuperblock,
    pub(super) groups: Groups,
    pub(super) structure: Structure,
}

impl Volume {
    pub(super) fn new(parts: Parts) -> Rc<Volume> {
        let runtime = parts.port.runtime().clone();
        Rc::new(Volume {
            progress: Signal::new(&runtime),
            stopped: Signal::new(&runtime),
            conversions: Signal::new(&runtime),
            evictions: Signal::new(&runtime),
            late_victims: RefCell::default(),
            watcher: RefCell::default(),
            runtime,
            port: parts.port,
            layout: parts.layout,
            scope: parts.options.mode.scope(),
            options: parts.options,
            cache: RefCell::new(parts.cache),
            journal: parts.journal,
            superblock: RefCell::new(parts.superblock),
            groups: parts.groups,
            structure: parts.structure,
            inodes: Inodes::default(),
            is_unmounted: Cell::new(false),
            loading: RefCell::default(),
            making_room: RefCell::default(),
            writeout: Cell::new(false),
            direct_reads: Cell::default(),
        })
    }

    /// The time to stamp things with, in the granularity of the mount.
    pub(super) fn timestamp(&self) -> Timestamp {
        let (now, tick) = (self.runtime.civil_now().0, self.options.timestamp_granularity.0.max(1));
        Timestamp::from_nanos(Nanos(now - now % tick)).storable(self.layout.new_extra_isize > 0)
    }

    /// Tells the watcher, if there is one, of pages that are read or written.
    pub(super) fn tell(&self, file: Ino, pages: Range<u64>, is_write: bool) {
        if let Some(watcher) = &mut *self.watcher.borrow_mut() {
            watcher(file, pages, is_write);
        }
    }

    /// Occupies a core for a system call that moves `bytes`.
    pub(super) async fn syscall(&self, bytes: u64) {
        self.runtime.cpu(self.runtime.host().syscall(bytes)).await;
    }

    /// The block, read and checked by `verify` if it is not in memory.
    pub(super) async fn block(
        &self,
        block: u64,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<Page> {
        loop {
            if let Some(page) = self.cache.borrow_mut().page(block_key(block)) {
                return Ok(page.clone());
            }
            self.load(block, &verify).await?;
        }
    }

    /// Sees to it that the block is in memory, at least until the next wait.
    pub(super) async fn load(
        &self,
        block: u64,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<()> {
        let key = block_key(block);
        if self.cache.borrow().peek(key).is_some() {
            return Ok(());
        }
        if block >= self.layout.block_count {
            let place = format!("reference to block {block}");
            return Err(FsError::Damaged { place, problem: "it lies beyond the file system".into() });
        }
        // Not while others wait for this block: whoever writes a page to make room may be one of them.
        self.make_room().await?;
        let Some(_loading) = self.begin_load(key).await else { return Ok(()) };
        let page = match self.journal.newest(block).await? {
            Some(page) => page,
            None => {
                let mut pages = self.port.request(Request::read(Lpn(block), 1, Cause::Metadata)).await?;
                pages.pop().expect("a read of one page gives one")
            }
        };
        let mut cache = self.cache.borrow_mut();
        // If it is there now, the block was freed, and taken for something new, while its old content was read.
        if cache.peek(key).is_none() {
            verify(&page.bytes())?;
            cache.insert(key, page);
        }
        Ok(())
    }

    /// As [`Volume::load`], of a block that is not read as long as nothing was ever written there: `unused` then says what
    /// it holds. While others make room and blocks are read, groups come into use and their checksums change: so both
    /// `unused` and `verify` go by what their descriptor says when they are asked.
    pub(super) async fn load_or_make(
        &self,
        block: u64,
        unused: impl Fn() -> Option<PageBytes>,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<()> {
        if self.is_loaded(block) {
            return Ok(());
        }
        self.make_room().await?;
        match unused() {
            Some(_) if self.is_loaded(block) => Ok(()),
            Some(bytes) => {
                self.cache.borrow_mut().insert(block_key(block), Page::new(bytes));
                Ok(())
            }
            None => self.load(block, verify).await,
        }
    }

    /// Announces that `key` is being read; `None` if another task did so in the meantime and it is here now.
    pub(super) async fn begin_load(&self, key: PageKey) -> Option<Loading<'_>> {
        loop {
            if self.cache.borrow().peek(key).is_some() {
                return None;
            }
            if !self.loading.borrow().contains_key(&key) {
                self.loading.borrow_mut().insert(key, 0);
                return Some(Loading { volume: self, key });
            }
            *self.loading.borrow_mut().get_mut(&key).expect("just seen") += 1;
            self.progress.wait().await;
        }
    }

    /// Whether pages of `file` are being read.
    pub(super) fn is_loading(&self, file: u64) -> bool {
        self.loading.borrow().keys().any(|key| key.file == file)
    }

    /// Waits until one more page fits into the cache, or nothing in it can leave. A task that writes pages for this
    /// reads their map without making room for it in turn: the cache is then larger for a moment.
    pub(super) async fn make_room(&self) -> FsResult<()> {
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
                    let _until_written = MakingRoom { volume: self, task };
                    Box::pin(self.write_victims(&victims)).await?;
                }
            }
        }
    }

    /// Changes a block that is in memory, as part of a transaction. Does not wait.
    ///
    /// # Panics
    /// If the block is not in memory: load it after the last wait.
    pub(super) fn change<R>(&self, handle: &mut Handle, block: u64, change: impl FnOnce(&mut PageBytes) -> R) -> R {
        let key = block_key(block);
        self.pin(handle, block, key);
        let mut cache = self.cache.borrow_mut();
        let page = cache.page_mut(key).unwrap_or_else(|| panic!("block {block} is changed but not in memory"));
        change(page.bytes_mut())
    }

    /// Puts a new block, of zeros before `fill`, into memory as part of a transaction. Does not wait.
    pub(super) fn create_block(&self, handle: &mut Handle, block: u64, fill: impl FnOnce(&mut PageBytes)) {
        let mut page = Page::ZEROS;
        fill(page.bytes_mut());
        self.cache.borrow_mut().insert(block_key(block), page);
        self.pin(handle, block, block_key(block));
    }

    /// Makes the page of `key`, whose home is `block`, part of a transaction.
    pub(super) fn pin(&self, handle: &mut Handle, block: u64, key: PageKey) {
        if handle.join(block, Owner { file: key.file, index: key.index }) == Joined::First {
            self.cache.borrow_mut().pin(key, handle.tid().0);
        }
    }

    /// Changes the superblock as part of a transaction; its block has to be in memory.
    pub(super) fn change_superblock(&self, handle: &mut Handle, change: impl FnOnce(&mut RawSuperblock)) {
        let mut superblock = self.superblock.borrow_mut();
        change(&mut superblock);
        superblock.set_checksum();
        self.change(handle, 0, |bytes| put_superblock(bytes, &superblock));
    }

    /// Sees to it that the superblock's block is in memory.
    pub(super) async fn load_superblock(&self) -> FsResult<()> {
        self.load(self.layout.superblock_block(), |_| Ok(())).await
    }

    /// An operation is possible: mounted, and the journal alive.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check_writable(&self) -> FsResult<()> {
        if self.is_unmounted.get() {
            return Err(FsError::ReadOnly("it is unmounted".into()));
        }
        if self.options.read_only {
            return Err(FsError::ReadOnly("it was mounted so".into()));
        }
        self.journal.check_aborted()
    }

    /// Marks the volume as busy writing pages out, so that one task at a time does.
    pub(super) fn set_writeout(&self, busy: bool) -> bool {
        self.writeout.replace(busy)
    }
}

/// Says that a page is being read, until dropped.
pub(super) struct Loading<'a> {
    volume: &'a Volume,
    key: PageKey,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let waiters = self.volume.loading.borrow_mut().remove(&self.key);
        if waiters.is_some_and(|count| count > 0) {
            self.volume.progress.ring();
        }
    }
}

/// A task makes room, until this is dropped.
struct MakingRoom<'a> {
    volume: &'a Volume,
    task: TaskId,
}

impl Drop for MakingRoom<'_> {
    fn drop(&mut self) {
        self.volume.making_room.borrow_mut().retain(|task| *task != self.task);
    }
}

/// Puts the superblock to its place in block 0.
pub(super) fn put_superblock(bytes: &mut PageBytes, superblock: &RawSuperblock) {
    bytes[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE].copy_from_slice(superblock.as_bytes());
}

/// The superblock in block 0, whatever it says.
pub(super) fn take_superblock(page: &Page) -> FsResult<RawSuperblock> {
    let bytes = page.bytes();
    RawSuperblock::in_first_block(&bytes[..])?;
    let raw = &bytes[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE];
    Ok(RawSuperblock::read_from_bytes(raw).expect("1,024 bytes"))
}
