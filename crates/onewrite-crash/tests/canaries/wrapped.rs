//! Operations that do not do what they say.

use onewrite_block::DevicePort;
use onewrite_crash::Subject;
use onewrite_fs::ext4::{Ext4, MountOptions};
use onewrite_fs::{FileSystem, FileView, FsError, FsResult, Ino, RenameManner};

/// `fsync` does nothing.
#[derive(Clone, Copy)]
pub struct EarlyFsync;

impl Subject for EarlyFsync {
    type Fs = Ext4;

    async fn mount(&self, port: DevicePort, options: MountOptions) -> FsResult<Ext4> {
        Ext4::mount(port, options).await
    }

    async fn fsync(&self, _: &Ext4, _: Ino) -> FsResult<()> {
        Ok(())
    }
}

/// `rename` links the new name and removes the old one, in two transactions.
#[derive(Clone, Copy)]
pub struct TornRename;

impl Subject for TornRename {
    type Fs = Ext4;

    async fn mount(&self, port: DevicePort, options: MountOptions) -> FsResult<Ext4> {
        Ext4::mount(port, options).await
    }

    async fn rename(&self, fs: &Ext4, from: (Ino, &[u8]), to: (Ino, &[u8]), _: RenameManner) -> FsResult<()> {
        let ino = fs.lookup(from.0, from.1).await?;
        match fs.unlink(to.0, to.1).await {
            Ok(()) | Err(FsError::NotFound(_)) => (),
            Err(error) => return Err(error),
        }
        fs.link(ino, to.0, to.1).await?;
        fs.sync().await?;
        fs.unlink(from.0, from.1).await
    }
}
