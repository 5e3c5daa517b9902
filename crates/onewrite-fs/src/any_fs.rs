//! A mounted file system of any kind that Onewrite writes: ext4 and F2FS. The superblock says which it is.
//!
//! Shared pages are ext4's; F2FS refuses them.

use onewrite_block::DevicePort;

use crate::any::is_f2fs;
use crate::api::{
    Allocation, AttributeChanges, AttributeManner, Attributes, DirectoryEntry, FileSystem, FileView, FsCounters,
    FsError, FsResult, Ino, Manner, NewNode, Position, RenameManner, SeekTarget, Space,
};
use crate::atomic::{AtomicFiles, DraftId};
use crate::content::{Content, Data};
use crate::devices::Devices;
use crate::ext4::{Ext4, Mode, MountOptions};
use crate::f2fs::{Clean, F2fs, F2fsOptions, LogMode};
use crate::share::{SharePages, ShareRange, Sharing};

/// See the module's head.
pub enum AnyFs {
    /// ext4.
    Ext4(Box<Ext4>),
    /// F2FS.
    F2fs(Box<F2fs>),
}

impl AnyFs {
    /// Mounts the image on `port`. F2FS takes from `options` what it has: page cache, policy,
    /// read-only, and the commit interval as that of checkpoints, if it is not the default.
    ///
    /// # Errors
    /// As [`Ext4::mount`] or [`F2fs::mount`]; [`FsError::Unsupported`] for F2FS with a journal mode other than the
    /// default, whose promise it does not keep.
    pub async fn mount(port: DevicePort, options: MountOptions) -> FsResult<AnyFs> {
        AnyFs::mount_with(port, options, F2fsChoices::default()).await
    }

    /// As [`AnyFs::mount`], with devices beside the image, and with what only F2FS has.
    ///
    /// # Errors
    /// As [`AnyFs::mount`]; [`FsError::Unsupported`] for what only F2FS has on ext4, and for SHARE on a device that
    /// lacks it; why the root cannot be read, without which nothing can be reached.
    pub async fn mount_with(devices: impl Into<Devices>, options: MountOptions, f2fs: F2fsChoices) -> FsResult<AnyFs> {
        let fs = AnyFs::mount_unread(devices.into(), options, f2fs).await?;
        if let Err(error) = fs.attributes(fs.root()).await {
            // What keeps it from an unmount is no news behind this.
            let _ = fs.unmount().await;
            return Err(error);
        }
        Ok(fs)
    }

    async fn mount_unread(devices: Devices, options: MountOptions, f2fs: F2fsChoices) -> FsResult<AnyFs> {
        if is_f2fs(&devices.image).await? {
            let F2fsChoices { clean, log_mode, in_place_below, age_threshold, discard_stage } = f2fs;
            let options = F2fsOptions {
                clean: clean.unwrap_or_default(),
                log_mode: log_mode.unwrap_or_default(),
                in_place_below: in_place_below.unwrap_or(0),
                age_threshold,
                discard_stage,
                ..f2fs_options(&options)?
            };
            return Ok(AnyFs::F2fs(Box::new(F2fs::mount(devices, options).await?)));
        }
        f2fs.expect_none()?;
        Ok(AnyFs::Ext4(Box::new(Ext4::mount(devices, options).await?)))
    }

    /// What recovery did at the mount, in words; `None` if there was nothing to do.
    pub fn recovery(&self) -> Option<Recovery> {
        match self {
            AnyFs::Ext4(fs) => fs.recovered().map(Recovery::Replayed),
            AnyFs::F2fs(fs) => fs.recovered().map(Recovery::RolledForward),
        }
    }

