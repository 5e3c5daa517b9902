//! The numbers of a new file system: groups, inodes, journal, features.

use onewrite_block::PAGE_SIZE;
use zerocopy::FromZeros;
use zerocopy::little_endian::U32;

use super::options::{MkfsError, MkfsOptions, default_journal_blocks};
use crate::ext4::format::features::{Compat, Features, Incompat, RoCompat};
use crate::ext4::format::superblock::{CHECKSUM_CRC32C, FLAG_SIGNED_HASH, STATE_CLEAN, SUPERBLOCK_MAGIC};
use crate::ext4::format::{FIRST_INODE, JOURNAL_INODE, Layout, RawSuperblock};

const BLOCKS_PER_GROUP: u32 = 8 * PAGE_SIZE as u32;
const INODE_SIZE: u32 = 256;
const INODES_PER_BLOCK: u32 = PAGE_SIZE as u32 / INODE_SIZE;
const LOG_FLEX_GROUP_SIZE: u8 = 4;
/// Least free blocks of a short last group; with fewer, mkfs leaves the group out.
const SHORT_GROUP_FREE_MIN: u64 = 50;
const JOURNAL_BLOCKS_MIN: u32 = 1_024;
const JOURNAL_BLOCKS_MAX: u32 = 10_240_000;

/// The numbers, decoded and as a superblock without its counts.
pub(super) struct Geometry {
    pub superblock: RawSuperblock,
    pub layout: Layout,
    pub journal_blocks: u32,
}

impl Geometry {
    pub(super) fn of(options: &MkfsOptions) -> Result<Geometry, MkfsError> {
        check_options(options)?;
        let features = features(options)?;
        let mut block_count = options.size_bytes / PAGE_SIZE as u64;
        loop {
            let superblock = superblock(options, features, block_count)?;
            let layout = Layout::decode(&superblock)?;
            match drop_short_group(&layout) {
                Some(shorter) => block_count = shorter,
                None => return Geometry::with_journal(options, superblock, layout),
            }
        }
    }

    fn with_journal(
        options: &MkfsOptions,
        mut superblock: RawSuperblock,
        layout: Layout,
    ) -> Result<Geometry, MkfsError> {
        let journal_blocks = options.journal_blocks.unwrap_or_else(|| default_journal_blocks(layout.block_count));
        if journal_blocks > 0 && !(JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&journal_blocks) {
            let rule = "it must have from 1024 to 10240000 blocks";
            return Err(MkfsError::Journal { blocks: journal_blocks, rule });
        }
        let mut features = superblock.features();
        if journal_blocks == 0 {
            features.compat = features.compat.without(Compat::HAS_JOURNAL);
            superblock.journal_inum.set(0);
        }
        superblock.set_features(features);
        superblock.set_checksum();
        Ok(Geometry { layout: Layout::decode(&superblock)?, superblock, journal_blocks })
    }
}

fn check_options(options: &MkfsOptions) -> Result<(), MkfsError> {
    let refuse = |option, value: u64, rule| Err(MkfsError::Option { option, value, rule });
    match options {
        MkfsOptions { label, .. } if label.len() > 16 => {
            refuse("length of the label", label.len() as u64, "must be at most 16 bytes")
        }
        MkfsOptions { reserved_percent: percent @ 51.., .. } => {
            refuse("reserved_percent", (*percent).into(), "must be at most 50")
        }
        MkfsOptions { inode_ratio: Some(ratio @ 0..1024), .. } => {
            refuse("inode_ratio", (*ratio).into(), "must be at least 1024 bytes")
        }
        MkfsOptions { size_bytes, .. } if size_bytes >> 60 != 0 => {
            refuse("size_bytes", *size_bytes, "must be below 2^60")
        }
        _ => Ok(()),
    }
}

fn features(options: &MkfsOptions) -> Result<Features, MkfsError> {
    let (asked, known) = (options.features, MkfsOptions::DEFAULT_FEATURES);
    let compat = asked.compat.without(known.compat);
    let incompat = asked.incompat.without(known.incompat);
    let ro_compat = asked.ro_compat.without(known.ro_compat.with(RoCompat::GDT_CSUM));
    let names: Vec<String> = [compat.to_string(), incompat.to_string(), ro_compat.to_string()]
        .into_iter()
        .filter(|names| !names.is_empty())
        .collect();
    if !names.is_empty() {
        return Err(MkfsError::Features { features: names.join(", ") });
    }
    if !asked.incompat.contains(Incompat::EXTENTS) {
        return Err(MkfsError::Features { features: "^extent".into() });
    }
    Ok(Features { compat: asked.compat.with(Compat::HAS_JOURNAL), ..asked })
}

