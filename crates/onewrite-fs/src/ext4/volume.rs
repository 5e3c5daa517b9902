//! Volume: everything that the operations of a mounted ext4 share, and the way to its blocks.
//!
//! Its one idea: a metadata block is read into the page cache once, is checked then, and changes only through a handle.
//! [`Volume::block`] and [`Volume::load`] wait for the device. [`Volume::change`] never waits, so other tasks see a
//! change of several blocks entirely or not at all.
//!
//! # Invariants
//! - If a metadata page differs from its committed content, the transaction that changed it pins it.
//! - A block that is committed but not yet home is read from the journal, not from its home block.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use onewrite_block::sync::Signal;
use onewrite_block::{Cause, DevicePort, Nanos, Page, PageBytes, Request, Runtime};
use onewrite_cache::PageKey;

use super::atomic::Drafts;
use super::balloc::Groups;
use super::delayed::pending::ConversionLine;
use super::format::error::located;
use super::format::time::TimeRoom;
use super::format::{FormatError, InodeNo, Layout, ROOT_INODE, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use super::guard::SystemZone;
use super::inodes::Inodes;
use super::mode::Scope;
use super::options::MountOptions;
use super::orphans::Orphans;
use crate::api::{FsError, FsResult, Timestamp};
use crate::block::{BlockNo, BlockRange};
use crate::journal::{Handle, Joined, Journal, Owner};
use crate::pages::Pages;
use zerocopy::{FromBytes, IntoBytes};

/// Cache key of a metadata block: file 0, the block's number as index.
pub(super) const fn block_key(block: BlockNo) -> PageKey {
    PageKey { file: 0, index: block.0 }
}

pub(super) struct Volume {
    runtime: Runtime,
    port: DevicePort,
    layout: Layout,
    scope: Scope,
    options: MountOptions,
    pages: Pages,
    journal: Rc<Journal>,
    superblock: RefCell<RawSuperblock>,
    groups: Groups,
    system_zone: SystemZone,
    inodes: Inodes,
    orphans: Orphans,
    conversions: ConversionLine,
    drafts: Drafts,
    /// Notified once, at unmount.
    stopped: Signal,
    is_unmounted: Cell<bool>,
    /// Lookups of content maps, counted for tests.
    #[cfg(test)]
    map_lookups: Cell<u64>,
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

/// The parts of a new volume.
pub(super) struct Parts {
    pub(super) port: DevicePort,
    pub(super) layout: Layout,
    pub(super) options: MountOptions,
    pub(super) pages: Pages,
    pub(super) journal: Rc<Journal>,
    pub(super) superblock: RawSuperblock,
    pub(super) groups: Groups,
    pub(super) system_zone: SystemZone,
}

impl Volume {
    pub(super) fn new(parts: Parts) -> Rc<Volume> {
        let runtime = parts.port.runtime().clone();
        Rc::new(Volume {
            stopped: Signal::new(&runtime),
            conversions: ConversionLine::new(&runtime),
            runtime,
            port: parts.port,
            layout: parts.layout,
            scope: parts.options.mode.scope(),
            options: parts.options,
            pages: parts.pages,
            journal: parts.journal,
            superblock: RefCell::new(parts.superblock),
            groups: parts.groups,
            system_zone: parts.system_zone,
            inodes: Inodes::default(),
            orphans: Orphans::default(),
            drafts: Drafts::default(),
            is_unmounted: Cell::new(false),
            #[cfg(test)]
            map_lookups: Cell::new(0),
        })
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) fn port(&self) -> &DevicePort {
        &self.port
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What its transactions hold.
    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    pub(super) fn options(&self) -> &MountOptions {
        &self.options
    }

    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    pub(super) fn journal(&self) -> &Rc<Journal> {
        &self.journal
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn inodes(&self) -> &Inodes {
        &self.inodes
    }

    pub(super) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    /// Changes of atomic files that are not committed.
    pub(super) fn drafts(&self) -> &Drafts {
        &self.drafts
    }

    /// Files whose content arrived on the device before their map or size shows it.
    pub(super) fn conversions(&self) -> &ConversionLine {
        &self.conversions
    }

    /// Waits for the end of the mount.
    pub(super) async fn stopped(&self) {
        self.stopped.wait().await;
    }

    /// Ends the background tasks.
    pub(super) fn end_tasks(&self) {
        self.stopped.notify_all();
    }

    /// Lookups of content maps so far.
    #[cfg(test)]
    pub(super) fn map_lookups(&self) -> u64 {
        self.map_lookups.get()
    }

    /// Counts one more lookup of a content map.
    #[cfg(test)]
    pub(super) fn count_map_lookup(&self) {
        self.map_lookups.set(self.map_lookups.get() + 1);
    }

    /// The current timestamp, in the granularity of the mount.
    pub(super) fn timestamp(&self) -> Timestamp {
        let (now, tick) = (self.runtime.civil_now().0, self.runtime.host().tick_ns);
        Timestamp::from_nanos(Nanos(now - now % tick)).storable(TimeRoom::of(self.layout.new_extra_isize, 1))
    }

    /// Occupies a core for a system call that moves `bytes`.
    pub(super) async fn syscall(&self, bytes: u64) {
        self.runtime.cpu(self.runtime.host().syscall(bytes)).await;
    }

    /// The block, read and checked by `verify` if it is not in memory.
    pub(super) async fn block(
        &self,
        block: BlockNo,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<Page> {
        loop {
            if let Some(page) = self.pages.page(block_key(block)) {
                return Ok(page);
            }
            self.load(block, &verify).await?;
        }
    }

    /// Brings the block into memory; it stays there at least until the next wait. `verify` checks it after a read.
    pub(super) async fn load(
        &self,
        block: BlockNo,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<()> {
        let key = block_key(block);
        if self.pages.holds(key) {
            return Ok(());
        }
        if block >= self.layout.end() {
            let place = format!("reference to block {block}");
            return Err(FsError::Damaged { place, problem: "it lies beyond the file system".into() });
        }
        // Make room before the load begins: a task that writes a page to make room may itself wait for this block.
        self.make_room().await?;
        let Some(_loading) = self.pages.begin_load(key).await else { return Ok(()) };
        let page = match self.journal.copies().newest(block).await? {
            Some(page) => page,
            None => {
                let mut pages = self.port.request(Request::read(block.page(), 1, Cause::Metadata)).await?;
                pages.pop().expect("a read of one page gives one")
            }
        };
        // If the page exists now, the block was freed and reused while its old content was read.
        onewrite_block::reached!("block was made while it was loaded", self.pages.holds(key));
        if !self.pages.holds(key) {
            verify(&page.bytes())?;
            self.pages.insert(key, page);
        }
        Ok(())
    }

    /// As [`Volume::load`], for a block that may never have been written: then `unused` gives its content and nothing
    /// is read. A group may come into use, and its checksums may change, during the waits. So `unused` and `verify`
    /// must look at the descriptor each time they are called.
    pub(super) async fn load_or_make(
        &self,
        block: BlockNo,
        unused: impl Fn() -> Option<PageBytes>,
        verify: impl Fn(&PageBytes) -> Result<(), FormatError>,
    ) -> FsResult<()> {
        if self.allocator().is_loaded(block) {
            return Ok(());
        }
        self.make_room().await?;
        match unused() {
            Some(_) if self.allocator().is_loaded(block) => Ok(()),
            Some(bytes) => {
                self.pages.insert(block_key(block), Page::new(bytes));
                Ok(())
            }
            None => self.load(block, verify).await,
        }
    }

    /// Waits until one more page fits into the cache; see [`Pages::make_room`].
    pub(super) async fn make_room(&self) -> FsResult<()> {
        self.pages.make_room(self).await
    }

    /// Changes a block that is in memory, as part of a transaction. Does not wait.
    ///
    /// # Panics
    /// If the block is not in memory: load it after the last wait.
    pub(super) fn change<R>(&self, handle: &mut Handle, block: BlockNo, change: impl FnOnce(&mut PageBytes) -> R) -> R {
        let key = block_key(block);
        self.pin(handle, block, key);
        let changed = self.pages.change(key, change);
        changed.unwrap_or_else(|| panic!("block {block} is changed but not in memory"))
    }

    /// Puts a new block into memory as part of a transaction; `fill` starts from zeros. Does not wait.
    pub(super) fn create_block(&self, handle: &mut Handle, block: BlockNo, fill: impl FnOnce(&mut PageBytes)) {
        let mut page = Page::ZEROS;
        fill(page.bytes_mut());
        self.pages.insert(block_key(block), page);
        self.pin(handle, block, block_key(block));
    }

    /// Makes the page of `key`, whose home is `block`, part of a transaction.
    pub(super) fn pin(&self, handle: &mut Handle, block: BlockNo, key: PageKey) {
        if handle.join(block, Owner { file: key.file, index: key.index }) == Joined::First {
            self.pages.pin(key, handle.tid().0);
        }
    }

    /// Changes the superblock as part of a transaction; its block must be in memory.
    pub(super) fn change_superblock(&self, handle: &mut Handle, change: impl FnOnce(&mut RawSuperblock)) {
        let mut superblock = self.superblock.borrow_mut();
        change(&mut superblock);
        superblock.set_checksum();
        self.change(handle, self.layout.superblock_block(), |bytes| put_superblock(bytes, &superblock));
    }

    /// The superblock with all changes by transactions. Its counts and state are those at mount.
    pub(super) fn superblock(&self) -> Ref<'_, RawSuperblock> {
        self.superblock.borrow()
    }

    /// Whether the volume is unmounted: nothing can change any more.
    pub(super) fn is_unmounted(&self) -> bool {
        self.is_unmounted.get()
    }

    /// Begins the unmount: nothing can change any more.
    pub(super) fn begin_unmount(&self) {
        self.is_unmounted.set(true);
    }

    /// Brings the superblock's block into memory.
    pub(super) async fn load_superblock(&self) -> FsResult<()> {
        self.load(self.layout.superblock_block(), |_| Ok(())).await
    }

    /// Checks that changes are possible: the volume is mounted, not read-only, and its journal is not aborted.
    ///
    /// # Errors
    /// [`FsError::ReadOnly`], or the error that aborted the journal.
    pub(super) fn check_writable(&self) -> FsResult<()> {
        if self.is_unmounted.get() {
            return Err(FsError::ReadOnly("it is unmounted".into()));
        }
        if self.options.read_only {
            return Err(FsError::ReadOnly("it was mounted so".into()));
        }
        self.journal.check_aborted()
    }

    /// # Errors
    /// [`FsError::Damaged`] if a file must not have one of the blocks. `who` names the reference in the message.
    pub(super) fn check_content(&self, who: impl std::fmt::Display, run: BlockRange) -> FsResult<()> {
        let damage = |problem: &str| {
            let place = format!("{who}, {} blocks from {} on", run.count, run.start);
            Err(FsError::Damaged { place, problem: problem.into() })
        };
        if !run.ends_by(self.layout.end()) {
            return damage("they lie beyond the file system");
        }
        match self.system_zone.touches(run) {
            true => damage("superblocks, bitmaps, inode tables or the log lie there"),
            false => Ok(()),
        }
    }

    /// # Errors
    /// [`FsError::Damaged`] if neither a name nor the orphan list may refer to inode `number`.
    pub(super) fn check_number(&self, number: InodeNo) -> FsResult<()> {
        match !self.layout.is_reserved(number) || number == ROOT_INODE {
            true => Ok(()),
            false => Err(FsError::Damaged {
                place: format!("reference to inode {number}"),
                problem: "it is reserved for the file system itself".into(),
            }),
        }
    }
}

/// Puts the superblock, with its checksum, to its place in block 0.
pub(super) fn put_superblock(bytes: &mut PageBytes, superblock: &RawSuperblock) {
    bytes[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE].copy_from_slice(superblock.as_bytes());
    debug_assert!(reads_as(bytes, superblock), "the superblock would be refused when it is read again");
}

/// Whether a mount would accept block 0 and find this superblock in it.
fn reads_as(bytes: &PageBytes, superblock: &RawSuperblock) -> bool {
    let found = RawSuperblock::in_first_block(&bytes[..]);
    found.is_ok_and(|found| found == superblock && Layout::decode(found).is_ok())
}

/// The superblock in block 0; only its magic number is checked.
pub(super) fn take_superblock(page: &Page) -> FsResult<RawSuperblock> {
    let bytes = page.bytes();
    RawSuperblock::in_first_block(&bytes[..])?;
    let raw = &bytes[SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE];
    Ok(RawSuperblock::read_from_bytes(raw).expect("1,024 bytes"))
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Choices, Executor, MIB, PAGE_SIZE, RamDisk};

    use super::*;
    use crate::ext4::mkfs::{MkfsOptions, plan};
    use crate::ext4::{Ext4, Mode};

    #[test]
    fn a_block_made_anew_while_its_old_content_is_read_keeps_the_new() {
        let mut disk = RamDisk::new(32 * MIB / PAGE_SIZE as u64);
        let planned = plan(&MkfsOptions::new(32 * MIB, &mut Choices::new(1))).expect("plan");
        planned.into_iter().for_each(|(block, page)| disk.put(block.page(), page));
        let executor = Executor::ideal();
        let port = executor.runtime().attach(Box::new(disk));
        let work = async move {
            let fs = Ext4::mount(port, MountOptions::new(Mode::Ordered)).await.expect("mount");
            let (volume, reader) = (fs.volume(), Rc::clone(fs.volume()));
            let block = BlockNo(volume.layout().end().0 - 1);
            let read = volume.runtime().start(async move { reader.block(block, |_| Ok(())).await });
            let writer = Rc::clone(volume);
            let write = volume.runtime().start(async move {
                let mut handle = writer.journal().start(1).await.expect("room");
                writer.create_block(&mut handle, block, |bytes| bytes.fill(7));
            });
            write.await;
            read.await.expect("read");
            volume.block(block, |_| Ok(())).await.expect("in memory").bytes()[0]
        };
        assert_eq!(executor.block_on(work).expect("nothing halts"), 7);
    }
}
