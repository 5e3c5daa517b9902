//! Image: makes a file with an empty file system in it.
//!
//! The superblock is written last: before that the file holds no file system, so no half of one is ever mounted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use onewrite_block::{Choices, PAGE_SIZE, Page};
use onewrite_fs::ext4::mkfs::{self, MkfsError, MkfsOptions};
use onewrite_fs::{BlockNo, FsError};
use rustix::process::{getegid, geteuid};

use super::error::VolumeError;

/// The smallest image: smaller ones would have no journal.
const SIZE_BYTES_MIN: u64 = 8 << 20;

/// Makes an image of `size_bytes` at `path`, with an empty ext4 and its journal in it. Its root directory belongs to
/// this process's user. Durable when it returns. Takes no more room than its metadata; the rest is a hole.
///
/// # Errors
/// If there is something at `path`; a size below 8 MiB or beyond what ext4 has; what the host refuses. Then nothing
/// is left behind.
pub fn make_image(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), VolumeError> {
    let path = path.as_ref();
    let plan = plan(size_bytes)?;
    let told = |error| VolumeError::Image { path: path.display().to_string(), error };
    let file = File::create_new(path).map_err(told)?;
    fill(&file, path, size_bytes, &plan).map_err(|error| {
        // What failed first is what is told.
        let _ = fs::remove_file(path);
        told(error)
    })
}

fn plan(size_bytes: u64) -> Result<Vec<(BlockNo, Page)>, VolumeError> {
    if size_bytes < SIZE_BYTES_MIN {
        let problem = format!("an image of {size_bytes} bytes has no room for a journal; at least {SIZE_BYTES_MIN}");
        return Err(VolumeError::Fs(FsError::Invalid(problem)));
    }
    let unix_seconds = unix_seconds();
    let mut choices = Choices::new(random_seed(unix_seconds)).stream("mkfs", 0);
    let options = MkfsOptions {
        unix_time: unix_seconds as u32,
        root_owner: (geteuid().as_raw(), getegid().as_raw()),
        device_is_zeroed: true,
        journal_blocks: Some(mkfs::default_journal_blocks(size_bytes / PAGE_SIZE as u64)),
        ..MkfsOptions::new(size_bytes, &mut choices)
    };
    mkfs::plan(&options).map_err(|error: MkfsError| error.into())
}

fn fill(file: &File, path: &Path, size_bytes: u64, plan: &[(BlockNo, Page)]) -> io::Result<()> {
    file.set_len(size_bytes)?;
    let (first, rest): (Vec<_>, Vec<_>) = plan.iter().partition(|(block, _)| *block == BlockNo::FIRST);
    for part in [rest, first] {
        for (block, page) in part {
            file.write_all_at(&*page.bytes(), block.page().0 * PAGE_SIZE as u64)?;
        }
        file.sync_all()?;
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// A seed that differs from run to run, so that each image gets a UUID of its own.
#[expect(clippy::disallowed_methods, reason = "the one number that has to differ from run to run")]
fn random_seed(unix_seconds: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(unix_seconds)
}

fn unix_seconds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a file system carries the date on which it was made")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}
