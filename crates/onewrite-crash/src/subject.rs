//! Subject: the file system under test. The sound one is ext4 as it is; canaries are wrapped versions of it.

use onewrite_block::{Device, DevicePort};
use onewrite_fs::ext4::{Ext4, MountOptions};
use onewrite_fs::{FileSystem, FsResult, Ino, RenameManner};

/// What is explored. A test makes a known-bad one by replacing a part.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Subject: 'static {
    /// The mounted file system.
    type Fs: FileSystem + 'static;

    /// Mounts it for the run of the workload.
    async fn mount(&self, port: DevicePort, options: MountOptions) -> FsResult<Self::Fs>;

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

/// ext4 as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sound;

impl Subject for Sound {
    type Fs = Ext4;

    async fn mount(&self, port: DevicePort, options: MountOptions) -> FsResult<Ext4> {
        Ext4::mount(port, options).await
    }
}
