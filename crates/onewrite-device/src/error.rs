//! What can go wrong before a device exists; a device that exists answers with `DeviceError`.

use thiserror::Error;

/// Why a profile or a device could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no such profile.
    #[error("there is no device profile {name:?}; known are {known}")]
    UnknownProfile {
        /// The name asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The text of a profile is not one.
    #[error("device profile {name:?}: {message}")]
    Profile {
        /// The profile.
        name: String,
        /// What is wrong, and where.
        message: String,
    },
    /// No flash of that size can be laid out.
    #[error("an emulated SSD takes whole pages of 4 KiB, from 4 MiB to 4 TiB; {bytes} bytes were asked for")]
    Capacity {
        /// The size asked for.
        bytes: u64,
    },
    /// More log blocks than a hybrid layer has room for.
    #[error("{asked} log blocks were asked for; the spare blocks of {bytes} bytes allow {most}: --log-blocks {most}")]
    LogBlocks {
        /// So many were asked for.
        asked: u32,
        /// So many can be.
        most: u32,
        /// Bytes of the device.
        bytes: u64,
    },
    /// A file or block device of the host could not be opened.
    #[error("{path}: {operation} failed: {message}; {cure}")]
    Host {
        /// File or block device.
        path: String,
        /// What was tried.
        operation: &'static str,
        /// What kind of failure it was.
        kind: std::io::ErrorKind,
        /// The system's words.
        message: String,
        /// What to do about it.
        cure: &'static str,
    },
    /// A file or block device of the host is in use: mounted, or open elsewhere.
    #[error("{path} is {by}; {cure}")]
    Busy {
        /// File or block device.
        path: String,
        /// As in "it is …": who uses it, by name where that can be told.
        by: String,
        /// What to do about it.
        cure: String,
    },
}
