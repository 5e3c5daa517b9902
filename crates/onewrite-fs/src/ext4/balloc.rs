//! Block allocation: bitmaps and group descriptors.
//!
//! A block may be taken if its bit is clear in the bitmap **and** it does not wait for the transaction that freed it.
//! Until that transaction is durable, a crash would bring the old owner back. A second bitmap of each group marks the
//! waiting blocks; it exists only in memory.
//!
//! # Invariants
//! - `free` of a descriptor counts the clear bits of the bitmap, waiting blocks included.
//! - A group's descriptor in memory equals the one in its block of the table.
//! - The bitmap bit of a waiting block is clear. Each count equals the number of bits that it counts.
//! - Where a group remembers that there is no room, there is none ([`room`]).
//!
//! [`Groups::check`] and [`Allocator::check`](super::views::Allocator::check) verify them.

mod allocate;
mod check;
mod room;

use std::cell::{Cell, Ref, RefCell};
use std::ops::Range;

use onewrite_block::PageBytes;

use super::format::RawGroupDescriptor;
pub(super) use allocate::{GrowthRequest, Source};
use room::{Crowded, word};

/// Blocks that one allocation or freeing may change: a bitmap and a block of descriptors.
pub(super) const ALLOCATION_CREDITS: usize = 2;

type Bitmap = PageBytes;

/// What a bit of a bitmap says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit {
    Free,
    Taken,
}

#[derive(Clone)]
struct Group {
    descriptor: RawGroupDescriptor,
    /// Freed blocks that wait for their transaction.
    waiting: Option<Box<Bitmap>>,
    waiting_count: u32,
    /// Where a search for room finds nothing.
    crowded: Cell<Crowded>,
    /// Free bits of the bitmap beyond the descriptor's count when the bitmap was first loaded; 0 in a sound image.
    /// Only debug builds note it.
    contradiction: Option<i64>,
}

/// All groups of the volume.
pub(super) struct Groups {
    all: RefCell<Vec<Group>>,
    /// Sum of the free blocks that the descriptors count.
    free: Cell<u64>,
    /// Freed blocks that wait for their transaction.
    waiting: Cell<u64>,
    /// Blocks that delayed pages will take.
    reserved: Cell<u64>,
    /// Pages that wait for the conversion of their blocks.
    unwritten: Cell<u64>,
}

impl Groups {
    pub(super) fn new(descriptors: Vec<RawGroupDescriptor>) -> Groups {
        let group = |descriptor| Group {
            descriptor,
            waiting: None,
            waiting_count: 0,
            crowded: Cell::default(),
            contradiction: None,
        };
        let free = descriptors.iter().map(|descriptor| u64::from(descriptor.free_blocks())).sum();
        let all = RefCell::new(descriptors.into_iter().map(group).collect());
        Groups { all, free: Cell::new(free), waiting: Cell::new(0), reserved: Cell::new(0), unwritten: Cell::new(0) }
    }

    /// The descriptor of a group; it equals the one in its block of the table.
    pub(super) fn descriptor(&self, group: u32) -> Ref<'_, RawGroupDescriptor> {
        Ref::map(self.all.borrow(), |all| &all[group as usize].descriptor)
    }

    /// Blocks that delayed pages will take.
    pub(super) fn reserved_blocks(&self) -> u64 {
        self.reserved.get()
    }

    /// Sets [`Groups::reserved_blocks`]; `delayed` keeps count.
    pub(super) fn reserve(&self, blocks: u64) {
        self.reserved.set(blocks);
    }

    /// Pages that wait for the conversion of their blocks.
    pub(super) fn unwritten_pages(&self) -> u64 {
        self.unwritten.get()
    }

    /// Sets [`Groups::unwritten_pages`]; `delayed` keeps count.
    pub(super) fn convert_later(&self, pages: u64) {
        self.unwritten.set(pages);
    }

    pub(super) fn free_blocks(&self) -> u64 {
        self.free.get()
    }

    pub(super) fn free_inodes(&self) -> u64 {
        self.all.borrow().iter().map(|group| u64::from(group.descriptor.free_inodes())).sum()
    }

    /// Blocks that can be taken now, reserved ones included.
    pub(super) fn available_blocks(&self) -> u64 {
        self.free_blocks().saturating_sub(self.waiting_blocks())
    }

    /// Freed blocks that wait for their transaction.
    pub(super) fn waiting_blocks(&self) -> u64 {
        self.waiting.get()
    }

    fn available(&self, group: u32) -> u32 {
        let groups = self.all.borrow();
        let group = &groups[group as usize];
        group.descriptor.free_blocks().saturating_sub(group.waiting_count)
    }

    pub(super) fn len(&self) -> u32 {
        self.all.borrow().len() as u32
    }
}

