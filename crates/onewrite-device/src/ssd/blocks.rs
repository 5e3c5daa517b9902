//! Blocks: what each data block is for at the moment, how many valid pages it has, and which one to collect next.
//!
//! ```text
//!   Free ──taken──► Open ──full──► Closed ──chosen──► Victim ──no valid page left──► Emptied ──erase──► Free
//!                                     ▲ recovery                                        (or Bad)
//! ```
//!
//! Invariants, verified by [`Blocks::check`]: a block is on its die's free list exactly if it is `Free`, in its die's
//! list for its number of valid pages exactly if it is `Closed`; a `Free` or `Emptied` block has no valid page.

/// What a block is for at the moment; the module's head draws the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BlockState {
    /// Blank (or to be erased before use after recovery), on the free list.
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

const NIL: u32 = u32::MAX;

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    state: Vec<BlockState>,
    valid: Vec<u32>,
    /// Pages of a die's usable blocks that are not valid.
    slack: Vec<i64>,
    /// For a closed block: its neighbours in the list of its die and valid count.
    after: Vec<u32>,
    before: Vec<u32>,
    /// First closed block by die and valid count.
    heads: Vec<u32>,
    /// No closed block of a die has fewer valid pages.
    fewest: Vec<u32>,
    free: Vec<Vec<u32>>,
    /// When a block was closed, counted in closings: its age.
    closed_at: Vec<u64>,
    closings: u64,
    dies: u32,
    pages_per_block: u32,
}

impl Blocks {
    /// `count` free blocks over `dies` dies.
    pub(crate) fn new(count: u32, dies: u32, pages_per_block: u32) -> Blocks {
        let mut blocks = Blocks::without_free(count, dies, pages_per_block);
        (0..count).rev().for_each(|block| blocks.free[(block % dies) as usize].push(block));
        blocks
    }

