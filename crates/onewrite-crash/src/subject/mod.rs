//! Subject: the one trait through which the explorer sees a file system.
//!
//! Its one idea: one file that implements [`Subject`] has everything specific to a file system (`ext4.rs`, `f2fs.rs`,
//! the toy in the crate's tests). All other code knows only requests, steps and promises. A canary is a sound subject
//! with a part replaced: see [`Altered`].

mod altered;
mod draft_change;
mod e2fsck;
mod ext4;
mod f2fs;
mod fsck_f2fs;
pub(crate) mod saved;

use std::rc::Rc;

use onewrite_block::{Cause, Choices, Device, DevicePort, Image, Lpn, Nanos};
use onewrite_fs::{DraftId, FileSystem, FileView, FsError, FsResult, Ino, PolicyKind, RenameManner, ShareRange};

pub use altered::{Alter, Altered};
pub use draft_change::{DraftChange, DraftChanged};
pub use ext4::Ext4Subject;
pub use f2fs::F2fsSubject;

use crate::error::CrashError;

/// What a file system promises for changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The metadata is consistent.
    Metadata,
    /// Also, no file shows the old content of its blocks.
    Data,
    /// The whole tree, contents included, is the one after a prefix of the steps.
    Version,
    /// The tree is that of a checkpoint, and over it lies each file as an fsync behind the checkpoint had it.
    Checkpoint(SyncedNames),
}

/// The names that survive with an fsync of their file, if no checkpoint does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncedNames {
    /// Those of files that are new since the checkpoint.
    New,
    /// Those of renamed files, too.
    All,
    /// All names, and all other changes of the tree before the fsync: it is a checkpoint but for content.
    Tree,
}

/// The promises by which a file system is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// What is promised for changes that were not synced.
    pub keeps: Keeps,
    /// Whether allocation is delayed: a page gets its block at writeback, and the size follows the content.
    pub delays: bool,
    /// Whether a sync that is under way may have written some of its pages over what the last one made durable.
    pub overwrites: bool,
    /// Whether the mode pads: then survival depends on the device's write buffer, not on the requests alone.
    pub pads: bool,
}

/// How operations are divided into atomic steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Given the first byte of a step of a `write()` and the end of the write, returns the end of the step.
    pub write_end: fn(u64, u64) -> u64,
}

/// What a recovery replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Number of transactions, or of the file system's own unit.
    pub transactions: u64,
    /// Blocks that it skipped because they had been freed later.
    pub revoked_blocks: u64,
}

/// The purpose of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The run of a workload on the modelled disk.
    Run,
    /// The run of a workload on an emulated device.
    RunInsideDevice,
    /// Recovery of a state, with as little memory as possible.
    Recovery,
}

/// The mount options that every file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mounting {
    /// The purpose.
    pub purpose: Purpose,
    /// Pages of the page cache.
    pub cache_pages: usize,
    /// Policy that chooses the page to evict.
    pub cache_policy: PolicyKind,
    /// Age at which changes become durable automatically.
    pub commit_interval: Nanos,
    /// Age at which a logged block is checkpointed automatically.
    pub checkpoint_age: Nanos,
    /// Whether writeback begins as soon as a tenth of the cache is dirty, as on a mount for programs.
    pub prompt_writeback: bool,
}

/// A command-line option that chooses this subject, and its value, if it takes one.
pub type Flag = (&'static str, Option<String>);

/// A directory and a name in it.
pub type Name<'n> = (Ino, &'n [u8]);

