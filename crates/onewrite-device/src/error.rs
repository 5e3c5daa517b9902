//! Errors before a device exists. An existing device reports `DeviceError`.

use std::io;
use std::path::Path;

use thiserror::Error;

/// Why a profile or a device could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no such profile.
    #[error("there is no device profile {name:?}; known are {known}")]
    UnknownProfile {
        /// The requested name.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The text is not a valid profile.
    #[error("device profile {name:?}: {message}")]
    Profile {
        /// The profile.
        name: String,
        /// The problem, and its place.
        message: String,
    },
    /// No flash layout has that size.
    #[error("an emulated SSD takes whole pages of 4 KiB, from 4 MiB to 4 TiB; {bytes} bytes were asked for")]
    Capacity {
        /// The requested size.
        bytes: u64,
    },
    /// No zone fits beside the conventional pages.
    #[error("{bytes} bytes are too few for zones beside the pages that are rewritten in place; give a larger --size")]
    Zones {
        /// Bytes of the device.
        bytes: u64,
    },
    /// The request has more log blocks than the hybrid layer can have.
    #[error("{asked} log blocks were asked for; the spare blocks of {bytes} bytes allow {most}: --log-blocks {most}")]
    LogBlocks {
        /// Requested log blocks.
        asked: u32,
        /// Most log blocks possible.
        most: u32,
        /// Bytes of the device.
        bytes: u64,
    },
    /// A file or block device of the host could not be opened.
    #[error("{path}: {operation} failed: {message}; {cure}")]
    Host {
        /// File or block device.
        path: String,
        /// The attempted operation.
        operation: &'static str,
        /// The kind of failure.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
        /// What the user can do.
        cure: &'static str,
    },
    /// A file or block device of the host is in use: mounted, or open elsewhere.
    #[error("{path} is {by}; {cure}")]
    Busy {
        /// File or block device.
        path: String,
        /// The user, completing "it is …"; by name if known.
        by: String,
        /// What the user can do.
        cure: String,
    },
}

/// The error of an `operation` that the host refused.
pub(crate) fn refuse(path: &Path, operation: &'static str, error: &io::Error, cure: &'static str) -> Error {
    Error::Host { path: path.display().to_string(), operation, kind: error.kind(), message: error.to_string(), cure }
}
