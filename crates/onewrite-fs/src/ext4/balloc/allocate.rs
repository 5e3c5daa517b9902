//! Allocation: finds free blocks near a goal, takes them and frees them.

use std::ops::Range;

use onewrite_block::{PAGE_SIZE, PageBytes};

use super::room::{Sizes, Space, UNIT_BLOCKS};
use super::{Bit, Bitmap, Group, count_set, next_bit, set_bits};
use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};
use crate::ext4::format::group::BLOCK_UNINIT;
use crate::ext4::format::{Layout, RawGroupDescriptor};
use crate::ext4::guard::check_descriptor;
use crate::ext4::views::Allocator;
use crate::ext4::volume::block_key;
use crate::journal::Handle;

/// Minimum and maximum room for a new piece of a file, in blocks, the piece included. Between the two, the room lets
/// the file double.
const ROOM_BLOCKS_MIN: u32 = 8;
const ROOM_BLOCKS_MAX: u32 = 512;
/// Most groups that one allocation searches for room.
const ROOM_GROUPS_MAX: usize = 16;

/// Which blocks may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ext4) enum Source {
    /// Free blocks that no delayed page needs.
    FreeBlocks,
    /// All free blocks, also those kept for delayed pages.
    KeptBlocks,
}

/// Blocks for a file that may grow.
#[derive(Clone, Copy, Debug)]
pub(in crate::ext4) struct GrowthRequest {
    /// First block of the file that the new blocks will hold.
    pub(in crate::ext4) logical: u32,
    /// Maximum number of blocks.
    pub(in crate::ext4) wanted: u32,
    pub(in crate::ext4) from: Source,
}

