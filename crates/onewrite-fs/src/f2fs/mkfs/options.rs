//! Options of a new file system, and why they are refused.

use onewrite_block::{Choices, Zones};
use thiserror::Error;

use crate::f2fs::format::Features;
use crate::uuid::random_uuid;

/// Smallest image, in bytes.
pub const SIZE_MIN: u64 = 64 << 20;
/// Largest image, in bytes: addresses have 32 bits.
pub const SIZE_MAX: u64 = 16 << 40;
/// Most UTF-16 words of a label.
pub const LABEL_MAX: usize = 511;

/// Options of a new file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of the device. Bytes behind the last whole segment stay unused.
    pub size_bytes: u64,
    /// Bytes at the end of the device for a staging area; 0 for none. The image takes the rest.
    pub stage_bytes: u64,
    /// Zones of the device, if it has some: the main area lies on them, and a section is a zone.
    pub zones: Option<Zones>,
    /// Name of the volume, at most [`LABEL_MAX`] words of UTF-16.
    pub label: String,
    /// Identity of the file system.
    pub uuid: [u8; 16],
    /// Version of the first checkpoint, not 0. It differs from that of what the device held before, so no node of that
    /// is taken for one of this file system.
    pub checkpoint_version: u32,
    /// Creation time, in seconds since 1970.
    pub unix_time: u32,
    /// User and group that own the root directory.
    pub root_owner: (u32, u32),
    /// The device reads as zeros where nobody wrote, so SIT and NAT need no zeros written.
    pub device_is_zeroed: bool,
}

impl MkfsOptions {
    /// The features of a new file system.
    pub const FEATURES: Features = Features(
        Features::EXTRA_ATTR.0 | Features::INODE_CHECKSUM.0 | Features::INODE_CRTIME.0 | Features::SB_CHECKSUM.0,
    );

    /// The defaults for a device of `size_bytes`. `choices` gives UUID and version.
    pub fn new(size_bytes: u64, choices: &mut Choices) -> MkfsOptions {
        MkfsOptions {
            size_bytes,
            stage_bytes: 0,
            zones: None,
            label: String::new(),
            uuid: random_uuid(choices),
            checkpoint_version: choices.bits() as u32 >> 1 | 1,
            unix_time: 0,
            root_owner: (0, 0),
            device_is_zeroed: false,
        }
    }
}

/// Why a file system cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MkfsError {
    /// The device is too small or too large.
    #[error("F2FS takes 64 MiB to 16 TiB, not {size_bytes} bytes; give another --size")]
    Size {
        /// Bytes of the device.
        size_bytes: u64,
    },
    /// The staging area is too small.
    #[error("a staging area takes at least 256 KiB, not {stage_bytes} bytes")]
    Stage {
        /// Bytes for it.
        stage_bytes: u64,
    },
    /// The staging area leaves too little.
    #[error(
        "a staging area of {stage_bytes} bytes leaves less than the 64 MiB that F2FS takes of {size_bytes}; give a \
         smaller --stage or a larger --size"
    )]
    StageTooLarge {
        /// Bytes for the staging area.
        stage_bytes: u64,
        /// Bytes of the device.
        size_bytes: u64,
    },
    /// The zones do not suit it.
    #[error(
        "zones of {zone_pages} blocks from {first} on; F2FS takes multiples of 512 behind {needed}; give more --size"
    )]
    Zones {
        /// Blocks of a zone.
        zone_pages: u64,
        /// First block of the zones.
        first: u64,
        /// Blocks before the main area.
        needed: u64,
    },
    /// The zones are too few.
    #[error(
        "{zones} zones; F2FS takes at least {least}: one for each log, and some to clean; give a larger --size, or a \
         smaller --stage if there is one"
    )]
    FewZones {
        /// Number of zones.
        zones: u64,
        /// Fewest that it takes.
        least: u64,
    },
    /// The label is too long.
    #[error("a label of {words} words of UTF-16; F2FS keeps 511")]
    Label {
        /// Words of the label.
        words: usize,
    },
}
