//! ext4 as a subject. No other file of this crate knows ext4.

use std::rc::Rc;

use onewrite_block::{Choices, DevicePort, Image, Lpn, PAGE_SIZE, Page};
use onewrite_fs::BlockNo;
use onewrite_fs::check::{CheckOptions, ReadBlocks, ReadError, Report, check};
use onewrite_fs::ext4::mkfs::{MkfsOptions, plan};
use onewrite_fs::ext4::view::{ImageView, ViewOptions};
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, Scope, replay_with, step_end};
use onewrite_fs::journal::{EvictionSpot, UnpackedChunks};
use onewrite_fs::{AtomicFiles, DraftId, FsResult, SharePages, ShareRange};

use super::{DraftChange, DraftChanged, Flag, Keeps, Mounting, Promises, Purpose, Replayed, Steps, Subject, e2fsck};
use crate::error::CrashError;

/// Most checker findings reported for one image.
const FINDINGS_MAX: usize = 3;
/// Creation time of every image, in seconds since 1970.
const UNIX_TIME: u32 = 1_496_000_000;

/// ext4 in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ext4Subject {
    /// The consistency mode.
    pub mode: Mode,
    /// Whether to allocate blocks at writeback, where the mode allows it.
    pub delayed_allocation: bool,
    /// Size of the log in blocks.
    pub journal_blocks: u32,
    /// For cuts inside a device in modes that pad: how far to pad. `None`: as far as the device states.
    pub eviction_spot: Option<EvictionSpot>,
}

impl Ext4Subject {
    /// A subject with a log of 4 MiB and the mode's default for delayed allocation.
    pub const fn new(mode: Mode) -> Ext4Subject {
        let delayed_allocation = MountOptions::new(mode).delayed_allocation;
        Ext4Subject { mode, delayed_allocation, journal_blocks: 1024, eviction_spot: None }
    }

    /// The file system's own options for a mount.
    pub fn mount_options(&self, mounting: Mounting) -> MountOptions {
        let cache_pages = match mounting.purpose {
            Purpose::Recovery => MountOptions::CACHE_PAGES_MIN,
            Purpose::Run | Purpose::RunInsideDevice => mounting.cache_pages,
        };
        MountOptions {
            cache_pages,
            cache_policy: mounting.cache_policy,
            commit_interval: mounting.commit_interval,
            checkpoint_age: mounting.checkpoint_age,
            prompt_writeback: mounting.prompt_writeback,
            delayed_allocation: self.delayed_allocation,
            eviction_spot: self.eviction_spot.filter(|_| mounting.purpose == Purpose::RunInsideDevice),
            ..MountOptions::new(self.mode)
        }
    }
}

impl Subject for Ext4Subject {
    type Fs = Ext4;
    type View = ImageView;
    type Memory = UnpackedChunks;

    fn format(&self, image: &mut Image, choices: &Choices) -> Result<(), CrashError> {
        let size_bytes = image.pages() * PAGE_SIZE as u64;
        let options = MkfsOptions {
            journal_blocks: Some(self.journal_blocks),
            unix_time: UNIX_TIME,
            ..MkfsOptions::new(size_bytes, &mut choices.stream("mkfs", 0))
        };
        let blocks = plan(&options).map_err(|error| CrashError::Image(error.to_string()))?;
        blocks.into_iter().for_each(|(block, page)| image.set(block.page(), page));
        Ok(())
    }