    /// Warnings about the mode on this device, or about damage that the mount got around.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            AnyFs::Ext4(fs) => fs.warnings(),
            AnyFs::F2fs(fs) => fs.warnings().to_vec(),
        }
    }

    /// The name of its journal mode, or `f2fs`.
    pub fn mode_name(&self) -> &'static str {
        match self {
            AnyFs::Ext4(fs) => fs.options().mode.name(),
            AnyFs::F2fs(_) => "f2fs",
        }
    }

    fn ext4(&self, what: &str) -> FsResult<&Ext4> {
        match self {
            AnyFs::Ext4(fs) => Ok(fs),
            AnyFs::F2fs(_) => Err(FsError::Unsupported(format!("{what} on F2FS; use an ext4 image"))),
        }
    }
}

/// What a mount chooses that only F2FS has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F2fsChoices {
    /// How cleaning gives content another address; `None` for the default.
    pub clean: Option<Clean>,
    /// Which blocks logs take; `None` for the default.
    pub log_mode: Option<LogMode>,
    /// Pages from which on an fsync writes nothing in place; `None` for the default.
    pub in_place_below: Option<u32>,
    /// Age in seconds from which cleaning in quiet times goes by age; `None` for never.
    pub age_threshold: Option<u64>,
    /// Give up what the staging area holds of a checkpoint that is not the image's any more.
    pub discard_stage: bool,
}

impl F2fsChoices {
    /// # Errors
    /// [`FsError::Unsupported`] for the first that is given: ext4 has none of them.
    fn expect_none(&self) -> FsResult<()> {
        let F2fsChoices { clean, log_mode, in_place_below, age_threshold, discard_stage } = self;
        let given = [
            clean.map(|clean| (format!("clean={clean}"), "has no segments to clean")),
            log_mode.map(|mode| (format!("mode={mode}"), "has no logs of segments")),
            in_place_below.map(|pages| (format!("ipu={pages}"), "overwrites by itself")),
            age_threshold.map(|_| ("atgc".to_owned(), "has no segments to clean")),
            discard_stage.then(|| ("discard_stage".to_owned(), "has no staging area")),
        ];
        match given.into_iter().flatten().next() {
            None => Ok(()),
            Some((option, lack)) => Err(FsError::Unsupported(format!("{option} on ext4, which {lack}; leave it out"))),
        }
    }
}

/// What recovery did at a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// ext4's log was replayed.
    Replayed(crate::journal::Recovered),
    /// F2FS's nodes of fsyncs were rolled forward.
    RolledForward(crate::f2fs::Recovered),
}

fn f2fs_options(options: &MountOptions) -> FsResult<F2fsOptions> {
    if options.mode != Mode::Ordered {
        let mode = options.mode;
        return Err(FsError::Unsupported(format!(
            "the journal mode `{mode}` on F2FS, which has no journal; leave it out"
        )));
    }
    let MountOptions { cache_pages, cache_policy, read_only, commit_interval, prompt_writeback, .. } = *options;
    let default = F2fsOptions::default();
    let checkpoint_interval = match commit_interval == MountOptions::new(options.mode).commit_interval {
        true => default.checkpoint_interval,
        false => commit_interval,
    };
    Ok(F2fsOptions { cache_pages, cache_policy, read_only, checkpoint_interval, prompt_writeback, ..default })
}

/// Calls the file system that it is.
macro_rules! of_fs {
    ($any:expr, $each:ident => $call:expr) => {
        match $any {
            AnyFs::Ext4($each) => $call,
            AnyFs::F2fs($each) => $call,
        }
    };
}

impl FileView for AnyFs {
    fn root(&self) -> Ino {
        of_fs!(self, fs => fs.root())
    }

    async fn lookup(&self, directory: Ino, name: &[u8]) -> FsResult<Ino> {
        of_fs!(self, fs => fs.lookup(directory, name).await)
    }

    async fn attributes(&self, ino: Ino) -> FsResult<Attributes> {
        of_fs!(self, fs => fs.attributes(ino).await)
    }

    async fn attributes_by_number(&self, ino: Ino) -> FsResult<Attributes> {
        of_fs!(self, fs => fs.attributes_by_number(ino).await)
    }

    async fn lookup_attributes(&self, directory: Ino, name: &[u8]) -> FsResult<Attributes> {
        of_fs!(self, fs => fs.lookup_attributes(directory, name).await)
    }