fn superblock(options: &MkfsOptions, features: Features, block_count: u64) -> Result<RawSuperblock, MkfsError> {
    let blocks_needed = 64;
    if block_count < blocks_needed {
        let (size_bytes, needed_blocks) = (options.size_bytes, blocks_needed);
        return Err(MkfsError::TooSmall { size_bytes, needed_blocks, cure: "" });
    }
    if block_count >> 32 != 0 && !features.incompat.contains(Incompat::BITS_64) {
        let rule = "needs the feature 64bit";
        return Err(MkfsError::Option { option: "size_bytes", value: options.size_bytes, rule });
    }
    let groups = block_count.div_ceil(BLOCKS_PER_GROUP.into());
    let inodes_per_group = inodes_per_group(options, block_count, groups)?;
    let mut raw = RawSuperblock::new_zeroed();
    raw.set_features(features);
    raw.set_block_count(block_count);
    raw.set_reserved_blocks(block_count * u64::from(options.reserved_percent) / 100);
    raw.inodes_count.set((groups * u64::from(inodes_per_group)) as u32);
    raw.log_block_size.set(PAGE_SIZE.ilog2() - 10);
    raw.log_cluster_size = raw.log_block_size;
    raw.blocks_per_group.set(BLOCKS_PER_GROUP);
    raw.clusters_per_group.set(BLOCKS_PER_GROUP);
    raw.inodes_per_group.set(inodes_per_group);
    raw.magic.set(SUPERBLOCK_MAGIC);
    raw.rev_level.set(1);
    raw.first_ino.set(FIRST_INODE.0);
    raw.inode_size.set(INODE_SIZE as u16);
    raw.journal_inum.set(JOURNAL_INODE.0);
    if features.incompat.contains(Incompat::BITS_64) {
        raw.desc_size.set(64);
    }
    if features.incompat.contains(Incompat::FLEX_BG) {
        raw.log_groups_per_flex = log_flex_group_size(block_count, inodes_per_group, &raw);
    }
    set_identity(&mut raw, options);
    set_policy(&mut raw, options);
    raw.set_checksum();
    Ok(raw)
}

fn set_identity(raw: &mut RawSuperblock, options: &MkfsOptions) {
    raw.uuid = options.uuid;
    raw.volume_name[..options.label.len()].copy_from_slice(options.label.as_bytes());
    for (word, bytes) in raw.hash_seed.iter_mut().zip(options.hash_seed.chunks_exact(4)) {
        *word = U32::from_bytes(bytes.try_into().expect("four bytes"));
    }
    for time in [&mut raw.mkfs_time, &mut raw.wtime, &mut raw.lastcheck] {
        time.set(options.unix_time);
    }
}

fn set_policy(raw: &mut RawSuperblock, options: &MkfsOptions) {
    raw.max_mnt_count.set(u16::MAX);
    raw.state.set(STATE_CLEAN);
    // The kernel continues after an error; user attributes and ACLs are on.
    raw.errors.set(1);
    raw.default_mount_opts.set(0xc);
    raw.def_hash_version = 1;
    raw.flags.set(FLAG_SIGNED_HASH);
    if options.features.ro_compat.contains(RoCompat::EXTRA_ISIZE) {
        raw.min_extra_isize.set(32);
        raw.want_extra_isize.set(32);
    }
    if options.features.metadata_csum() {
        raw.checksum_type = CHECKSUM_CRC32C;
    }
}

fn inodes_per_group(options: &MkfsOptions, block_count: u64, groups: u64) -> Result<u32, MkfsError> {
    let bytes = block_count * PAGE_SIZE as u64;
    let ratio = u64::from(options.inode_ratio.unwrap_or(default_inode_ratio(bytes)));
    let wanted = (bytes / ratio).min(u32::MAX.into()).div_ceil(groups).max(INODES_PER_BLOCK.into());
    let per_group = wanted.next_multiple_of(INODES_PER_BLOCK.into()).min(BLOCKS_PER_GROUP.into());
    if per_group * groups > u32::MAX.into() {
        let rule = "leaves more than 2^32 inodes: choose more bytes for each";
        return Err(MkfsError::Option { option: "inode_ratio", value: ratio, rule });
    }
    Ok(per_group as u32)
}

fn default_inode_ratio(bytes: u64) -> u32 {
    const TIB: u64 = 1 << 40;
    match bytes {
        0..0x2000_0000 => 4_096,
        bytes if bytes < 4 * TIB => 16_384,
        bytes if bytes < 16 * TIB => 32_768,
        _ => 65_536,
    }
}

/// 16 groups, or fewer if their inode tables would fill more than half of a group.
fn log_flex_group_size(block_count: u64, inodes_per_group: u32, raw: &RawSuperblock) -> u8 {
    let groups = block_count.div_ceil(BLOCKS_PER_GROUP.into());
    let descriptor_size = if raw.desc_size.get() == 0 { 32 } else { raw.desc_size.get() };
    let base = 1 + (groups * u64::from(descriptor_size)).div_ceil(PAGE_SIZE as u64);
    let each = u64::from(2 + inodes_per_group / INODES_PER_BLOCK);
    let room = u64::from(BLOCKS_PER_GROUP / 2).saturating_sub(base);
    (0..LOG_FLEX_GROUP_SIZE).rev().map(|log| log + 1).find(|&log| each << log <= room).unwrap_or(0)
}

/// The block count without the last group, if that group is too short for its metadata and [`SHORT_GROUP_FREE_MIN`]
/// blocks.
fn drop_short_group(layout: &Layout) -> Option<u64> {
    let last = layout.group_count - 1;
    let own = u64::from(layout.base_blocks(last));
    // The metadata of a flex group lies in its first group.
    let tables = match last.is_multiple_of(layout.flex_group_size) {
        true => u64::from(2 + layout.inode_table_blocks()),
        false => 0,
    };
    let short = u64::from(layout.blocks_in_group(last)) < own + tables + SHORT_GROUP_FREE_MIN;
    (short && last > 0).then(|| layout.first_block_of_group(last).0)
}
