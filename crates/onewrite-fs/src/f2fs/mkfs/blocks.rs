//! The blocks of a new file system.

use onewrite_block::{PAGE_SIZE, Page};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use super::geometry::{CHECKPOINT_SEGMENTS, Geometry, SEGMENTS_START};
use super::options::{MkfsOptions, SIZE_MAX};
use crate::api::FileKind;
use crate::block::BlockNo;
use crate::f2fs::format::checkpoint::{CHECKSUM_OFFSET, RawCheckpoint, flags, head_checksum};
use crate::f2fs::format::dentry::{self, NewEntry, Shape};
use crate::f2fs::format::inode::{ADDRESSES, CHECKSUM, RawExtra, RawInode, checksum, inline};
use crate::f2fs::format::layout::{META_INODE, NODE_INODE, ROOT_INODE, SEGMENT_BLOCKS};
use crate::f2fs::format::nat::{self, NatEntry};
use crate::f2fs::format::node::{self, Footer};
use crate::f2fs::format::sit::{LogKind, MAP_SIZE, SitEntry, set_bit};
use crate::f2fs::format::summary::{self, JOURNAL_SIZE, Summary, SummaryKind};
use crate::f2fs::format::superblock::{CHECKSUM_OFFSET as SUPERBLOCK_SUM, RawSuperblock, SUPERBLOCK_MAGIC};
use crate::f2fs::format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use crate::f2fs::format::{DataAddress, Layout, SegmentNo};
use crate::f2fs::stage::{area, format as stage_format};

/// What wrote the image, in the superblock.
const VERSION: &[u8] = b"onewrite";

const _: () = assert!(SIZE_MAX / 4096 <= 1 << 32);

type Block = [u8; PAGE_SIZE];

/// All blocks, in ascending order. A staging area of `stage_pages` lies behind the image, unless that is 0.
pub(super) fn blocks(geometry: &Geometry, options: &MkfsOptions, stage_pages: u64) -> Vec<(BlockNo, Page)> {
    let superblock = superblock(geometry, options);
    let layout = Layout::decode(&superblock, 0).expect("the numbers of a new image agree");
    let mut first = [0; PAGE_SIZE];
    first[SUPERBLOCK_OFFSET..][..SUPERBLOCK_SIZE].copy_from_slice(superblock.as_bytes());
    let mut blocks = vec![(BlockNo(0), first), (BlockNo(1), first)];
    blocks.extend(pack(geometry, options, &layout));
    blocks.extend(tables(&layout, options));
    let root = layout.segment_start(log_segment(geometry, LogKind::HotNode));
    let names = layout.segment_start(log_segment(geometry, LogKind::HotData));
    blocks.push((root, root_inode(&layout, options, root, names)));
    // The chain of fsyncs begins here: nothing of what the device held before is taken for it.
    let chain = layout.segment_start(log_segment(geometry, LogKind::WarmNode));
    // A zone is blank, and is written from its first block on.
    if options.zones.is_none() {
        blocks.push((chain, [0; PAGE_SIZE]));
    }
    blocks.push((names, root_names()));
    debug_assert!(blocks.is_sorted_by_key(|(block, _)| *block), "in ascending order");
    let mut blocks: Vec<_> = blocks.into_iter().map(|(block, bytes)| (block, Page::from_slice(&bytes))).collect();
    // What the device held before is no log of this image.
    if stage_pages > 0 {
        let label = stage_format::label(stage_pages, 0, layout.inode_seed);
        let area = std::iter::once(label).chain(vec![Page::ZEROS; area::LOG_START as usize]);
        blocks.extend((layout.block_count..).map(BlockNo).zip(area));
    }
    blocks
}

/// The segment with which a log begins. Logs of nodes take the first segments; those of data are spread out.
fn log_segment(geometry: &Geometry, kind: LogKind) -> SegmentNo {
    let sections = (geometry.main / geometry.section) as u32;
    let section = match kind {
        LogKind::HotNode => 0,
        LogKind::WarmNode => 1,
        LogKind::ColdNode => 2,
        LogKind::HotData => 3,
        LogKind::ColdData => sections / 4 - 1,
        LogKind::WarmData => sections / 2 - 1,
    };
    SegmentNo(section * geometry.section as u32)
}

/// Blocks in a log: the root's inode and its names.
fn log_blocks(kind: LogKind) -> u16 {
    u16::from(matches!(kind, LogKind::HotNode | LogKind::HotData))
}

