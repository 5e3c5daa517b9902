//! What tests of drafts have in common: an image of their own, and looks into it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_host::{Volume, VolumeError, make_image};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A path for an image. Drop removes the image.
pub struct ScratchImage(pub PathBuf);

impl ScratchImage {
    pub fn new() -> ScratchImage {
        let (program, process) = (env!("CARGO_CRATE_NAME"), std::process::id());
        let name = format!("onewrite-{program}-{process}-{}.img", COUNT.fetch_add(1, Ordering::Relaxed));
        ScratchImage(std::env::temp_dir().join(name))
    }

    /// The image, mounted; the first time a new one.
    pub fn volume(&self, mode: Mode) -> Volume {
        if !self.0.exists() {
            make_image(&self.0, 64 << 20).unwrap();
        }
        Volume::open(&self.0, MountOptions::new(mode)).unwrap()
    }

    /// e2fsck finds nothing.
    pub fn check(&self) {
        let output = Command::new("e2fsck").arg("-fn").arg(&self.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

impl Drop for ScratchImage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The content of the file at `path`.
pub fn content(volume: &Volume, path: &str) -> Vec<u8> {
    volume.open_file(path).unwrap().read_at(0, u64::MAX).unwrap()
}

/// The errno of a refusal.
pub fn number<T>(refused: Result<T, VolumeError>) -> i32 {
    refused.map(drop).unwrap_err().errno()
}