    /// `count` blocks that recovery will sort out; all `Free` and on no list yet.
    pub(crate) fn without_free(count: u32, dies: u32, pages_per_block: u32) -> Blocks {
        let count = count as usize;
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
            dies,
            pages_per_block,
        }
    }

    /// What a block is for.
    pub(crate) fn state(&self, block: u32) -> BlockState {
        self.state[block as usize]
    }

    /// Valid pages of a block.
    #[inline]
    pub(crate) fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }

    /// Whether a die has less room than another one by more than a block: then the other one should take new pages.
    pub(crate) fn is_fuller_than_others(&self, die: usize) -> bool {
        let most = self.slack.iter().copied().max().unwrap_or(0);
        self.slack[die] + i64::from(self.pages_per_block) < most
    }

    /// Valid pages of all blocks.
    pub(crate) fn valid_counts(&self) -> &[u32] {
        &self.valid
    }

    /// The free blocks of a die, in no order that means anything.
    pub(crate) fn free(&self, die: usize) -> &[u32] {
        &self.free[die]
    }

    fn head(&mut self, block: u32) -> &mut u32 {
        let die = (block % self.dies) as usize;
        let valid = self.valid[block as usize] as usize;
        &mut self.heads[die * (self.pages_per_block as usize + 1) + valid]
    }

    fn link(&mut self, block: u32) {
        let die = (block % self.dies) as usize;
        self.fewest[die] = self.fewest[die].min(self.valid[block as usize]);
        let first = std::mem::replace(self.head(block), block);
        self.after[block as usize] = first;
        self.before[block as usize] = NIL;
        if first != NIL {
            self.before[first as usize] = block;
        }
    }

    fn unlink(&mut self, block: u32) {
        let (before, after) = (self.before[block as usize], self.after[block as usize]);
        match before {
            NIL => *self.head(block) = after,
            other => self.after[other as usize] = after,
        }
        if after != NIL {
            self.before[after as usize] = before;
        }
    }

    /// Counts one more valid page in a block.
    #[inline]
    pub(crate) fn gain(&mut self, block: u32) {
        let is_listed = self.state[block as usize] == BlockState::Closed;
        if is_listed {
            self.unlink(block);
        }
        self.valid[block as usize] += 1;
        self.slack[(block % self.dies) as usize] -= 1;
        if is_listed {
            self.link(block);
        }
    }

    /// Counts one valid page less in a block.
    #[inline]
    pub(crate) fn lose(&mut self, block: u32) {
        let is_listed = self.state[block as usize] == BlockState::Closed;
        if is_listed {
            self.unlink(block);
        }
        self.valid[block as usize] -= 1;
        self.slack[(block % self.dies) as usize] += 1;
        if is_listed {
            self.link(block);
        }
    }

    /// Takes the free block of a die for which `wear` is lowest.
    pub(crate) fn take_free(&mut self, die: usize, wear: impl Fn(u32) -> u32) -> Option<u32> {
        let list = &mut self.free[die];
        let index = (0..list.len()).rev().min_by_key(|&index| wear(list[index]))?;
        let block = list.swap_remove(index);
        self.state[block as usize] = BlockState::Open;
        Some(block)
    }

    /// Takes one free block off its list, if it is there.
    pub(crate) fn take_block(&mut self, block: u32) -> bool {
        let list = &mut self.free[(block % self.dies) as usize];
        let place = list.iter().position(|&other| other == block);
        place.is_some_and(|index| list.swap_remove(index) == block)
    }

    /// Declares an open block full.
    pub(crate) fn close(&mut self, block: u32) {
        assert_ne!(self.state[block as usize], BlockState::Closed, "block {block} is closed twice");
        self.state[block as usize] = BlockState::Closed;
        self.closings += 1;
        self.closed_at[block as usize] = self.closings;
        self.link(block);
    }

    /// Declares a block open; for recovery, which finds open blocks in the map log.
    pub(crate) fn open(&mut self, block: u32) {
        self.state[block as usize] = BlockState::Open;
    }

    /// Puts a blank block on its free list.
    pub(crate) fn release(&mut self, block: u32) {
        assert_eq!(self.valid[block as usize], 0, "block {block} is freed with valid pages");
        self.state[block as usize] = BlockState::Free;
        self.free[(block % self.dies) as usize].push(block);
    }

    /// Declares a victim empty.
    pub(crate) fn empty(&mut self, block: u32) {
        assert_eq!(self.valid[block as usize], 0, "block {block} is emptied with valid pages");
        self.state[block as usize] = BlockState::Emptied;
    }

    /// Declares a block unusable; valid pages that it still has stay where they are.
    pub(crate) fn retire(&mut self, block: u32) {
        if self.state[block as usize] == BlockState::Closed {
            self.unlink(block);
        }
        self.state[block as usize] = BlockState::Bad;
        self.slack[(block % self.dies) as usize] -= i64::from(self.pages_per_block);
    }

    /// The closed block of a die with the fewest valid pages, if collecting it gains anything.
    pub(crate) fn fewest_valid(&mut self, die: usize) -> Option<u32> {
        let row = die * (self.pages_per_block as usize + 1);
        while self.fewest[die] < self.pages_per_block {
            let head = self.heads[row + self.fewest[die] as usize];
            if head != NIL {
                return Some(head);
            }
            self.fewest[die] += 1;
        }
        None
    }

    /// The closed block of a die that scores highest, each one asked; the lowest number of several.
    pub(crate) fn best(&self, die: usize, score: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let scored = self.closed(die).filter_map(|block| Some((score(block)?, std::cmp::Reverse(block))));
        scored.max().map(|(_, block)| block.0)
    }

    /// The closed blocks of a die.
    pub(crate) fn closed(&self, die: usize) -> impl Iterator<Item = u32> {
        let own = (die as u32..self.state.len() as u32).step_by(self.dies as usize);
        own.filter(|&block| self.state[block as usize] == BlockState::Closed)
    }

    /// Closings since a block was closed.
    pub(crate) fn age(&self, block: u32) -> u64 {
        self.closings - self.closed_at[block as usize]
    }

    /// Blocks that are not bad.
    pub(crate) fn usable(&self) -> u32 {
        self.state.iter().filter(|&&state| state != BlockState::Bad).count() as u32
    }

    /// Declares a closed block the victim of a collection.
    pub(crate) fn choose(&mut self, block: u32) {
        assert_eq!(self.state[block as usize], BlockState::Closed, "block {block} is no candidate");
        self.unlink(block);
        self.state[block as usize] = BlockState::Victim;
    }

    /// Verifies the invariants that the module's head states.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut listed = vec![0; self.state.len()];
        for (die, list) in self.free.iter().enumerate() {
            for &block in list {
                listed[block as usize] += 1;
                if self.state(block) != BlockState::Free || block % self.dies != die as u32 {
                    return Err(format!("block {block} is {:?} on the free list of die {die}", self.state(block)));
                }
            }
        }
        for (die, &slack) in self.slack.iter().enumerate() {
            let own = (die..self.state.len()).step_by(self.dies as usize);
            let room = |block: usize| match self.state[block] {
                BlockState::Bad => -i64::from(self.valid[block]),
                _ => i64::from(self.pages_per_block) - i64::from(self.valid[block]),
            };
            let counted: i64 = own.map(room).sum();
            if counted != slack {
                return Err(format!("die {die} has room for {counted} pages and counts {slack}"));
            }
        }
        for (row, &head) in self.heads.iter().enumerate() {
            let valid = (row % (self.pages_per_block as usize + 1)) as u32;
            let mut block = head;
            while block != NIL {
                listed[block as usize] += 1;
                if self.state(block) != BlockState::Closed || self.valid(block) != valid {
                    return Err(format!(
                        "block {block} is listed with {valid} valid pages and has {}",
                        self.valid(block)
                    ));
                }
                block = self.after[block as usize];
            }
        }
        for (block, &times) in (0..).zip(&listed) {
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
        let mut blocks = Blocks::new(6, 2, 4);
        for valid in [4, 2, 3] {
            let block = blocks.take_free(1, |block| block).unwrap();
            (0..valid).for_each(|_| blocks.gain(block));
            blocks.close(block);
        }
        assert_eq!(blocks.fewest_valid(1), Some(3));
        (0..2).for_each(|_| blocks.lose(5));
        assert_eq!(blocks.fewest_valid(1), Some(5));
        blocks.check().unwrap();
        blocks.choose(5);
        blocks.choose(3);
        assert_eq!(blocks.fewest_valid(1), None, "a full block of valid pages gains nothing");
    }
}
