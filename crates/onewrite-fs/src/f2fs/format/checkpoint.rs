//! Checkpoint: the head of a pack. It says how full everything is, where the six logs stand, and which copies of the
//! blocks of SIT and NAT are valid.
//!
//! ```text
//!   pack:  head │ rest of the bitmaps │ orphans … │ summaries of the logs … │ the head again      at most 512 blocks
//! ```
//!
//! A pack is sound if head and repeated head have right checksums and one version. The sound pack with the higher
//! version is in use.

use onewrite_block::crc32_le;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::SegmentNo;
use super::error::{FormatError, Place, expect_checksum};
use super::layout::{Layout, SEGMENT_BLOCKS};
use super::sit::LogKind;
use super::superblock::SUPERBLOCK_MAGIC;

/// Flags of a checkpoint.
pub mod flags {
    /// Written by an unmount: nothing follows it.
    pub const UMOUNT: u32 = 0x1;
    /// The pack has blocks of orphans.
    pub const ORPHANS: u32 = 0x2;
    /// The summaries of the data logs are compact.
    pub const COMPACT: u32 = 0x4;
    /// Errors were seen.
    pub const ERROR: u32 = 0x8;
    /// fsck must run.
    pub const FSCK: u32 = 0x10;
    /// The pack has summaries of the node logs, though nothing was unmounted.
    pub const FASTBOOT: u32 = 0x20;
    /// Versions in node footers hold the checkpoint's checksum, too.
    pub const CRC_RECOVERY: u32 = 0x40;
    /// The checksum lies before the bitmaps, and that of the NAT comes first.
    pub const LARGE_NAT_BITMAP: u32 = 0x400;
}

/// Bytes of the head before its bitmaps.
pub const HEAD_SIZE: usize = size_of::<RawCheckpoint>();
/// Where the checksum lies unless [`flags::LARGE_NAT_BITMAP`] is set.
pub const CHECKSUM_OFFSET: usize = 4092;

/// Where a head names the staging area that continues it: the end of the bytes that no field and no bitmap has. A kind
/// (4 bytes), the area's id (4 bytes), then the version of the checkpoint, which Linux raises without a look at these
/// bytes.
const STAGE_MARK: std::ops::Range<usize> = 4076..CHECKSUM_OFFSET;
/// The kinds.
const STAGE_KINDS: [(StagePlace, &[u8; 4]); 2] = [(StagePlace::Behind, b"OWsB"), (StagePlace::Apart, b"OWsA")];

/// Where the staging area lies that continues a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagePlace {
    /// Behind the image, on its device.
    Behind,
    /// On a device of its own.
    Apart,
}

/// The staging area that continues a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageMark {
    /// Where it lies.
    pub place: StagePlace,
    /// Its id, which it was given when it was made.
    pub area_id: u32,
}

/// The head as it lies on disk; names of fields are those that `dump.f2fs` prints.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "docs/f2fs.md says what the fields mean")]
pub struct RawCheckpoint {
    pub checkpoint_ver: U64,
    pub user_block_count: U64,
    pub valid_block_count: U64,
    pub rsvd_segment_count: U32,
    pub overprov_segment_count: U32,
    pub free_segment_count: U32,
    pub cur_node_segno: [U32; 8],
    pub cur_node_blkoff: [U16; 8],
    pub cur_data_segno: [U32; 8],
    pub cur_data_blkoff: [U16; 8],
    pub ckpt_flags: U32,
    pub cp_pack_total_block_count: U32,
    pub cp_pack_start_sum: U32,
    pub valid_node_count: U32,
    pub valid_inode_count: U32,
    pub next_free_nid: U32,
    pub sit_ver_bitmap_bytesize: U32,
    pub nat_ver_bitmap_bytesize: U32,
    pub checksum_offset: U32,
    pub elapsed_time: U64,
    pub alloc_type: [u8; 16],
}

const _: () = {
    use std::mem::offset_of;
    assert!(HEAD_SIZE == 192);
    assert!(offset_of!(RawCheckpoint, cur_data_segno) == 84);
    assert!(offset_of!(RawCheckpoint, ckpt_flags) == 132);
    assert!(offset_of!(RawCheckpoint, checksum_offset) == 164);
    assert!(offset_of!(RawCheckpoint, alloc_type) == 176);
};

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The segment that it fills.
    pub segment: SegmentNo,
    /// The next block in it; 512 if it is full, which no checkpoint says.
    pub next: u16,
    /// Whether it takes free blocks between used ones (SSR), not only those behind `next`.
    pub is_threaded: bool,
}

/// A sound checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The head.
    pub raw: RawCheckpoint,
    /// Which copy of each block of the SIT is valid: 0 the first.
    pub sit_bitmap: Vec<u8>,
    /// Which copy of each block of the NAT is valid: 0 the first.
    pub nat_bitmap: Vec<u8>,
    /// The checksum, which node footers may repeat.
    pub checksum: u32,
    /// The pack it lies in.
    pub pack: u8,
    /// The staging area that continues it: fsyncs behind the checkpoint are there. Our extension; an unmount ends it.
    pub stage: Option<StageMark>,
}

