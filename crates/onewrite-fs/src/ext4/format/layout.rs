//! Layout: the superblock's unchanging numbers, checked once and decoded for fast use.
//!
//! Invariant: the numbers of a `Layout` agree with each other, so no computation with them overflows or divides by
//! zero. [`Layout::decode`] accepts images that Onewrite can mount or check; [`Layout::decode_to_read`] accepts all
//! that ext2, ext3 and ext4 ever wrote.

use onewrite_block::{PAGE_SIZE, crc32c};

use super::directory::{HashVersion, HashedBytes};
use super::error::{FormatError, Place};
use super::features::{Compat, Features, Incompat, RoCompat};
use super::inode_no::InodeNo;
use super::superblock::{CHECKSUM_CRC32C, RawSuperblock, SUPERBLOCK_OFFSET};
use crate::block::BlockNo;

/// Number of the root directory's inode.
pub const ROOT_INODE: InodeNo = InodeNo(2);
/// Number of the inode that reserves blocks for the descriptors of future groups.
pub const RESIZE_INODE: InodeNo = InodeNo(7);
/// Number that the journal's inode has by custom.
pub const JOURNAL_INODE: InodeNo = InodeNo(8);
/// First inode number that is not reserved, by custom.
pub const FIRST_INODE: InodeNo = InodeNo(11);
/// Bytes of the part of an inode that every image has.
pub(super) const BASE_INODE_SIZE: u16 = 128;

/// Most copies of one descriptor that are worth a look.
const BACKUPS_MAX: usize = 8;

/// The unchanging numbers of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The feature sets at the time of decoding; only the recovery bit changes while mounted.
    pub features: Features,
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks in the image.
    pub block_count: u64,
    /// Inodes in the image.
    pub inode_count: u32,
    /// Block groups.
    pub group_count: u32,
    /// Blocks that one bit of a block bitmap stands for; 1 without bigalloc.
    pub cluster_blocks: u32,
    /// First descriptor block that lies with the groups that it describes. All blocks before it lie together; without
    /// meta_bg, all blocks do.
    pub first_meta_group: u32,
    /// Blocks in every group but the last.
    pub blocks_per_group: u32,
    /// Inodes in every group.
    pub inodes_per_group: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Bytes of `extra_isize` that a new inode gets.
    pub new_extra_isize: u16,
    /// Bytes of a group descriptor: 32 or 64.
    pub descriptor_size: u16,
    /// First block of group 0.
    pub first_data_block: u32,
    /// First inode number that is not reserved.
    pub first_inode: InodeNo,
    /// Blocks reserved behind the descriptors in groups with a superblock.
    pub reserved_descriptor_blocks: u16,
    /// Number of groups whose bitmaps and inode tables lie together; 1 without flex_bg.
    pub flex_group_size: u32,
    /// The initial register of every metadata checksum.
    pub checksum_seed: u32,
    /// Identity of the file system.
    pub uuid: [u8; 16],
    /// Seed of directory hashes.
    pub hash_seed: [u32; 4],
    /// Hash of new directories, with its signedness.
    pub hash_version: HashVersion,
    /// Inode of the journal; [`InodeNo::NONE`] without one, or with one on another device.
    pub journal_inode: InodeNo,
    backup_groups: Backups,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    Everywhere,
    Sparse,
    Two([u32; 2]),
}

/// Where an inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodePosition {
    /// Its group.
    pub group: u32,
    /// Its number within the group, from 0: its bit in the inode bitmap.
    pub index: u32,
    /// Blocks from the start of the group's inode table.
    pub table_block: u32,
    /// Bytes from the start of that block.
    pub offset: usize,
}

impl Layout {
    /// Decodes a superblock to mount or check the image. Verifies checksum, features and numbers.
    ///
    /// # Errors
    /// The first thing that is wrong; [`FormatError::Unsupported`] for incompatible features and for blocks of another
    /// size than 4 KiB. [`Features::check_writable`] says whether the image may be written.
    pub fn decode(raw: &RawSuperblock) -> Result<Layout, FormatError> {
        raw.features().check_readable()?;
        raw.verify_checksum(Place::Superblock)?;
        check_sizes(raw)?;
        check_groups(raw)?;
        check_inodes(raw)?;
        check_rest(raw)?;
        Ok(Layout::from_checked(raw))
    }