impl Allocator<'_> {
    /// Brings the block bitmap of `group` into memory; computes it if it was never written. Returns its block.
    pub(in crate::ext4) async fn load_block_bitmap(&self, group: u32) -> FsResult<BlockNo> {
        let descriptor = || self.groups().descriptor(group).clone();
        let block = descriptor().block_bitmap();
        let unused = || descriptor().has(BLOCK_UNINIT, self.layout()).then(|| self.initial_bitmap(group));
        let verify = |bytes: &PageBytes| descriptor().verify_block_bitmap(bytes, group, self.layout());
        onewrite_block::reached!(
            "bitmap of a BLOCK_UNINIT group made in memory",
            unused().is_some() && !self.is_loaded(block)
        );
        self.load_or_make(block, unused, verify).await?;
        if cfg!(debug_assertions) {
            self.note_contradiction(group);
        }
        Ok(block)
    }

    /// The bitmap of a group that holds only metadata.
    fn initial_bitmap(&self, group: u32) -> Bitmap {
        let layout = self.layout();
        let mut bitmap = [0; PAGE_SIZE];
        let (first, blocks) = (layout.first_block_of_group(group), layout.blocks_in_group(group));
        set_bits(&mut bitmap, 0..layout.base_blocks(group), Bit::Taken);
        set_bits(&mut bitmap, blocks..8 * PAGE_SIZE as u32, Bit::Taken);
        let groups = self.groups().all.borrow();
        let flex = layout.flex_group_size;
        let flex_start = group / flex * flex;
        for member in groups.iter().skip(flex_start as usize).take(flex as usize) {
            for run in member.descriptor.metadata(layout) {
                let (from, to) = (run.start.max(first), run.end().min(first + u64::from(blocks)));
                if from < to {
                    set_bits(&mut bitmap, (from - first) as u32..(to - first) as u32, Bit::Taken);
                }
            }
        }
        bitmap
    }

    /// Brings the block with the descriptor of `group` into memory.
    pub(in crate::ext4) async fn load_descriptor(&self, group: u32) -> FsResult<()> {
        self.load(self.layout().position_of_descriptor(group).0, |_| Ok(())).await
    }

    /// Changes a descriptor whose block is in memory.
    pub(in crate::ext4) fn change_descriptor(
        &self,
        handle: &mut Handle,
        group: u32,
        change: impl FnOnce(&mut RawGroupDescriptor),
    ) {
        let mut groups = self.groups().all.borrow_mut();
        let descriptor = &mut groups[group as usize].descriptor;
        change(descriptor);
        let (block, offset) = self.layout().position_of_descriptor(group);
        self.change(handle, block, |bytes| {
            descriptor.write(&mut bytes[offset..], group, self.layout());
            debug_assert!(
                reads_as(&bytes[offset..], descriptor, group, self.layout()),
                "the descriptor of group {group} would be refused when it is read again"
            );
        });
    }

    /// Takes 1 to `wanted` contiguous blocks, as near behind `goal` as possible.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if every free block is kept for delayed pages; `waiting_blocks` says how many
    /// more a commit would free.
    pub(in crate::ext4) async fn allocate_blocks(
        &self,
        handle: &mut Handle,
        goal: BlockNo,
        wanted: u32,
    ) -> FsResult<BlockRange> {
        let kept = self.contents().kept_blocks();
        let free = if kept == 0 { u64::MAX } else { self.groups().available_blocks().saturating_sub(kept) };
        onewrite_block::reached!("all free blocks are kept for delayed pages", free == 0);
        match free {
            0 => Err(FsError::NoSpace { what: "blocks", needed: u64::from(wanted), free }),
            _ => self.allocate_kept_blocks(handle, goal, wanted.min(free.min(u64::from(u32::MAX)) as u32)).await,
        }
    }

    /// As [`Allocator::allocate_blocks`], for content of a file that may grow. Takes the blocks at `goal` if they are
    /// free. Otherwise prefers a place with free room behind it, as Linux does by rounding requests up.
    ///
    /// # Errors
    /// As [`Allocator::allocate_blocks`].
    pub(in crate::ext4) async fn allocate_for_growth(
        &self,
        handle: &mut Handle,
        goal: BlockNo,
        request: GrowthRequest,
    ) -> FsResult<BlockRange> {
        let GrowthRequest { logical, wanted, from } = request;
        let kept = if from == Source::KeptBlocks { 0 } else { self.contents().kept_blocks() };
        let is_ample = self.groups().available_blocks() > kept + u64::from(wanted);
        onewrite_block::reached!("too few free blocks to look for room", !is_ample);
        if !is_ample || !self.layout().contains_block(goal) {
            return match from {
                Source::KeptBlocks => self.allocate_kept_blocks(handle, goal, wanted).await,
                Source::FreeBlocks => self.allocate_blocks(handle, goal, wanted).await,
            };
        }
        let (goal_group, groups) = (self.layout().group_of_block(goal), self.groups().len());
        let from = self.layout().index_in_group(goal);
        let at_goal = |Space { bitmap, waiting, .. }: Space<'_>, end: u32| {
            let limit = end.min(from + wanted);
            let stop = next_bit(bitmap, waiting, from..limit, Bit::Taken).unwrap_or(limit);
            (stop - from >= wanted.min(ROOM_BLOCKS_MIN)).then_some(from..stop)
        };
        if let Some(range) = self.allocate_in_group(handle, goal_group, at_goal).await? {
            return Ok(range);
        }
        onewrite_block::reached!("blocks at the goal of an allocation are taken");
        let room = room_blocks(logical, wanted);
        let is_roomy = |group: &u32| self.groups().available(*group) >= room;
        let roomy_groups = (goal_group..groups).chain(0..goal_group).filter(is_roomy).take(ROOM_GROUPS_MAX);
        for group in roomy_groups {
            let roomy = |space: Space<'_>, end: u32| {
                let from = if group == goal_group { from } else { 0 };
                space.find_room(from..end, Sizes { least: room, wanted })
            };
            if let Some(range) = self.allocate_in_group(handle, group, roomy).await? {
                return Ok(range);
            }
        }
        onewrite_block::reached!("no group has room for a growing file");
        self.allocate_kept_blocks(handle, goal, wanted).await
    }

    /// As [`Allocator::allocate_blocks`], but may also take the blocks kept for delayed pages.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if no block is free at all.
    pub(in crate::ext4) async fn allocate_kept_blocks(
        &self,
        handle: &mut Handle,
        goal: BlockNo,
        wanted: u32,
    ) -> FsResult<BlockRange> {
        let goal = if self.layout().contains_block(goal) { goal } else { BlockNo::FIRST };
        let (goal_group, groups) = (self.layout().group_of_block(goal), self.groups().len());
        for least in [wanted.min(64), 1] {
            for group in (goal_group..groups).chain(0..goal_group) {
                if self.groups().available(group) < least {
                    continue;
                }
                let from = if group == goal_group { self.layout().index_in_group(goal) } else { 0 };
                let run = |space: Space<'_>, end| find_run(space, from..end, Sizes { least, wanted });
                if let Some(range) = self.allocate_in_group(handle, group, run).await? {
                    onewrite_block::reached!("blocks from another group", group != goal_group);
                    onewrite_block::reached!("only short runs of free blocks are left", least == 1 && wanted > 1);
                    return Ok(range);
                }
            }
        }
        onewrite_block::reached!("no free block left");
        let free = self.groups().available_blocks();
        Err(FsError::NoSpace { what: "blocks", needed: u64::from(wanted), free })
    }

    async fn allocate_in_group(
        &self,
        handle: &mut Handle,
        group: u32,
        find: impl Fn(Space<'_>, u32) -> Option<Range<u32>>,
    ) -> FsResult<Option<BlockRange>> {
        loop {
            self.load_descriptor(group).await?;
            let bitmap_block = self.load_block_bitmap(group).await?;
            if !self.is_loaded(self.layout().position_of_descriptor(group).0) {
                onewrite_block::reached!("descriptor left memory while its bitmap was loaded");
                continue;
            }
            let end = self.layout().blocks_in_group(group);
            let run = {
                let page = self.pages().peek(block_key(bitmap_block)).expect("just loaded");
                let groups = self.groups().all.borrow();
                let Group { waiting, crowded, .. } = &groups[group as usize];
                find(Space { bitmap: &page.bytes(), waiting: waiting.as_deref(), crowded }, end)
            };
            let Some(run) = run else { return Ok(None) };
            let count = run.end - run.start;
            if count > self.groups().available(group) {
                return Err(wrong_count(group, self.groups().descriptor(group).free_blocks()));
            }
            let first = self.layout().first_block_of_group(group) + u64::from(run.start);
            self.check_content("free blocks of a bitmap", first.run(count.into()))?;
            self.mark_blocks(handle, group, run, Bit::Taken);
            return Ok(Some(first.run(count.into())));
        }
    }

    /// Whether a metadata block is in memory now.
    pub(in crate::ext4) fn is_loaded(&self, block: BlockNo) -> bool {
        self.pages().holds(block_key(block))
    }

    /// Sets or clears bits in the bitmap of `group` and updates its descriptor. Both must be in memory.
    fn mark_blocks(&self, handle: &mut Handle, group: u32, bits: Range<u32>, value: Bit) {
        let count = bits.end - bits.start;
        let bitmap_block = self.groups().descriptor(group).block_bitmap();
        self.change(handle, bitmap_block, |bitmap| set_bits(bitmap, bits.clone(), value));
        let page = self.pages().peek(block_key(bitmap_block)).expect("it has just been changed").clone();
        let bitmap = &page.bytes()[..];
        self.change_descriptor(handle, group, |descriptor| {
            let free = descriptor.free_blocks();
            let left = if value == Bit::Taken { free - count } else { free + count };
            descriptor.set_free_blocks(left);
            self.groups().free.set(self.groups().free.get() + u64::from(left) - u64::from(free));
            let flags = descriptor.flags.get();
            onewrite_block::reached!("first blocks of a BLOCK_UNINIT group taken", flags & BLOCK_UNINIT != 0);
            descriptor.flip_in_block_bitmap_checksum(bitmap, bits, self.layout());
            descriptor.flags.set(flags & !BLOCK_UNINIT);
            debug_assert!(
                descriptor.verify_block_bitmap(bitmap, group, self.layout()).is_ok(),
                "bitmap {bitmap_block}"
            );
        });
    }

    /// Frees blocks, which may lie in several groups. They can be taken again once the transaction is durable.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if a block is already free or cannot belong to a file.
    pub(in crate::ext4) async fn free_blocks(&self, handle: &mut Handle, range: BlockRange) -> FsResult<()> {
        self.check_content("reference", range)?;
        let end = range.end();
        let mut start = range.start;
        while start < end {
            let group = self.layout().group_of_block(start);
            let index = self.layout().index_in_group(start);
            let count = (end - start).min(u64::from(self.layout().blocks_in_group(group) - index)) as u32;
            onewrite_block::reached!("freed run crosses groups", start + u64::from(count) < end);
            self.free_in_group(handle, group, index..index + count).await?;
            let freed = start.run(count.into());
            handle.free(freed);
            self.pages().discard(0, start.0..freed.end().0);
            start = freed.end();
        }
        Ok(())
    }

    /// Brings into memory what [`Allocator::free_blocks`] changes, so that a device that cannot read it refuses before
    /// anything has changed.
    ///
    /// # Errors
    /// Device errors; [`FsError::Damaged`] if a block cannot belong to a file.
    pub(in crate::ext4) async fn load_to_free(&self, range: BlockRange) -> FsResult<()> {
        self.check_content("reference", range)?;
        let last = range.start + (range.count - 1);
        for group in self.layout().group_of_block(range.start)..=self.layout().group_of_block(last) {
            self.load_descriptor(group).await?;
            self.load_block_bitmap(group).await?;
        }
        Ok(())
    }

    async fn free_in_group(&self, handle: &mut Handle, group: u32, bits: Range<u32>) -> FsResult<()> {
        let count = bits.end - bits.start;
        let bitmap_block = loop {
            self.load_descriptor(group).await?;
            let bitmap_block = self.load_block_bitmap(group).await?;
            if self.is_loaded(self.layout().position_of_descriptor(group).0) {
                break bitmap_block;
            }
        };
        let set = {
            let page = self.pages().peek(block_key(bitmap_block)).expect("just loaded");
            count_set(&page.bytes(), bits.clone())
        };
        if set != count {
            let place = format!("block bitmap of group {group}, {count} blocks from {} on", bits.start);
            let problem = format!("{} of them are free already", count - set);
            return Err(FsError::Damaged { place, problem });
        }
        let free = self.groups().descriptor(group).free_blocks();
        if free + count > self.layout().blocks_in_group(group) {
            return Err(wrong_count(group, free));
        }
        self.mark_blocks(handle, group, bits.clone(), Bit::Free);
        let mut groups = self.groups().all.borrow_mut();
        let group = &mut groups[group as usize];
        let waiting = group.waiting.get_or_insert_with(|| Box::new([0; PAGE_SIZE]));
        set_bits(waiting, bits, Bit::Taken);
        group.waiting_count += count;
        self.groups().waiting.set(self.groups().waiting.get() + u64::from(count));
        Ok(())
    }

    /// Makes `ranges` available again; the transaction that freed them is durable.
    pub(in crate::ext4) fn release_blocks(&self, ranges: &[BlockRange]) {
        let mut groups = self.groups().all.borrow_mut();
        for range in ranges {
            let group = &mut groups[self.layout().group_of_block(range.start) as usize];
            let waiting = group.waiting.as_mut().expect("freed blocks wait");
            let (index, count) = (self.layout().index_in_group(range.start), range.count as u32);
            set_bits(waiting, index..index + count, Bit::Free);
            group.crowded.set(group.crowded.get().freed(index..index + count));
            group.waiting_count -= count;
            self.groups().waiting.set(self.groups().waiting.get() - u64::from(count));
            if group.waiting_count == 0 {
                group.waiting = None;
            }
        }
        drop(groups);
        self.debug_check();
        self.pages().progress().notify_all();
    }
}