fn superblock(geometry: &Geometry, options: &MkfsOptions) -> RawSuperblock {
    let mut raw = RawSuperblock::new_zeroed();
    let number = |value: u64| U32::new(u32::try_from(value).expect("at most 16 TiB"));
    raw.magic = U32::new(SUPERBLOCK_MAGIC);
    (raw.major_ver, raw.minor_ver) = (U16::new(1), U16::new(15));
    (raw.log_sectorsize, raw.log_sectors_per_block) = (U32::new(9), U32::new(3));
    (raw.log_blocksize, raw.log_blocks_per_seg) = (U32::new(12), U32::new(9));
    (raw.segs_per_sec, raw.secs_per_zone) = (number(geometry.section), U32::new(1));
    raw.checksum_offset = U32::new(SUPERBLOCK_SUM as u32);
    raw.block_count = U64::new(geometry.blocks);
    (raw.section_count, raw.segment_count) = (number(geometry.main / geometry.section), number(geometry.segments));
    raw.segment_count_ckpt = number(CHECKPOINT_SEGMENTS);
    (raw.segment_count_sit, raw.segment_count_nat) = (number(geometry.sit), number(geometry.nat));
    (raw.segment_count_ssa, raw.segment_count_main) = (number(geometry.ssa), number(geometry.main));
    (raw.segment0_blkaddr, raw.cp_blkaddr) = (number(SEGMENTS_START), number(SEGMENTS_START));
    [raw.sit_blkaddr, raw.nat_blkaddr, raw.ssa_blkaddr, raw.main_blkaddr] = geometry.starts().map(number);
    [raw.root_ino, raw.node_ino, raw.meta_ino] = [ROOT_INODE, NODE_INODE, META_INODE].map(|nid| U32::new(nid.0));
    raw.uuid = options.uuid;
    for (word, letter) in raw.volume_name.iter_mut().zip(options.label.encode_utf16()) {
        word.set(letter);
    }
    raw.cp_payload = number(geometry.payload);
    raw.version[..VERSION.len()].copy_from_slice(VERSION);
    raw.init_version[..VERSION.len()].copy_from_slice(VERSION);
    raw.feature = U32::new(MkfsOptions::FEATURES.0);
    raw.crc = U32::new(raw.checksum());
    raw
}

/// Both checkpoint packs: the first is in use, the second has version 0.
fn pack(geometry: &Geometry, options: &MkfsOptions, layout: &Layout) -> Vec<(BlockNo, Block)> {
    let first = head(geometry, options.checkpoint_version);
    let mut pack = vec![first];
    pack.resize(1 + geometry.payload as usize, [0; PAGE_SIZE]);
    pack.push(data_summaries(geometry));
    pack.extend([LogKind::HotNode, LogKind::WarmNode, LogKind::ColdNode].map(node_summary));
    pack.push(first);
    let last = pack.len() as u64 - 1;
    let mut blocks: Vec<_> = (layout.pack(0).0..).map(BlockNo).zip(pack).collect();
    let second = head(geometry, 0);
    blocks.extend([(layout.pack(1), second), (layout.pack(1) + last, second)]);
    blocks
}

