//! Blocks: the present role of each data block, its number of valid pages, and the next block to collect.
//!
//! ```text
//!   Free ──taken──► Open ──full──► Closed ──chosen──► Victim ──no valid page left──► Emptied ──erase──► Free
//!                                     ▲ recovery                                        (or Bad)
//! ```
//!
//! Invariants, verified by [`Blocks::check`]: a block is on its die's free list if and only if it is `Free`. It is in
//! its die's list for its number of valid pages if and only if it is `Closed`. A `Free` or `Emptied` block has no valid
//! page.

use std::cmp::Reverse;

use crate::address::{FlashBlock, each, from};

/// The present role of a block; the module's head draws the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BlockState {
    /// Blank, on the free list.
    Free,
    /// Taking pages, or announced as the next to take them.
    Open,
    /// Full; may be chosen as a victim.
    Closed,
    /// Its valid pages are being moved away.
    Victim,
    /// Waits for the map log, then for its erase.
    Emptied,
    /// Failed; never used again.
    Bad,
}

/// Marks the end of a list.
const NIL: FlashBlock = FlashBlock(u32::MAX);

/// The number of blocks and their places: block `n` is on die `n % dies`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCounts {
    pub(crate) blocks: u32,
    pub(crate) dies: u32,
    pub(crate) pages_per_block: u32,
}

impl BlockCounts {
    /// The blocks of a die, in ascending order.
    pub(crate) fn of_die(self, die: usize) -> impl Iterator<Item = FlashBlock> {
        (die as u32..self.blocks).step_by(self.dies as usize).map(FlashBlock)
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    state: Vec<BlockState>,
    valid: Vec<u32>,
    /// Pages of a die's usable blocks that are not valid.
    slack: Vec<i64>,
    /// For a closed block: the next and previous block in the list of its die and valid count.
    after: Vec<FlashBlock>,
    before: Vec<FlashBlock>,
    /// First closed block, by die and valid count.
    heads: Vec<FlashBlock>,
    /// Lower bound of the valid pages of a die's closed blocks.
    fewest: Vec<u32>,
    free: Vec<Vec<FlashBlock>>,
    /// When a block was closed, as a number of closings. It gives the block's age.
    closed_at: Vec<u64>,
    closings: u64,
    counts: BlockCounts,
}

impl Blocks {
    /// Blocks that are all free.
    pub(crate) fn new(counts: BlockCounts) -> Blocks {
        let mut blocks = Blocks::without_free(counts);
        for block in each(FlashBlock(0)..FlashBlock(counts.blocks)).rev() {
            let die = blocks.die(block);
            blocks.free[die].push(block);
        }
        blocks
    }

    /// Blocks that recovery will sort: all `Free`, and on no list yet.
    pub(crate) fn without_free(counts: BlockCounts) -> Blocks {
        let BlockCounts { blocks, dies, pages_per_block } = counts;
        let count = blocks as usize;
        Blocks {
            state: vec![BlockState::Free; count],
            valid: vec![0; count],
            slack: vec![count as i64 / i64::from(dies) * i64::from(pages_per_block); dies as usize],
            after: vec![NIL; count],
            before: vec![NIL; count],
            heads: vec![NIL; dies as usize * (pages_per_block as usize + 1)],
            fewest: vec![0; dies as usize],
            free: vec![Vec::new(); dies as usize],
            closed_at: vec![0; count],
            closings: 0,
            counts,
        }
    }

    #[inline]
    fn die(&self, block: FlashBlock) -> usize {
        (block.0 % self.counts.dies) as usize
    }

    /// The role of a block.
    pub(crate) fn state(&self, block: FlashBlock) -> BlockState {
        self.state[block.index()]
    }

    /// Valid pages of a block.
    #[inline]
    pub(crate) fn valid(&self, block: FlashBlock) -> u32 {
        self.valid[block.index()]
    }

    /// Whether a die has more than one block less room than another die. Then the other one should take new pages.
    pub(crate) fn is_fuller_than_others(&self, die: usize) -> bool {
        let most = self.slack.iter().copied().max().unwrap_or(0);
        self.slack[die] + i64::from(self.counts.pages_per_block) < most
    }

    /// Valid pages of all blocks.
    pub(crate) fn valid_counts(&self) -> &[u32] {
        &self.valid
    }