/// Verifies the checksum of a head and returns it with the checksum. Checks nothing else but where that lies.
///
/// # Errors
/// [`FormatError::Damaged`]
pub fn verified_head(block: &[u8], pack: u8) -> Result<(RawCheckpoint, u32), FormatError> {
    let place = Place::Checkpoint(pack);
    let Ok((raw, _)) = RawCheckpoint::read_from_prefix(block) else {
        return Err(FormatError::field(place, "length", block.len() as u64, "a block has 4096 bytes"));
    };
    let offset = raw.checksum_offset.get();
    if !(HEAD_SIZE..=CHECKSUM_OFFSET).contains(&(offset as usize)) || offset % 4 != 0 || block.len() != 4096 {
        return Err(FormatError::field(place, "checksum_offset", offset, "between the head and the end of the block"));
    }
    let offset = offset as usize;
    let found = u32::from_le_bytes(block[offset..offset + 4].try_into().expect("four bytes"));
    expect_checksum(place, found, head_checksum(block, offset))?;
    Ok((raw, found))
}

/// The checksum of a head that keeps it at `offset`.
pub fn head_checksum(block: &[u8], offset: usize) -> u32 {
    crc32_le(crc32_le(SUPERBLOCK_MAGIC, &block[..offset]), &block[offset + 4..])
}

impl Checkpoint {
    /// Decodes the head of pack `pack` and its bitmaps; `blocks` are the pack's first blocks: the head and the
    /// [`Layout::payload_blocks`] behind it.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] if a number contradicts the layout.
    ///
    /// # Panics
    /// If `blocks` has another length.
    pub fn decode(blocks: &[u8], layout: &Layout, pack: u8) -> Result<Checkpoint, FormatError> {
        assert_eq!(blocks.len(), 4096 * (1 + layout.payload_blocks as usize), "the head and its payload");
        let (raw, checksum) = verified_head(&blocks[..4096], pack)?;
        let (sit, nat) = bitmaps(blocks, &raw, layout, pack)?;
        let stage = stage_mark(blocks, &raw, layout);
        let checkpoint = Checkpoint { raw, sit_bitmap: sit.to_vec(), nat_bitmap: nat.to_vec(), checksum, pack, stage };
        checkpoint.check(layout)?;
        Ok(checkpoint)
    }

    fn check(&self, layout: &Layout) -> Result<(), FormatError> {
        let place = Place::Checkpoint(self.pack);
        let blocks = self.raw.cp_pack_total_block_count.get();
        let start = self.raw.cp_pack_start_sum.get();
        if blocks < 2 || u64::from(blocks) > SEGMENT_BLOCKS {
            return Err(FormatError::field(place, "cp_pack_total_block_count", blocks, "a pack has 2 to 512 blocks"));
        }
        if start < 1 + layout.payload_blocks || start >= blocks {
            let rule = "the summaries lie behind the orphans and before the end of the pack";
            return Err(FormatError::field(place, "cp_pack_start_sum", start, rule));
        }
        let log_blocks = match (self.has(flags::COMPACT), self.has_node_summaries()) {
            (true, false) => 1,
            (true, true) => 4,
            (false, false) => 3,
            (false, true) => 6,
        };
        if start + log_blocks + 1 > blocks {
            return Err(FormatError::field(place, "cp_pack_start_sum", start, "the summaries end within the pack"));
        }
        let logs: Vec<LogPosition> = LogKind::ALL.into_iter().map(|kind| self.log(kind)).collect();
        for (index, log) in logs.iter().enumerate() {
            if log.segment.0 >= layout.main_segments || u64::from(log.next) >= SEGMENT_BLOCKS {
                return Err(FormatError::field(place, "cur_segno", log.segment.0, "each log stands in the main area"));
            }
            if logs[..index].iter().any(|other| other.segment == log.segment) {
                return Err(FormatError::field(place, "cur_segno", log.segment.0, "each log has a segment of its own"));
            }
        }
        Ok(())
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.raw.ckpt_flags.get() & flag != 0
    }

    /// Whether the pack has summaries of the node logs.
    pub fn has_node_summaries(&self) -> bool {
        self.has(flags::UMOUNT | flags::FASTBOOT)
    }

    /// The version; each checkpoint adds one.
    pub fn version(&self) -> u64 {
        self.raw.checkpoint_ver.get()
    }

    /// The version that footers of nodes hold which were written after this checkpoint.
    pub fn footer_version(&self) -> u64 {
        match self.has(flags::CRC_RECOVERY) {
            true => self.version() & 0xffff_ffff | u64::from(self.checksum) << 32,
            false => self.version(),
        }
    }

    /// Where a log stands.
    pub fn log(&self, kind: LogKind) -> LogPosition {
        let index = kind as usize % 3;
        let raw = &self.raw;
        let (segment, next) = match kind.is_node() {
            true => (raw.cur_node_segno[index], raw.cur_node_blkoff[index]),
            false => (raw.cur_data_segno[index], raw.cur_data_blkoff[index]),
        };
        let is_threaded = raw.alloc_type[kind as usize] != 0;
        LogPosition { segment: SegmentNo(segment.get()), next: next.get(), is_threaded }
    }
}

