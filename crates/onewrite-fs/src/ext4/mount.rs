//! Mount and unmount: from an image to a volume with its tasks, and back to a clean image.
//!
//! ```text
//!   superblock ─► log replayed, if there is one ─► superblock and descriptors read ─► counts recomputed
//!      ─► "needs recovery" written, durably ─► log opened ─► tasks started ─► orphans finished
//!   unmount: data written ─► committed ─► everything home ─► log empty ─► "needs recovery" taken back
//! ```

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::RwLock;
use onewrite_block::{Cause, DevicePort, PAGE_SIZE, Request};

use super::balloc::Groups;
use super::format::RawSuperblock;
use super::format::features::{Compat, Incompat, RoCompat};
use super::format::superblock::STATE_CLEAN;
use super::guard::SystemZone;
use super::mode::Scope;
use super::open::{layout_of, open, read_block};
use super::options::MountOptions;
use super::tasks::start_tasks;
use super::volume::{Parts, Volume, put_superblock, take_superblock};
use crate::api::{FsError, FsResult, Ino};
use crate::block::BlockNo;
use crate::devices::Devices;
use crate::drafts::Drafting;
use crate::journal::{
    CheckpointBy, CheckpointPace, Commit, Journal, JournalOptions, Recovered, RecoveryOptions, UnpackedChunks,
};
use crate::pages::{Access, Pages, PagesOptions, page_cache};

/// Most bytes of log blocks that [`replay`] holds in memory.
const REPLAY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// A mounted ext4; it implements the file-system API.
pub struct Ext4 {
    volume: Rc<Volume>,
    rename_lock: RwLock,
    recovered: Option<Recovered>,
}

impl Ext4 {
    /// Mounts an image that keeps its log inside itself. Refuses a separate log device.
    ///
    /// # Errors
    /// Damage, an unsupported feature, option or device by name, device errors.
    pub async fn mount(devices: impl Into<Devices>, options: MountOptions) -> FsResult<Ext4> {
        let commit = options.mode.commit();
        Ext4::mount_with(devices, options, commit).await
    }

    /// As [`Ext4::mount`], but `commit` replaces the mode's way to commit. For experiments, and for the known-bad
    /// strategies that the crash explorer must catch.
    ///
    /// # Errors
    /// As [`Ext4::mount`].
    pub async fn mount_with(
        devices: impl Into<Devices>,
        options: MountOptions,
        commit: Box<dyn Commit>,
    ) -> FsResult<Ext4> {
        let port = devices.into().image_only("ext4")?;
        let cache = page_cache(options.cache_pages, options.cache_policy, MountOptions::FLASH_BLOCK_PAGES.into())?;
        options.check_device(port.geometry())?;
        let by = options.mode.checkpoint();
        let recovery = RecoveryOptions { by, kept_bytes_max: options.cache_pages * PAGE_SIZE, unpacked: None };
        let mut opened = open(&port, recovery).await?;
        let groups = Groups::new(opened.descriptors);
        let system_zone = SystemZone::new(&opened.layout, &groups, &opened.map)?;
        set_counts(&mut opened.superblock, &groups);
        mark_in_use(&port, &mut opened.superblock).await?;
        let journal_options = JournalOptions {
            commit,
            checkpoint: options.mode.checkpoint(),
            retained_pages_max: options.cache_pages / 2,
            checkpoint_pace: if options.mode.is_lazy() { CheckpointPace::Lazy } else { CheckpointPace::Eager },
            reclaimed_space: options.reclaimed_space(),
            transaction_blocks_max: (options.cache_pages / 4).max(MountOptions::CACHE_PAGES_MIN / 2),
            checkpoint_age: options.checkpoint_age,
            commit_interval: options.commit_interval,
            max_batch_time: options.max_batch_time,
            eviction_spot: options.eviction_spot,
        };
        let journal =
            Journal::open(port.clone(), opened.map, opened.log_superblock, opened.log_page, journal_options).await?;
        let (layout, superblock) = (opened.layout, opened.superblock);
        let pages_options = PagesOptions {
            owned_pages_max: journal.transaction_blocks_max(),
            prompt_writeback: options.prompt_writeback,
            ..PagesOptions::default()
        };
        let pages = Pages::new(port.clone(), cache, pages_options);
        let volume = Volume::new(Parts { port, layout, options, pages, journal, superblock, groups, system_zone });
        let rename_lock = RwLock::new(volume.runtime());
        start_tasks(&volume);
        let mounted = Ext4 { volume, rename_lock, recovered: opened.recovered };
        mounted.volume.contents().finish_orphans().await?;
        Ok(mounted)
    }

    /// The volume that the operations work on.
    pub(super) fn volume(&self) -> &Rc<Volume> {
        &self.volume
    }

    /// Held during a rename.
    pub(super) fn rename_lock(&self) -> &RwLock {
        &self.rename_lock
    }

    /// Result of the log replay at mount; `None` if the log was empty.
    pub fn recovered(&self) -> Option<Recovered> {
        self.recovered
    }

    /// Assumptions of the mode that do not hold on its device, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        self.volume.options().warnings(self.volume.port().geometry())
    }

    /// Its mount options.
    pub fn options(&self) -> &MountOptions {
        self.volume.options()
    }

    /// Calls `watcher` for every read and write of file content through the page cache, with the file and its pages.
    /// This is the before-cache trace. It contains neither metadata nor direct I/O.
    pub fn watch(&self, watcher: impl FnMut(Ino, Range<u64>, Access) + 'static) {
        self.volume.pages().watch(Box::new(watcher));
    }

    /// Verifies the invariants of the state in memory, for tests.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self) -> Result<(), String> {
        self.volume.journal().check()?;
        self.volume.allocator().check()?;
        self.volume.pages().check(&*self.volume)?;
        self.volume.contents().check_delayed()
    }
}