    /// The free blocks of a die, in arbitrary order.
    pub(crate) fn free(&self, die: usize) -> &[FlashBlock] {
        &self.free[die]
    }

    #[inline]
    fn head(&mut self, block: FlashBlock) -> &mut FlashBlock {
        let die = self.die(block);
        let valid = self.valid[block.index()] as usize;
        &mut self.heads[die * (self.counts.pages_per_block as usize + 1) + valid]
    }

    #[inline]
    fn link(&mut self, block: FlashBlock) {
        let die = self.die(block);
        self.fewest[die] = self.fewest[die].min(self.valid[block.index()]);
        let first = std::mem::replace(self.head(block), block);
        self.after[block.index()] = first;
        self.before[block.index()] = NIL;
        if first != NIL {
            self.before[first.index()] = block;
        }
    }

    #[inline]
    fn unlink(&mut self, block: FlashBlock) {
        let (before, after) = (self.before[block.index()], self.after[block.index()]);
        match before {
            NIL => *self.head(block) = after,
            other => self.after[other.index()] = after,
        }
        if after != NIL {
            self.before[after.index()] = before;
        }
    }

    /// Counts one more valid page in a block.
    #[inline]
    pub(crate) fn gain(&mut self, block: FlashBlock) {
        let is_listed = self.state[block.index()] == BlockState::Closed;
        if is_listed {
            self.unlink(block);
        }
        self.valid[block.index()] += 1;
        let die = self.die(block);
        self.slack[die] -= 1;
        if is_listed {
            self.link(block);
        }
    }

    /// Counts one valid page fewer in a block.
    #[inline]
    pub(crate) fn lose(&mut self, block: FlashBlock) {
        let is_listed = self.state[block.index()] == BlockState::Closed;
        if is_listed {
            self.unlink(block);
        }
        self.valid[block.index()] -= 1;
        let die = self.die(block);
        self.slack[die] += 1;
        if is_listed {
            self.link(block);
        }
    }

    /// Takes the free block of a die with the lowest `wear`.
    pub(crate) fn take_free(&mut self, die: usize, wear: impl Fn(FlashBlock) -> u32) -> Option<FlashBlock> {
        let list = &mut self.free[die];
        let index = (0..list.len()).rev().min_by_key(|&index| wear(list[index]))?;
        let block = list.swap_remove(index);
        self.state[block.index()] = BlockState::Open;
        Some(block)
    }

    /// Takes one block off its free list, if it is there.
    pub(crate) fn take_block(&mut self, block: FlashBlock) -> bool {
        let die = self.die(block);
        let list = &mut self.free[die];
        let found = list.iter().position(|&other| other == block);
        found.is_some_and(|index| list.swap_remove(index) == block)
    }

    /// Marks an open block as full.
    pub(crate) fn close(&mut self, block: FlashBlock) {
        assert_ne!(self.state[block.index()], BlockState::Closed, "block {block} is closed twice");
        self.state[block.index()] = BlockState::Closed;
        self.closings += 1;
        self.closed_at[block.index()] = self.closings;
        self.link(block);
    }

    /// Marks a block as open; for recovery, which finds open blocks in the map log.
    pub(crate) fn open(&mut self, block: FlashBlock) {
        self.state[block.index()] = BlockState::Open;
    }

    /// Puts a blank block on its free list.
    pub(crate) fn release(&mut self, block: FlashBlock) {
        assert_eq!(self.valid[block.index()], 0, "block {block} is freed with valid pages");
        self.state[block.index()] = BlockState::Free;
        let die = self.die(block);
        self.free[die].push(block);
    }

    /// Marks a victim as empty.
    pub(crate) fn empty(&mut self, block: FlashBlock) {
        assert_eq!(self.valid[block.index()], 0, "block {block} is emptied with valid pages");
        self.state[block.index()] = BlockState::Emptied;
    }

    /// Marks a block as unusable. Its valid pages stay where they are.
    pub(crate) fn retire(&mut self, block: FlashBlock) {
        if self.state[block.index()] == BlockState::Closed {
            self.unlink(block);
        }
        self.state[block.index()] = BlockState::Bad;
        let die = self.die(block);
        self.slack[die] -= i64::from(self.counts.pages_per_block);
    }

