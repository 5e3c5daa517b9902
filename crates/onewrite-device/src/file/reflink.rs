//! Reflink: SHARE on a file, by `FICLONERANGE` within the file.
//!
//! The file system then uses one of its blocks in both places. A later write gives a place a block of its own again.
//! Neighbouring pairs go in one call; an `fdatasync` ends the request.
//!
//! # Invariants
//! - After completion all pairs of a request are durable, and so is the content of their sources: the kernel writes
//!   dirty pages of a source before it clones.
//! - If the process is killed or the power fails in the middle, some pairs are done and others not; each page is old or
//!   new. So `Geometry::share_atomic` is false.
//!
//! A trial on an unnamed file in the image's directory shows whether the file system can do it; the image itself is not
//! touched. Source: `ioctl_ficlonerange(2)`.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use onewrite_block::{Lpn, PAGE_SIZE, Remap};
use reflink_copy::ReflinkBlockBuilder;

/// Most pairs in one request. Only patience limits it: no other request runs meanwhile.
pub(super) const PAIRS_MAX: u32 = 1024;

const CURE: &str = "put the image on XFS (mkfs.xfs -m reflink=1, blocks of 4 KiB) or Btrfs";

/// Makes every target read as its source, durably.
pub(super) fn share(file: &File, pairs: &[Remap]) -> io::Result<()> {
    runs(pairs).try_for_each(|run| clone_pages(file, run[0], run.len()))?;
    file.sync_data()
}

/// Groups of pairs with consecutive sources and consecutive targets.
fn runs(pairs: &[Remap]) -> impl Iterator<Item = &[Remap]> {
    let follows = |one: Lpn, next: Lpn| one.0 + 1 == next.0;
    pairs.chunk_by(move |one, next| follows(one.source, next.source) && follows(one.target, next.target))
}

/// Clones `count` pages from the first pair on.
fn clone_pages(file: &File, first: Remap, count: usize) -> io::Result<()> {
    let offset = |lpn: Lpn| lpn.0 * PAGE_SIZE as u64;
    let length = NonZeroU64::new((count * PAGE_SIZE) as u64).expect("a run holds a pair");
    let cloned = ReflinkBlockBuilder::new(file, file, length);
    cloned.from_offset(offset(first.source)).to_offset(offset(first.target)).reflink_block()
}

/// Tests whether single pages of `file`, which was opened as `path`, can be cloned.
///
/// # Errors
/// Why not, with the cure.
pub(super) fn trial(path: &Path, file: &File) -> Result<(), String> {
    let image = file.metadata().map_err(|error| error.to_string())?;
    if !image.is_file() {
        return Err("a block device of the host has none: use an image on XFS or Btrfs".into());
    }
    let scratch = beside(path).map_err(|error| {
        format!(
            "whether its file system can reflink could not be tried: {error}; {CURE}, in a directory you may write to"
        )
    })?;
    match scratch.metadata() {
        Ok(scratch) if scratch.dev() == image.dev() => (),
        _ => return Err(format!("its directory is on another file system, so that nothing was tried; {CURE}")),
    }
    match clones(&scratch) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("its file system says that it reflinks, and the content differs; {CURE}")),
        Err(error) => Err(format!("its file system cannot reflink: {error}; {CURE}")),
    }
}

/// An unnamed file in the real directory of the image; it disappears when closed.
fn beside(path: &Path) -> io::Result<File> {
    let path = path.canonicalize()?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(directory)
}

/// Whether a page cloned to an unaligned place reads as its source, also after the source is overwritten.
fn clones(scratch: &File) -> io::Result<bool> {
    let (old, new) = ([1; PAGE_SIZE], [2; PAGE_SIZE]);
    let pair = Remap { source: Lpn(0), target: Lpn(3) };
    scratch.write_all_at(&old.repeat(5), 0)?;
    scratch.write_all_at(&new, 3 * PAGE_SIZE as u64)?;
    clone_pages(scratch, pair, 1)?;
    scratch.write_all_at(&new, 0)?;
    let mut found = [0; PAGE_SIZE];
    scratch.read_exact_at(&mut found, 3 * PAGE_SIZE as u64)?;
    Ok(found == old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_go_together_while_both_sides_follow_each_other() {
        let pair = |(source, target)| Remap { source: Lpn(source), target: Lpn(target) };
        let pairs = [(10, 2), (11, 3), (12, 5), (13, 6), (20, 7), (19, 8)].map(pair);
        assert_eq!(runs(&pairs).map(<[Remap]>::len).collect::<Vec<_>>(), [2, 2, 1, 1]);
    }
}