/// Whether a mount would accept the descriptor in `bytes`, and find this one.
fn reads_as(bytes: &[u8], descriptor: &RawGroupDescriptor, group: u32, layout: &Layout) -> bool {
    let found = RawGroupDescriptor::read(bytes, group, layout);
    found.is_ok_and(|found| {
        found == *descriptor
            && found.verify_checksum(group, layout).is_ok()
            && check_descriptor(&found, group, layout).is_ok()
    })
}

fn wrong_count(group: u32, free: u32) -> FsError {
    let problem = format!("it counts {free} free blocks, its bitmap others");
    FsError::Damaged { place: format!("descriptor of group {group}"), problem }
}

/// The first run of at least `least` free bits in the range, or else before it; at most `wanted` bits of it.
fn find_run(space: Space<'_>, range: Range<u32>, Sizes { least, wanted }: Sizes) -> Option<Range<u32>> {
    let Space { bitmap, waiting, .. } = space;
    let Range { start: from, end } = range;
    let search = |mut bit: u32, end: u32| {
        while let Some(start) = next_bit(bitmap, waiting, bit..end, Bit::Free) {
            let limit = end.min(start + wanted);
            let stop = next_bit(bitmap, waiting, start..limit, Bit::Taken).unwrap_or(limit);
            if stop - start >= least {
                return Some(start..stop);
            }
            bit = stop;
        }
        None
    };
    search(from, end).or_else(|| search(0, from.min(end)))
}

