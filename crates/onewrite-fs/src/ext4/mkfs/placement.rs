//! Where everything of a new file system lies.
//!
//! The bitmaps and inode tables of a flex group's groups lie one after the other in its first group, behind superblock
//! and descriptors. Root directory and lost+found take the first free blocks. The journal takes free blocks from the
//! middle of the device on, where seeks are shortest.

use super::geometry::Geometry;
use super::options::{MkfsError, MkfsOptions};
use crate::block::{BlockNo, BlockRange};
use crate::ext4::format::extent::{ROOT_CAPACITY, WRITTEN_LENGTH_MAX};
use crate::ext4::format::group::{BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED};
use crate::ext4::format::{Extent, FIRST_INODE, Layout, RawGroupDescriptor};
use onewrite_block::PAGE_SIZE;
use zerocopy::FromZeros;

/// Blocks of lost+found. They are allocated in advance, so that a repair finds room for names.
pub(super) const LOST_AND_FOUND_BLOCKS: u32 = 4;
/// Extents that one block below the root holds.
const LEAF_CAPACITY: usize = (PAGE_SIZE - 12) / 12;

/// The result: descriptors without checksums, and the places of content.
pub(super) struct Placement {
    pub descriptors: Vec<RawGroupDescriptor>,
    /// Everything in use, by start, without overlap.
    pub used: Vec<BlockRange>,
    pub root_block: BlockNo,
    pub lost_and_found: BlockNo,
    pub journal: Vec<Extent>,
    /// Block of the journal's extents, if they do not fit its inode.
    pub journal_leaf: Option<BlockNo>,
    pub free_blocks: u64,
}

impl Placement {
    pub(super) fn of(geometry: &Geometry, options: &MkfsOptions) -> Result<Placement, MkfsError> {
        let layout = &geometry.layout;
        let mut descriptors = vec![RawGroupDescriptor::new_zeroed(); layout.group_count as usize];
        let mut used = fixed_runs(layout, &mut descriptors);
        let too_small = || MkfsError::TooSmall {
            size_bytes: options.size_bytes,
            needed_blocks: used_blocks(&fixed_runs(layout, &mut descriptors.clone()))
                + u64::from(geometry.journal_blocks + 1 + LOST_AND_FOUND_BLOCKS + 1),
            cure: "; a smaller journal or a larger device would help",
        };
        let root_block = take_run(layout, &mut used, 1).ok_or_else(too_small)?;
        let length = LOST_AND_FOUND_BLOCKS.into();
        let lost_and_found = take_run(layout, &mut used, length).ok_or_else(too_small)?;
        let journal = take_journal(layout, &mut used, geometry.journal_blocks).ok_or_else(too_small)?;
        let journal_leaf = match journal.len() {
            0..=ROOT_CAPACITY => None,
            count if count <= LEAF_CAPACITY => Some(take_run(layout, &mut used, 1).ok_or_else(too_small)?),
            _ => {
                let rule = "it does not fit 340 extents: choose fewer blocks";
                return Err(MkfsError::Journal { blocks: geometry.journal_blocks, rule });
            }
        };
        let free_blocks = layout.block_count - used_blocks(&used);
        describe(layout, &mut descriptors, &used, options);
        Ok(Placement { descriptors, used, root_block, lost_and_found, journal, journal_leaf, free_blocks })
    }

    /// The used runs inside `group`, clipped at its ends.
    pub(super) fn used_in<'a>(&'a self, layout: &Layout, group: u32) -> impl Iterator<Item = BlockRange> + use<'a> {
        let start = layout.first_block_of_group(group);
        let end = start + u64::from(layout.blocks_in_group(group));
        let first = self.used.partition_point(|run| run.end() <= start);
        self.used[first..]
            .iter()
            .take_while(move |run| run.start < end)
            .map(move |run| BlockRange::between(run.start.max(start), run.end().min(end)))
    }
}

/// The runs of superblocks, descriptors, bitmaps and tables. Stores the places of bitmaps and tables in the
/// descriptors.
fn fixed_runs(layout: &Layout, descriptors: &mut [RawGroupDescriptor]) -> Vec<BlockRange> {
    let mut runs = Vec::new();
    for (group, own) in (0..).zip(descriptors) {
        let start = layout.first_block_of_group(group);
        push(&mut runs, start.run(layout.base_blocks(group).into()));
        let flex_first = group - group % layout.flex_group_size;
        let count = u64::from(layout.flex_group_size.min(layout.group_count - flex_first));
        let index = u64::from(group - flex_first);
        let tables = u64::from(layout.inode_table_blocks());
        let metadata = layout.first_block_of_group(flex_first) + u64::from(layout.base_blocks(flex_first));
        own.set_block_bitmap(metadata + index);
        own.set_inode_bitmap(metadata + count + index);
        own.set_inode_table(metadata + 2 * count + index * tables);
        if index == 0 {
            push(&mut runs, metadata.run(count * (2 + tables)));
        }
    }
    runs
}

