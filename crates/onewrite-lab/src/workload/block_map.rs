//! Block map: which blocks of a file a random job has visited, like fio's `axmap`.
//!
//! Each block has a bit. Each word of 64 bits has a bit one level above, which says whether the word is full. So the
//! next free block is found in a few steps, however full the map is.

/// A set of visited blocks.
///
/// # Invariants
/// - A bit of level `n + 1` is set if and only if its word of level `n` is full.
/// - Bits beyond the last block are set from the beginning.
#[derive(Clone, Debug)]
pub struct BlockMap {
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

const FULL: u64 = u64::MAX;

impl BlockMap {
    /// A map of `blocks` blocks, none visited.
    pub fn new(blocks: u64) -> BlockMap {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(64).max(1);
            levels.push(level(words, bits));
            if words == 1 {
                return BlockMap { levels, blocks };
            }
            bits = words;
        }
    }

    /// Whether `block` has been visited.
    pub fn contains(&self, block: u64) -> bool {
        self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Marks `block` as visited.
    pub fn insert(&mut self, block: u64) {
        let mut bit = block;
        for level in &mut self.levels {
            let word = &mut level[(bit / 64) as usize];
            *word |= 1 << (bit % 64);
            if *word != FULL {
                return;
            }
            bit /= 64;
        }
    }

    /// Marks blocks from `block` on: at most `count`, and only up to the next visited one. Returns their number.
    pub(crate) fn insert_run(&mut self, block: u64, count: u64) -> u64 {
        let end = (block + count).min(self.blocks);
        let run = (block..end).take_while(|&block| !self.contains(block)).count() as u64;
        (block..block + run).for_each(|block| self.insert(block));
        run
    }

    /// The first unvisited block at or after `block`; if there is none, the first one in the map.
    pub fn next_free(&self, block: u64) -> Option<u64> {
        self.free_from(block).or_else(|| self.free_from(0))
    }

    fn free_from(&self, block: u64) -> Option<u64> {
        let mut bit = block;
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level.get((bit / 64) as usize)?;
            let open = !word & (FULL << (bit % 64));
            if open != 0 {
                return Some(self.descend(depth, bit / 64 * 64 + u64::from(open.trailing_zeros())));
            }
            bit = bit / 64 + 1;
        }
        None
    }

    /// The first free block below bit `bit` of level `depth`; there must be one.
    fn descend(&self, depth: usize, bit: u64) -> u64 {
        (0..depth)
            .rev()
            .fold(bit, |bit, depth| bit * 64 + u64::from((!self.levels[depth][bit as usize]).trailing_zeros()))
    }
}

fn level(words: u64, bits: u64) -> Vec<u64> {
    let mut level = vec![0; words as usize];
    if !bits.is_multiple_of(64) || bits == 0 {
        *level.last_mut().expect("one word at least") = FULL << (bits % 64);
    }
    level
}

#[cfg(test)]
mod tests {
    use onewrite_block::Choices;

    use super::*;

    #[test]
    fn every_block_is_found_once() {
        for blocks in [1, 63, 64, 65, 5000] {
            let (mut map, mut choices) = (BlockMap::new(blocks), Choices::new(blocks));
            let mut seen = vec![false; blocks as usize];
            while let Some(block) = map.next_free(choices.below(blocks)) {
                assert!(!std::mem::replace(&mut seen[block as usize], true), "{block} of {blocks} came twice");
                map.insert(block);
            }
            assert!(seen.into_iter().all(|seen| seen), "{blocks}");
        }
    }

    #[test]
    fn a_run_stops_at_the_next_visited_block() {
        let mut map = BlockMap::new(100);
        map.insert(70);
        assert_eq!(map.insert_run(60, 20), 10);
        assert_eq!(map.insert_run(95, 20), 5);
        assert_eq!(map.next_free(60), Some(71));
    }
}
