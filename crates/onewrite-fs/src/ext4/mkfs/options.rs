//! Options of a new file system, and why they are refused.

use onewrite_block::Choices;
use thiserror::Error;

use crate::ext4::format::FormatError;
use crate::ext4::format::features::{Compat, Features, Incompat, RoCompat};
use crate::uuid::random_uuid;

/// Options of a new file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of the device. Bytes behind the last whole block, or too few for a last group, stay unused.
    pub size_bytes: u64,
    /// Blocks of the journal. `None`: the default of `mke2fs` for the size ([`default_journal_blocks`]); `Some(0)`: no
    /// journal.
    pub journal_blocks: Option<u32>,
    /// Bytes of the device for each inode. `None`: the default of `mke2fs` for the size (4 KiB below 512 MiB, then 16
    /// KiB, 32 KiB from 4 TiB, 64 KiB from 16 TiB).
    pub inode_ratio: Option<u32>,
    /// Percentage of blocks that only the superuser may take, at most 50.
    pub reserved_percent: u8,
    /// Name of the volume, at most 16 bytes.
    pub label: String,
    /// Identity of the file system.
    pub uuid: [u8; 16],
    /// Seed of directory hashes.
    pub hash_seed: [u8; 16],
    /// Creation time, in seconds since 1970.
    pub unix_time: u32,
    /// User and group that own the root directory.
    pub root_owner: (u32, u32),
    /// Features, a subset of [`MkfsOptions::DEFAULT_FEATURES`]; `journal_blocks` decides about the journal's.
    pub features: Features,
    /// The device reads as zeros where nobody wrote, so inode tables and journal need no zeros written.
    pub device_is_zeroed: bool,
}

impl MkfsOptions {
    /// The features of a new file system. No others may be chosen, except uninit_bg without metadata_csum.
    pub const DEFAULT_FEATURES: Features = Features {
        compat: Compat::HAS_JOURNAL.with(Compat::EXT_ATTR).with(Compat::DIR_INDEX),
        incompat: Incompat::FILETYPE.with(Incompat::EXTENTS).with(Incompat::BITS_64).with(Incompat::FLEX_BG),
        ro_compat: RoCompat::SPARSE_SUPER
            .with(RoCompat::LARGE_FILE)
            .with(RoCompat::HUGE_FILE)
            .with(RoCompat::DIR_NLINK)
            .with(RoCompat::EXTRA_ISIZE)
            .with(RoCompat::METADATA_CSUM),
    };

    /// The defaults for a device of `size_bytes`. `choices` gives UUID and hash seed.
    pub fn new(size_bytes: u64, choices: &mut Choices) -> MkfsOptions {
        MkfsOptions {
            size_bytes,
            journal_blocks: None,
            inode_ratio: None,
            reserved_percent: 5,
            label: String::new(),
            uuid: random_uuid(choices),
            hash_seed: random_uuid(choices),
            unix_time: 0,
            root_owner: (0, 0),
            features: MkfsOptions::DEFAULT_FEATURES,
            device_is_zeroed: false,
        }
    }
}

/// Why a file system cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MkfsError {
    /// The device does not hold the smallest file system with these options.
    #[error("{size_bytes} bytes are too few: {needed_blocks} blocks of 4096 bytes are needed at least{cure}")]
    TooSmall {
        /// Bytes of the device.
        size_bytes: u64,
        /// Blocks needed.
        needed_blocks: u64,
        /// Advice for the user; may be empty.
        cure: &'static str,
    },
    /// The journal is too small for jbd2, or too fragmented.
    #[error("a journal of {blocks} blocks is refused: {rule}")]
    Journal {
        /// Blocks asked for.
        blocks: u32,
        /// The rule that they break.
        rule: &'static str,
    },
    /// An option has a forbidden value.
    #[error("{option} is {value}: {rule}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// mkfs does not support these features.
    #[error("cannot make a file system with the features {features}")]
    Features {
        /// Their names.
        features: String,
    },
    /// The numbers contradict each other.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Journal size of `mke2fs` for a file system of `block_count` blocks of 4 KiB, in blocks; 0 (no journal) below 8 MiB.
pub fn default_journal_blocks(block_count: u64) -> u32 {
    match block_count {
        0..2_048 => 0,
        2_048..32_768 => 1_024,
        32_768..262_144 => 4_096,
        262_144..524_288 => 8_192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}
