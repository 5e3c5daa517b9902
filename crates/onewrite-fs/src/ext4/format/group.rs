//! Group descriptor: where a group's bitmaps and inode table lie, and how much of the group is free.
//!
//! One type serves both sizes on disk. Reading a short descriptor (32 bytes) fills the rest of the long record with
//! zeros; writing it stores only the 32 bytes. Counts fit 16 bits: only a group with exactly 2^16 blocks or inodes
//! would need more, and with blocks of 4 KiB there is none.
//!
//! Source: `filesystems/ext4/group_descr.rst`, `bitmaps.rst` of the Linux documentation.

use std::ops::Range;

use onewrite_block::{crc32c, crc32c_changed};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::crc16::crc16;
use super::error::{FormatError, Place, Problem, expect_checksum};
use super::features::RoCompat;
use super::layout::Layout;
use crate::block::{BlockNo, BlockRange};

/// `flags`: nobody has written the inode bitmap and inode table yet.
pub const INODE_UNINIT: u16 = 1;
/// `flags`: nobody has written the block bitmap yet; it follows from the layout.
pub const BLOCK_UNINIT: u16 = 2;
/// `flags`: the unused part of the inode table is zeros.
pub const INODE_ZEROED: u16 = 4;

const CHECKSUM_OFFSET: usize = 0x1e;

/// A group descriptor as it lies on disk. Field names are those of the specification without their `bg_`.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the specification documents each field under the same name")]
pub struct RawGroupDescriptor {
    pub block_bitmap_lo: U32,
    pub inode_bitmap_lo: U32,
    pub inode_table_lo: U32,
    pub free_blocks_count_lo: U16,
    pub free_inodes_count_lo: U16,
    pub used_dirs_count_lo: U16,
    pub flags: U16,
    pub exclude_bitmap_lo: U32,
    pub block_bitmap_csum_lo: U16,
    pub inode_bitmap_csum_lo: U16,
    pub itable_unused_lo: U16,
    pub checksum: U16,
    pub block_bitmap_hi: U32,
    pub inode_bitmap_hi: U32,
    pub inode_table_hi: U32,
    pub free_blocks_count_hi: U16,
    pub free_inodes_count_hi: U16,
    pub used_dirs_count_hi: U16,
    pub itable_unused_hi: U16,
    pub exclude_bitmap_hi: U32,
    pub block_bitmap_csum_hi: U16,
    pub inode_bitmap_csum_hi: U16,
    pub reserved: U32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<RawGroupDescriptor>() == 64);
    assert!(offset_of!(RawGroupDescriptor, flags) == 0x12);
    assert!(offset_of!(RawGroupDescriptor, checksum) == CHECKSUM_OFFSET);
    assert!(offset_of!(RawGroupDescriptor, block_bitmap_hi) == 0x20);
    assert!(offset_of!(RawGroupDescriptor, inode_bitmap_csum_hi) == 0x3a);
};

