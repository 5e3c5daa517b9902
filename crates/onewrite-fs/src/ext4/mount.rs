//! Mount and unmount: from an image to a volume with its tasks, and back to a clean image.
//!
//! ```text
//!   superblock ─► log replayed, if there is one ─► superblock and descriptors read ─► counts recomputed
//!      ─► "needs recovery" written, durably ─► log opened ─► tasks started ─► orphans finished
//!   unmount: data written ─► committed ─► everything home ─► log empty ─► "needs recovery" taken back
//! ```

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::SharedLock;
use onewrite_block::{Cause, DevicePort, Geometry, Lpn, Nanos, PAGE_SIZE, Page, Request};
use onewrite_cache::{CacheShape, PageCache, PolicyKind};

use super::balloc::{Groups, decode_descriptors};
use super::format::extent::Node as Tree;
use super::format::features::{Compat, Incompat};
use super::format::superblock::STATE_CLEAN;
use super::format::{FormatError, Inode, Layout, Place, RawGroupDescriptor, RawSuperblock};
use super::guard::Structure;
use super::lost::expect_file_system;
use super::mode::{Mode, Scope};
use super::tasks::start_tasks;
use super::volume::{Parts, Volume, put_superblock, take_superblock};
use crate::api::{FsError, FsResult, Ino};
use crate::devices::Devices;
use crate::journal::format::JournalSuperblock;
use crate::journal::{
    BlockRange, CheckpointBy, Commit, EvictionSpot, Journal, JournalOptions, LogBlock, LogMap, Prospect, Recovered,
    RecoveryOptions, padding_warnings, recover,
};
use crate::pages::{Pages, PagesOptions};

/// Bytes of log blocks that [`replay`] holds in memory, at most.
const REPLAY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How an image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// How it stays consistent.
    pub mode: Mode,
    /// Pages of the page cache; at least [`MountOptions::CACHE_PAGES_MIN`].
    pub cache_pages: usize,
    /// Which page leaves the page cache; any policy that needs no knowledge of the future.
    pub cache_policy: PolicyKind,
    /// Granularity of timestamps; Linux stamps with its tick, 4 ms.
    pub timestamp_granularity: Nanos,
    /// Age at which a transaction commits by itself.
    pub commit_interval: Nanos,
    /// Age at which a committed block goes home by itself.
    pub checkpoint_age: Nanos,
    /// In metadata scope, allocate a block when its page is written out, not when it is written to: Linux's `delalloc`.
    pub delayed_allocation: bool,
    /// Whether log space is trimmed before it is used again; `None` as the mode has it.
    pub self_trimming: Option<bool>,
    /// Refuse changes. A log is replayed all the same.
    pub read_only: bool,
    /// Where commits pad: what `onewrite probe` found out about the device's write buffer; else it is what the device
    /// states of itself.
    pub eviction_spot: Option<EvictionSpot>,
}

impl MountOptions {
    /// Smallest page cache.
    pub const CACHE_PAGES_MIN: usize = 256;

    /// What the cache policies take for a flash block: 4 MiB of a file.
    pub const FLASH_BLOCK_PAGES: u32 = 1024;

    /// The defaults with `mode`: 64 MiB of page cache under LRU, 4 ms ticks, commits every 5 s, blocks home after 30 s.
    pub const fn new(mode: Mode) -> MountOptions {
        MountOptions {
            mode,
            cache_pages: 64 * 1024 * 1024 / PAGE_SIZE,
            cache_policy: PolicyKind::Lru,
            timestamp_granularity: Nanos::from_millis(4),
            commit_interval: Nanos::from_secs(5),
            checkpoint_age: Nanos::from_secs(30),
            delayed_allocation: true,
            self_trimming: None,
            read_only: false,
            eviction_spot: None,
        }
    }

    /// Whether a device has what the mode needs; mount asks, too.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] with what is missing and the cure.
    pub fn check_device(&self, geometry: &Geometry) -> FsResult<()> {
        let Geometry { name, share_pairs_max, share_refusal, .. } = geometry;
        let mode = self.mode;
        if mode.checkpoint() != CheckpointBy::Share || *share_pairs_max > 0 {
            return Ok(());
        }
        let reason = share_refusal.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let what = format!("mode `{mode}` on {name}: it brings blocks home by SHARE, which the device lacks{reason}");
        let cure = match mode.scope() {
            Scope::Full => Mode::Data,
            _ => Mode::Ordered,
        };
        Err(FsError::Unsupported(format!("{what}; use `{cure}`, or a device with SHARE (nvme-share)")))
    }

