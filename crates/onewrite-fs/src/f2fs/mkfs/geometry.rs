//! The numbers of a new file system: how many segments each area has, and what stays spare.
//!
//! The areas are as `mkfs.f2fs` makes them: room in SIT and SSA for each segment, in the NAT for a node in each block,
//! or as many as the bitmaps of a checkpoint can tell apart.

use onewrite_block::{Lpn, Zones};

use super::options::{MkfsError, SIZE_MAX, SIZE_MIN};
use crate::f2fs::format::checkpoint::{CHECKSUM_OFFSET, HEAD_SIZE};
use crate::f2fs::format::layout::SEGMENT_BLOCKS;
use crate::f2fs::format::{nat, sit};

/// Block at which the segments begin.
pub(super) const SEGMENTS_START: u64 = SEGMENT_BLOCKS;
/// Segments of the checkpoint packs.
pub(super) const CHECKPOINT_SEGMENTS: u64 = 2;
/// Bytes of a checkpoint's head for bitmaps.
const BITMAP_ROOM: u64 = (CHECKSUM_OFFSET - HEAD_SIZE) as u64;
/// Bytes of the bitmap of one copy of a segment of SIT or NAT.
const SEGMENT_BITS: u64 = SEGMENT_BLOCKS / 8;
/// Segments of a copy of the NAT for which the head has room at least: else the SIT's bitmap goes behind it.
const NAT_SEGMENTS_MIN: u64 = 20;
/// Main segments from which on the spare part is chosen in steps of a hundredth of a percent.
const FINE_FROM: u64 = 500;

/// Fewest zones: one for each log, the reserve, what cleaning needs, and some for files.
const SECTIONS_MIN: u64 = 32;
/// Spare sections beside those of [`Spare`], since nothing is threaded: what is kept for checkpoints and recovery.
const SPARE_SECTIONS: u64 = 4;

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Blocks of the device.
    pub(super) blocks: u64,
    /// Segments of all areas.
    pub(super) segments: u64,
    /// Segments of both copies of the SIT.
    pub(super) sit: u64,
    /// Segments of both copies of the NAT.
    pub(super) nat: u64,
    /// Segments of the SSA.
    pub(super) ssa: u64,
    /// Segments of the main area.
    pub(super) main: u64,
    /// Segments of a section.
    pub(super) section: u64,
    /// Blocks of a checkpoint pack behind its head for the SIT's bitmap.
    pub(super) payload: u64,
    /// What stays spare.
    pub(super) spare: Spare,
}

/// Segments that files cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spare {
    /// All of them.
    pub(super) segments: u64,
    /// Those that only cleaning may take.
    pub(super) reserved: u64,
}