    /// Decodes a superblock of any ext2, ext3 or ext4 with blocks of 1 to 64 KiB, to read the image only. The caller
    /// verifies the checksum.
    ///
    /// # Errors
    /// Numbers that contradict each other; [`FormatError::Unsupported`] for features without which nothing can be read.
    pub(crate) fn decode_to_read(raw: &RawSuperblock) -> Result<Layout, FormatError> {
        let dynamic;
        let raw = match raw.rev_level.get() {
            0 => {
                dynamic = with_fields_of_revision_0(raw);
                &dynamic
            }
            _ => raw,
        };
        raw.features().check_viewable()?;
        check_sizes_to_read(raw)?;
        check_groups(raw)?;
        check_inodes(raw)?;
        check_journal(raw)?;
        Ok(Layout::from_checked(raw))
    }

    fn from_checked(raw: &RawSuperblock) -> Layout {
        let features = raw.features();
        let flex = features.incompat.contains(Incompat::FLEX_BG);
        let has_journal = features.compat.contains(Compat::HAS_JOURNAL) && raw.journal_dev.get() == 0;
        Layout {
            features,
            block_size: 1024 << raw.log_block_size.get(),
            block_count: raw.block_count(),
            inode_count: raw.inodes_count.get(),
            group_count: group_count(raw) as u32,
            cluster_blocks: cluster_blocks(raw),
            first_meta_group: if features.incompat.contains(Incompat::META_BG) { raw.first_meta_bg.get() } else { !0 },
            blocks_per_group: raw.blocks_per_group.get(),
            inodes_per_group: raw.inodes_per_group.get(),
            inode_size: raw.inode_size.get(),
            new_extra_isize: new_extra_isize(raw),
            descriptor_size: descriptor_size(raw),
            first_data_block: raw.first_data_block.get(),
            first_inode: InodeNo(raw.first_ino.get()),
            reserved_descriptor_blocks: raw.reserved_gdt_blocks.get(),
            flex_group_size: if flex { 1 << raw.log_groups_per_flex } else { 1 },
            checksum_seed: checksum_seed(raw),
            uuid: raw.uuid,
            hash_seed: raw.hash_seed.map(|word| word.get()),
            hash_version: hash_version(raw),
            journal_inode: if has_journal { InodeNo(raw.journal_inum.get()) } else { InodeNo::NONE },
            backup_groups: backups(raw),
        }
    }

    /// The block behind the image's last block.
    pub const fn end(&self) -> BlockNo {
        BlockNo(self.block_count)
    }

    /// Group of a block. The block must lie in the image, at or after `first_data_block`.
    pub(crate) fn group_of_block(&self, block: BlockNo) -> u32 {
        ((block.0 - u64::from(self.first_data_block)) / u64::from(self.blocks_per_group)) as u32
    }

    /// A block's number within its group: its bit in the block bitmap.
    pub fn index_in_group(&self, block: BlockNo) -> u32 {
        ((block.0 - u64::from(self.first_data_block)) % u64::from(self.blocks_per_group)) as u32
    }

    /// First block of `group`.
    pub fn first_block_of_group(&self, group: u32) -> BlockNo {
        BlockNo(u64::from(self.first_data_block) + u64::from(group) * u64::from(self.blocks_per_group))
    }

    /// Blocks in `group`; fewer in the last.
    pub fn blocks_in_group(&self, group: u32) -> u32 {
        let rest = self.end() - self.first_block_of_group(group);
        rest.min(self.blocks_per_group.into()) as u32
    }

    /// Whether `block` may hold content: inside the image and not before its first block.
    pub(crate) fn contains_block(&self, block: BlockNo) -> bool {
        block.0 >= u64::from(self.first_data_block) && block < self.end()
    }

    /// Whether the image has an inode of this number.
    pub fn contains_inode(&self, number: InodeNo) -> bool {
        number.is_some() && number.0 <= self.inode_count
    }

