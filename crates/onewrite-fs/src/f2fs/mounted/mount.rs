//! Mount and unmount: from an image to a volume with its tasks, and back to an image without anything to recover.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use onewrite_block::sync::{RwLock, Signal, either};
use onewrite_block::{DevicePort, Geometry, PAGE_SIZE};

use super::atomic::Drafts;
use super::files::Files;
use super::gate::Gate;
use super::numbers::Numbers;
use super::options::{F2fsOptions, LogMode};
use super::orphans::Orphans;
use super::pack::Reason;
use super::recover::Recovered;
use super::stage::Stage;
use super::sync_line::SyncLine;
use super::volume::Volume;
use super::wanted::Wanted;
use crate::api::{FsCounters, FsError, FsResult, Ino};
use crate::block::BlockNo;
use crate::devices::Devices;
use crate::drafts::Drafting;
use crate::f2fs::format::checkpoint::flags;
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::node;
use crate::f2fs::format::sit::{self, LogKind, SitEntry, test_bit};
use crate::f2fs::format::summary::{self, Summary, SummaryKind};
use crate::f2fs::format::{Features, Layout, Nid};
use crate::f2fs::space::{Ground, Log, Space};
use crate::f2fs::stage::area::{Area, problem_of};
use crate::f2fs::summaries::Summaries;
use crate::f2fs::tables::Tables;
use crate::pages::{Access, Pages, PagesOptions, Tracking, page_cache};

/// Metadata pages that are kept while a mount reads the tables.
const TABLE_PAGES: usize = 64;

/// Throttled writers that write back beside the first: as many files at once as the open-channel SSD has units.
const FURTHER_WRITERS: usize = 15;

/// Checkpoints after which a sync gives up that finds no room for content.
const ATTEMPTS: usize = 8;

/// A mounted F2FS; it implements the file-system API.
pub struct F2fs {
    volume: Rc<Volume>,
    recovered: Option<Recovered>,
    warnings: Vec<String>,
}

impl F2fs {
    /// Mounts an image. Rolls forward what fsyncs made durable behind the last checkpoint, deletes files without names,
    /// and starts the background tasks.
    ///
    /// # Errors
    /// Damage; an unsupported feature, option or device, by name; device errors.
    pub async fn mount(devices: impl Into<Devices>, options: F2fsOptions) -> FsResult<F2fs> {
        let devices = devices.into().without_log("F2FS")?;
        let (mut volume, mut warnings) = open(&devices, options).await?;
        if !options.read_only && devices.image.geometry().zones.is_some() {
            volume.recovery().bar_named().await?;
            volume.checkpoints().enter_zones().await;
        }
        let mut orphans = volume.recovery().read_orphans().await?;
        let recovered = match recover(&volume, &mut orphans).await {
            Err(error) if options.read_only => {
                // What was rolled forward so far is in memory only.
                (volume, _) = open(&devices, options).await?;
                warnings.push(format!("{error}; what fsync made durable behind the last checkpoint is not shown"));
                None
            }
            Err(FsError::Damaged { place, problem }) => {
                let problem = format!("{problem} (`mount -o ro` and `cp` out of it show the last checkpoint)");
                return Err(FsError::Damaged { place, problem });
            }
            Err(FsError::NoSpace { what, needed, free }) => {
                let problem = format!(
                    "has no room for what fsyncs wrote behind it: {needed} {what} needed, {free} free (`mount -o ro` \
                     and `cp` out of it show the checkpoint alone)"
                );
                return Err(FsError::Damaged { place: "checkpoint".into(), problem });
            }
            recovered => recovered?,
        };
        if !options.read_only {
            onewrite_block::reached!("mount of F2FS deletes orphans", !orphans.is_empty());
            volume.recovery().delete_orphans(orphans).await?;
            // A chain that ended early may go on behind nodes that are written next, unless the version is a new one.
            // Behind an unmount the first fsync makes one.
            let was_unmounted = volume.checkpoint.borrow().has(flags::UMOUNT);
            onewrite_block::reached!("mount of F2FS behind a crash", !was_unmounted);
            if let Some(stage) = volume.stage.as_ref().filter(|stage| stage.has_newer.get()) {
                stage.area.erase_newer(volume.version()).await?;
            }
            // Behind each mount the staging area begins anew: what a torn transaction left in it has another version.
            // Zones that are written from now on are known for such by a version that no unmount made.
            let has_zones = volume.port.geometry().zones.is_some();
            if !was_unmounted || recovered.is_some() || volume.stage.is_some() || has_zones {
                volume.checkpoints().checkpoint_for(Reason::Mount).await?;
            }
            start_tasks(&volume);
        }
        Ok(F2fs { volume, recovered, warnings: warnings.iter().map(ToString::to_string).collect() })
    }