impl Checkpoint {
    /// The blocks of the head: it and the payload behind it. Sets the checksum. A head whose bitmaps need all room
    /// does not name its staging area.
    ///
    /// # Panics
    /// If the bitmaps have other sizes than the fields say, which [`Checkpoint::decode`] never gives.
    pub fn encode(&mut self, layout: &Layout) -> Vec<u8> {
        let mut blocks = vec![0; 4096 * (1 + layout.payload_blocks as usize)];
        blocks[..HEAD_SIZE].copy_from_slice(self.raw.as_bytes());
        let (sit, nat) = bitmap_places(&self.raw, layout);
        blocks[sit].copy_from_slice(&self.sit_bitmap);
        blocks[nat].copy_from_slice(&self.nat_bitmap);
        if let Some(mark) = self.stage.filter(|_| has_room_for_mark(&self.raw, layout)) {
            let (_, kind) = STAGE_KINDS[mark.place as usize];
            let (area_id, version) = (mark.area_id.to_le_bytes(), self.version().to_le_bytes());
            blocks[STAGE_MARK].copy_from_slice(&[&kind[..], &area_id, &version].concat());
        }
        let offset = self.raw.checksum_offset.get() as usize;
        self.checksum = head_checksum(&blocks[..4096], offset);
        blocks[offset..offset + 4].copy_from_slice(&self.checksum.to_le_bytes());
        blocks
    }

    /// Sets where a log stands.
    pub fn set_log(&mut self, kind: LogKind, log: LogPosition) {
        let index = kind as usize % 3;
        let (segment, next) = (U32::new(log.segment.0), U16::new(log.next));
        match kind.is_node() {
            true => (self.raw.cur_node_segno[index], self.raw.cur_node_blkoff[index]) = (segment, next),
            false => (self.raw.cur_data_segno[index], self.raw.cur_data_blkoff[index]) = (segment, next),
        }
        self.raw.alloc_type[kind as usize] = u8::from(log.is_threaded);
    }
}

/// The staging area that a head names for its own version.
fn stage_mark(blocks: &[u8], raw: &RawCheckpoint, layout: &Layout) -> Option<StageMark> {
    let (named, version) = blocks[STAGE_MARK].split_at(8);
    let (kind, area_id) = named.split_at(4);
    let is_of_version = version == raw.checkpoint_ver.get().to_le_bytes() && has_room_for_mark(raw, layout);
    let (place, _) = STAGE_KINDS.into_iter().find(|(_, known)| is_of_version && kind == *known)?;
    Some(StageMark { place, area_id: u32::from_le_bytes(area_id.try_into().expect("four bytes")) })
}

fn has_room_for_mark(raw: &RawCheckpoint, layout: &Layout) -> bool {
    let (sit, nat) = bitmap_places(raw, layout);
    let checksum = raw.checksum_offset.get() as usize;
    let taken = [sit, nat, checksum..checksum + 4];
    taken.into_iter().all(|place| place.end <= STAGE_MARK.start || place.start >= STAGE_MARK.end)
}

/// Where the bitmaps of SIT and NAT lie in a head and its payload.
fn bitmap_places(raw: &RawCheckpoint, layout: &Layout) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (sit, nat) = (raw.sit_ver_bitmap_bytesize.get() as usize, raw.nat_ver_bitmap_bytesize.get() as usize);
    let is_large = raw.ckpt_flags.get() & flags::LARGE_NAT_BITMAP != 0;
    let (sit_start, nat_start) = match (is_large, layout.payload_blocks) {
        (true, _) => (HEAD_SIZE + 4 + nat, HEAD_SIZE + 4),
        (false, 0) => (HEAD_SIZE, HEAD_SIZE + sit),
        (false, _) => (4096, HEAD_SIZE),
    };
    (sit_start..sit_start.saturating_add(sit), nat_start..nat_start.saturating_add(nat))
}

/// The bitmaps of SIT and NAT.
fn bitmaps<'a>(
    blocks: &'a [u8],
    raw: &RawCheckpoint,
    layout: &Layout,
    pack: u8,
) -> Result<(&'a [u8], &'a [u8]), FormatError> {
    let (sit_place, nat_place) = bitmap_places(raw, layout);
    let place = Place::Checkpoint(pack);
    let part = |range: std::ops::Range<usize>, field, needed: u64| {
        let size = range.len() as u64;
        let is_enough = size * 8 >= needed;
        blocks
            .get(range)
            .filter(|_| is_enough)
            .ok_or_else(|| FormatError::field(place, field, size, "a bit for each block, within the pack"))
    };
    let used_sit = u64::from(layout.main_segments).div_ceil(super::sit::ENTRIES_PER_BLOCK as u64);
    let sit = part(sit_place, "sit_ver_bitmap_bytesize", used_sit)?;
    let nat = part(nat_place, "nat_ver_bitmap_bytesize", layout.nat_blocks)?;
    Ok((sit, nat))
}