    /// Whether the number is for the file system's own use. The root directory's number is.
    pub(crate) fn is_reserved(&self, number: InodeNo) -> bool {
        number < self.first_inode
    }

    /// Group of an inode. Its number must be at least 1 and at most `inode_count`.
    pub(crate) fn group_of_inode(&self, inode: InodeNo) -> u32 {
        self.position_of_inode(inode).group
    }

    /// Where an inode lies. Its number must be at least 1 and at most `inode_count`.
    pub fn position_of_inode(&self, inode: InodeNo) -> InodePosition {
        let index = inode.index().expect("an inode has a number");
        let (group, index) = (index / self.inodes_per_group, index % self.inodes_per_group);
        let byte = u64::from(index) * u64::from(self.inode_size);
        let (table_block, offset) = (byte / u64::from(self.block_size), byte % u64::from(self.block_size));
        InodePosition { group, index, table_block: table_block as u32, offset: offset as usize }
    }

    /// The inode of `group` whose bit is `index`.
    pub fn inode_at(&self, group: u32, index: u32) -> InodeNo {
        InodeNo(group * self.inodes_per_group + index + 1)
    }

    /// Blocks of one group's inode table.
    pub(crate) fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size);
        bytes.div_ceil(self.block_size.into()) as u32
    }

    /// Inodes in one block of an inode table.
    pub fn inodes_per_block(&self) -> u32 {
        self.block_size / u32::from(self.inode_size)
    }

    /// Blocks of the table of group descriptors.
    pub(crate) fn descriptor_blocks(&self) -> u32 {
        let bytes = u64::from(self.group_count) * u64::from(self.descriptor_size);
        bytes.div_ceil(self.block_size.into()) as u32
    }

    /// Block of the primary superblock.
    pub(crate) fn superblock_block(&self) -> BlockNo {
        BlockNo(SUPERBLOCK_OFFSET as u64 / u64::from(self.block_size))
    }

    /// Where the primary descriptor of `group` lies: block and byte in it.
    pub fn position_of_descriptor(&self, group: u32) -> (BlockNo, usize) {
        let per_block = self.descriptors_per_block();
        let offset = (group % per_block) as usize * usize::from(self.descriptor_size);
        let table_block = group / per_block;
        if table_block < self.first_meta_group {
            return (self.superblock_block() + 1 + u64::from(table_block), offset);
        }
        (self.meta_descriptor_block(table_block * per_block), offset)
    }

    /// Where the backups of the descriptor of `group` lie: block and byte in it. The primary descriptor is not among
    /// them.
    pub(crate) fn backups_of_descriptor(&self, group: u32) -> Vec<(BlockNo, usize)> {
        let per_block = self.descriptors_per_block();
        let (primary, offset) = self.position_of_descriptor(group);
        let table_block = group / per_block;
        if table_block >= self.first_meta_group {
            let first = u64::from(table_block * per_block);
            let copies = [first, first + 1, first + u64::from(per_block) - 1];
            let copies = copies.into_iter().filter(|group| *group < self.group_count.into());
            let blocks = copies.map(|group| (self.meta_descriptor_block(group as u32), offset));
            return blocks.filter(|(block, _)| *block != primary).collect();
        }
        let backups = (1..self.group_count).filter(|group| self.has_superblock(*group));
        let first = |group| self.first_block_of_group(group) + 1 + u64::from(table_block);
        backups.take(BACKUPS_MAX).map(|group| (first(group), offset)).collect()
    }

    /// The block of `group` that holds descriptors of its meta group: its first block, or the one behind its
    /// superblock.
    fn meta_descriptor_block(&self, group: u32) -> BlockNo {
        let is_behind_boot_block = group == 0 && self.superblock_block().0 > u64::from(self.first_data_block);
        let behind = u64::from(self.has_superblock(group)) + u64::from(is_behind_boot_block);
        self.first_block_of_group(group) + behind
    }

    fn descriptors_per_block(&self) -> u32 {
        self.block_size / u32::from(self.descriptor_size)
    }

    /// Whether `group` begins with a superblock and descriptors (group 0: the primary ones).
    pub fn has_superblock(&self, group: u32) -> bool {
        match self.backup_groups {
            _ if group == 0 => true,
            Backups::Everywhere => true,
            Backups::Sparse => is_sparse_group(group),
            Backups::Two(groups) => groups.contains(&group),
        }
    }

    /// Blocks of superblock, descriptors and room for descriptors at the start of `group`.
    pub(crate) fn base_blocks(&self, group: u32) -> u32 {
        match self.has_superblock(group) {
            true => 1 + self.descriptor_blocks() + u32::from(self.reserved_descriptor_blocks),
            false => 0,
        }
    }

    /// The checksum register after an inode's number and generation: the seed for checksums of its content.
    pub fn inode_seed(&self, inode: InodeNo, generation: u32) -> u32 {
        crc32c(crc32c(self.checksum_seed, &inode.0.to_le_bytes()), &generation.to_le_bytes())
    }

    /// Bytes of the checksum tail at the end of a directory block.
    pub fn directory_tail_length(&self) -> usize {
        if self.features.metadata_csum() { 12 } else { 0 }
    }
}

