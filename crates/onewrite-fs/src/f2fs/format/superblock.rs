//! Superblock: the 3072 bytes that say where everything else lies. Two copies: at byte 1024 of blocks 0 and 1.
//!
//! It is written by mkfs and by tools that resize, and hardly ever else.

use onewrite_block::crc32_le;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{FormatError, Place, Problem, expect_checksum};
use super::features::Features;

/// Byte of its block at which a copy begins.
pub const SUPERBLOCK_OFFSET: usize = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_SIZE: usize = 3072;
/// The number that marks a superblock, and the start value of most checksums.
pub const SUPERBLOCK_MAGIC: u32 = 0xf2f5_2010;
/// Bytes that the checksum covers: all before itself.
pub const CHECKSUM_OFFSET: usize = SUPERBLOCK_SIZE - 4;

/// One of several devices of an image.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDevice {
    /// Path, ended by a zero; empty for "no device".
    pub path: [u8; 64],
    /// Segments on it.
    pub total_segments: U32,
}

/// The superblock as it lies on disk; names of fields are those that `dump.f2fs` prints.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "docs/f2fs.md says what the fields mean")]
pub struct RawSuperblock {
    pub magic: U32,
    pub major_ver: U16,
    pub minor_ver: U16,
    pub log_sectorsize: U32,
    pub log_sectors_per_block: U32,
    pub log_blocksize: U32,
    pub log_blocks_per_seg: U32,
    pub segs_per_sec: U32,
    pub secs_per_zone: U32,
    pub checksum_offset: U32,
    pub block_count: U64,
    pub section_count: U32,
    pub segment_count: U32,
    pub segment_count_ckpt: U32,
    pub segment_count_sit: U32,
    pub segment_count_nat: U32,
    pub segment_count_ssa: U32,
    pub segment_count_main: U32,
    pub segment0_blkaddr: U32,
    pub cp_blkaddr: U32,
    pub sit_blkaddr: U32,
    pub nat_blkaddr: U32,
    pub ssa_blkaddr: U32,
    pub main_blkaddr: U32,
    pub root_ino: U32,
    pub node_ino: U32,
    pub meta_ino: U32,
    pub uuid: [u8; 16],
    pub volume_name: [U16; 512],
    pub extension_count: U32,
    pub extension_list: [[u8; 8]; 64],
    pub cp_payload: U32,
    pub version: [u8; 256],
    pub init_version: [u8; 256],
    pub feature: U32,
    pub encryption_level: u8,
    pub encrypt_pw_salt: [u8; 16],
    pub devices: [RawDevice; 8],
    pub quota_ino: [U32; 3],
    pub hot_ext_count: u8,
    pub encoding: U16,
    pub encoding_flags: U16,
    pub reserved: [u8; 306],
    pub crc: U32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);
    assert!(offset_of!(RawSuperblock, block_count) == 0x24);
    assert!(offset_of!(RawSuperblock, cp_blkaddr) == 0x4c);
    assert!(offset_of!(RawSuperblock, root_ino) == 0x60);
    assert!(offset_of!(RawSuperblock, uuid) == 0x6c);
    assert!(offset_of!(RawSuperblock, extension_count) == 0x47c);
    assert!(offset_of!(RawSuperblock, cp_payload) == 0x680);
    assert!(offset_of!(RawSuperblock, feature) == 0x884);
    assert!(offset_of!(RawSuperblock, devices) == 0x899);
    assert!(offset_of!(RawSuperblock, crc) == CHECKSUM_OFFSET);
};

impl RawSuperblock {
    /// Copy `copy` of the superblock, in its block. Checks magic number and, if there is one, the checksum.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] if one of these is wrong or the block is too short.
    pub fn in_block(block: &[u8], copy: u8) -> Result<RawSuperblock, FormatError> {
        let place = Place::Superblock(copy);
        let bytes = block.get(SUPERBLOCK_OFFSET..).unwrap_or_default();
        let Ok((raw, _)) = RawSuperblock::read_from_prefix(bytes) else {
            return Err(FormatError::field(place, "length", block.len() as u64, "a block has 4096 bytes"));
        };
        if raw.magic.get() != SUPERBLOCK_MAGIC {
            let problem = Problem::Magic { found: raw.magic.get(), expected: SUPERBLOCK_MAGIC };
            return Err(FormatError::new(place, problem));
        }
        if raw.features().contains(Features::SB_CHECKSUM) {
            if raw.checksum_offset.get() as usize != CHECKSUM_OFFSET {
                let value = raw.checksum_offset.get();
                return Err(FormatError::field(place, "checksum_offset", value, "must be 3068"));
            }
            expect_checksum(place, raw.crc.get(), raw.checksum())?;
        }
        Ok(raw)
    }

    /// The features.
    pub fn features(&self) -> Features {
        Features(self.feature.get())
    }

    /// The checksum of the content.
    pub fn checksum(&self) -> u32 {
        crc32_le(SUPERBLOCK_MAGIC, &self.as_bytes()[..CHECKSUM_OFFSET])
    }
}
