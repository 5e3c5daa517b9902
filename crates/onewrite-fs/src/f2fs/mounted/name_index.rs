//! Name index: where the names of a large directory lie, so that a look-up need not read a block of each level.
//!
//! A search that reads a block tells the index its names. From then on the index follows all changes, so a name whose
//! hash it lacks lies in none of the blocks that it knows.
//!
//! # Invariants
//! - The holders of the hash of each name in a known block include the block.
//! - A known block has at most as much room as the index says.

use rustc_hash::FxHashMap;

use crate::f2fs::format::dentry::BLOCK_SLOTS;

/// Blocks from this one on are read each time: an index takes a few megabytes at most.
const BLOCKS_MAX: usize = 4096;

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Known {
    #[default]
    Nothing,
    /// It is a hole.
    Hole,
    /// Its names.
    Names {
        /// No more free slots than these lie beside each other.
        room_max: u8,
    },
}

/// Blocks that hold names of one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holders {
    One(u64),
    /// Several blocks, or one several.
    Several,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    blocks: Vec<Known>,
    holders: FxHashMap<u32, Holders>,
}

impl NameIndex {
    /// What is known of a block.
    pub(super) fn known(&self, logical: u64) -> Known {
        self.blocks.get(logical as usize).copied().unwrap_or_default()
    }

    /// The known blocks that hold names of this hash.
    pub(super) fn holders(&self, hash: u32) -> Option<Holders> {
        self.holders.get(&hash).copied()
    }

    /// Whether names whose hash these blocks hold may lie in a block.
    pub(super) fn may_hold(&self, logical: u64, holders: Option<Holders>) -> bool {
        match (self.known(logical), holders) {
            (Known::Nothing, _) => true,
            (Known::Hole, _) | (_, None) => false,
            (_, Some(Holders::One(block))) => block == logical,
            (_, Some(Holders::Several)) => true,
        }
    }

    /// Whether so many free slots may lie beside each other in a block.
    pub(super) fn may_have_room(&self, logical: u64, slots: usize) -> bool {
        match self.known(logical) {
            Known::Names { room_max } => slots <= usize::from(room_max),
            Known::Nothing | Known::Hole => true,
        }
    }

    /// Knows a block from now on that has names of these hashes, each once for each name.
    pub(super) fn learn(&mut self, logical: u64, hashes: impl Iterator<Item = u32>) {
        debug_assert!(!matches!(self.known(logical), Known::Names { .. }), "block {logical} is known");
        self.set(logical, Known::Names { room_max: BLOCK_SLOTS as u8 });
        hashes.for_each(|hash| self.add(logical, hash));
    }

    /// Notes that a block is a hole.
    pub(super) fn note_hole(&mut self, logical: u64) {
        self.set(logical, Known::Hole);
    }

    /// Notes that no more free slots than these lie beside each other.
    pub(super) fn note_room(&mut self, logical: u64, slots: usize) {
        if let Known::Names { room_max } = self.known(logical) {
            self.set(logical, Known::Names { room_max: room_max.min(slots as u8) });
        }
    }

    /// Notes a new name.
    pub(super) fn add(&mut self, logical: u64, hash: u32) {
        if let Known::Names { .. } = self.known(logical) {
            let holders = self.holders.entry(hash);
            holders.and_modify(|holders| *holders = Holders::Several).or_insert(Holders::One(logical));
        }
    }

    /// Notes that a name is gone.
    pub(super) fn remove(&mut self, logical: u64, hash: u32) {
        if let Known::Names { .. } = self.known(logical) {
            self.set(logical, Known::Names { room_max: BLOCK_SLOTS as u8 });
        }
        if self.holders.get(&hash) == Some(&Holders::One(logical)) {
            self.holders.remove(&hash);
        }
    }

    /// Knows nothing from now on.
    pub(super) fn forget(&mut self) {
        *self = NameIndex::default();
    }

    /// Blocks of which something is known.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, Known)> + '_ {
        (0..).zip(self.blocks.iter().copied()).filter(|(_, known)| *known != Known::Nothing)
    }

    fn set(&mut self, logical: u64, known: Known) {
        if logical >= BLOCKS_MAX as u64 {
            return;
        }
        if self.blocks.len() <= logical as usize {
            self.blocks.resize(logical as usize + 1, Known::Nothing);
        }
        self.blocks[logical as usize] = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_hold(index: &NameIndex, logical: u64, hash: u32) -> bool {
        index.may_hold(logical, index.holders(hash))
    }

    #[test]
    fn a_hash_that_is_lacking_lies_in_no_known_block() {
        let mut index = NameIndex::default();
        index.learn(3, [7, 8].into_iter());
        assert!(may_hold(&index, 3, 7) && !may_hold(&index, 3, 9) && may_hold(&index, 4, 9));
        index.learn(4, [8, 9].into_iter());
        assert!(!may_hold(&index, 4, 7) && may_hold(&index, 3, 8) && may_hold(&index, 4, 8));
        index.remove(3, 8);
        assert!(may_hold(&index, 4, 8), "one of two is left");
        index.remove(3, 7);
        index.note_hole(3);
        assert!(!may_hold(&index, 3, 7) && !may_hold(&index, 3, 8));
    }

    #[test]
    fn room_is_bounded_until_a_name_goes() {
        let mut index = NameIndex::default();
        index.note_room(2, 1);
        assert!(index.may_have_room(2, 9), "nothing is known of it");
        index.learn(2, [5].into_iter());
        index.note_room(2, 1);
        assert!(index.may_have_room(2, 1) && !index.may_have_room(2, 2));
        index.remove(2, 5);
        assert!(index.may_have_room(2, BLOCK_SLOTS));
    }

    #[test]
    fn blocks_far_behind_are_never_known() {
        let mut index = NameIndex::default();
        index.learn(BLOCKS_MAX as u64, [5].into_iter());
        assert!(may_hold(&index, BLOCKS_MAX as u64, 6) && index.blocks().count() == 0);
    }
}
