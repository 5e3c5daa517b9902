//! Room: free blocks with free room behind them, in units of eight blocks, one byte of a bitmap each.
//!
//! Its one idea: a search looks at eight bytes at a time, and each group remembers a range of bytes in which no byte is
//! wholly free ([`Crowded`]). A search that begins there goes on behind it. So many small files beside each other cost
//! one step each, not a scan of all files before them.
//!
//! # Invariant
//! No byte of a group's [`Crowded`] range is wholly free: each has a block that is taken or waits. Blocks that are
//! taken keep it so; [`Crowded::freed`] is told of all others. `Allocator::check` verifies it.

use std::cell::Cell;
use std::ops::Range;

use onewrite_block::PageBytes;

/// Number of blocks behind which room begins.
pub(super) const UNIT_BLOCKS: u32 = 8;

/// Minimum and wanted number of consecutive free bits.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) least: u32,
    pub(super) wanted: u32,
}

/// A range of bytes of one bitmap in which no byte is wholly free; see the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowded {
    start: u32,
    end: u32,
}

impl Crowded {
    /// The bytes of the range.
    pub(super) fn bytes(self) -> Range<u32> {
        self.start..self.end
    }

    /// The range after the bits became free: without their bytes, and without what lies behind them in the range.
    pub(super) fn freed(self, bits: Range<u32>) -> Crowded {
        let (first, end) = (bits.start / UNIT_BLOCKS, bits.end.div_ceil(UNIT_BLOCKS));
        match () {
            () if end <= self.start || first >= self.end => self,
            () if first > self.start => Crowded { end: first, ..self },
            () => Crowded { start: end.min(self.end), ..self },
        }
    }

    /// The range after a search found no byte of `searched` free: both together if they touch, otherwise the longer.
    pub(super) fn with(self, searched: Range<u32>) -> Crowded {
        let Range { start, end } = searched;
        if start <= self.end && self.start <= end {
            return Crowded { start: start.min(self.start), end: end.max(self.end) };
        }
        if end - start > self.end - self.start { Crowded { start, end } } else { self }
    }
}

/// The bitmaps of one group, and what is remembered of them.
#[derive(Clone, Copy)]
pub(super) struct Space<'a> {
    pub(super) bitmap: &'a PageBytes,
    pub(super) waiting: Option<&'a PageBytes>,
    pub(super) crowded: &'a Cell<Crowded>,
}

impl Space<'_> {
    /// Up to `wanted` free bits that start at a multiple of eight, from a run of at least `least`. Takes the first such
    /// run in the range, or else before it. `least` is a multiple of eight.
    pub(super) fn find_room(self, range: Range<u32>, sizes: Sizes) -> Option<Range<u32>> {
        let (first, bytes) = (range.start.div_ceil(UNIT_BLOCKS), range.end / UNIT_BLOCKS);
        let found = self.find_in(first..bytes, sizes);
        found.or_else(|| self.find_in(0..first.min(bytes), sizes))
    }

    fn find_in(self, bytes: Range<u32>, Sizes { least, wanted }: Sizes) -> Option<Range<u32>> {
        let needed = least / UNIT_BLOCKS;
        let mut byte = bytes.start;
        while let Some(start) = self.next_free(byte..bytes.end) {
            let limit = bytes.end.min(start + needed.max(wanted.div_ceil(UNIT_BLOCKS)));
            let stop = self.next_byte(start..limit, taken_bytes).unwrap_or(limit);
            if stop - start >= needed {
                let room = (stop - start) * UNIT_BLOCKS;
                return Some(start * UNIT_BLOCKS..start * UNIT_BLOCKS + room.min(wanted));
            }
            byte = stop;
        }
        None
    }

    /// The first wholly free byte of the range. Remembers that those before it are not.
    fn next_free(self, bytes: Range<u32>) -> Option<u32> {
        let Range { start, end } = bytes;
        let crowded = self.crowded.get();
        let from = if crowded.bytes().contains(&start) { crowded.end.min(end) } else { start };
        let found = self.next_byte(from..end, free_bytes);
        let searched = start..found.unwrap_or(end);
        if !searched.is_empty() {
            self.crowded.set(crowded.with(searched));
        }
        found
    }

    /// The first byte of the range for which `marks` sets the highest bit of the byte.
    fn next_byte(self, bytes: Range<u32>, marks: impl Fn(u64) -> u64) -> Option<u32> {
        let Range { start: mut byte, end } = bytes;
        while byte < end {
            let index = (byte / 8) as usize;
            let taken = word(self.bitmap, index) | self.waiting.map_or(0, |waiting| word(waiting, index));
            let marked = marks(taken) >> (byte % 8 * 8);
            if marked != 0 {
                let found = byte + marked.trailing_zeros() / 8;
                return (found < end).then_some(found);
            }
            byte = (byte / 8 + 1) * 8;
        }
        None
    }
}