    fn directories(&self) -> &'static [&'static str] {
        &["lost+found"]
    }

    async fn mount(&self, port: DevicePort, mounting: Mounting) -> FsResult<Ext4> {
        Ext4::mount(port, self.mount_options(mounting)).await
    }

    async fn recover(&self, port: &DevicePort, unpacked: &Rc<UnpackedChunks>) -> FsResult<Option<Replayed>> {
        let replayed = replay_with(port, Rc::clone(unpacked)).await?;
        Ok(replayed.map(|recovered| Replayed {
            transactions: recovered.transactions,
            revoked_blocks: recovered.revoked_blocks,
        }))
    }

    fn findings(&self, image: &Image, _: &mut dyn FnMut(Lpn)) -> Vec<String> {
        checked(image).findings.iter().map(ToString::to_string).collect()
    }

    fn stranger_finding(&self, image: &Image) -> Result<Option<String>, CrashError> {
        e2fsck::finding(image)
    }

    async fn view(&self, port: &DevicePort) -> FsResult<Option<ImageView>> {
        ImageView::open(port, ViewOptions::default()).await.map(Some)
    }

    fn left_to_do(&self, image: &Image) -> Option<String> {
        let report = checked(image);
        let log = report.needs_recovery.then(|| "a log to replay".to_owned());
        log.or_else(|| (report.orphans > 0).then(|| format!("{} unlinked inodes to remove", report.orphans)))
    }

    fn check(&self, fs: &Ext4) -> Result<(), String> {
        fs.check()
    }

    fn promises(&self) -> Promises {
        let scope = self.mode.scope();
        let keeps = match scope {
            Scope::Metadata => Keeps::Metadata,
            Scope::OrderedMetadata => Keeps::Data,
            Scope::Full => Keeps::Version,
        };
        let delays = self.delayed_allocation && scope != Scope::Full;
        Promises { keeps, delays, overwrites: false, pads: self.mode.padding().is_some() }
    }

    fn steps(&self) -> Steps {
        Steps { write_end: step_end }
    }

    /// Each takes a descriptor, an inode, a bitmap, a group descriptor and a commit block; in full scope also data.
    fn syncs_of_a_log(&self) -> u64 {
        let log_blocks = if self.mode.scope() == Scope::Full { 8 } else { 5 };
        u64::from(self.journal_blocks) / log_blocks
    }

    /// That of the superblock.
    fn whole_page(&self) -> Option<Lpn> {
        Some(Lpn(0))
    }

    fn flags(&self) -> Vec<Flag> {
        let mut flags =
            vec![("--mode", Some(self.mode.to_string())), ("--journal-blocks", Some(self.journal_blocks.to_string()))];
        if !self.delayed_allocation {
            flags.push(("--nodelalloc", None));
        }
        flags.extend(self.eviction_spot.map(|spot| ("--eviction-spot", Some(spot.bytes.to_string()))));
        flags
    }

    fn begin_draft(&self, fs: &Ext4) -> FsResult<DraftId> {
        fs.begin_draft()
    }

    async fn change_draft(&self, fs: &Ext4, draft: DraftId, change: DraftChange<'_>) -> FsResult<DraftChanged> {
        change.make(fs, draft).await
    }

    fn is_draft_changed(&self, fs: &Ext4, draft: DraftId) -> FsResult<bool> {
        fs.is_draft_changed(draft)
    }

    async fn commit_drafts(&self, fs: &Ext4, drafts: &[DraftId]) -> FsResult<()> {
        fs.commit_drafts(drafts).await
    }

    async fn abort_drafts(&self, fs: &Ext4, drafts: &[DraftId]) -> FsResult<()> {
        fs.abort_drafts(drafts).await
    }

    async fn end_draft(&self, fs: &Ext4, draft: DraftId) -> FsResult<()> {
        fs.end_draft(draft).await
    }

    async fn share(&self, fs: &Ext4, ranges: &[ShareRange]) -> FsResult<()> {
        fs.share(ranges).await
    }

    async fn share_lazily(&self, fs: &Ext4, ranges: &[ShareRange]) -> FsResult<()> {
        fs.share_lazily(ranges).await
    }
}

fn checked(image: &Image) -> Report {
    let reader = AtRest(image);
    let options = CheckOptions { findings_max: FINDINGS_MAX };
    let mut check = std::pin::pin!(check(&reader, &options));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(report) = check.as_mut().poll(&mut context) else {
        unreachable!("reading memory does not wait")
    };
    report
}

struct AtRest<'a>(&'a Image);

impl ReadBlocks for AtRest<'_> {
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError> {
        match block.0 < self.0.pages() {
            true => Ok(self.0.page(block.page()).clone()),
            false => Err(ReadError { reason: "beyond the end".into() }),
        }
    }
}
