//! Errors of a volume, and their numbers on Linux.

use std::io::{self, ErrorKind};

use onewrite_device::Error as DeviceSetupError;
use onewrite_fs::FsError;
use onewrite_fs::ext4::mkfs::MkfsError;
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
    /// No file system can be made of that size.
    #[error(transparent)]
    Make(#[from] MkfsError),
    /// The file of a new image cannot be written.
    #[error("{path}: {error}")]
    Image {
        /// The image.
        path: String,
        /// What the host says.
        error: io::Error,
    },
    /// The core has ended: the volume was closed by another handle, or its run broke off.
    #[error("the volume is closed")]
    Closed,
}

impl VolumeError {
    /// The number that Linux gives this error (asm-generic/errno): that of the file system; for an image that does not
    /// open that of open(2), EBUSY if it is in use; EBADF for a volume that is closed.
    pub fn errno(&self) -> i32 {
        match self {
            VolumeError::Open(DeviceSetupError::Busy { .. }) => 16,
            VolumeError::Open(DeviceSetupError::Host { kind, .. }) => number(*kind),
            VolumeError::Open(_) => 5,
            VolumeError::Fs(error) => error.errno(),
            VolumeError::Make(_) => 22,
            VolumeError::Image { error, .. } => error.raw_os_error().unwrap_or(5),
            VolumeError::Closed => 9,
        }
    }
}

/// The number of a kind of failure; EIO for one that has none here.
const fn number(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::PermissionDenied => 13,
        ErrorKind::IsADirectory => 21,
        ErrorKind::InvalidInput => 22,
        ErrorKind::ReadOnlyFilesystem => 30,
        _ => 5,
    }
}
