//! F2FS as a subject. No other file of this crate knows F2FS.
//!
//! Its log of nodes is a part of its content: every later mount depends on what an fsync wrote there. So the explorer
//! must know no block of it as one of a log that recovery empties.

use std::rc::Rc;

use onewrite_block::{Cause, Choices, DevicePort, Executor, Image, Lpn, PAGE_SIZE, Page, Zones};
use onewrite_fs::f2fs::check::{CheckOptions, Report, check};
use onewrite_fs::f2fs::mkfs::{MkfsOptions, plan};
use onewrite_fs::f2fs::view::F2fsView;
use onewrite_fs::f2fs::{Clean, F2fs, F2fsOptions, FsyncMode, LogMode};
use onewrite_fs::{AtomicFiles, DraftId, FsResult, step_end};

use super::{
    DraftChange, DraftChanged, Flag, Keeps, Mounting, Promises, Purpose, Replayed, Steps, Subject, SyncedNames,
    fsck_f2fs,
};
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::reads::Reads;

/// Most checker findings reported for one image.
const FINDINGS_MAX: usize = 3;
/// Creation time of every image, in seconds since 1970.
const UNIX_TIME: u32 = 1_496_000_000;
/// Blocks of a segment: as many fsyncs take the next segment of the log of nodes.
const SEGMENT_BLOCKS: u64 = 512;

/// F2FS as a mount's options have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F2fsSubject {
    /// What an fsync promises about names.
    pub fsync_mode: FsyncMode,
    /// How cleaning gives content another address.
    pub clean: Clean,
    /// Which blocks its logs take.
    pub log_mode: LogMode,
    /// Pages from which on an fsync writes nothing in place; 0 for never in place.
    pub in_place_below: u32,
    /// Bytes at the end of the disk for a staging area; 0 for none.
    pub stage_bytes: u64,
    /// Zones of the disk, if it has some.
    pub zones: Option<Zones>,
}

impl F2fsSubject {
    /// Bytes of the smallest image.
    pub const SIZE_MIN: u64 = onewrite_fs::f2fs::mkfs::SIZE_MIN;

    /// A subject in this mode that cleans by copying.
    pub const fn new(fsync_mode: FsyncMode) -> F2fsSubject {
        F2fsSubject {
            fsync_mode,
            clean: Clean::Copy,
            log_mode: LogMode::Adaptive,
            in_place_below: 0,
            stage_bytes: 0,
            zones: None,
        }
    }

    /// The same, with a staging area: StageFS.
    pub const fn with_stage(self, stage_bytes: u64) -> F2fsSubject {
        F2fsSubject { stage_bytes, ..self }
    }

    /// The file system's own options for a mount.
    pub fn mount_options(&self, mounting: Mounting) -> F2fsOptions {
        let cache_pages = match mounting.purpose {
            Purpose::Recovery => F2fsOptions::CACHE_PAGES_MIN,
            Purpose::Run | Purpose::RunInsideDevice => mounting.cache_pages,
        };
        F2fsOptions {
            cache_pages,
            cache_policy: mounting.cache_policy,
            checkpoint_interval: mounting.commit_interval,
            prompt_writeback: mounting.prompt_writeback,
            fsync_mode: self.fsync_mode,
            clean: self.clean,
            log_mode: self.log_mode,
            in_place_below: self.in_place_below,
            ..F2fsOptions::default()
        }
    }
}

impl Subject for F2fsSubject {
    type Fs = F2fs;
    type View = F2fsView;
    type Memory = ();

    fn format(&self, image: &mut Image, choices: &Choices) -> Result<(), CrashError> {
        let size_bytes = image.pages() * PAGE_SIZE as u64;
        let options = MkfsOptions {
            unix_time: UNIX_TIME,
            stage_bytes: self.stage_bytes,
            zones: self.zones,
            ..MkfsOptions::new(size_bytes, &mut choices.stream("mkfs", 0))
        };
        let blocks = plan(&options).map_err(|error| CrashError::Image(error.to_string()))?;
        if let Some(zones) = self.zones {
            (zones.first.0..zones.end()).for_each(|page| image.set(Lpn(page), Page::ZEROS));
        }
        blocks.into_iter().for_each(|(block, page)| image.set(block.page(), page));
        Ok(())
    }

