//! Errors of mounting and unmounting. Each names the place and the cure.

use std::io;

use thiserror::Error;

/// Why a mount could not be made or ended.
#[derive(Debug, Error)]
pub enum MountError {
    /// The directory cannot be a mount point.
    #[error("{path}: no mount point: {error}; name a directory")]
    Directory {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// `/dev/fuse` cannot be opened.
    #[error("/dev/fuse: {0}; load FUSE (modprobe fuse), or give this user access to it")]
    NoFuse(io::Error),
    /// `/dev/fuse` is something else.
    #[error("/dev/fuse is not the device of FUSE: mknod /dev/fuse c 10 229 makes it")]
    NotFuse,
    /// Users other than root need a program that may mount for them.
    #[error("only root may mount without the helper `fusermount3`; install the package fuse3, or mount as root")]
    NoHelper,
    /// The process of a mount is gone, and the mount cannot be detached.
    #[error("{path}: a dead mount lies there (`umount {path}` as its owner takes it off): {error}")]
    Dead {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// No mount of Onewrite covers the directory.
    #[error("{path}: not the root of a mount of `onewrite mount`")]
    NoMount {
        /// The directory.
        path: String,
    },
    /// The mount cannot be ended.
    #[error(
        "{path}: not unmounted: {error}; end the programs that use it (`fuser -vm {path}` names them), or use --lazy"
    )]
    Kept {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// Another user made the mount.
    #[error("{path}: not unmounted: another user mounted it; that user or root can end it")]
    Foreign {
        /// The directory.
        path: String,
    },
    /// What programs wrote cannot be written to the image.
    #[error(
        "{path}: not unmounted: its image does not take what programs wrote: {error} (the mount's log says why); make \
         room or mend the disk, or give it up with --lazy"
    )]
    Unsaved {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The mount had given up its image before it was ended.
    #[error(
        "{path}: unmounted, but its image had failed: {error}; what was not synced before is lost (the mount's log \
         says why); `onewrite fsck` checks the image"
    )]
    Lost {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel or the helper refused the mount.
    #[error("{path}: the mount was refused: {error}{cure}")]
    Refused {
        /// The directory.
        path: String,
        /// The system's error.
        error: io::Error,
        /// The cure.
        cure: &'static str,
    },
}