    /// The closed block of a die with the fewest valid pages, if its collection gains anything.
    pub(crate) fn fewest_valid(&mut self, die: usize) -> Option<FlashBlock> {
        let row = die * (self.counts.pages_per_block as usize + 1);
        while self.fewest[die] < self.counts.pages_per_block {
            let head = self.heads[row + self.fewest[die] as usize];
            if head != NIL {
                return Some(head);
            }
            self.fewest[die] += 1;
        }
        None
    }

    /// The closed block of a die with the highest score; among equals, the lowest number.
    pub(crate) fn best(&self, die: usize, score: impl Fn(FlashBlock) -> Option<u64>) -> Option<FlashBlock> {
        let scored = self.closed(die).filter_map(|block| Some((score(block)?, Reverse(block))));
        scored.max().map(|(_, block)| block.0)
    }

    /// The closed blocks of a die.
    pub(crate) fn closed(&self, die: usize) -> impl Iterator<Item = FlashBlock> {
        self.counts.of_die(die).filter(|&block| self.state[block.index()] == BlockState::Closed)
    }

    /// Number of closings since a block was closed.
    pub(crate) fn age(&self, block: FlashBlock) -> u64 {
        self.closings - self.closed_at[block.index()]
    }

    /// Number of blocks that are not bad.
    pub(crate) fn usable(&self) -> u32 {
        self.state.iter().filter(|&&state| state != BlockState::Bad).count() as u32
    }

    /// Makes a closed block the victim of a collection.
    pub(crate) fn choose(&mut self, block: FlashBlock) {
        assert_eq!(self.state[block.index()], BlockState::Closed, "block {block} is no candidate");
        self.unlink(block);
        self.state[block.index()] = BlockState::Victim;
    }

    /// Verifies the invariants that the module's head states.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut listed = vec![0; self.state.len()];
        for (die, list) in self.free.iter().enumerate() {
            for &block in list {
                listed[block.index()] += 1;
                if self.state(block) != BlockState::Free || self.die(block) != die {
                    return Err(format!("block {block} is {:?} on the free list of die {die}", self.state(block)));
                }
            }
        }
        for (die, &slack) in self.slack.iter().enumerate() {
            let room = |block: FlashBlock| match self.state(block) {
                BlockState::Bad => -i64::from(self.valid(block)),
                _ => i64::from(self.counts.pages_per_block) - i64::from(self.valid(block)),
            };
            let counted: i64 = self.counts.of_die(die).map(room).sum();
            if counted != slack {
                return Err(format!("die {die} has room for {counted} pages and counts {slack}"));
            }
        }
        for (row, &head) in self.heads.iter().enumerate() {
            let valid = (row % (self.counts.pages_per_block as usize + 1)) as u32;
            let mut block = head;
            while block != NIL {
                listed[block.index()] += 1;
                if self.state(block) != BlockState::Closed || self.valid(block) != valid {
                    return Err(format!(
                        "block {block} is listed with {valid} valid pages and has {}",
                        self.valid(block)
                    ));
                }
                block = self.after[block.index()];
            }
        }
        for (block, &times) in from(FlashBlock(0)).zip(&listed) {
            let state = self.state(block);
            if times != u32::from(matches!(state, BlockState::Free | BlockState::Closed)) {
                return Err(format!("block {block} is {state:?} and on {times} lists"));
            }
            if matches!(state, BlockState::Free | BlockState::Emptied) && self.valid(block) != 0 {
                return Err(format!("block {block} is {state:?} with {} valid pages", self.valid(block)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_has_the_fewest_valid_pages() {
        let mut blocks = Blocks::new(BlockCounts { blocks: 6, dies: 2, pages_per_block: 4 });
        for valid in [4, 2, 3] {
            let block = blocks.take_free(1, |block| block.0).unwrap();
            (0..valid).for_each(|_| blocks.gain(block));
            blocks.close(block);
        }
        assert_eq!(blocks.fewest_valid(1), Some(FlashBlock(3)));
        (0..2).for_each(|_| blocks.lose(FlashBlock(5)));
        assert_eq!(blocks.fewest_valid(1), Some(FlashBlock(5)));
        blocks.check().unwrap();
        blocks.choose(FlashBlock(5));
        blocks.choose(FlashBlock(3));
        assert_eq!(blocks.fewest_valid(1), None, "a full block of valid pages gains nothing");
    }
}
