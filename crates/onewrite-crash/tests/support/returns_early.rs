//! An fsync that does nothing.

use onewrite_crash::{Alter, F2fsSubject};
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