    async fn read_link(&self, ino: Ino) -> FsResult<Vec<u8>> {
        of_fs!(self, fs => fs.read_link(ino).await)
    }

    async fn read(&self, ino: Ino, offset: u64, length: u64, manner: Manner) -> FsResult<Data> {
        of_fs!(self, fs => fs.read(ino, offset, length, manner).await)
    }

    async fn read_directory(&self, directory: Ino, cursor: u64) -> FsResult<Vec<DirectoryEntry>> {
        of_fs!(self, fs => fs.read_directory(directory, cursor).await)
    }

    async fn read_directory_attributes(
        &self,
        directory: Ino,
        cursor: u64,
    ) -> FsResult<Vec<(DirectoryEntry, Option<Attributes>)>> {
        of_fs!(self, fs => fs.read_directory_attributes(directory, cursor).await)
    }

    async fn extended_attribute(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        of_fs!(self, fs => fs.extended_attribute(ino, name).await)
    }

    async fn extended_attributes(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        of_fs!(self, fs => fs.extended_attributes(ino).await)
    }

    async fn seek(&self, ino: Ino, offset: u64, target: SeekTarget) -> FsResult<u64> {
        of_fs!(self, fs => fs.seek(ino, offset, target).await)
    }

    async fn space(&self) -> FsResult<Space> {
        of_fs!(self, fs => fs.space().await)
    }
}

impl FileSystem for AnyFs {
    async fn set_attributes(&self, ino: Ino, changes: AttributeChanges) -> FsResult<()> {
        of_fs!(self, fs => fs.set_attributes(ino, changes).await)
    }

    async fn create(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        of_fs!(self, fs => fs.create(directory, name, node).await)
    }

    async fn create_attributes(&self, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Attributes> {
        of_fs!(self, fs => fs.create_attributes(directory, name, node).await)
    }

    async fn symlink(&self, directory: Ino, name: &[u8], target: &[u8]) -> FsResult<Ino> {
        of_fs!(self, fs => fs.symlink(directory, name, target).await)
    }

    async fn link(&self, ino: Ino, directory: Ino, name: &[u8]) -> FsResult<()> {
        of_fs!(self, fs => fs.link(ino, directory, name).await)
    }

    async fn unlink(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        of_fs!(self, fs => fs.unlink(directory, name).await)
    }

    async fn remove_directory(&self, directory: Ino, name: &[u8]) -> FsResult<()> {
        of_fs!(self, fs => fs.remove_directory(directory, name).await)
    }

    async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()> {
        of_fs!(self, fs => fs.rename(from, to, manner).await)
    }

    async fn open(&self, ino: Ino) -> FsResult<()> {
        of_fs!(self, fs => fs.open(ino).await)
    }

    async fn release(&self, ino: Ino) -> FsResult<()> {
        of_fs!(self, fs => fs.release(ino).await)
    }

    async fn write(&self, ino: Ino, position: Position, content: Content<'_>, manner: Manner) -> FsResult<u64> {
        of_fs!(self, fs => fs.write(ino, position, content, manner).await)
    }

    async fn allocate(&self, ino: Ino, offset: u64, length: u64, allocation: Allocation) -> FsResult<()> {
        of_fs!(self, fs => fs.allocate(ino, offset, length, allocation).await)
    }

    async fn set_extended_attribute(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        manner: AttributeManner,
    ) -> FsResult<()> {
        of_fs!(self, fs => fs.set_extended_attribute(ino, name, value, manner).await)
    }

    fn drop_cached(&self, ino: Ino) {
        of_fs!(self, fs => fs.drop_cached(ino));
    }

    fn drop_caches(&self) {
        of_fs!(self, fs => fs.drop_caches());
    }

    async fn fsync(&self, ino: Ino) -> FsResult<()> {
        of_fs!(self, fs => fs.fsync(ino).await)
    }

    async fn fdatasync(&self, ino: Ino) -> FsResult<()> {
        of_fs!(self, fs => fs.fdatasync(ino).await)
    }

    async fn sync(&self) -> FsResult<()> {
        of_fs!(self, fs => fs.sync().await)
    }

    fn counters(&self) -> FsCounters {
        of_fs!(self, fs => fs.counters())
    }

    fn reset_counters(&self) {
        of_fs!(self, fs => fs.reset_counters());
    }

    async fn unmount(&self) -> FsResult<()> {
        of_fs!(self, fs => fs.unmount().await)
    }
}

impl AtomicFiles for AnyFs {
    fn has_drafts(&self) -> bool {
        of_fs!(self, fs => fs.has_drafts())
    }

