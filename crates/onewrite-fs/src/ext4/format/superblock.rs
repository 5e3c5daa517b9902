//! Superblock: the 1024 bytes that say where everything else lies.
//!
//! [`RawSuperblock`] is the record as it lies on disk, at byte 1024 of the image and at the start of each backup. Code
//! changes it in place and writes it whole. The rest of the code reads [`Layout`](super::Layout).
//!
//! Source: `filesystems/ext4/super.rst` of the Linux documentation.

use onewrite_block::crc32c;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::{FormatError, Place, Problem, expect_checksum};
use super::features::{Compat, Features, Incompat, RoCompat};

/// Byte of the image at which the primary superblock begins.
pub const SUPERBLOCK_OFFSET: usize = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_SIZE: usize = 1024;
/// The number that marks a superblock.
pub const SUPERBLOCK_MAGIC: u16 = 0xef53;
/// `state`: cleanly unmounted.
pub const STATE_CLEAN: u16 = 1;
/// `state`: errors were seen.
pub const STATE_ERRORS: u16 = 2;
/// `flags`: directory hashes take bytes as signed.
pub const FLAG_SIGNED_HASH: u32 = 1;
/// `flags`: directory hashes take bytes as unsigned.
pub const FLAG_UNSIGNED_HASH: u32 = 2;
/// `checksum_type`: CRC32C, the only type.
pub const CHECKSUM_CRC32C: u8 = 1;

/// The superblock as it lies on disk. Field names are those of the specification without their `s_`.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the specification documents each field under the same name")]
pub struct RawSuperblock {
    pub inodes_count: U32,
    pub blocks_count_lo: U32,
    pub r_blocks_count_lo: U32,
    pub free_blocks_count_lo: U32,
    pub free_inodes_count: U32,
    pub first_data_block: U32,
    pub log_block_size: U32,
    pub log_cluster_size: U32,
    pub blocks_per_group: U32,
    pub clusters_per_group: U32,
    pub inodes_per_group: U32,
    pub mtime: U32,
    pub wtime: U32,
    pub mnt_count: U16,
    pub max_mnt_count: U16,
    pub magic: U16,
    pub state: U16,
    pub errors: U16,
    pub minor_rev_level: U16,
    pub lastcheck: U32,
    pub checkinterval: U32,
    pub creator_os: U32,
    pub rev_level: U32,
    pub def_resuid: U16,
    pub def_resgid: U16,
    pub first_ino: U32,
    pub inode_size: U16,
    pub block_group_nr: U16,
    pub feature_compat: U32,
    pub feature_incompat: U32,
    pub feature_ro_compat: U32,
    pub uuid: [u8; 16],
    pub volume_name: [u8; 16],
    pub last_mounted: [u8; 64],
    pub algorithm_usage_bitmap: U32,
    pub prealloc_blocks: u8,
    pub prealloc_dir_blocks: u8,
    pub reserved_gdt_blocks: U16,
    pub journal_uuid: [u8; 16],
    pub journal_inum: U32,
    pub journal_dev: U32,
    pub last_orphan: U32,
    pub hash_seed: [U32; 4],
    pub def_hash_version: u8,
    pub jnl_backup_type: u8,
    pub desc_size: U16,
    pub default_mount_opts: U32,
    pub first_meta_bg: U32,
    pub mkfs_time: U32,
    pub jnl_blocks: [U32; 17],
    pub blocks_count_hi: U32,
    pub r_blocks_count_hi: U32,
    pub free_blocks_count_hi: U32,
    pub min_extra_isize: U16,
    pub want_extra_isize: U16,
    pub flags: U32,
    pub raid_stride: U16,
    pub mmp_interval: U16,
    pub mmp_block: U64,
    pub raid_stripe_width: U32,
    pub log_groups_per_flex: u8,
    pub checksum_type: u8,
    pub reserved_pad: U16,
    pub kbytes_written: U64,
    pub snapshot_inum: U32,
    pub snapshot_id: U32,
    pub snapshot_r_blocks_count: U64,
    pub snapshot_list: U32,
    pub error_count: U32,
    pub first_error_time: U32,
    pub first_error_ino: U32,
    pub first_error_block: U64,
    pub first_error_func: [u8; 32],
    pub first_error_line: U32,
    pub last_error_time: U32,
    pub last_error_ino: U32,
    pub last_error_line: U32,
    pub last_error_block: U64,
    pub last_error_func: [u8; 32],
    pub mount_opts: [u8; 64],
    pub usr_quota_inum: U32,
    pub grp_quota_inum: U32,
    pub overhead_blocks: U32,
    pub backup_bgs: [U32; 2],
    pub encrypt_algos: [u8; 4],
    pub encrypt_pw_salt: [u8; 16],
    pub lpf_ino: U32,
    pub prj_quota_inum: U32,
    pub checksum_seed: U32,
    pub wtime_hi: u8,
    pub mtime_hi: u8,
    pub mkfs_time_hi: u8,
    pub lastcheck_hi: u8,
    pub first_error_time_hi: u8,
    pub last_error_time_hi: u8,
    pub pad: [u8; 2],
    pub encoding: U16,
    pub encoding_flags: U16,
    pub orphan_file_inum: U32,
    pub reserved: [U32; 94],
    pub checksum: U32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);
    assert!(offset_of!(RawSuperblock, magic) == 0x38);
    assert!(offset_of!(RawSuperblock, first_ino) == 0x54);
    assert!(offset_of!(RawSuperblock, uuid) == 0x68);
    assert!(offset_of!(RawSuperblock, reserved_gdt_blocks) == 0xce);
    assert!(offset_of!(RawSuperblock, hash_seed) == 0xec);
    assert!(offset_of!(RawSuperblock, desc_size) == 0xfe);
    assert!(offset_of!(RawSuperblock, jnl_blocks) == 0x10c);
    assert!(offset_of!(RawSuperblock, blocks_count_hi) == 0x150);
    assert!(offset_of!(RawSuperblock, log_groups_per_flex) == 0x174);
    assert!(offset_of!(RawSuperblock, error_count) == 0x194);
    assert!(offset_of!(RawSuperblock, mount_opts) == 0x200);
    assert!(offset_of!(RawSuperblock, backup_bgs) == 0x24c);
    assert!(offset_of!(RawSuperblock, checksum_seed) == 0x270);
    assert!(offset_of!(RawSuperblock, orphan_file_inum) == 0x280);
    assert!(offset_of!(RawSuperblock, checksum) == 0x3fc);
};