    pub(super) fn volume(&self) -> &Rc<Volume> {
        &self.volume
    }

    /// What the mount rolled forward; `None` if there was nothing.
    pub fn recovered(&self) -> Option<Recovered> {
        self.recovered
    }

    /// Damage that the mount got around: a bad copy of superblock or checkpoint.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Calls `watcher` for every read and write of file content through the page cache, with the file and its pages.
    /// This is the before-cache trace. It contains neither nodes nor direct I/O.
    pub fn watch(&self, watcher: impl FnMut(Ino, Range<u64>, Access) + 'static) {
        self.volume.pages.watch(Box::new(watcher));
    }

    /// Verifies the invariants of the state in memory, for tests.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self) -> Result<(), String> {
        self.volume.check()
    }
}

impl Volume {
    /// Makes everything durable.
    pub(super) async fn sync_everything(&self) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.check_writable()?;
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let before = self.pages.dirty_count();
            self.pages.dirty_files().sync_all(self).await?;
            let left = self.pages.dirty_count();
            self.checkpoints().checkpoint().await?;
            onewrite_block::reached!("sync finds pages without a segment", left > 0);
            if left == 0 {
                return Ok(());
            }
            self.cleaner().clean_if_short().await?;
            attempts = if left < before { 0 } else { attempts + 1 };
        }
        Err(FsError::NoSpace { what: "segments for content", needed: 1, free: 0 })
    }

    /// Makes everything durable, in a checkpoint that says that nothing follows it.
    pub(super) async fn unmount(&self) -> FsResult<()> {
        if self.is_unmounted.get() {
            return Err(FsError::Invalid("it is unmounted already".into()));
        }
        // A file that cannot be deleted must not keep the others from being written; the next mount tries again.
        let mut deleted = Ok(());
        if !self.options.read_only {
            Drafting(self).end_all().await?;
            self.check_writable()?;
            deleted = self.contents().delete_nameless().await;
            self.sync_everything().await?;
            self.checkpoints().checkpoint_for(Reason::Unmount).await?;
            self.checkpoints().close_stage().await?;
        }
        self.is_unmounted.set(true);
        self.stopped.notify_all();
        // A write of the background that failed, and succeeded later: no fsync has told of it.
        deleted.and(self.files.take_write_errors())
    }
}

/// Starts the background tasks; they end with the mount.
fn start_tasks(volume: &Rc<Volume>) {
    let (flusher, evictor) = (Rc::clone(volume), Rc::clone(volume));
    let (cleaner, keeper) = (Rc::clone(volume), Rc::clone(volume));
    start_task(volume, async move { cleaner.cleaner().cleaning_task().await });
    start_task(volume, async move { flusher.pages.dirty_files().flusher(&*flusher).await });
    start_task(volume, async move { evictor.pages.eviction_task(&*evictor).await });
    start_task(volume, async move { keeper.cleaner().checkpoint_task().await });
}

fn start_task(volume: &Rc<Volume>, task: impl Future<Output = ()> + 'static) {
    let owner = Rc::clone(volume);
    volume.runtime.spawn(async move { either(owner.stopped.wait(), task).await });
}

/// Rolls forward what fsyncs made durable behind the checkpoint, as nodes or in the staging area.
async fn recover(volume: &Volume, orphans: &mut Vec<Nid>) -> FsResult<Option<Recovered>> {
    let nodes = volume.recovery().recover().await?;
    Ok(volume.recovery().recover_stage(orphans).await?.or(nodes))
}

