//! Guard: what an image's references may name, checked before they are followed.
//!
//! Its one idea: superblocks, descriptors, bitmaps, inode tables and the log lie where the descriptors say, for as long
//! as a mount lasts. Whatever else names one of those blocks (an extent, an index, a block of attributes, a bitmap that
//! calls it free) is damage, and is refused before it is read, taken or freed: a file can then never write over
//! metadata. The kernel does the same (`block_validity`).

use super::balloc::Groups;
use super::format::{Inode, Layout, RawGroupDescriptor};
use super::volume::Volume;
use super::write::SIZE_MAX;
use crate::api::{FileKind, FsError, FsResult};
use crate::journal::{BlockRange, LogMap};

/// System zone: the blocks that hold metadata whatever the files are, as ranges in ascending order.
pub(super) struct SystemZone {
    ranges: Vec<BlockRange>,
}

impl SystemZone {
    /// Collects the ranges, all of which lie in the image.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if one of them lies in another.
    pub(super) fn new(layout: &Layout, groups: &Groups, log: &LogMap) -> FsResult<SystemZone> {
        let mut ranges = log.ranges().to_vec();
        for (number, group) in (0..layout.group_count).zip(groups.all.borrow().iter()) {
            let descriptor = &group.descriptor;
            let table = u64::from(layout.inode_table_blocks());
            let base = u64::from(layout.base_blocks(number).min(layout.blocks_in_group(number)));
            let places = [
                (layout.first_block_of_group(number), base),
                (descriptor.block_bitmap(), 1),
                (descriptor.inode_bitmap(), 1),
                (descriptor.inode_table(), table),
            ];
            for (start, count) in places {
                ranges.push(BlockRange { start, count });
            }
        }
        ranges.retain(|range| range.count > 0);
        ranges.sort_unstable();
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].start + pair[0].count > pair[1].start) {
            let place = format!("bitmaps, inode tables, superblocks and log, block {}", pair[1].start);
            return Err(FsError::Damaged { place, problem: "two of them lie there".into() });
        }
        ranges.dedup_by(|next, range| {
            let meets = range.start + range.count == next.start;
            range.count += if meets { next.count } else { 0 };
            meets
        });
        Ok(SystemZone { ranges })
    }

    fn touches(&self, start: u64, count: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start < start.saturating_add(count));
        after.checked_sub(1).is_some_and(|last| self.ranges[last].start + self.ranges[last].count > start)
    }
}

/// # Errors
/// [`FsError::Damaged`] if a descriptor names blocks beyond the image.
pub(super) fn check_descriptor(descriptor: &RawGroupDescriptor, group: u32, layout: &Layout) -> FsResult<()> {
    let table = u64::from(layout.inode_table_blocks());
    let places = [(descriptor.block_bitmap(), 1), (descriptor.inode_bitmap(), 1), (descriptor.inode_table(), table)];
    match places.iter().find(|(start, count)| start.checked_add(*count).is_none_or(|end| end > layout.block_count)) {
        None => Ok(()),
        Some((start, count)) => Err(FsError::Damaged {
            place: format!("descriptor of group {group}"),
            problem: format!("{count} blocks from {start} on lie beyond the image"),
        }),
    }
}

impl Volume {
    /// # Errors
    /// [`FsError::Damaged`] if a block from `start` on is none that a file may have; `who` refers to them.
    pub(super) fn check_content(&self, who: impl std::fmt::Display, start: u64, count: u64) -> FsResult<()> {
        let damage = |problem: &str| {
            let place = format!("{who}, {count} blocks from {start} on");
            Err(FsError::Damaged { place, problem: problem.into() })
        };
        match start.checked_add(count) {
            Some(end) if end <= self.layout.block_count && !self.system_zone.touches(start, count) => Ok(()),
            Some(end) if end <= self.layout.block_count => {
                damage("superblocks, bitmaps, inode tables or the log lie there")
            }
            _ => damage("they lie beyond the file system"),
        }
    }

    /// # Errors
    /// [`FsError::Damaged`] if the number is one that no name and no orphan list may have.
    pub(super) fn check_number(&self, number: u32) -> FsResult<()> {
        match number >= self.layout.first_inode || number == super::format::ROOT_INODE {
            true => Ok(()),
            false => Err(FsError::Damaged {
                place: format!("reference to inode {number}"),
                problem: "it is reserved for the file system itself".into(),
            }),
        }
    }
}

/// # Errors
/// [`FsError::Damaged`] if the size is none that an inode of its kind can have.
pub(super) fn check_size(number: u32, inode: &Inode, layout: &Layout) -> FsResult<()> {
    // A directory that is gone has no size.
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