impl RawSuperblock {
    /// The primary superblock in block 0 of an image (its first 2048 bytes suffice).
    ///
    /// # Errors
    /// If there are too few bytes or the magic number is wrong. Checks nothing else.
    pub fn in_first_block(block: &[u8]) -> Result<&RawSuperblock, FormatError> {
        let rest = block.get(SUPERBLOCK_OFFSET..).unwrap_or_default();
        RawSuperblock::from_prefix(rest, Place::Superblock)
    }

    /// The superblock at the start of `bytes`, where a backup has it.
    ///
    /// # Errors
    /// As [`RawSuperblock::in_first_block`].
    pub fn from_prefix(bytes: &[u8], place: Place) -> Result<&RawSuperblock, FormatError> {
        let Ok((raw, _)) = RawSuperblock::ref_from_prefix(bytes) else {
            let problem = Problem::Short { length: bytes.len(), needed: SUPERBLOCK_SIZE };
            return Err(FormatError::new("superblock", place, problem));
        };
        if raw.magic.get() != SUPERBLOCK_MAGIC {
            let problem = Problem::Magic { found: raw.magic.get().into(), expected: SUPERBLOCK_MAGIC.into() };
            return Err(FormatError::new("superblock", place, problem));
        }
        Ok(raw)
    }

    /// The feature sets.
    pub fn features(&self) -> Features {
        Features {
            compat: Compat(self.feature_compat.get()),
            incompat: Incompat(self.feature_incompat.get()),
            ro_compat: RoCompat(self.feature_ro_compat.get()),
        }
    }

    /// Replaces the feature sets.
    pub fn set_features(&mut self, features: Features) {
        self.feature_compat.set(features.compat.0);
        self.feature_incompat.set(features.incompat.0);
        self.feature_ro_compat.set(features.ro_compat.0);
    }

    /// Blocks of the file system.
    pub fn block_count(&self) -> u64 {
        self.join(self.blocks_count_lo, self.blocks_count_hi)
    }

    /// Sets the number of blocks.
    pub fn set_block_count(&mut self, count: u64) {
        (self.blocks_count_lo, self.blocks_count_hi) = split(count);
    }

    /// Blocks that only the superuser may take.
    pub fn reserved_blocks(&self) -> u64 {
        self.join(self.r_blocks_count_lo, self.r_blocks_count_hi)
    }

    /// Sets the number of blocks that only the superuser may take.
    pub fn set_reserved_blocks(&mut self, count: u64) {
        (self.r_blocks_count_lo, self.r_blocks_count_hi) = split(count);
    }

    /// Free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.join(self.free_blocks_count_lo, self.free_blocks_count_hi)
    }

    /// Sets the number of free blocks.
    pub fn set_free_blocks(&mut self, count: u64) {
        (self.free_blocks_count_lo, self.free_blocks_count_hi) = split(count);
    }

    /// Stores a copy of the journal inode's map and its size in bytes, for repair.
    pub(crate) fn keep_journal(&mut self, journal_map: &[u8; 60], journal_size: u64) {
        let (map, size) = self.jnl_blocks.as_mut_bytes().split_at_mut(60);
        map.copy_from_slice(journal_map);
        size[..4].copy_from_slice(&((journal_size >> 32) as u32).to_le_bytes());
        size[4..].copy_from_slice(&(journal_size as u32).to_le_bytes());
        self.jnl_backup_type = 1;
    }

    /// The checksum of the record.
    pub fn computed_checksum(&self) -> u32 {
        crc32c(!0, &self.as_bytes()[..SUPERBLOCK_SIZE - 4])
    }

    /// Stores the checksum, if the file system has checksums. Call it after the last change.
    pub fn set_checksum(&mut self) {
        if self.features().metadata_csum() {
            self.checksum.set(self.computed_checksum());
        }
    }

    /// Compares the checksum, if the file system has checksums.
    ///
    /// # Errors
    /// If it disagrees.
    pub fn verify_checksum(&self, place: Place) -> Result<(), FormatError> {
        match self.features().metadata_csum() {
            true => expect_checksum("superblock", place, self.checksum.get(), self.computed_checksum()),
            false => Ok(()),
        }
    }

    fn join(&self, low: U32, high: U32) -> u64 {
        let wide = self.features().incompat.contains(Incompat::BITS_64);
        u64::from(low.get()) | if wide { u64::from(high.get()) << 32 } else { 0 }
    }
}

fn split(count: u64) -> (U32, U32) {
    (U32::new(count as u32), U32::new((count >> 32) as u32))
}