/// The first bit of the range that is free in both bitmaps ([`Bit::Free`]) or taken in at least one ([`Bit::Taken`]).
fn next_bit(bitmap: &Bitmap, waiting: Option<&Bitmap>, range: Range<u32>, sought: Bit) -> Option<u32> {
    let Range { start: mut bit, end } = range;
    while bit < end {
        let index = (bit / 64) as usize;
        let taken = word(bitmap, index) | waiting.map_or(0, |waiting| word(waiting, index));
        let wanted = (if sought == Bit::Taken { taken } else { !taken }) >> (bit % 64);
        if wanted != 0 {
            let found = bit + wanted.trailing_zeros();
            return (found < end).then_some(found);
        }
        bit = (bit / 64 + 1) * 64;
    }
    None
}

/// The first free bit of the range.
pub(super) fn next_clear(bitmap: &Bitmap, range: Range<u32>) -> Option<u32> {
    next_bit(bitmap, None, range, Bit::Free)
}

/// Sets all bits of the range to `value`.
pub(super) fn set_bits(bitmap: &mut Bitmap, range: Range<u32>, value: Bit) {
    let Range { start: mut bit, end } = range;
    let set = value == Bit::Taken;
    while bit < end {
        if bit.is_multiple_of(8) && end - bit >= 8 {
            bitmap[bit as usize / 8] = if set { 0xff } else { 0 };
            bit += 8;
        } else {
            let mask = 1 << (bit % 8);
            let byte = &mut bitmap[bit as usize / 8];
            *byte = if set { *byte | mask } else { *byte & !mask };
            bit += 1;
        }
    }
}

fn count_set(bitmap: &Bitmap, range: Range<u32>) -> u32 {
    range.map(|bit| u32::from(bitmap[bit as usize / 8] >> (bit % 8) & 1)).sum()
}

#[cfg(test)]
mod tests {
    use onewrite_block::PAGE_SIZE;

    use super::*;

    #[test]
    fn bits_are_set_and_cleared_across_bytes() {
        let mut bitmap = [0; PAGE_SIZE];
        set_bits(&mut bitmap, 3..33, Bit::Taken);
        assert_eq!((count_set(&bitmap, 0..64), bitmap[0], bitmap[4]), (30, 0xf8, 1));
        set_bits(&mut bitmap, 4..32, Bit::Free);
        assert_eq!(count_set(&bitmap, 0..64), 2);
    }

    #[test]
    fn runs_of_every_length_have_as_many_bits() {
        for (start, length) in (0..17).flat_map(|start| (0..26).map(move |length| (start, length))) {
            let (mut taken, mut freed) = ([0; PAGE_SIZE], [0xff; PAGE_SIZE]);
            set_bits(&mut taken, start..start + length, Bit::Taken);
            set_bits(&mut freed, start..start + length, Bit::Free);
            let counts = (count_set(&taken, 0..64), count_set(&taken, start..start + length), count_set(&freed, 0..64));
            assert_eq!(counts, (length, length, 64 - length), "{length} bits from {start} on");
        }
    }
}