/// Whether sparse_super puts a backup into `group`: 0, 1 and powers of 3, 5 and 7.
fn is_sparse_group(group: u32) -> bool {
    let is_power_of = |base: u32| {
        let mut power = base;
        while power < group {
            match power.checked_mul(base) {
                Some(next) => power = next,
                None => return false,
            }
        }
        power == group
    };
    group <= 1 || is_power_of(3) || is_power_of(5) || is_power_of(7)
}

fn backups(raw: &RawSuperblock) -> Backups {
    let features = raw.features();
    if features.compat.contains(Compat::SPARSE_SUPER2) {
        return Backups::Two(raw.backup_bgs.map(|group| group.get()));
    }
    match features.ro_compat.contains(RoCompat::SPARSE_SUPER) {
        true => Backups::Sparse,
        false => Backups::Everywhere,
    }
}

fn group_count(raw: &RawSuperblock) -> u64 {
    (raw.block_count() - u64::from(raw.first_data_block.get())).div_ceil(raw.blocks_per_group.get().into())
}

fn descriptor_size(raw: &RawSuperblock) -> u16 {
    if raw.features().incompat.contains(Incompat::BITS_64) { raw.desc_size.get() } else { 32 }
}

fn new_extra_isize(raw: &RawSuperblock) -> u16 {
    let room = raw.inode_size.get() - BASE_INODE_SIZE;
    match raw.features().ro_compat.contains(RoCompat::EXTRA_ISIZE) {
        _ if room == 0 => 0,
        true => raw.want_extra_isize.get().max(raw.min_extra_isize.get()).max(32).min(room),
        false => 32.min(room),
    }
}

fn checksum_seed(raw: &RawSuperblock) -> u32 {
    match raw.features().incompat.contains(Incompat::CSUM_SEED) {
        true => raw.checksum_seed.get(),
        false => crc32c(!0, &raw.uuid),
    }
}

fn hash_version(raw: &RawSuperblock) -> HashVersion {
    let bytes = HashedBytes::of_flags(raw.flags.get());
    HashVersion::from_disk(raw.def_hash_version, bytes).unwrap_or(HashVersion::HALF_MD4)
}

fn refuse(field: &'static str, value: impl Into<u64>, rule: &'static str) -> FormatError {
    FormatError::field("superblock", Place::Superblock, field, value, rule)
}

/// Ok if `good`; else an error with the field, its value and the rule.
fn expect(good: bool, field: &'static str, value: impl Into<u64>, rule: &'static str) -> Result<(), FormatError> {
    if good { Ok(()) } else { Err(refuse(field, value, rule)) }
}