/// Room in blocks for a new piece of `wanted` blocks at block `logical` of a file. The room reaches to the next power
/// of two of the file's length. It is a multiple of eight within [`ROOM_BLOCKS_MIN`] and [`ROOM_BLOCKS_MAX`].
fn room_blocks(logical: u32, wanted: u32) -> u32 {
    let doubled = (u64::from(logical) + u64::from(wanted) + 1).next_power_of_two() - u64::from(logical);
    (doubled.min(u64::from(ROOM_BLOCKS_MAX)) as u32).max(ROOM_BLOCKS_MIN).next_multiple_of(UNIT_BLOCKS)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_run_is_found_behind_the_goal_first_and_never_over_waiting_blocks() {
        let (mut bitmap, mut waiting) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        set_bits(&mut bitmap, 0..100, Bit::Taken);
        set_bits(&mut bitmap, 110..200, Bit::Taken);
        set_bits(&mut waiting, 200..250, Bit::Taken);
        let crowded = Cell::default();
        let space = Space { bitmap: &bitmap, waiting: Some(&waiting), crowded: &crowded };
        let find = |from, least, wanted| find_run(space, from..1000, Sizes { least, wanted });
        assert_eq!(find(0, 1, 4), Some(100..104));
        assert_eq!(find(0, 1, 40), Some(100..110));
        assert_eq!(find(0, 20, 40), Some(250..290));
        assert_eq!(find(990, 1, 40), Some(990..1000));
        assert_eq!(find(990, 20, 40), Some(250..290));
    }

    #[test]
    fn room_begins_at_multiples_of_eight_and_never_holds_waiting_blocks() {
        let (mut bitmap, mut waiting) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        set_bits(&mut bitmap, 0..3, Bit::Taken);
        set_bits(&mut bitmap, 24..25, Bit::Taken);
        set_bits(&mut waiting, 40..42, Bit::Taken);
        let sizes = |wanted| Sizes { least: room_blocks(0, wanted), wanted };
        let crowded = Cell::default();
        let space = Space { bitmap: &bitmap, waiting: Some(&waiting), crowded: &crowded };
        let find = |from, wanted| space.find_room(from..1000, sizes(wanted));
        assert_eq!(find(0, 3), Some(8..11));
        assert_eq!(find(9, 3), Some(16..19));
        assert_eq!(find(17, 10), Some(48..58));
        assert_eq!(
            (room_blocks(0, 3), room_blocks(0, 16), room_blocks(16, 4), room_blocks(9_000, 4)),
            (8, 32, 16, 512)
        );
        assert_eq!(find(997, 2), Some(8..10), "behind the end it begins anew");
        assert_eq!(find(0, 30_000), Some(48..1000));
    }
}
