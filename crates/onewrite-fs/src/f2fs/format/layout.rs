//! Layout: the checked numbers of the superblock. Whoever has one may compute with them without overflow.
//!
//! # Invariants
//! - The areas follow each other without gaps and end within `block_count`.
//! - SIT and NAT have two copies of each of their blocks; the SIT has an entry for each segment, the SSA a block.

use onewrite_block::crc32_le;

use super::address::{Nid, SegmentNo};
use super::error::{FormatError, Place};
use super::features::Features;
use super::nat::ENTRIES_PER_BLOCK as NIDS_PER_BLOCK;
use super::sit::ENTRIES_PER_BLOCK as SEGMENTS_PER_BLOCK;
use super::superblock::RawSuperblock;
use crate::block::{BlockNo, BlockRange};

/// Blocks of a segment.
pub const SEGMENT_BLOCKS: u64 = 512;
/// Number of the inode that stands for the nodes; it has no node.
pub const NODE_INODE: Nid = Nid(1);
/// Number of the inode that stands for the metadata; it has no node.
pub const META_INODE: Nid = Nid(2);
/// Number of the root directory.
pub const ROOT_INODE: Nid = Nid(3);

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of the image.
    pub block_count: u64,
    /// First block of the checkpoint area: pack 0. Pack 1 begins a segment later.
    pub checkpoint: BlockNo,
    /// First block of the SIT.
    pub sit: BlockNo,
    /// First block of the NAT.
    pub nat: BlockNo,
    /// First block of the SSA.
    pub ssa: BlockNo,
    /// The main area.
    pub main: BlockRange,
    /// Segments of the main area.
    pub main_segments: u32,
    /// Segments of a section.
    pub section_segments: u32,
    /// Sections of a zone.
    pub zone_sections: u32,
    /// Blocks of one copy of the SIT.
    pub sit_blocks: u64,
    /// Blocks of one copy of the NAT.
    pub nat_blocks: u64,
    /// Blocks of a pack behind its first that continue its bitmaps.
    pub payload_blocks: u32,
    /// Features.
    pub features: Features,
    /// Inodes of the quota files; [`Nid::NONE`] where there is none.
    pub quota_inodes: [Nid; 3],
    /// Start value of the checksums of inodes.
    pub inode_seed: u32,
}

impl Layout {
    /// Checks the numbers of a superblock.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for features, sizes and several devices that Onewrite does not support, by name;
    /// [`FormatError::Damaged`] for numbers that contradict each other.
    pub fn decode(raw: &RawSuperblock, copy: u8) -> Result<Layout, FormatError> {
        raw.features().check_supported()?;
        if raw.devices[1].path[0] != 0 {
            return Err(FormatError::Unsupported { what: "F2FS over several devices".into() });
        }
        let wrong = |field, value: u32, rule| Err(FormatError::field(Place::Superblock(copy), field, value, rule));
        let fixed = [
            ("log_blocksize", raw.log_blocksize.get(), 12, "only blocks of 4096 bytes are supported"),
            ("log_blocks_per_seg", raw.log_blocks_per_seg.get(), 9, "a segment has 512 blocks"),
            ("segment_count_ckpt", raw.segment_count_ckpt.get(), 2, "there are two checkpoint packs"),
            ("node_ino", raw.node_ino.get(), NODE_INODE.0, "must be 1"),
            ("meta_ino", raw.meta_ino.get(), META_INODE.0, "must be 2"),
            ("root_ino", raw.root_ino.get(), ROOT_INODE.0, "must be 3"),
        ];
        for (field, value, expected, rule) in fixed {
            if value != expected {
                return wrong(field, value, rule);
            }
        }
        let sector = raw.log_sectorsize.get();
        if !(9..=12).contains(&sector) || raw.log_sectors_per_block.get() != 12 - sector {
            return wrong("log_sectorsize", sector, "sectors have 512 to 4096 bytes and fill a block");
        }
        Layout::check_areas(raw, copy)?;
        Ok(Layout::of(raw))
    }

    fn check_areas(raw: &RawSuperblock, copy: u8) -> Result<(), FormatError> {
        let place = Place::Superblock(copy);
        let areas = [
            ("cp_blkaddr", &raw.cp_blkaddr, &raw.segment_count_ckpt),
            ("sit_blkaddr", &raw.sit_blkaddr, &raw.segment_count_sit),
            ("nat_blkaddr", &raw.nat_blkaddr, &raw.segment_count_nat),
            ("ssa_blkaddr", &raw.ssa_blkaddr, &raw.segment_count_ssa),
            ("main_blkaddr", &raw.main_blkaddr, &raw.segment_count_main),
        ];
        let mut next = u64::from(raw.segment0_blkaddr.get());
        if next < 2 {
            return Err(FormatError::field(place, "segment0_blkaddr", next, "the superblocks lie before it"));
        }
        for (field, start, segments) in areas {
            if u64::from(start.get()) != next {
                return Err(FormatError::field(place, field, start.get(), "the areas follow each other without gaps"));
            }
            if segments.get() == 0 {
                return Err(FormatError::field(place, field, start.get(), "the area has no segments"));
            }
            next += u64::from(segments.get()) * SEGMENT_BLOCKS;
        }
        if next > raw.block_count.get() || next > u64::from(u32::MAX) {
            return Err(FormatError::field(place, "block_count", raw.block_count.get(), "the areas end behind it"));
        }
        for (field, segments) in
            [("segment_count_sit", raw.segment_count_sit), ("segment_count_nat", raw.segment_count_nat)]
        {
            if segments.get() % 2 != 0 {
                return Err(FormatError::field(place, field, segments.get(), "there are two copies of each block"));
            }
        }
        let main = u64::from(raw.segment_count_main.get());
        let in_sit = u64::from(raw.segment_count_sit.get() / 2) * SEGMENT_BLOCKS * SEGMENTS_PER_BLOCK as u64;
        let in_ssa = u64::from(raw.segment_count_ssa.get()) * SEGMENT_BLOCKS;
        if main > in_sit || main > in_ssa {
            return Err(FormatError::field(place, "segment_count_main", main, "more than SIT or SSA describe"));
        }
        if u64::from(raw.cp_payload.get()) > SEGMENT_BLOCKS - 2 {
            return Err(FormatError::field(place, "cp_payload", raw.cp_payload.get(), "a pack has 512 blocks"));
        }
        let (section, zone) = (raw.segs_per_sec.get(), raw.secs_per_zone.get());
        if section == 0 || zone == 0 || u64::from(section) > main || u64::from(zone) > main {
            return Err(FormatError::field(place, "segs_per_sec", section, "sections and zones fit the main area"));
        }
        Ok(())
    }