/// Opens an image as its last checkpoint has it. Gives the warnings, too.
async fn open(devices: &Devices, options: F2fsOptions) -> FsResult<(Rc<Volume>, Vec<String>)> {
    let port = devices.image.clone();
    let cache = page_cache(options.cache_pages, options.cache_policy, F2fsOptions::FLASH_BLOCK_PAGES)?;
    let tables = Tables::open(&port, TABLE_PAGES).await?;
    check_supported(&tables.layout, port.geometry(), &options)?;
    let mut warnings: Vec<String> = tables.warnings.iter().map(ToString::to_string).collect();
    let entries = read_sit(&tables).await?;
    let logs = read_logs(&tables, &entries).await?;
    let ground = match (port.geometry().zones, options.log_mode) {
        (Some(_), _) => Ground::Zones,
        (None, LogMode::Lfs) => Ground::Whole,
        (None, LogMode::Adaptive) => Ground::Any,
    };
    let space = Space::new(&tables.layout, &tables.checkpoint, &entries, logs, ground);
    let area = find_area(devices, &tables, &options, &mut warnings).await?;
    options.check_in_place(ground == Ground::Zones, area.is_some())?;
    let tracking = if area.is_some() { Tracking::DirtyBytes } else { Tracking::Pages };
    let prompt_writeback = options.prompt_writeback;
    let owned_pages_max = options.draft_blocks_max();
    let further_writers = FURTHER_WRITERS;
    let pages_options = PagesOptions { tracking, prompt_writeback, owned_pages_max, further_writers };
    let pages = Pages::new(port.clone(), cache, pages_options);
    Ok((Rc::new(volume_of((port, area.map(Stage::new)), options, tables, pages, space)), warnings))
}

/// The staging area. One that continues the checkpoint must be there, unless it is given up.
///
/// # Errors
/// [`FsError::Unsupported`] if it is not there, or a device holds anything else; device errors. A read-only mount gets
/// a warning if it is not there.
async fn find_area(
    devices: &Devices,
    tables: &Tables,
    options: &F2fsOptions,
    warnings: &mut Vec<String>,
) -> FsResult<Option<Area>> {
    let continued = tables.checkpoint.stage.filter(|_| !options.discard_stage);
    let may_begin = !options.read_only && continued.is_none();
    let area = match Area::find(&devices.image, devices.staging.as_ref(), &tables.layout, may_begin).await {
        Err(error @ FsError::Damaged { .. }) if options.read_only && devices.staging.is_none() => {
            warnings.push(format!("{}; the checkpoint alone is shown", problem_of(&error)));
            return Ok(None);
        }
        area => area?,
    };
    match continued {
        Some(mark) if area.as_ref().map(Area::mark) != Some(mark) => {
            let missing = mark.place.missing();
            if !options.read_only {
                let what = match &area {
                    Some(area) if area.mark().place == mark.place => {
                        "with another staging area of its own than the one that continues it"
                    }
                    None if devices.staging.is_some() => "with an empty staging area",
                    _ => "without its staging area",
                };
                let cure = "mount it with that area, or with `-o discard_stage` to give up what they made durable";
                return Err(FsError::Unsupported(format!("F2FS {what}: {missing}; {cure}")));
            }
            warnings.push(format!("{missing}; the checkpoint alone is shown"));
            Ok(None)
        }
        _ => Ok(area),
    }
}

fn volume_of(
    (port, stage): (DevicePort, Option<Stage>),
    options: F2fsOptions,
    tables: Tables,
    pages: Pages,
    space: Space,
) -> Volume {
    let runtime = port.runtime().clone();
    let Tables { layout, checkpoint, nat_journal, sit_journal, .. } = tables;
    let next_free = Nid(checkpoint.raw.next_free_nid.get());
    Volume {
        changes: RwLock::new(&runtime),
        renames: RwLock::new(&runtime),
        wanted: Wanted::new(&runtime),
        stopped: Signal::new(&runtime),
        port,
        options,
        pages,
        numbers: RefCell::new(Numbers::new(nat_journal, next_free, layout.nat_blocks)),
        space: RefCell::new(space),
        files: Files::default(),
        dirty_nodes: RefCell::default(),
        names_gone: RefCell::default(),
        sit_journal: RefCell::new(sit_journal),
        orphans: Orphans::default(),
        drafts: Drafts::default(),
        gate: Gate::default(),
        is_unflushed: Cell::new(true),
        failure: RefCell::default(),
        sync_line: SyncLine::default(),
        stage,
        chained: Cell::new(0),
        chain_end: Cell::new(None),
        moving: RefCell::default(),
        mounted_at: runtime.now(),
        runtime,
        age_at_mount: checkpoint.raw.elapsed_time.get(),
        is_unmounted: Cell::new(false),
        counters: Cell::new(FsCounters::default()),
        next_generation: Cell::new(checkpoint.checksum),
        layout,
        checkpoint: RefCell::new(checkpoint),
    }
}