fn check_sizes(raw: &RawSuperblock) -> Result<(), FormatError> {
    let log_block_size = raw.log_block_size.get();
    expect(raw.rev_level.get() == 1, "rev_level", raw.rev_level.get(), "must be 1 (dynamic inode sizes)")?;
    expect(log_block_size <= 6, "log_block_size", log_block_size, "must be at most 6 (64 KiB)")?;
    if 1024 << log_block_size != PAGE_SIZE {
        let what = format!("blocks of {} bytes", 1024 << log_block_size);
        return Err(FormatError::Unsupported { what });
    }
    let log_cluster_size = raw.log_cluster_size.get();
    expect(log_cluster_size == log_block_size, "log_cluster_size", log_cluster_size, "must be log_block_size")?;
    let first = raw.first_data_block.get();
    expect(first == 0, "first_data_block", first, "must be 0 with blocks of 4096 bytes")?;
    match descriptor_size(raw) {
        32 if !raw.features().incompat.contains(Incompat::BITS_64) => Ok(()),
        64 => Ok(()),
        size @ (128 | 256 | 512 | 1024) => {
            Err(FormatError::Unsupported { what: format!("group descriptors of {size} bytes") })
        }
        size => Err(refuse("desc_size", size, "must be 64 with the feature 64bit")),
    }
}

/// Fills in the fields that superblocks of revision 0 lack, with their fixed values.
fn with_fields_of_revision_0(raw: &RawSuperblock) -> RawSuperblock {
    let mut raw = raw.clone();
    raw.set_features(Features::default());
    raw.first_ino.set(FIRST_INODE.0);
    raw.inode_size.set(BASE_INODE_SIZE);
    (raw.min_extra_isize, raw.want_extra_isize) = Default::default();
    raw
}

fn block_size(raw: &RawSuperblock) -> u32 {
    1024 << raw.log_block_size.get()
}

fn cluster_blocks(raw: &RawSuperblock) -> u32 {
    match raw.features().ro_compat.contains(RoCompat::BIGALLOC) {
        true => 1 << (raw.log_cluster_size.get() - raw.log_block_size.get()),
        false => 1,
    }
}

fn check_sizes_to_read(raw: &RawSuperblock) -> Result<(), FormatError> {
    let (log_block_size, log_cluster_size) = (raw.log_block_size.get(), raw.log_cluster_size.get());
    expect(raw.rev_level.get() <= 1, "rev_level", raw.rev_level.get(), "must be 0 or 1")?;
    expect(log_block_size <= 6, "log_block_size", log_block_size, "must be at most 6 (64 KiB)")?;
    if raw.features().ro_compat.contains(RoCompat::BIGALLOC) {
        let valid = (log_block_size..=19).contains(&log_cluster_size);
        expect(valid, "log_cluster_size", log_cluster_size, "must be from log_block_size to 19 (512 MiB)")?;
        let clusters = raw.clusters_per_group.get();
        let valid = clusters <= 8 * block_size(raw) && clusters.checked_mul(cluster_blocks(raw)).is_some();
        expect(valid, "clusters_per_group", clusters, "must be at most 8 times the block size")?;
        let valid = clusters * cluster_blocks(raw) == raw.blocks_per_group.get();
        expect(valid, "blocks_per_group", raw.blocks_per_group.get(), "must be the blocks of clusters_per_group")?;
    }
    let first = raw.first_data_block.get();
    let valid = first == 0 || (first == 1 && log_block_size == 0);
    expect(valid, "first_data_block", first, "must be 0, or 1 with blocks of 1024 bytes")?;
    let size = descriptor_size(raw);
    match size {
        32 | 64 => Ok(()),
        128 | 256 | 512 | 1024 => Err(FormatError::Unsupported { what: format!("group descriptors of {size} bytes") }),
        _ => Err(refuse("desc_size", size, "must be 64 with the feature 64bit")),
    }
}