macro_rules! joined {
    ($(#[$get_meta:meta])* $get:ident, $set:ident, $value:ty, $half:ty, $bits:expr, $low:ident, $high:ident) => {
        $(#[$get_meta])*
        pub fn $get(&self) -> $value {
            <$value>::from(self.$low.get()) | <$value>::from(self.$high.get()) << $bits
        }

        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] gives.")]
        pub fn $set(&mut self, value: $value) {
            self.$low.set(value as $half);
            self.$high.set((value >> $bits) as $half);
        }
    };
}

macro_rules! block_number {
    ($(#[$get_meta:meta])* $get:ident, $set:ident, $low:ident, $high:ident) => {
        $(#[$get_meta])*
        pub fn $get(&self) -> BlockNo {
            BlockNo(u64::from(self.$low.get()) | u64::from(self.$high.get()) << 32)
        }

        #[doc = concat!("Sets what [`Self::", stringify!($get), "`] gives.")]
        pub fn $set(&mut self, block: BlockNo) {
            self.$low.set(block.0 as u32);
            self.$high.set((block.0 >> 32) as u32);
        }
    };
}

impl RawGroupDescriptor {
    block_number! {
        /// Block of the block bitmap.
        block_bitmap, set_block_bitmap, block_bitmap_lo, block_bitmap_hi
    }
    block_number! {
        /// Block of the inode bitmap.
        inode_bitmap, set_inode_bitmap, inode_bitmap_lo, inode_bitmap_hi
    }
    block_number! {
        /// First block of the inode table.
        inode_table, set_inode_table, inode_table_lo, inode_table_hi
    }
    joined! {
        /// Free blocks in the group.
        free_blocks, set_free_blocks, u32, u16, 16, free_blocks_count_lo, free_blocks_count_hi
    }
    joined! {
        /// Free inodes in the group.
        free_inodes, set_free_inodes, u32, u16, 16, free_inodes_count_lo, free_inodes_count_hi
    }
    joined! {
        /// Directories among the group's inodes.
        used_directories, set_used_directories, u32, u16, 16, used_dirs_count_lo, used_dirs_count_hi
    }
    joined! {
        /// Inodes at the end of the table that were never used; counts only with descriptor checksums.
        unused_inodes, set_unused_inodes, u32, u16, 16, itable_unused_lo, itable_unused_hi
    }
    joined! {
        /// Stored checksum of the block bitmap.
        block_bitmap_checksum, set_block_bitmap_checksum, u32, u16, 16, block_bitmap_csum_lo, block_bitmap_csum_hi
    }
    joined! {
        /// Stored checksum of the inode bitmap.
        inode_bitmap_checksum, set_inode_bitmap_checksum, u32, u16, 16, inode_bitmap_csum_lo, inode_bitmap_csum_hi
    }

    /// The group's block bitmap, inode bitmap and inode table.
    pub fn metadata(&self, layout: &Layout) -> [BlockRange; 3] {
        let table = self.inode_table().run(layout.inode_table_blocks().into());
        [self.block_bitmap().alone(), self.inode_bitmap().alone(), table]
    }

    /// Reads the descriptor at the start of `bytes`.
    ///
    /// # Errors
    /// If there are fewer bytes than a descriptor has.
    pub fn read(bytes: &[u8], group: u32, layout: &Layout) -> Result<RawGroupDescriptor, FormatError> {
        let size = usize::from(layout.descriptor_size).min(64);
        let mut raw = RawGroupDescriptor::new_zeroed();
        match bytes.get(..size) {
            Some(bytes) => raw.as_mut_bytes()[..size].copy_from_slice(bytes),
            None => {
                let problem = Problem::Short { length: bytes.len(), needed: size };
                return Err(FormatError::new("group descriptor", Place::Group(group), problem));
            }
        }
        Ok(raw)
    }

    /// Writes the descriptor, with its checksum, to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than a descriptor.
    pub fn write(&mut self, bytes: &mut [u8], group: u32, layout: &Layout) {
        self.set_checksum(group, layout);
        let size = usize::from(layout.descriptor_size);
        bytes[..size].copy_from_slice(&self.as_bytes()[..size]);
    }

    /// Whether `flag` is set. Without descriptor checksums the flags mean nothing and none is set.
    pub fn has(&self, flag: u16, layout: &Layout) -> bool {
        layout.features.group_checksums() && self.flags.get() & flag != 0
    }

    /// Inodes from the start of the table that may be in use. The rest was never used and may hold anything.
    pub fn scanned_inodes(&self, layout: &Layout) -> u32 {
        match layout.features.group_checksums() {
            false => layout.inodes_per_group,
            true if self.has(INODE_UNINIT, layout) => 0,
            true => layout.inodes_per_group.saturating_sub(self.unused_inodes()),
        }
    }

    /// The checksum of the descriptor of `group`; 0 in an image without descriptor checksums.
    pub fn computed_checksum(&self, group: u32, layout: &Layout) -> u16 {
        let length = usize::from(layout.descriptor_size);
        if layout.features.metadata_csum() {
            let cleared = RawGroupDescriptor { checksum: U16::ZERO, ..self.clone() };
            crc32c(crc32c(layout.checksum_seed, &group.to_le_bytes()), &cleared.as_bytes()[..length]) as u16
        } else if layout.features.ro_compat.contains(RoCompat::GDT_CSUM) {
            let (before, after) = self.as_bytes()[..length].split_at(CHECKSUM_OFFSET);
            let after = &after[size_of::<U16>()..];
            crc16(crc16(crc16(crc16(!0, &layout.uuid), &group.to_le_bytes()), before), after)
        } else {
            0
        }
    }

    /// Stores the checksum. Call it after the last change.
    pub fn set_checksum(&mut self, group: u32, layout: &Layout) {
        self.checksum.set(self.computed_checksum(group, layout));
    }

    /// Compares the checksum, if the file system has descriptor checksums.
    ///
    /// # Errors
    /// If it disagrees.
    pub fn verify_checksum(&self, group: u32, layout: &Layout) -> Result<(), FormatError> {
        if !layout.features.group_checksums() {
            return Ok(());
        }
        let (found, expected) = (self.checksum.get(), self.computed_checksum(group, layout));
        expect_checksum("group descriptor", Place::Group(group), found.into(), expected.into())
    }

    /// Stores the checksum of the block bitmap `bitmap` (a whole block).
    pub fn update_block_bitmap_checksum(&mut self, bitmap: &[u8], layout: &Layout) {
        if layout.features.metadata_csum() {
            self.set_block_bitmap_checksum(bitmap_checksum(bitmap, layout.blocks_per_group, layout));
        }
    }

    /// Stores the checksum of the inode bitmap `bitmap` (a whole block).
    pub fn update_inode_bitmap_checksum(&mut self, bitmap: &[u8], layout: &Layout) {
        if layout.features.metadata_csum() {
            self.set_inode_bitmap_checksum(bitmap_checksum(bitmap, layout.inodes_per_group, layout));
        }
    }

    /// Stores the checksum of the block bitmap `bitmap` (a whole block), of which the bits `flipped` have just changed,
    /// each of them. The stored checksum has to be the one of the bitmap before.
    pub fn flip_in_block_bitmap_checksum(&mut self, bitmap: &[u8], flipped: Range<u32>, layout: &Layout) {
        match flipped_sum(&flipped, layout.blocks_per_group) {
            Some(sum) if layout.features.metadata_csum() && !self.has(BLOCK_UNINIT, layout) => {
                self.set_block_bitmap_checksum(self.block_bitmap_checksum() ^ (sum & stored_bits(layout)));
            }
            _ => self.update_block_bitmap_checksum(bitmap, layout),
        }
    }

    /// Stores the checksum of the inode bitmap `bitmap` (a whole block), of which the bit `flipped` has just changed.
    /// The stored checksum has to be the one of the bitmap before.
    pub fn flip_in_inode_bitmap_checksum(&mut self, bitmap: &[u8], flipped: u32, layout: &Layout) {
        match flipped_sum(&(flipped..flipped + 1), layout.inodes_per_group) {
            Some(sum) if layout.features.metadata_csum() && !self.has(INODE_UNINIT, layout) => {
                self.set_inode_bitmap_checksum(self.inode_bitmap_checksum() ^ (sum & stored_bits(layout)));
            }
            _ => self.update_inode_bitmap_checksum(bitmap, layout),
        }
    }

    /// Compares the checksum of the block bitmap `bitmap` (a whole block).
    ///
    /// # Errors
    /// If it disagrees.
    pub fn verify_block_bitmap(&self, bitmap: &[u8], group: u32, layout: &Layout) -> Result<(), FormatError> {
        let expected = bitmap_checksum(bitmap, layout.blocks_per_group, layout);
        verify_bitmap("block bitmap", self.block_bitmap_checksum(), expected, group, layout)
    }

    /// Compares the checksum of the inode bitmap `bitmap` (a whole block).
    ///
    /// # Errors
    /// If it disagrees.
    pub fn verify_inode_bitmap(&self, bitmap: &[u8], group: u32, layout: &Layout) -> Result<(), FormatError> {
        let expected = bitmap_checksum(bitmap, layout.inodes_per_group, layout);
        verify_bitmap("inode bitmap", self.inode_bitmap_checksum(), expected, group, layout)
    }
}

/// The checksum as far as a descriptor stores it.
fn bitmap_checksum(bitmap: &[u8], bits: u32, layout: &Layout) -> u32 {
    crc32c(layout.checksum_seed, &bitmap[..bits as usize / 8]) & stored_bits(layout)
}

/// The bits of a checksum that a descriptor stores: one of 32 bytes has no upper half.
fn stored_bits(layout: &Layout) -> u32 {
    if layout.descriptor_size == 32 { 0xffff } else { !0 }
}

/// What the checksum of a bitmap of `bits` bits changes by when the bits `flipped` do; `None` if they are so many that
/// the whole bitmap is summed as fast.
fn flipped_sum(flipped: &Range<u32>, bits: u32) -> Option<u32> {
    const MOST: usize = 8;
    let first = flipped.start / 8;
    let mut changed = [0; MOST + 1];
    if flipped.len() > MOST * 8 {
        return None;
    }
    flipped.clone().for_each(|bit| changed[(bit / 8 - first) as usize] |= 1 << (bit % 8));
    let length = flipped.end.div_ceil(8) - first;
    Some(crc32c_changed(0, &changed[..length as usize], (bits / 8 - first - length) as usize))
}

fn verify_bitmap(
    structure: &'static str,
    found: u32,
    expected: u32,
    group: u32,
    layout: &Layout,
) -> Result<(), FormatError> {
    match layout.features.metadata_csum() {
        true => expect_checksum(structure, Place::Group(group), found, expected),
        false => Ok(()),
    }
}
