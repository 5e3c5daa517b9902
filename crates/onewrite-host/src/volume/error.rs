//! Errors of a volume, and their numbers on Linux.

use onewrite_device::Error as DeviceSetupError;
use onewrite_fs::FsError;
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The image cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceSetupError),
    /// The file system refuses, or the image or its device is damaged.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The core has ended: the volume was closed by another handle, or its run broke off.
    #[error("the volume is closed")]
    Closed,
}

impl VolumeError {
    /// The number that Linux gives this error: that of the file system, EIO for an image that does not open, EBADF for
    /// a volume that is closed.
    pub const fn errno(&self) -> i32 {
        match self {
            VolumeError::Open(_) => 5,
            VolumeError::Fs(error) => error.errno(),
            VolumeError::Closed => 9,
        }
    }
}