fn check_groups(raw: &RawSuperblock) -> Result<(), FormatError> {
    let (blocks, per_group) = (raw.block_count(), raw.blocks_per_group.get());
    let (size, cluster) = (block_size(raw), cluster_blocks(raw));
    let per_group_max = u64::from(8 * size) * u64::from(cluster);
    let valid = per_group >= 256 && u64::from(per_group) <= per_group_max && per_group.is_multiple_of(8);
    expect(valid, "blocks_per_group", per_group, "must be a multiple of 8 from 256 to 8 times the block size")?;
    let first = u64::from(raw.first_data_block.get());
    expect(blocks > first && blocks >> 48 == 0, "block count", blocks, "must be from 1 to 2^48 - 1")?;
    expect(group_count(raw) < 1 << 32, "block count", blocks, "makes 2^32 groups or more")?;
    expect(raw.reserved_blocks() <= blocks, "reserved blocks", raw.reserved_blocks(), "exceeds the block count")?;
    let room = raw.reserved_gdt_blocks.get();
    expect(u32::from(room) <= size / 4, "reserved_gdt_blocks", room, "must be at most a quarter of the block size")?;
    if !raw.features().incompat.contains(Incompat::META_BG) {
        let table = (group_count(raw) * u64::from(descriptor_size(raw))).div_ceil(size.into()) + u64::from(room);
        expect(table + 1 < per_group.into(), "block count", blocks, "needs more descriptors than fit a group")?;
        expect(table < blocks, "block count", blocks, "leaves no room for the descriptors")?;
    }
    expect(raw.log_groups_per_flex < 31, "log_groups_per_flex", raw.log_groups_per_flex, "must be below 31")
}

fn check_inodes(raw: &RawSuperblock) -> Result<(), FormatError> {
    let (size, per_group, count) = (raw.inode_size.get(), raw.inodes_per_group.get(), raw.inodes_count.get());
    let valid = size >= 128 && u32::from(size) <= block_size(raw) && size.is_power_of_two();
    expect(valid, "inode_size", size, "must be a power of two from 128 to the block size")?;
    let valid = per_group > 0 && per_group <= 8 * block_size(raw) && per_group.is_multiple_of(8);
    expect(valid, "inodes_per_group", per_group, "must be a multiple of 8 from 8 to 8 times the block size")?;
    let expected = group_count(raw) * u64::from(per_group);
    expect(u64::from(count) == expected, "inodes_count", count, "must be groups times inodes_per_group")?;
    let first = raw.first_ino.get();
    expect(first >= FIRST_INODE.0 && first <= count, "first_ino", first, "must be from 11 to inodes_count")?;
    let room = size - BASE_INODE_SIZE;
    let (least, wanted) = (raw.min_extra_isize.get(), raw.want_extra_isize.get());
    expect(least <= room && least.is_multiple_of(4), "min_extra_isize", least, "does not fit an inode")?;
    expect(wanted <= room && wanted.is_multiple_of(4), "want_extra_isize", wanted, "does not fit an inode")
}

fn check_rest(raw: &RawSuperblock) -> Result<(), FormatError> {
    let features = raw.features();
    if features.metadata_csum() {
        let kind = raw.checksum_type;
        expect(kind == CHECKSUM_CRC32C, "checksum_type", kind, "must be 1 (CRC32C)")?;
        let both = features.ro_compat.contains(RoCompat::GDT_CSUM);
        expect(!both, "feature_ro_compat", features.ro_compat.0, "has both metadata_csum and uninit_bg")?;
    }
    let hash = raw.def_hash_version;
    expect(hash <= 5, "def_hash_version", hash, "must be at most 5")?;
    let clusters = raw.clusters_per_group.get();
    expect(clusters == raw.blocks_per_group.get(), "clusters_per_group", clusters, "must be blocks_per_group")?;
    check_journal(raw)
}

fn check_journal(raw: &RawSuperblock) -> Result<(), FormatError> {
    let features = raw.features();
    let journal = raw.journal_inum.get();
    let internal = features.compat.contains(Compat::HAS_JOURNAL) && raw.journal_dev.get() == 0;
    let valid = !internal || (journal > ROOT_INODE.0 && journal <= raw.inodes_count.get());
    expect(valid, "journal_inum", journal, "is no inode that can hold a journal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_lie_in_powers_of_three_five_and_seven() {
        let groups: Vec<u32> = (0..400).filter(|&group| is_sparse_group(group)).collect();
        assert_eq!(groups, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343]);
        assert!(!is_sparse_group(u32::MAX));
    }
}
