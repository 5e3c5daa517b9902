//! Blocks in use, as the check found them: a bitmap for each group with a used block.

use crate::block::{BlockNo, BlockRange};
use crate::ext4::format::Layout;

/// 64-bit words of a group's bitmap: one block of bits.
pub(crate) const WORDS: usize = 512;
/// Bits of the blocks of one group.
pub(crate) type GroupBits = [u64; WORDS];

#[derive(Clone)]
pub(crate) struct BlockUse {
    groups: Vec<Option<Box<GroupBits>>>,
    blocks_per_group: u64,
}

impl BlockUse {
    pub(crate) fn new(layout: &Layout) -> BlockUse {
        let groups = (0..layout.group_count).map(|_| None).collect();
        BlockUse { groups, blocks_per_group: layout.blocks_per_group.into() }
    }

    /// Marks blocks, all inside the image, as in use; returns the first block that was in use before.
    pub(crate) fn claim(&mut self, run: BlockRange) -> Option<BlockNo> {
        let mut conflict = None;
        let (mut next, end) = (run.start.0, run.end().0);
        while next < end {
            let (group, index) = ((next / self.blocks_per_group) as usize, next % self.blocks_per_group);
            let count = (end - next).min(self.blocks_per_group - index);
            let bits = self.groups[group].get_or_insert_with(|| Box::new([0; WORDS]));
            if let Some(index) = mark(bits, index as usize, count as usize) {
                conflict = conflict.or(Some(BlockNo(group as u64 * self.blocks_per_group + index as u64)));
            }
            next += count;
        }
        conflict
    }

    /// Whether a block, inside the image, is in use.
    pub(crate) fn is_used(&self, block: BlockNo) -> bool {
        let (group, index) = ((block.0 / self.blocks_per_group) as usize, (block.0 % self.blocks_per_group) as usize);
        let bits = self.groups.get(group).and_then(Option::as_deref);
        bits.is_some_and(|bits| bits[index / 64] >> (index % 64) & 1 == 1)
    }

    /// Marks a block as free.
    pub(crate) fn release(&mut self, block: BlockNo) {
        let (group, index) = ((block.0 / self.blocks_per_group) as usize, (block.0 % self.blocks_per_group) as usize);
        if let Some(Some(bits)) = self.groups.get_mut(group) {
            bits[index / 64] &= !(1 << (index % 64));
        }
    }

    /// The bits of a group; `None` if nothing in it is in use.
    pub(crate) fn group(&self, group: u32) -> Option<&GroupBits> {
        self.groups[group as usize].as_deref()
    }
}

/// Sets `count` bits from `start` on; returns the first bit that was set before.
pub(crate) fn mark(bits: &mut GroupBits, start: usize, count: usize) -> Option<usize> {
    let mut conflict = None;
    let (mut next, end) = (start, start + count);
    while next < end {
        let (word, bit) = (next / 64, next % 64);
        let length = (end - next).min(64 - bit);
        let mask = (u64::MAX >> (64 - length)) << bit;
        let twice = bits[word] & mask;
        if twice != 0 && conflict.is_none() {
            conflict = Some(word * 64 + twice.trailing_zeros() as usize);
        }
        bits[word] |= mask;
        next += length;
    }
    conflict
}

/// The words of a bitmap's block.
pub(crate) fn words(block: &[u8]) -> impl Iterator<Item = u64> {
    block.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marking_agrees_with_marking_bit_by_bit() {
        for (start, count) in [(0, 1), (0, 64), (1, 64), (63, 2), (5, 200), (32_700, 68), (0, 32_768)] {
            let mut bits = [0; WORDS];
            assert_eq!(mark(&mut bits, start, count), None);
            let set: Vec<usize> = (0..WORDS * 64).filter(|bit| bits[bit / 64] >> (bit % 64) & 1 == 1).collect();
            assert_eq!(set, (start..start + count).collect::<Vec<_>>());
            assert_eq!(mark(&mut bits, start + count - 1, 1), Some(start + count - 1));
        }
    }
}