    /// What does not hold on this device of what the mode rests on, each a sentence.
    pub fn warnings(&self, geometry: &Geometry) -> Vec<String> {
        let padding = self.mode.padding();
        padding.map_or_else(Vec::new, |padding| padding_warnings(padding, geometry, self.eviction_spot))
    }
}

/// A mounted ext4: what the file-system API is implemented on.
pub struct Ext4 {
    pub(super) volume: Rc<Volume>,
    pub(super) rename_lock: SharedLock,
    recovered: Option<Recovered>,
}

/// What an image says of itself before it is mounted.
struct Opened {
    superblock: RawSuperblock,
    layout: Layout,
    descriptors: Vec<RawGroupDescriptor>,
    map: LogMap,
    log_superblock: JournalSuperblock,
    log_page: Page,
    recovered: Option<Recovered>,
}

impl Ext4 {
    /// Mounts an image, which keeps its log inside itself: a log device of its own is refused.
    ///
    /// # Errors
    /// Damage, an unsupported feature, option or device by name, device errors.
    pub async fn mount(devices: impl Into<Devices>, options: MountOptions) -> FsResult<Ext4> {
        let commit = options.mode.commit();
        Ext4::mount_with(devices, options, commit).await
    }

    /// As [`Ext4::mount`], with a way to commit of the caller's instead of the mode's: for experiments, and for the
    /// known-bad strategies that the crash explorer has to catch.
    ///
    /// # Errors
    /// As [`Ext4::mount`].
    pub async fn mount_with(
        devices: impl Into<Devices>,
        options: MountOptions,
        commit: Box<dyn Commit>,
    ) -> FsResult<Ext4> {
        let port = devices.into().image_only("ext4")?;
        let cache = page_cache(&options)?;
        options.check_device(port.geometry())?;
        let by = options.mode.checkpoint();
        let recovery = RecoveryOptions { by, kept_bytes_max: options.cache_pages * PAGE_SIZE };
        let mut opened = open(&port, recovery).await?;
        let groups = Groups::new(opened.descriptors);
        let structure = Structure::new(&opened.layout, &groups, &opened.map)?;
        settle_counts(&mut opened.superblock, &groups);
        mark_in_use(&port, &mut opened.superblock).await?;
        let journal_options = JournalOptions {
            commit,
            checkpoint: options.mode.checkpoint(),
            retained_pages_max: options.cache_pages / 2,
            lazy: options.mode.is_lazy(),
            self_trimming: options.self_trimming.unwrap_or(options.mode.trims_itself()),
            transaction_blocks_max: (options.cache_pages / 4).max(MountOptions::CACHE_PAGES_MIN / 2),
            checkpoint_age: options.checkpoint_age,
            commit_interval: options.commit_interval,
            eviction_spot: options.eviction_spot,
        };
        let journal =
            Journal::open(port.clone(), opened.map, opened.log_superblock, opened.log_page, journal_options).await?;
        let (layout, superblock) = (opened.layout, opened.superblock);
        let pages = Pages::new(port.clone(), cache, PagesOptions::default());
        let volume = Volume::new(Parts { port, layout, options, pages, journal, superblock, groups, structure });
        let rename_lock = SharedLock::new(&volume.runtime);
        start_tasks(&volume);
        let mounted = Ext4 { volume, rename_lock, recovered: opened.recovered };
        mounted.volume.finish_orphans().await?;
        Ok(mounted)
    }

    /// What replaying the log did, if it held anything at mount.
    pub fn recovered(&self) -> Option<Recovered> {
        self.recovered
    }

    /// What does not hold on its device of what the mode rests on, each a sentence.
    pub fn warnings(&self) -> Vec<String> {
        self.volume.options.warnings(self.volume.port.geometry())
    }

    /// How it is mounted.
    pub fn options(&self) -> &MountOptions {
        &self.volume.options
    }