/// A file system to explore.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Subject: 'static {
    /// The mounted file system.
    type Fs: FileSystem + 'static;
    /// A view of an image that is not mounted.
    type View: FileView + 'static;
    /// What recoveries of states of one run may remember of each other, to do the same work once.
    type Memory: Default + 'static;

    /// Makes an empty file system on `image`, which is full of garbage. Blocks that it does not write keep the garbage.
    ///
    /// # Errors
    /// [`CrashError::Image`] if the options do not fit the image.
    fn format(&self, image: &mut Image, choices: &Choices) -> Result<(), CrashError>;

    /// Names of the directories in the root of an empty file system; their permissions are 0700.
    fn directories(&self) -> &'static [&'static str];

    /// Mounts the file system; recovers it first if needed.
    async fn mount(&self, port: DevicePort, mounting: Mounting) -> FsResult<Self::Fs>;

    /// Recovers the blocks of an image without mounting it, and returns what it replayed. Returns `None` if there was
    /// nothing to do. A file system that recovers only in its mount returns what the mount will replay, or `None`. A
    /// later mount depends only on the blocks outside the log ([`Subject::log_causes`]). `memory` is for all states
    /// that one thread recovers.
    ///
    /// # Errors
    /// If recovery fails.
    async fn recover(&self, port: &DevicePort, memory: &Rc<Self::Memory>) -> FsResult<Option<Replayed>>;

    /// What the file system's own checker finds wrong with an unmounted image; a few findings at most. Tells `looked`
    /// of each page that it reads, if [`Subject::is_known_by_reads`].
    fn findings(&self, image: &Image, looked: &mut dyn FnMut(Lpn)) -> Vec<String>;

    /// Whether states are taken for equal that answer alike whatever recovery, mount and checker read. It pays where
    /// [`Subject::recover`] writes nothing, so that states do not become equal by it.
    fn is_known_by_reads(&self) -> bool {
        false
    }

    /// What a foreign checker finds wrong with an unmounted image; `None` if it finds nothing or does not exist.
    ///
    /// # Errors
    /// If the checker cannot be run.
    fn stranger_finding(&self, image: &Image) -> Result<Option<String>, CrashError>;

    /// Opens an image that is not mounted, for reading alone. Returns `None` if the view does not show all that a mount
    /// would.
    async fn view(&self, port: &DevicePort) -> FsResult<Option<Self::View>>;

    /// What an image that was unmounted without an error leaves for the next mount to do; `None` if nothing.
    fn left_to_do(&self, image: &Image) -> Option<String>;

    /// Verifies the invariants of a mounted file system in memory.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self, fs: &Self::Fs) -> Result<(), String>;

    /// The promises by which it is judged.
    fn promises(&self) -> Promises;

    /// How its operations are divided into steps.
    fn steps(&self) -> Steps;

    /// Number of appends, each followed by an fsync, that fill the log once.
    fn syncs_of_a_log(&self) -> u64;

    /// The causes of the requests that write its log: blocks that no mount reads any more after [`Subject::recover`].
    fn log_causes(&self) -> &'static [Cause] {
        &[Cause::Journal, Cause::LogTail, Cause::Padding]
    }

    /// A page that it writes in place and trusts to survive whole even on a disk that tears pages, if any.
    fn whole_page(&self) -> Option<Lpn> {
        None
    }

    /// The options of `onewrite crash` that choose this subject.
    fn flags(&self) -> Vec<Flag>;

    /// Makes a file or directory durable.
    async fn fsync(&self, fs: &Self::Fs, ino: Ino) -> FsResult<()> {
        fs.fsync(ino).await
    }

    /// Moves or swaps names.
    async fn rename(&self, fs: &Self::Fs, from: (Ino, &[u8]), to: (Ino, &[u8]), manner: RenameManner) -> FsResult<()> {
        fs.rename(from, to, manner).await
    }

    /// Begins a draft of atomic files.
    ///
    /// # Errors
    /// By default, as in a file system without atomic files.
    fn begin_draft(&self, _: &Self::Fs) -> FsResult<DraftId> {
        Err(no_drafts())
    }

    /// Makes a change in a draft; claims its file first.
    async fn change_draft(&self, _: &Self::Fs, _: DraftId, _: DraftChange<'_>) -> FsResult<DraftChanged> {
        Err(no_drafts())
    }

    /// Whether a draft holds changes that are neither committed nor aborted.
    fn is_draft_changed(&self, _: &Self::Fs, _: DraftId) -> FsResult<bool> {
        Err(no_drafts())
    }

    /// Commits drafts, as one step; durable when it returns.
    async fn commit_drafts(&self, _: &Self::Fs, _: &[DraftId]) -> FsResult<()> {
        Err(no_drafts())
    }

    /// Drops the changes of drafts, which keep their files.
    async fn abort_drafts(&self, _: &Self::Fs, _: &[DraftId]) -> FsResult<()> {
        Err(no_drafts())
    }

    /// Ends a draft and drops its changes.
    async fn end_draft(&self, _: &Self::Fs, _: DraftId) -> FsResult<()> {
        Err(no_drafts())
    }

    /// Gives pages the content of other pages, as one step; durable when it returns.
    async fn share(&self, _: &Self::Fs, _: &[ShareRange]) -> FsResult<()> {
        Err(no_shares())
    }

    /// The same, durable with the next sync of the targets.
    async fn share_lazily(&self, _: &Self::Fs, _: &[ShareRange]) -> FsResult<()> {
        Err(no_shares())
    }

    /// Puts a layer between file system and disk during the run; the recording is below it.
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }

    /// Puts a layer between recovery and disk when cuts inside recovery are explored; the recording is below it.
    fn recovery_layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }
}

fn no_drafts() -> FsError {
    FsError::Unsupported("this file system has no atomic files; leave the actions of drafts out".into())
}

fn no_shares() -> FsError {
    FsError::Unsupported("the pages of this file system cannot be shared; leave the actions `share` out".into())
}