    fn keeps_order(&self) -> bool {
        of_fs!(self, fs => fs.keeps_order())
    }

    fn begin_draft(&self) -> FsResult<DraftId> {
        of_fs!(self, fs => fs.begin_draft())
    }

    async fn claim(&self, draft: DraftId, ino: Ino) -> FsResult<()> {
        of_fs!(self, fs => fs.claim(draft, ino).await)
    }

    async fn claimant(&self, ino: Ino) -> FsResult<Option<DraftId>> {
        of_fs!(self, fs => fs.claimant(ino).await)
    }

    fn is_draft_changed(&self, draft: DraftId) -> FsResult<bool> {
        of_fs!(self, fs => fs.is_draft_changed(draft))
    }

    fn draft_size(&self, draft: DraftId, ino: Ino) -> FsResult<u64> {
        of_fs!(self, fs => fs.draft_size(draft, ino))
    }

    async fn draft_read(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<Data> {
        of_fs!(self, fs => fs.draft_read(draft, ino, offset, length).await)
    }

    async fn draft_write(&self, draft: DraftId, ino: Ino, position: Position, content: Content<'_>) -> FsResult<u64> {
        of_fs!(self, fs => fs.draft_write(draft, ino, position, content).await)
    }

    async fn draft_set_size(&self, draft: DraftId, ino: Ino, size: u64) -> FsResult<()> {
        of_fs!(self, fs => fs.draft_set_size(draft, ino, size).await)
    }

    async fn draft_punch(&self, draft: DraftId, ino: Ino, offset: u64, length: u64) -> FsResult<()> {
        of_fs!(self, fs => fs.draft_punch(draft, ino, offset, length).await)
    }

    async fn draft_create(&self, draft: DraftId, directory: Ino, name: &[u8], node: NewNode) -> FsResult<Ino> {
        of_fs!(self, fs => fs.draft_create(draft, directory, name, node).await)
    }

    async fn draft_unlink(&self, draft: DraftId, directory: Ino, name: &[u8]) -> FsResult<()> {
        of_fs!(self, fs => fs.draft_unlink(draft, directory, name).await)
    }

    async fn draft_rename(&self, draft: DraftId, from: (Ino, &[u8]), to: (Ino, &[u8])) -> FsResult<()> {
        of_fs!(self, fs => fs.draft_rename(draft, from, to).await)
    }

    async fn commit_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        of_fs!(self, fs => fs.commit_drafts(drafts).await)
    }

    async fn abort_drafts(&self, drafts: &[DraftId]) -> FsResult<()> {
        of_fs!(self, fs => fs.abort_drafts(drafts).await)
    }

    async fn end_draft(&self, draft: DraftId) -> FsResult<()> {
        of_fs!(self, fs => fs.end_draft(draft).await)
    }
}

const SHARES: &str = "shared pages";

impl SharePages for AnyFs {
    fn sharing(&self) -> FsResult<Sharing> {
        self.ext4(SHARES)?.sharing()
    }

    async fn share(&self, ranges: &[ShareRange]) -> FsResult<()> {
        self.ext4(SHARES)?.share(ranges).await
    }

    async fn share_lazily(&self, ranges: &[ShareRange]) -> FsResult<()> {
        self.ext4(SHARES)?.share_lazily(ranges).await
    }
}