    /// Lets `watcher` know of every read and write of a file's content that goes through the page cache: the file, its pages,
    /// and whether they are written. That is the before-cache trace; structure is not in it, nor is direct I/O.
    pub fn watch(&self, watcher: impl FnMut(Ino, Range<u64>, bool) + 'static) {
        self.volume.pages.watch(Box::new(watcher));
    }

    /// Verifies the invariants of what is in memory, for tests.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.volume.pages.check(&*self.volume)?;
        self.volume.contents().check_delayed()
    }
}

/// Replays the log of the image on `port`, if it holds anything, and takes back "needs recovery"; repairs nothing else.
///
/// # Errors
/// As [`Ext4::mount`].
pub async fn replay(port: &DevicePort) -> FsResult<Option<Recovered>> {
    let options = RecoveryOptions { by: CheckpointBy::Copy, kept_bytes_max: REPLAY_BYTES_MAX };
    let mut opened = match open(port, options).await {
        Ok(opened) => opened,
        Err(_) if has_no_log(port).await? => return Ok(None),
        Err(error) => return Err(error),
    };
    if opened.recovered.is_some() {
        settle_counts(&mut opened.superblock, &Groups::new(opened.descriptors));
        let features = opened.superblock.features();
        let incompat = features.incompat.without(Incompat::RECOVER);
        opened.superblock.set_features(super::format::Features { incompat, ..features });
        write_superblock(port, &mut opened.superblock).await?;
        port.request(Request::flush(Cause::Metadata)).await?;
    }
    Ok(opened.recovered)
}

/// Whether a sound superblock says that there is no log, and no need of one.
async fn has_no_log(port: &DevicePort) -> FsResult<bool> {
    let page = read_block(port, 0).await?;
    let Ok(superblock) = take_superblock(&page) else { return Ok(false) };
    let layout = layout_of(port, &superblock)?;
    let features = layout.features;
    Ok(layout.journal_inode == 0
        && superblock.journal_dev.get() == 0
        && !features.compat.contains(Compat::HAS_JOURNAL)
        && !features.incompat.contains(Incompat::RECOVER))
}

async fn read_block(port: &DevicePort, block: u64) -> FsResult<Page> {
    let mut pages = port.request(Request::read(Lpn(block), 1, Cause::Metadata)).await?;
    Ok(pages.pop().expect("a read of one page gives one"))
}

/// # Errors
/// [`FsError::Invalid`] if there is no such cache.
fn page_cache(options: &MountOptions) -> FsResult<PageCache> {
    let MountOptions { cache_pages, cache_policy, .. } = *options;
    if cache_pages < MountOptions::CACHE_PAGES_MIN {
        let least = MountOptions::CACHE_PAGES_MIN;
        return Err(FsError::Invalid(format!("a page cache of {cache_pages} pages; at least {least} (1 MiB)")));
    }
    let shape =
        CacheShape::new(cache_pages as u64, MountOptions::FLASH_BLOCK_PAGES.into()).map_err(FsError::Invalid)?;
    let Some(policy) = cache_policy.policy(shape) else {
        let usable = PolicyKind::ALL.into_iter().filter(|kind| !kind.needs_future()).map(PolicyKind::name);
        let usable = usable.collect::<Vec<_>>().join(", ");
        let message =
            format!("cache policy `{cache_policy}` knows the future, so only `onewrite cache` has it; use {usable}");
        return Err(FsError::Invalid(message));
    };
    Ok(PageCache::new(cache_pages, policy))
}