    fn directories(&self) -> &'static [&'static str] {
        &[]
    }

    async fn mount(&self, port: DevicePort, mounting: Mounting) -> FsResult<F2fs> {
        F2fs::mount(port, self.mount_options(mounting)).await
    }

    /// Looks what a mount rolls forward. The mount itself does it.
    async fn recover(&self, port: &DevicePort, _: &Rc<()>) -> FsResult<Option<Replayed>> {
        let options =
            F2fsOptions { cache_pages: F2fsOptions::CACHE_PAGES_MIN, read_only: true, ..F2fsOptions::default() };
        let fs = F2fs::mount(port.clone(), options).await?;
        Ok(fs
            .recovered()
            .map(|recovered| Replayed { transactions: recovered.files + recovered.transactions, revoked_blocks: 0 }))
    }

    fn findings(&self, image: &Image, looked: &mut dyn FnMut(Lpn)) -> Vec<String> {
        match checked(image, looked) {
            Ok(report) => report.findings.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error],
        }
    }

    fn is_known_by_reads(&self) -> bool {
        true
    }

    fn stranger_finding(&self, image: &Image) -> Result<Option<String>, CrashError> {
        fsck_f2fs::finding(image)
    }

    async fn view(&self, port: &DevicePort) -> FsResult<Option<F2fsView>> {
        let view = F2fsView::open(port).await?;
        Ok((view.unseen_fsyncs() == 0).then_some(view))
    }

    fn left_to_do(&self, image: &Image) -> Option<String> {
        let report = checked(image, &mut |_| ()).ok()?;
        (report.orphans > 0).then(|| format!("{} unlinked inodes to remove", report.orphans))
    }

    fn check(&self, fs: &F2fs) -> Result<(), String> {
        fs.check()
    }

    fn promises(&self) -> Promises {
        let names = match self.fsync_mode {
            // A transaction of the staging area has all changes so far.
            _ if self.stage_bytes > 0 => SyncedNames::Tree,
            FsyncMode::Posix => SyncedNames::New,
            FsyncMode::Strict => SyncedNames::All,
        };
        Promises { keeps: Keeps::Checkpoint(names), delays: false, overwrites: self.in_place_below > 0, pads: false }
    }

    fn steps(&self) -> Steps {
        Steps { write_end: step_end }
    }

    fn syncs_of_a_log(&self) -> u64 {
        SEGMENT_BLOCKS
    }

    fn log_causes(&self) -> &'static [Cause] {
        &[]
    }

    fn begin_draft(&self, fs: &F2fs) -> FsResult<DraftId> {
        fs.begin_draft()
    }

    async fn change_draft(&self, fs: &F2fs, draft: DraftId, change: DraftChange<'_>) -> FsResult<DraftChanged> {
        change.make(fs, draft).await
    }

    fn is_draft_changed(&self, fs: &F2fs, draft: DraftId) -> FsResult<bool> {
        fs.is_draft_changed(draft)
    }

    async fn commit_drafts(&self, fs: &F2fs, drafts: &[DraftId]) -> FsResult<()> {
        fs.commit_drafts(drafts).await
    }

    async fn abort_drafts(&self, fs: &F2fs, drafts: &[DraftId]) -> FsResult<()> {
        fs.abort_drafts(drafts).await
    }

    async fn end_draft(&self, fs: &F2fs, draft: DraftId) -> FsResult<()> {
        fs.end_draft(draft).await
    }

    fn flags(&self) -> Vec<Flag> {
        let by_share = (self.clean == Clean::Share).then(|| ("--clean", Some(self.clean.to_string())));
        let always = [("--fs", Some("f2fs".into())), ("--fsync-mode", Some(self.fsync_mode.to_string()))];
        let staged = (self.stage_bytes > 0).then(|| ("--stage", Some(self.stage_bytes.to_string())));
        let mode = (self.log_mode != LogMode::default()).then(|| ("--mode", Some(self.log_mode.to_string())));
        let in_place = (self.in_place_below > 0).then(|| ("--ipu", Some(self.in_place_below.to_string())));
        always.into_iter().chain(by_share).chain(mode).chain(in_place).chain(staged).collect()
    }
}

/// Checks an image; tells `looked` of each page that the checker reads.
fn checked(image: &Image, looked: &mut dyn FnMut(Lpn)) -> Result<Report, String> {
    let medium = Medium::watched(image.clone(), Some(Reads::default()));
    let executor = Executor::ideal();
    let geometry = onewrite_block::Geometry::plain("checked", image.pages());
    let port = executor.runtime().attach(Box::new(Disk::instant(&medium, &geometry)));
    let work = async move { check(&port, &CheckOptions { findings_max: FINDINGS_MAX }).await };
    let outcome = executor.block_on(work);
    medium.borrow().reads.iter().for_each(|reads| reads.pages().for_each(&mut *looked));
    outcome.map_err(|halt| halt.to_string())?.map_err(|error| error.to_string())
}
