//! An fsync that does nothing.

use onewrite_crash::{Alter, Ext4Subject, F2fsSubject};
use onewrite_fs::ext4::Ext4;
use onewrite_fs::f2fs::F2fs;
use onewrite_fs::{FsResult, Ino};

/// See the module's head.
#[derive(Clone, Copy)]
pub struct ReturnsEarly;

impl Alter<F2fsSubject> for ReturnsEarly {
    async fn fsync(&self, _: &F2fs, _: &F2fsSubject, _: Ino) -> FsResult<()> {
        Ok(())
    }
}

impl Alter<Ext4Subject> for ReturnsEarly {
    async fn fsync(&self, _: &Ext4, _: &Ext4Subject, _: Ino) -> FsResult<()> {
        Ok(())
    }
}