/// Reads what a mount needs, with the log replayed.
async fn open(port: &DevicePort, recovery: RecoveryOptions) -> FsResult<Opened> {
    let superblock = match take_superblock(&read_block(port, 0).await?) {
        Ok(superblock) => superblock,
        Err(error) => {
            expect_file_system(port).await?;
            return Err(error);
        }
    };
    let layout = layout_of(port, &superblock)?;
    let descriptors = read_descriptors(port, &layout).await?;
    let map = log_map(port, &layout, &descriptors).await?;
    let log_block = map.block_of(LogBlock::SUPERBLOCK);
    let mut log_page = read_block(port, log_block).await?;
    let damage = |problem| FsError::Damaged { place: format!("journal superblock at block {log_block}"), problem };
    let mut log_superblock = JournalSuperblock::decode(&log_page.bytes()).map_err(damage)?;
    if u64::from(log_superblock.length) > map.length() {
        return Err(damage(format!("{} blocks, its inode has {}", log_superblock.length, map.length())));
    }
    if log_superblock.start == 0 {
        return Ok(Opened { superblock, layout, descriptors, map, log_superblock, log_page, recovered: None });
    }
    if let Some(refusal) = log_superblock.replay_refusal() {
        return Err(FsError::Unsupported(refusal));
    }
    let judge = async |prospect: Prospect<'_>| judge(port, &prospect, &map).await;
    let recovered = Some(recover(port, &map, (&mut log_superblock, &mut log_page), recovery, judge).await?);
    let superblock = take_superblock(&read_block(port, 0).await?)?;
    let layout = layout_of(port, &superblock)?;
    let descriptors = read_descriptors(port, &layout).await?;
    Ok(Opened { superblock, layout, descriptors, map, log_superblock, log_page, recovered })
}

/// Looks at what a replay would lead to, as a mount will: a log of nonsense is not brought home.
///
/// # Errors
/// [`FsError::Damaged`] if there would be no sound superblock or descriptors, with the words for those.
async fn judge(port: &DevicePort, prospect: &Prospect<'_>, map: &LogMap) -> FsResult<()> {
    let read = async {
        let first = prospect.read(0, 1).await?;
        let layout = layout_of(port, &take_superblock(&first[0])?)?;
        let table = prospect.read(1, u64::from(layout.descriptor_blocks())).await?;
        let groups = Groups::new(decode_descriptors(&layout, &table)?);
        Structure::new(&layout, &groups, map).map(drop)
    };
    read.await.map_err(|error| match error {
        FsError::Damaged { place, problem } => {
            let problem = format!("its replay would write a damaged {place}: {problem}; nothing was written");
            FsError::Damaged { place: "journal".into(), problem }
        }
        error => error,
    })
}

fn layout_of(port: &DevicePort, superblock: &RawSuperblock) -> FsResult<Layout> {
    let layout = superblock.features().check_writable().and_then(|()| Layout::decode(superblock));
    let layout = layout.map_err(|error| match error {
        FormatError::Unsupported { what } => {
            FsError::Unsupported(format!("{what}: such an image can only be read here (ls, cat, cp out of it)"))
        }
        error => error.into(),
    })?;
    let (blocks, pages) = (layout.block_count, port.geometry().pages);
    match blocks <= pages {
        true => Ok(layout),
        false => {
            let problem = format!("it has {blocks} blocks, the device only {pages}");
            Err(FsError::Damaged { place: "superblock".into(), problem })
        }
    }
}

async fn read_descriptors(port: &DevicePort, layout: &Layout) -> FsResult<Vec<RawGroupDescriptor>> {
    let mut table = Vec::new();
    let (mut block, end) = (1, 1 + u64::from(layout.descriptor_blocks()));
    while block < end {
        let count = (end - block).min(u64::from(port.geometry().transfer_pages_max));
        table.extend(port.request(Request::read(Lpn(block), count as u32, Cause::Metadata)).await?);
        block += count;
    }
    decode_descriptors(layout, &table)
}