/// # Errors
/// [`FsError::Unsupported`] for an image that can be read but not written, and for a device that lacks SHARE.
fn check_supported(layout: &Layout, geometry: &Geometry, options: &F2fsOptions) -> FsResult<()> {
    if options.read_only {
        return Ok(());
    }
    options.clean.check_device(geometry)?;
    let refused = [(Features::QUOTA, "quota"), (Features::PROJECT_QUOTA, "project_quota")];
    if let Some((_, name)) = refused.iter().find(|(feature, _)| layout.features.contains(*feature)) {
        return Err(FsError::Unsupported(format!(
            "writing F2FS with the feature {name}; mount it read-only (`-o ro`)"
        )));
    }
    check_zones(layout, geometry)
}

/// # Errors
/// [`FsError::Unsupported`] if the sections of the image are not the zones of the device.
fn check_zones(layout: &Layout, geometry: &Geometry) -> FsResult<()> {
    let Some(zones) = geometry.zones else { return Ok(()) };
    let section = u64::from(layout.section_segments) * SEGMENT_BLOCKS;
    let is_alike = section == zones.zone_pages
        && layout.main.start.page() >= zones.first
        && layout.main.end() <= BlockNo(zones.end())
        && zones.has_whole_zones(layout.main.start.page(), layout.main.count);
    match is_alike {
        true => Ok(()),
        false => Err(FsError::Unsupported(format!(
            "an image with sections of {section} blocks on a device with zones of {}; make a new one with mkfs there",
            zones.zone_pages
        ))),
    }
}

/// The entries of all segments.
async fn read_sit(tables: &Tables) -> FsResult<Vec<SitEntry>> {
    let layout = &tables.layout;
    let count = u64::from(layout.main_segments).div_ceil(sit::ENTRIES_PER_BLOCK as u64);
    let copy = |index: u64| usize::from(test_bit(&tables.checkpoint.sit_bitmap, index as usize));
    let mut entries = Vec::with_capacity(layout.main_segments as usize);
    let mut index = 0;
    while index < count {
        let same = (index..count).take_while(|other| copy(*other) == copy(index)).take(SEGMENT_BLOCKS as usize);
        let run = layout.sit_copies(index)[copy(index)].run(same.count() as u64);
        for page in tables.blocks.run(run).await? {
            let bytes = page.bytes();
            entries.extend((0..sit::ENTRIES_PER_BLOCK).map(|entry| sit::entry(&bytes[..], entry)));
        }
        index += run.count;
    }
    entries.truncate(layout.main_segments as usize);
    for (segment, entry) in &tables.sit_journal {
        if let Some(place) = entries.get_mut(segment.0 as usize) {
            *place = *entry;
        }
    }
    Ok(entries)
}

/// The logs, with the owners of the blocks in their segments.
async fn read_logs(tables: &Tables, entries: &[SitEntry]) -> FsResult<[Log; 6]> {
    let summaries = Summaries::read(tables).await?;
    let mut logs = Vec::new();
    for kind in LogKind::ALL {
        let mut position = tables.checkpoint.log(kind);
        // A block that is in use is never taken, whatever a damaged checkpoint says.
        let entry = &entries[position.segment.0 as usize];
        while u64::from(position.next) < SEGMENT_BLOCKS && entry.is_valid(position.next.into()) {
            position.next += 1;
        }
        let mut owners = [0; PAGE_SIZE];
        match summaries.of(position.segment) {
            Some(known) => owners.copy_from_slice(known),
            None => owners = owners_of_nodes(tables, tables.layout.segment_start(position.segment), entry).await?,
        }
        owners[summary::JOURNAL_OFFSET..].fill(0);
        summary::put_kind(&mut owners, if kind.is_node() { SummaryKind::Node } else { SummaryKind::Data });
        logs.push(Log::new(position, owners));
    }
    Ok(logs.try_into().expect("there are six logs"))
}

/// The summary of a segment of nodes, from their footers.
async fn owners_of_nodes(tables: &Tables, start: BlockNo, entry: &SitEntry) -> FsResult<[u8; PAGE_SIZE]> {
    let mut owners = [0; PAGE_SIZE];
    let pages = tables.blocks.run(start.run(SEGMENT_BLOCKS)).await?;
    for (index, page) in pages.iter().enumerate().filter(|(index, _)| entry.is_valid(*index)) {
        let nid = node::footer(&page.bytes()[..]).nid;
        summary::put_entry(&mut owners, index, Summary { nid, slot: 0 }, 0);
    }
    Ok(owners)
}
