//! Guard: checks each reference in an image before anything follows it.
//!
//! Its one idea: superblocks, descriptors, bitmaps, inode tables and the log stay where the descriptors say for the
//! whole mount. Any other reference to one of those blocks is damage: an extent, an index, an attribute block, a bitmap
//! that calls the block free. The guard refuses it before the block is read, taken or freed. So a file can never write
//! over metadata. The kernel does the same (`block_validity`).

use onewrite_block::PAGE_SIZE;

use super::balloc::Groups;
use super::format::{Inode, InodeNo, Layout, RawGroupDescriptor};
use crate::api::{FileKind, FsError, FsResult};
use crate::block::BlockRange;
use crate::journal::LogMap;

/// Largest possible file, in bytes: extents number blocks with 32 bits.
pub(super) const SIZE_MAX: u64 = ((1 << 32) - 1) * PAGE_SIZE as u64;

/// System zone: the blocks that hold fixed metadata, as ranges in ascending order.
pub(super) struct SystemZone {
    ranges: Vec<BlockRange>,
}

impl SystemZone {
    /// Collects the ranges. All of them must lie in the image.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if two ranges overlap.
    pub(super) fn new(layout: &Layout, groups: &Groups, log: &LogMap) -> FsResult<SystemZone> {
        let mut ranges = log.ranges().to_vec();
        for number in 0..layout.group_count {
            let base = u64::from(layout.base_blocks(number).min(layout.blocks_in_group(number)));
            ranges.push(layout.first_block_of_group(number).run(base));
            ranges.extend(groups.descriptor(number).metadata(layout));
        }
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable();
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end() > pair[1].start) {
            let place = format!("bitmaps, inode tables, superblocks and log, block {}", pair[1].start);
            return Err(FsError::Damaged { place, problem: "two of them lie there".into() });
        }
        ranges.dedup_by(|next, range| {
            let meets = range.end() == next.start;
            range.count += if meets { next.count } else { 0 };
            meets
        });
        Ok(SystemZone { ranges })
    }

    /// Whether a run has a block of the zone.
    pub(super) fn touches(&self, run: BlockRange) -> bool {
        let after = self.ranges.partition_point(|range| range.start < run.end());
        after.checked_sub(1).is_some_and(|last| self.ranges[last].end() > run.start)
    }
}

/// # Errors
/// [`FsError::Damaged`] if a descriptor names blocks beyond the image.
pub(super) fn check_descriptor(descriptor: &RawGroupDescriptor, group: u32, layout: &Layout) -> FsResult<()> {
    match descriptor.metadata(layout).iter().find(|run| !run.ends_by(layout.end())) {
        None => Ok(()),
        Some(BlockRange { start, count }) => Err(FsError::Damaged {
            place: format!("descriptor of group {group}"),
            problem: format!("{count} blocks from {start} on lie beyond the image"),
        }),
    }
}

/// # Errors
/// [`FsError::Damaged`] if an inode of this kind cannot have this size.
pub(super) fn check_size(number: InodeNo, inode: &Inode, layout: &Layout) -> FsResult<()> {
    // A deleted directory has no size.
    let whole = inode.links == 0 || inode.size > 0 && inode.size.is_multiple_of(u64::from(layout.block_size));
    let is_possible = inode.size <= SIZE_MAX && (inode.kind() != Some(FileKind::Directory) || whole);
    match is_possible {
        true => Ok(()),
        false => Err(FsError::Damaged {
            place: format!("inode {number}"),
            problem: format!("a size of {} bytes is impossible for its kind", inode.size),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BlockNo;

    #[test]
    fn a_zone_reaches_from_its_first_block_to_its_last() {
        let zone = SystemZone { ranges: vec![BlockNo(10).run(5), BlockNo(20).run(1)] };
        let touched: Vec<u64> = (0..30).filter(|block| zone.touches(BlockNo(*block).alone())).collect();
        assert_eq!(touched, [10, 11, 12, 13, 14, 20]);
        let runs = [(8, 2), (8, 3), (14, 3), (15, 5), (15, 6), (0, 30)];
        assert_eq!(
            runs.map(|(start, count)| zone.touches(BlockNo(start).run(count))),
            [false, true, true, false, true, true]
        );
    }
}