/// Where the log's blocks lie: the extents of the journal's inode.
async fn log_map(port: &DevicePort, layout: &Layout, descriptors: &[RawGroupDescriptor]) -> FsResult<LogMap> {
    let number = layout.journal_inode;
    if number == 0 || !layout.features.compat.contains(Compat::HAS_JOURNAL) {
        return Err(FsError::Unsupported("an image without a journal inside it; add one with `tune2fs -j`".into()));
    }
    let position = layout.position_of_inode(number);
    let table = descriptors[position.group as usize].inode_table();
    let block = table + u64::from(position.table_block);
    let page = read_block(port, block).await?;
    let slot = &page.bytes()[position.offset..position.offset + usize::from(layout.inode_size)];
    let inode = Inode::decode(slot, number, layout)?;
    if inode.mode == 0 || inode.links == 0 {
        let problem = "the journal is empty".to_owned();
        return Err(FsError::Damaged { place: Place::Inode(number).to_string(), problem });
    }
    if !inode.has(super::format::inode::flags::EXTENTS) {
        return Err(FsError::Unsupported("a journal mapped without extents".into()));
    }
    let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
    let mut pending: Vec<(u64, Vec<u8>)> = vec![(block, inode.block.to_vec())];
    while let Some((place, bytes)) = pending.pop() {
        let tree = Tree::parse(&bytes, Place::Block(place))?;
        tree.check_entries(layout, Place::Block(place))?;
        let range = |extent: super::format::Extent| (extent.logical.into(), extent.physical, extent.length.into());
        ranges.extend(tree.extents().map(range));
        if ranges.len() + pending.len() > layout.block_count as usize {
            let problem = "its extents are more than the image has blocks".into();
            return Err(FsError::Damaged { place: "journal's inode".into(), problem });
        }
        for index in tree.indexes() {
            let child = read_block(port, index.node).await?;
            if Tree::parse(&child.bytes()[..], Place::Block(index.node))?.depth() >= tree.depth() {
                let place = format!("extent tree of the journal, block {}", index.node);
                return Err(FsError::Damaged { place, problem: "does not get flatter downwards".into() });
            }
            pending.push((index.node, child.bytes().to_vec()));
        }
    }
    ranges.sort_unstable();
    let gap = ranges.iter().scan(0, |next, (logical, _, length)| Some(std::mem::replace(next, logical + length)));
    if ranges.is_empty() || gap.zip(&ranges).any(|(expected, (logical, ..))| expected != *logical) {
        return Err(FsError::Damaged { place: "journal's inode".into(), problem: "has holes".into() });
    }
    let range = |&(_, start, count): &(u64, u64, u64)| BlockRange { start, count };
    Ok(LogMap::new(ranges.iter().map(range).collect()))
}

/// The superblock's counts follow from the descriptors.
fn settle_counts(superblock: &mut RawSuperblock, groups: &Groups) {
    superblock.set_free_blocks(groups.free_blocks());
    superblock.free_inodes_count.set(groups.free_inodes() as u32);
}

async fn mark_in_use(port: &DevicePort, superblock: &mut RawSuperblock) -> FsResult<()> {
    let features = superblock.features();
    let incompat = features.incompat.with(Incompat::RECOVER);
    superblock.set_features(super::format::Features { incompat, ..features });
    superblock.mnt_count.set(superblock.mnt_count.get().wrapping_add(1));
    superblock.mtime.set((port.runtime().civil_now().0 / 1_000_000_000) as u32);
    write_superblock(port, superblock).await?;
    port.request(Request::flush(Cause::Metadata)).await?;
    Ok(())
}

async fn write_superblock(port: &DevicePort, superblock: &mut RawSuperblock) -> FsResult<()> {
    superblock.wtime.set((port.runtime().civil_now().0 / 1_000_000_000) as u32);
    superblock.set_checksum();
    let mut page = read_block(port, 0).await?;
    put_superblock(page.bytes_mut(), superblock);
    port.request(Request::write(Lpn(0), vec![page], Cause::Metadata)).await?;
    Ok(())
}

impl Volume {
    /// Writes everything home and marks the image clean.
    pub(super) async fn unmount(&self) -> FsResult<()> {
        self.check_mounted()?;
        if self.scope != Scope::Full {
            self.write_everything().await?;
        }
        // A transaction may be committing although nothing runs: closing the log over it would lose it.
        loop {
            self.commit_now().await?;
            if self.journal.is_running_empty() && self.journal.is_committed(self.journal.running_tid().previous()) {
                break;
            }
        }
        self.journal.check_aborted()?;
        self.is_unmounted.set(true);
        self.journal.close().await?;
        let mut superblock = self.superblock.borrow().clone();
        settle_counts(&mut superblock, &self.groups);
        let features = superblock.features();
        let incompat = features.incompat.without(Incompat::RECOVER);
        superblock.set_features(super::format::Features { incompat, ..features });
        superblock.state.set(superblock.state.get() | STATE_CLEAN);
        write_superblock(&self.port, &mut superblock).await?;
        self.port.request(Request::flush(Cause::Metadata)).await?;
        self.stopped.ring();
        Ok(())
    }

    fn check_mounted(&self) -> FsResult<()> {
        match self.is_unmounted.get() {
            true => Err(FsError::Invalid("it is unmounted already".into())),
            false => Ok(()),
        }
    }
}
