//! e2fsck: a stranger's judgement on some of the states.

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

/// What it finds wrong with an image that was unmounted.
///
/// # Errors
/// If it cannot be run.
pub(super) fn finding(image: &Image) -> Result<Option<String>, CrashError> {
    let failed = |error: io::Error| CrashError::Tool { tool: "e2fsck", reason: error.to_string() };
    let file = nameless().map_err(failed)?;
    save(image, &file).map_err(failed)?;
    check(&PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))).map_err(failed)
}

/// A file that has lost its name already, so that nothing is left however the process ends.
fn nameless() -> io::Result<File> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("onewrite-crash-{}-{number}.img", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes an image to a file, holes where it has none.
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
    // The tools of e2fsprogs are not on every user's path.
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("e2fsck").arg("-fn").arg(path).env("PATH", search).env("LC_ALL", "C").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((!output.status.success()).then(|| format!("e2fsck: {said}")))
}