impl Geometry {
    /// # Errors
    /// If the device is too small or too large.
    pub(super) fn of(size_bytes: u64) -> Result<Geometry, MkfsError> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&size_bytes) {
            return Err(MkfsError::Size { size_bytes });
        }
        // The last number of 32 bits is no address.
        let blocks = (size_bytes / 4096).min(u64::from(u32::MAX) - 1);
        let segments = (blocks - SEGMENTS_START) / SEGMENT_BLOCKS;
        let sit = segments.div_ceil(sit::ENTRIES_PER_BLOCK as u64).div_ceil(SEGMENT_BLOCKS);
        let (payload, head_room) = match BITMAP_ROOM.checked_sub(sit * SEGMENT_BITS) {
            Some(room) if room >= NAT_SEGMENTS_MIN * SEGMENT_BITS => (0, room),
            _ => ((sit * SEGMENT_BITS).div_ceil(4096), BITMAP_ROOM),
        };
        let nodes = (segments - CHECKPOINT_SEGMENTS - 2 * sit) * SEGMENT_BLOCKS;
        let wanted = nodes.div_ceil(nat::ENTRIES_PER_BLOCK as u64).div_ceil(SEGMENT_BLOCKS);
        let nat = wanted.min(head_room / SEGMENT_BITS);
        let rest = segments - CHECKPOINT_SEGMENTS - 2 * (sit + nat);
        let ssa = rest.div_ceil(SEGMENT_BLOCKS);
        let main = rest - ssa;
        let spare = Spare::of(main);
        Ok(Geometry { blocks, segments, sit: 2 * sit, nat: 2 * nat, ssa, main, section: 1, payload, spare })
    }

    /// The same with its main area on zones; the SSA takes what is left before them.
    ///
    /// # Errors
    /// If the zones are no whole segments, begin too early, or are too few.
    pub(super) fn on_zones(self, zones: &Zones) -> Result<Geometry, MkfsError> {
        let Zones { first: Lpn(first), zone_pages, .. } = *zones;
        let [.., ssa_start, _] = self.starts();
        let needed = ssa_start + self.ssa * SEGMENT_BLOCKS;
        if !zone_pages.is_multiple_of(SEGMENT_BLOCKS) || !first.is_multiple_of(SEGMENT_BLOCKS) || first < needed {
            return Err(MkfsError::Zones { zone_pages, first, needed });
        }
        let section = zone_pages / SEGMENT_BLOCKS;
        let sections = (self.blocks.min(zones.end()).saturating_sub(first)) / zone_pages;
        if sections < SECTIONS_MIN {
            return Err(MkfsError::FewZones { zones: sections, least: SECTIONS_MIN });
        }
        let (ssa, main) = ((first - ssa_start) / SEGMENT_BLOCKS, sections * section);
        let segments = (first - SEGMENTS_START) / SEGMENT_BLOCKS + main;
        let Spare { segments: spare, reserved } = Spare::of(sections);
        let spare = Spare { segments: (spare + SPARE_SECTIONS) * section, reserved: reserved * section };
        Ok(Geometry { segments, ssa, main, section, spare, ..self })
    }

    /// Blocks for files and their nodes.
    pub(super) fn user_blocks(&self) -> u64 {
        (self.main - self.spare.segments) * SEGMENT_BLOCKS
    }

    /// First block of SIT, NAT, SSA and main area.
    pub(super) fn starts(&self) -> [u64; 4] {
        let sit = SEGMENTS_START + CHECKPOINT_SEGMENTS * SEGMENT_BLOCKS;
        let nat = sit + self.sit * SEGMENT_BLOCKS;
        let ssa = nat + self.nat * SEGMENT_BLOCKS;
        [sit, nat, ssa, ssa + self.ssa * SEGMENT_BLOCKS]
    }
}

impl Spare {
    /// The spare part that takes the fewest segments.
    ///
    /// If a part `p` of the segments is spare, a victim of cleaning may be used to `1 - p`, so cleaning moves `1 / p`
    /// segments to gain one. It keeps twice that for itself, for data and for nodes, a pair more, and a segment for
    /// each of the six logs. More spare room means fewer reserved segments, so the sum has a minimum. Of equal sums the
    /// larger part is taken: it cleans cheaper.
    fn of(main: u64) -> Spare {
        let step = if main < FINE_FROM { 500 } else { 1 };
        let spares = (1..10_000 / step).filter_map(|number| {
            let hundredths = number * step;
            let reserved = 2 * 10_000 / hundredths + 2 + 6;
            let free = main.checked_sub(reserved)?;
            Some(Spare { segments: reserved + free * hundredths / 10_000, reserved })
        });
        spares.rev().min_by_key(|spare| spare.segments).expect("64 MiB have enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in MiB, and segments of SIT, NAT, SSA, main area, spare and reserved by mkfs.f2fs.
    const MADE: [(u64, [u64; 6]); 4] = [
        (64, [2, 2, 1, 24, 16, 13]),
        (128, [2, 2, 1, 56, 25, 18]),
        (256, [2, 2, 1, 120, 35, 21]),
        (512, [2, 2, 1, 248, 50, 28]),
    ];

    #[test]
    fn areas_and_spare_segments_are_those_of_mkfs_f2fs() {
        for (mebibytes, expected) in MADE {
            let Geometry { sit, nat, ssa, main, spare, .. } = Geometry::of(mebibytes << 20).unwrap();
            assert_eq!([sit, nat, ssa, main, spare.segments, spare.reserved], expected, "{mebibytes} MiB");
        }
        for (gibibytes, expected, spare_max) in
            [(1, [2, 4, 1, 502], 68), (10, [2, 24, 10, 5081], 206), (1000, [38, 82, 1000, 510_877], 2027)]
        {
            let Geometry { sit, nat, ssa, main, spare, payload, .. } = Geometry::of(gibibytes << 30).unwrap();
            assert_eq!(([sit, nat, ssa, main], payload), (expected, 0), "{gibibytes} GiB");
            assert!(spare.segments <= spare_max && spare.reserved < spare.segments, "{gibibytes} GiB: {spare:?}");
        }
        let huge = Geometry::of(4000 << 30).unwrap();
        assert_eq!((huge.sit, huge.nat, huge.payload), (146, 120, 2));
        assert!(Geometry::of(SIZE_MIN - 1).is_err() && Geometry::of(SIZE_MAX + 1).is_err());
    }
}
