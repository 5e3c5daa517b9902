//! Subject: the one trait through which the explorer sees a file system.
//!
//! Its one idea: what differs from file system to file system stands in one file that implements [`Subject`] (`ext4.rs`
//! here, the toy in the crate's tests); everything else knows requests, steps and promises. A canary is a sound subject
//! with a part replaced: see [`Altered`].

mod altered;
mod e2fsck;
mod ext4;

use onewrite_block::{Choices, Device, DevicePort, Image, Nanos};
use onewrite_fs::{FileSystem, FsResult, Ino, PolicyKind, RenameManner};

pub use altered::{Alter, Altered};
pub use ext4::Ext4Subject;

use crate::error::CrashError;

/// What a file system promises beyond what was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The metadata is whole.
    Metadata,
    /// And no file shows what its blocks held before they were its own.
    Data,
    /// The whole tree is the one after a prefix of the steps.
    Version,
}

/// What the judges hold a file system to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// What survives of what was not synced.
    pub keeps: Keeps,
    /// Sizes and blocks follow the content: a page that was written is allocated when it is written out.
    pub delays: bool,
    /// A device's write buffer says what survives, not its requests alone.
    pub pads: bool,
}

/// How operations are cut into atomic steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Where a step of a `write()` ends that begins at the first byte; the write ends at the second.
    pub write_end: fn(u64, u64) -> u64,
}

/// What a recovery replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Transactions, or whatever it counts.
    pub transactions: u64,
    /// Blocks that it left out because they had been freed since.
    pub revoked_blocks: u64,
}

/// What a file system is mounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The run of a workload on the modelled disk.
    Run,
    /// The run of a workload on an emulated device.
    RunInsideDevice,
    /// To see what a cut has left, with as little memory as possible.
    Recovery,
}

/// How a file system is mounted, as far as every one of them knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mounting {
    /// What for.
    pub purpose: Purpose,
    /// Pages of the page cache.
    pub cache_pages: usize,
    /// Which page leaves it.
    pub cache_policy: PolicyKind,
    /// Age at which changes become durable by themselves.
    pub commit_interval: Nanos,
    /// Age at which a logged block goes home by itself.
    pub checkpoint_age: Nanos,
}

/// A part of the command line that makes this subject: an option and its value, if it takes one.
pub type Flag = (&'static str, Option<String>);

/// A directory and a name in it.
pub type Name<'n> = (Ino, &'n [u8]);

/// A file system that is explored.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Subject: 'static {
    /// The mounted file system.
    type Fs: FileSystem + 'static;

    /// Makes an empty file system on `image`, which is full of garbage. What it leaves alone keeps the garbage.
    ///
    /// # Errors
    /// [`CrashError::Image`] if none fits.
    fn format(&self, image: &mut Image, choices: &Choices) -> Result<(), CrashError>;

    /// The directories that lie in the root of an empty file system.
    fn directories(&self) -> &'static [&'static str];

    /// Mounts it; recovers it first if a cut left it so.
    async fn mount(&self, port: DevicePort, mounting: Mounting) -> FsResult<Self::Fs>;

    /// Recovers the blocks of an image without mounting it, and says what it replayed; `None` if there was nothing to
    /// do, or if this file system recovers in its mount alone. What a mount does afterwards depends on the blocks
    /// outside the log alone.
    ///
    /// # Errors
    /// If it cannot be recovered.
    async fn recover(&self, port: &DevicePort) -> FsResult<Option<Replayed>>;

    /// What the file system's own checker finds wrong with an image at rest, a few findings at most.
    fn findings(&self, image: &Image) -> Vec<String>;

    /// What a checker of somebody else finds wrong with an image that was unmounted; `None` if there is no such
    /// checker.
    ///
    /// # Errors
    /// If the checker cannot be run.
    fn stranger_finding(&self, image: &Image) -> Result<Option<String>, CrashError>;

    /// Verifies the invariants of what a mounted file system has in memory.
    ///
    /// # Errors
    /// The first that does not hold.
    fn check(&self, fs: &Self::Fs) -> Result<(), String>;

    /// What the judges hold it to.
    fn promises(&self) -> Promises;

    /// How its operations are cut into steps.
    fn steps(&self) -> Steps;

    /// Appends, each followed by an fsync, that fill its log once.
    fn syncs_of_a_log(&self) -> u64;

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

    /// What stands between file system and disk during the run; the recording is below it.
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }

    /// What stands between recovery and disk when cuts inside recovery are explored; the recording is below it.
    fn recovery_layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        disk
    }
}
