//! Operations that are wrong.

use onewrite_crash::{Alter, Ext4Subject, Name};
use onewrite_fs::ext4::Ext4;
use onewrite_fs::{Allocation, FileSystem, FileView, FsError, FsResult, Ino, RenameManner};

/// `fsync` does nothing.
#[derive(Clone, Copy)]
pub struct EarlyFsync;

impl Alter<Ext4Subject> for EarlyFsync {
    async fn fsync(&self, _: &Ext4, _: &Ext4Subject, _: Ino) -> FsResult<()> {
        Ok(())
    }
}

/// `rename` links the new name and removes the old one, in two transactions.
#[derive(Clone, Copy)]
pub struct TornRename;

impl Alter<Ext4Subject> for TornRename {
    async fn rename(&self, fs: &Ext4, _: &Ext4Subject, from: Name<'_>, to: Name<'_>, _: RenameManner) -> FsResult<()> {
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

/// `fsync` makes the first page of another file a hole: one that nothing wrote since the setup.
#[derive(Clone, Copy)]
pub struct LostPage;

impl Alter<Ext4Subject> for LostPage {
    async fn fsync(&self, fs: &Ext4, _: &Ext4Subject, ino: Ino) -> FsResult<()> {
        let other = fs.lookup(fs.root(), b"a").await?;
        fs.allocate(other, 0, 4096, Allocation::PunchHole).await?;
        fs.fsync(ino).await
    }
}