/// Appends a run, which must begin at or after the end of the last one. Joins the two if they touch.
fn push(runs: &mut Vec<BlockRange>, run: BlockRange) {
    match runs.last_mut() {
        Some(last) if last.end() == run.start => last.count += run.count,
        _ if run.is_empty() => {}
        _ => runs.push(run),
    }
}

fn used_blocks(runs: &[BlockRange]) -> u64 {
    runs.iter().map(|run| run.count).sum()
}

/// The free runs from `start` on.
fn free_runs(layout: &Layout, used: &[BlockRange], start: BlockNo) -> Vec<BlockRange> {
    let first = used.partition_point(|run| run.end() <= start);
    let mut free = Vec::new();
    let mut next = start;
    for run in &used[first..] {
        if run.start > next {
            free.push(BlockRange::between(next, run.start));
        }
        next = run.end();
    }
    if next < layout.end() {
        free.push(BlockRange::between(next, layout.end()));
    }
    free
}

/// Takes the first `length` free blocks in one piece.
fn take_run(layout: &Layout, used: &mut Vec<BlockRange>, length: u64) -> Option<BlockNo> {
    let run = free_runs(layout, used, BlockNo::FIRST).into_iter().find(|run| run.count >= length)?;
    take(used, run.start.run(length));
    Some(run.start)
}

fn take(used: &mut Vec<BlockRange>, taken: BlockRange) {
    let at = used.partition_point(|run| run.start < taken.start);
    used.insert(at, taken);
}

/// Takes the journal's blocks from the middle flex group on, or from the start if that gives too few.
fn take_journal(layout: &Layout, used: &mut Vec<BlockRange>, blocks: u32) -> Option<Vec<Extent>> {
    let middle = layout.group_count / 2;
    let middle = layout.first_block_of_group(middle - middle % layout.flex_group_size);
    [middle, BlockNo::FIRST].into_iter().find_map(|start| take_extents(layout, used, start, blocks))
}

fn take_extents(layout: &Layout, used: &mut Vec<BlockRange>, start: BlockNo, blocks: u32) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut logical = 0;
    for mut run in free_runs(layout, used, start) {
        while !run.is_empty() && logical < blocks {
            let length = run.count.min(u64::from(WRITTEN_LENGTH_MAX.min(blocks - logical)));
            extents.push(Extent { logical, physical: run.start, length: length as u32, unwritten: false });
            logical += length as u32;
            run = (run.start + length).run(run.count - length);
        }
    }
    if logical < blocks {
        return None;
    }
    extents.iter().for_each(|extent| take(used, extent.blocks()));
    Some(extents)
}

/// Counts and flags of all groups.
fn describe(layout: &Layout, descriptors: &mut [RawGroupDescriptor], used: &[BlockRange], options: &MkfsOptions) {
    let mut taken = vec![0_u64; layout.group_count as usize];
    for run in used {
        let mut start = run.start;
        while start < run.end() {
            let group = layout.group_of_block(start);
            let end = run.end().min(layout.first_block_of_group(group + 1));
            taken[group as usize] += end - start;
            start = end;
        }
    }
    for ((group, own), taken) in (0..).zip(&mut *descriptors).zip(taken) {
        own.set_free_blocks(layout.blocks_in_group(group) - taken as u32);
        own.set_free_inodes(layout.inodes_per_group);
        if layout.features.group_checksums() {
            own.set_unused_inodes(layout.inodes_per_group);
            own.flags.set(uninit_flags(layout, group, taken, options));
        }
    }
    let (first, reserved) = (&mut descriptors[0], layout.inodes_per_group - FIRST_INODE.0);
    first.set_free_inodes(reserved);
    first.set_used_directories(2);
    if layout.features.group_checksums() {
        first.set_unused_inodes(reserved);
    }
}

/// The uninitialized flags of a group. Its bitmaps stay unwritten if only the layout's own blocks are in use.
fn uninit_flags(layout: &Layout, group: u32, taken: u64, options: &MkfsOptions) -> u16 {
    let inodes = if group > 0 { INODE_UNINIT } else { 0 };
    // The bitmap of the last group marks blocks beyond the end, so it must be written.
    let is_last = group + 1 == layout.group_count;
    let empty = group > 0 && !is_last && taken == u64::from(layout.base_blocks(group));
    let blocks = if empty { BLOCK_UNINIT } else { 0 };
    inodes | blocks | if options.device_is_zeroed { INODE_ZEROED } else { 0 }
}