/// The 64-bit word number `index` of a bitmap.
pub(super) fn word(bitmap: &PageBytes, index: usize) -> u64 {
    u64::from_le_bytes(bitmap[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
}

/// The highest bit of each byte of a word.
const HIGHEST: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes that are not zero.
fn taken_bytes(word: u64) -> u64 {
    (((word & !HIGHEST) + !HIGHEST) | word) & HIGHEST
}

/// Marks the bytes that are zero.
fn free_bytes(word: u64) -> u64 {
    taken_bytes(word) ^ HIGHEST
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Choices, PAGE_SIZE};

    use super::super::{Bit, set_bits};
    use super::*;

    const BITS: u32 = 8 * PAGE_SIZE as u32;

    /// [`Space::find_room`] the slow way: byte by byte, from the start, without memory.
    fn find_slowly(bitmap: &PageBytes, waiting: &PageBytes, range: Range<u32>, sizes: Sizes) -> Option<Range<u32>> {
        let is_free = |byte: u32| bitmap[byte as usize] == 0 && waiting[byte as usize] == 0;
        let (first, bytes) = (range.start.div_ceil(8), range.end / 8);
        let search = |first: u32, last: u32| {
            let mut length = 0;
            for byte in first..last {
                length = if is_free(byte) { length + 1 } else { 0 };
                if length == sizes.least / 8 {
                    let start = byte + 1 - length;
                    let stop = (byte + 1..last).find(|next| !is_free(*next) || (next - start) * 8 >= sizes.wanted);
                    let room = (stop.unwrap_or(last) - start) * 8;
                    return Some(start * 8..start * 8 + room.min(sizes.wanted));
                }
            }
            None
        };
        search(first, bytes).or_else(|| search(0, first.min(bytes)))
    }

    #[test]
    fn a_search_finds_what_the_slow_way_finds_while_blocks_are_taken_and_freed() {
        for seed in 0..40 {
            let mut choices = Choices::new(seed);
            let (mut bitmap, mut waiting, crowded) = ([0; PAGE_SIZE], [0; PAGE_SIZE], Cell::default());
            let end = BITS - choices.below(100) as u32;
            let longest = [1, 8, 300][choices.index(3)];
            for _ in 0..2_000 {
                let from = choices.below(u64::from(end)) as u32;
                let wanted = 1 + choices.below(longest) as u32;
                let least = 8 * (1 + choices.below(longest) as u32 / 4);
                let sizes = Sizes { least, wanted };
                let found =
                    Space { bitmap: &bitmap, waiting: Some(&waiting), crowded: &crowded }.find_room(from..end, sizes);
                assert_eq!(found, find_slowly(&bitmap, &waiting, from..end, sizes), "seed {seed}");
                if let Some(found) = found {
                    set_bits(&mut bitmap, found, Bit::Taken);
                }
                let start = choices.below(u64::from(end)) as u32;
                let freed = start..end.min(start + 1 + choices.below(longest) as u32);
                match choices.below(8) {
                    0 => {
                        set_bits(&mut bitmap, freed.clone(), Bit::Free);
                        set_bits(&mut waiting, freed.clone(), Bit::Free);
                        crowded.set(crowded.get().freed(freed));
                    }
                    1 => set_bits(&mut waiting, freed, Bit::Taken),
                    _ => (),
                }
                let is_crowded = |byte: u32| bitmap[byte as usize] | waiting[byte as usize] != 0;
                assert!(crowded.get().bytes().all(is_crowded), "seed {seed}: {:?}", crowded.get());
            }
        }
    }

    #[test]
    fn a_search_begins_behind_the_range_that_an_earlier_one_found_crowded() {
        let (mut bitmap, crowded) = ([0; PAGE_SIZE], Cell::default());
        (0..512).for_each(|byte| set_bits(&mut bitmap, byte * 8..byte * 8 + 1, Bit::Taken));
        let one = Sizes { least: 8, wanted: 1 };
        let find = |bitmap: &PageBytes| Space { bitmap, waiting: None, crowded: &crowded }.find_room(0..BITS, one);
        assert_eq!(find(&bitmap), Some(4096..4097));
        assert_eq!(crowded.get(), Crowded { start: 0, end: 512 });
        set_bits(&mut bitmap, 80..81, Bit::Free);
        assert_eq!(find(&bitmap), Some(4096..4097), "it was not told");
        crowded.set(crowded.get().freed(80..81));
        assert_eq!(find(&bitmap), Some(80..81));
    }

    #[test]
    fn freed_blocks_leave_the_longer_way_to_the_left_of_them() {
        let crowded = Crowded { start: 10, end: 20 };
        let freed = |bits| crowded.freed(bits).bytes();
        assert_eq!([freed(0..80), freed(160..168)], [10..20, 10..20]);
        assert_eq!([freed(81..82), freed(100..200), freed(0..81)], [11..20, 10..12, 11..20]);
        assert!(freed(0..400).is_empty());
    }
}
