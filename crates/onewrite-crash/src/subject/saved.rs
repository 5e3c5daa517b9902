//! Saved: an image in a file without a name, for foreign programs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_block::{Image, PAGE_SIZE};

static MADE: AtomicU64 = AtomicU64::new(0);

/// An image in a file without a name: the kernel frees it however the process ends.
pub(crate) struct Saved(File);

impl Saved {
    /// Writes an image to a file; pages of zeros stay holes.
    ///
    /// # Errors
    /// Those of the directory for temporary files.
    pub(crate) fn new(image: &Image) -> io::Result<Saved> {
        let file = nameless()?;
        file.set_len(image.pages() * PAGE_SIZE as u64)?;
        for (lpn, page) in image.written() {
            if !page.is_zeros() {
                file.write_all_at(&page.bytes()[..], lpn.0 * PAGE_SIZE as u64)?;
            }
        }
        Ok(Saved(file))
    }

    /// The file.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.0
    }

    /// A path to the file, while it is open.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

fn nameless() -> io::Result<File> {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("onewrite-crash-{}-{number}.img", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// A command that prints English and is found where not every user looks: in `/usr/sbin` and `/sbin`, too.
pub(crate) fn tool(tool: &str) -> Command {
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(tool);
    command.env("PATH", search).env("LC_ALL", "C");
    command
}