    fn of(raw: &RawSuperblock) -> Layout {
        let at = |field: zerocopy::little_endian::U32| BlockNo(field.get().into());
        let copy_blocks = |segments: zerocopy::little_endian::U32| u64::from(segments.get() / 2) * SEGMENT_BLOCKS;
        let main_segments = raw.segment_count_main.get();
        Layout {
            block_count: raw.block_count.get(),
            checkpoint: at(raw.cp_blkaddr),
            sit: at(raw.sit_blkaddr),
            nat: at(raw.nat_blkaddr),
            ssa: at(raw.ssa_blkaddr),
            main: at(raw.main_blkaddr).run(u64::from(main_segments) * SEGMENT_BLOCKS),
            main_segments,
            section_segments: raw.segs_per_sec.get(),
            zone_sections: raw.secs_per_zone.get(),
            sit_blocks: copy_blocks(raw.segment_count_sit),
            nat_blocks: copy_blocks(raw.segment_count_nat),
            payload_blocks: raw.cp_payload.get(),
            features: raw.features(),
            quota_inodes: raw.quota_ino.map(|number| Nid(number.get())),
            inode_seed: crc32_le(!0, &raw.uuid),
        }
    }

    /// First block of checkpoint pack `pack`, 0 or 1.
    pub fn pack(&self, pack: u8) -> BlockNo {
        self.checkpoint + u64::from(pack) * SEGMENT_BLOCKS
    }

    /// Number behind the largest node number.
    pub fn nid_end(&self) -> u32 {
        u32::try_from(self.nat_blocks * NIDS_PER_BLOCK as u64).unwrap_or(u32::MAX)
    }

    /// Whether the NAT has an entry for `nid`, and it may name a node.
    pub fn contains_node(&self, nid: Nid) -> bool {
        nid >= ROOT_INODE && nid.0 < self.nid_end()
    }

    /// Segment and position in it of a block of the main area; `None` for other blocks.
    pub fn position(&self, block: BlockNo) -> Option<(SegmentNo, usize)> {
        self.main.contains(block).then(|| {
            let offset = block - self.main.start;
            (SegmentNo((offset / SEGMENT_BLOCKS) as u32), (offset % SEGMENT_BLOCKS) as usize)
        })
    }

    /// First block of a segment of the main area.
    pub fn segment_start(&self, segment: SegmentNo) -> BlockNo {
        self.main.start + u64::from(segment.0) * SEGMENT_BLOCKS
    }

    /// Both copies of block `index` of the SIT.
    pub fn sit_copies(&self, index: u64) -> [BlockNo; 2] {
        [self.sit + index, self.sit + index + self.sit_blocks]
    }

    /// Both copies of block `index` of the NAT: segments of first and second copies take turns.
    pub fn nat_copies(&self, index: u64) -> [BlockNo; 2] {
        let first = self.nat + index / SEGMENT_BLOCKS * SEGMENT_BLOCKS * 2 + index % SEGMENT_BLOCKS;
        [first, first + SEGMENT_BLOCKS]
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Choices, PAGE_SIZE};

    use super::*;
    use crate::f2fs::mkfs::{MkfsOptions, plan};

    /// Source: `filesystems/f2fs.rst`, "a pair of segments": of two neighbours the first holds first copies.
    #[test]
    fn segments_of_first_and_second_copies_of_the_nat_take_turns() {
        let options = MkfsOptions { device_is_zeroed: true, ..MkfsOptions::new(500 << 30, &mut Choices::new(1)) };
        let blocks = plan(&options).expect("a plan");
        let bytes = blocks[0].1.bytes();
        assert_eq!(bytes.len(), PAGE_SIZE);
        let layout = Layout::decode(&RawSuperblock::in_block(&bytes[..], 0).expect("sound"), 0).expect("sound");
        let places = |index| layout.nat_copies(index).map(|block| block - layout.nat);
        assert!(layout.nat_blocks > 2 * SEGMENT_BLOCKS, "{} blocks", layout.nat_blocks);
        assert_eq!((places(0), places(511)), ([0, 512], [511, 1023]));
        assert_eq!((places(512), places(1030)), ([1024, 1536], [2054, 2566]));
        let last = layout.nat_copies(layout.nat_blocks - 1)[1];
        assert_eq!(last + 1, layout.ssa, "the copies fill the area");
    }
}