fn head(geometry: &Geometry, version: u32) -> Block {
    let mut raw = RawCheckpoint::new_zeroed();
    raw.checkpoint_ver = U64::new(version.into());
    raw.user_block_count = U64::new(geometry.user_blocks());
    raw.valid_block_count = U64::new(2);
    raw.rsvd_segment_count = U32::new(geometry.spare.reserved as u32);
    raw.overprov_segment_count = U32::new(geometry.spare.segments as u32);
    raw.free_segment_count = U32::new(geometry.main as u32 - LogKind::ALL.len() as u32);
    (raw.cur_node_segno, raw.cur_data_segno) = ([U32::MAX_VALUE; 8], [U32::MAX_VALUE; 8]);
    for kind in LogKind::ALL {
        let (index, segment, next) = (kind as usize % 3, log_segment(geometry, kind).0, log_blocks(kind));
        match kind.is_node() {
            true => (raw.cur_node_segno[index], raw.cur_node_blkoff[index]) = (U32::new(segment), U16::new(next)),
            false => (raw.cur_data_segno[index], raw.cur_data_blkoff[index]) = (U32::new(segment), U16::new(next)),
        }
    }
    raw.ckpt_flags = U32::new(flags::UMOUNT | flags::COMPACT);
    let start = 1 + geometry.payload as u32;
    (raw.cp_pack_start_sum, raw.cp_pack_total_block_count) = (U32::new(start), U32::new(start + 5));
    (raw.valid_node_count, raw.valid_inode_count) = (U32::new(1), U32::new(1));
    raw.next_free_nid = U32::new(ROOT_INODE.0 + 1);
    raw.sit_ver_bitmap_bytesize = U32::new((geometry.sit / 2 * SEGMENT_BLOCKS / 8) as u32);
    raw.nat_ver_bitmap_bytesize = U32::new((geometry.nat / 2 * SEGMENT_BLOCKS / 8) as u32);
    raw.checksum_offset = U32::new(CHECKSUM_OFFSET as u32);
    let mut block = [0; PAGE_SIZE];
    block[..size_of::<RawCheckpoint>()].copy_from_slice(raw.as_bytes());
    let sum = head_checksum(&block, CHECKSUM_OFFSET);
    block[CHECKSUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The owner of the blocks that an empty image has.
const OWNER: Summary = Summary { nid: ROOT_INODE, slot: 0 };

/// Compact summaries: an empty NAT journal, a SIT journal with the six logs, and the owner of the root's names.
fn data_summaries(geometry: &Geometry) -> Block {
    let mut block = [0; PAGE_SIZE];
    let entry = |kind: LogKind| {
        let mut map = [0; MAP_SIZE];
        (0..log_blocks(kind)).for_each(|index| set_bit(&mut map, index.into()));
        (log_segment(geometry, kind), SitEntry::new(kind as u16, map, 0))
    };
    block[JOURNAL_SIZE..2 * JOURNAL_SIZE].copy_from_slice(&summary::sit_journal_of(&LogKind::ALL.map(entry)));
    summary::put_entry(&mut block[2 * JOURNAL_SIZE..], 0, OWNER, 0);
    block
}

fn node_summary(kind: LogKind) -> Block {
    let mut block = [0; PAGE_SIZE];
    if log_blocks(kind) > 0 {
        summary::put_entry(&mut block, 0, OWNER, 0);
    }
    summary::put_kind(&mut block, SummaryKind::Node);
    block
}

/// The first copies of SIT and NAT: zeros, unless the device has them, and the entries of the first nodes.
fn tables(layout: &Layout, options: &MkfsOptions) -> Vec<(BlockNo, Block)> {
    let mut blocks = Vec::new();
    if !options.device_is_zeroed {
        blocks.extend((0..layout.sit_blocks).map(|index| (layout.sit_copies(index)[0], [0; PAGE_SIZE])));
    }
    let mut entries = [0; PAGE_SIZE];
    for (nid, block) in [(NODE_INODE, BlockNo(1)), (META_INODE, BlockNo(1)), (ROOT_INODE, layout.main.start)] {
        let entry = NatEntry { version: 0, ino: nid, address: DataAddress::Block(block) };
        nat::put_entry(&mut entries, nid.0 as usize, entry);
    }
    blocks.push((layout.nat_copies(0)[0], entries));
    if !options.device_is_zeroed {
        blocks.extend((1..layout.nat_blocks).map(|index| (layout.nat_copies(index)[0], [0; PAGE_SIZE])));
    }
    blocks
}

fn root_inode(layout: &Layout, options: &MkfsOptions, own: BlockNo, names: BlockNo) -> Block {
    let time = U64::new(options.unix_time.into());
    let mut raw = RawInode::new_zeroed();
    raw.i_mode = U16::new(0o040_755);
    raw.i_inline = inline::EXTRA_ATTR;
    [raw.i_uid, raw.i_gid] = [options.root_owner.0, options.root_owner.1].map(U32::new);
    raw.i_links = U32::new(2);
    (raw.i_size, raw.i_blocks) = (U64::new(PAGE_SIZE as u64), U64::new(2));
    [raw.i_atime, raw.i_ctime, raw.i_mtime] = [time; 3];
    raw.i_current_depth = U32::new(1);
    let extra_size = size_of::<RawExtra>();
    let extra = RawExtra { i_extra_isize: U16::new(extra_size as u16), i_crtime: time, ..RawExtra::default() };
    let mut block = [0; PAGE_SIZE];
    block[..ADDRESSES].copy_from_slice(raw.as_bytes());
    block[ADDRESSES..][..extra_size].copy_from_slice(extra.as_bytes());
    block[ADDRESSES + extra_size..][..4].copy_from_slice(&(names.0 as u32).to_le_bytes());
    node::put_footer(&mut block, &Footer { version: 1, next: own + 1, ..Footer::new(ROOT_INODE, ROOT_INODE, 0) });
    let sum = checksum(&block, ROOT_INODE, layout);
    block[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    block
}

fn root_names() -> Block {
    let mut block = [0; PAGE_SIZE];
    for (slot, name) in [&b"."[..], b".."].into_iter().enumerate() {
        let new = NewEntry { ino: ROOT_INODE, kind: FileKind::Directory, name };
        dentry::insert(&mut block, Shape::BLOCK, slot, new);
    }
    block
}
