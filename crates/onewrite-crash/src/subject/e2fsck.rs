//! e2fsck: a foreign checker examines some of the states.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_block::{Image, PAGE_SIZE};

use crate::error::CrashError;

static MADE: AtomicU64 = AtomicU64::new(0);

/// What `e2fsck` finds wrong with an unmounted image.
///
/// # Errors
/// If `e2fsck` cannot be run.
pub(super) fn finding(image: &Image) -> Result<Option<String>, CrashError> {
    let failed = |error: io::Error| CrashError::Tool { tool: "e2fsck", reason: error.to_string() };
    let file = nameless().map_err(failed)?;
    save(image, &file).map_err(failed)?;
    check(&PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))).map_err(failed)
}

/// A file without a name: the kernel frees it however the process ends.
fn nameless() -> io::Result<File> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("onewrite-crash-{}-{number}.img", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes an image to a file; pages of zeros stay holes.
fn save(image: &Image, file: &File) -> io::Result<()> {
    file.set_len(image.pages() * PAGE_SIZE as u64)?;
    for (lpn, page) in image.written() {
        if !page.is_zeros() {
            file.write_all_at(&page.bytes()[..], lpn.0 * PAGE_SIZE as u64)?;
        }
    }
    Ok(())
}

fn check(path: &Path) -> io::Result<Option<String>> {
    // Not every user has the tools of e2fsprogs on the search path.
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("e2fsck").arg("-fn").arg(path).env("PATH", search).env("LC_ALL", "C").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((!output.status.success()).then(|| format!("e2fsck: {said}")))
}