/// Replays the log of the image on `port`, if it is not empty, and clears "needs recovery". Repairs nothing else.
///
/// # Errors
/// As [`Ext4::mount`].
pub async fn replay(port: &DevicePort) -> FsResult<Option<Recovered>> {
    replay_by(port, None).await
}

/// As [`replay`], for one image of many that hold the same frames: what was unpacked before is not unpacked again.
///
/// # Errors
/// As [`Ext4::mount`].
pub async fn replay_with(port: &DevicePort, unpacked: Rc<UnpackedChunks>) -> FsResult<Option<Recovered>> {
    replay_by(port, Some(unpacked)).await
}

async fn replay_by(port: &DevicePort, unpacked: Option<Rc<UnpackedChunks>>) -> FsResult<Option<Recovered>> {
    let options = RecoveryOptions { by: CheckpointBy::Copy, kept_bytes_max: REPLAY_BYTES_MAX, unpacked };
    let mut opened = match open(port, options).await {
        Ok(opened) => opened,
        Err(_) if has_no_log(port).await? => return Ok(None),
        Err(error) => return Err(error),
    };
    if opened.recovered.is_some() {
        set_counts(&mut opened.superblock, &Groups::new(opened.descriptors));
        let features = opened.superblock.features();
        let incompat = features.incompat.without(Incompat::RECOVER);
        opened.superblock.set_features(super::format::Features { incompat, ..features });
        write_superblock(port, &mut opened.superblock).await?;
        port.request(Request::flush(Cause::Metadata)).await?;
    }
    Ok(opened.recovered)
}

/// Whether a valid superblock says that the image has no log and needs no recovery.
async fn has_no_log(port: &DevicePort) -> FsResult<bool> {
    let page = read_block(port, BlockNo::FIRST).await?;
    let Ok(superblock) = take_superblock(&page) else { return Ok(false) };
    let layout = layout_of(port, &superblock)?;
    let features = layout.features;
    Ok(layout.journal_inode.is_none()
        && superblock.journal_dev.get() == 0
        && !features.compat.contains(Compat::HAS_JOURNAL)
        && !features.incompat.contains(Incompat::RECOVER))
}

/// Sets the superblock's counts from the descriptors.
fn set_counts(superblock: &mut RawSuperblock, groups: &Groups) {
    superblock.set_free_blocks(groups.free_blocks());
    superblock.free_inodes_count.set(groups.free_inodes() as u32);
}

async fn mark_in_use(port: &DevicePort, superblock: &mut RawSuperblock) -> FsResult<()> {
    let features = superblock.features();
    // Any change may need these two, which only old or odd images lack; Linux adds them when a change does.
    let (compat, ro_compat) = (features.compat.with(Compat::EXT_ATTR), features.ro_compat.with(RoCompat::LARGE_FILE));
    let incompat = features.incompat.with(Incompat::RECOVER);
    superblock.set_features(super::format::Features { compat, incompat, ro_compat });
    superblock.mnt_count.set(superblock.mnt_count.get().wrapping_add(1));
    superblock.mtime.set((port.runtime().civil_now().0 / 1_000_000_000) as u32);
    write_superblock(port, superblock).await?;
    port.request(Request::flush(Cause::Metadata)).await?;
    Ok(())
}

async fn write_superblock(port: &DevicePort, superblock: &mut RawSuperblock) -> FsResult<()> {
    superblock.wtime.set((port.runtime().civil_now().0 / 1_000_000_000) as u32);
    superblock.set_checksum();
    let mut page = read_block(port, BlockNo::FIRST).await?;
    put_superblock(page.bytes_mut(), superblock);
    port.request(Request::write(BlockNo::FIRST.page(), vec![page], Cause::Metadata)).await?;
    Ok(())
}

impl Volume {
    /// Writes everything home and marks the image clean.
    pub(super) async fn unmount(&self) -> FsResult<()> {
        self.check_mounted()?;
        Drafting(self).end_all().await?;
        // A file that cannot be deleted must not keep the others from being written; the next mount tries again.
        let deleted = self.contents().delete_nameless().await;
        if self.scope() != Scope::Full {
            self.contents().write_everything().await?;
        }
        // A transaction may still be committing although the running one is empty. Closing the log now would lose it.
        loop {
            self.commit_now().await?;
            if self.journal().is_running_empty() && self.journal().is_committed(self.journal().running_tid().previous())
            {
                break;
            }
        }
        self.journal().check_aborted()?;
        self.begin_unmount();
        self.journal().close().await?;
        let mut superblock = self.superblock().clone();
        set_counts(&mut superblock, self.groups());
        let features = superblock.features();
        let incompat = features.incompat.without(Incompat::RECOVER);
        superblock.set_features(super::format::Features { incompat, ..features });
        superblock.state.set(superblock.state.get() | STATE_CLEAN);
        write_superblock(self.port(), &mut superblock).await?;
        self.port().request(Request::flush(Cause::Metadata)).await?;
        self.end_tasks();
        deleted
    }

    fn check_mounted(&self) -> FsResult<()> {
        match self.is_unmounted() {
            true => Err(FsError::Invalid("it is unmounted already".into())),
            false => Ok(()),
        }
    }
}
