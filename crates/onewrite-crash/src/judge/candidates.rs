//! Candidates: which pages of a file are judged.

use std::collections::BTreeSet;

use onewrite_block::PAGE_SIZE;

use super::Judge;
use crate::model::{FileContent, NodeId};

impl Judge<'_> {
    /// The pages of a file that can be wrong, in order: any that was found, was given something, or was there before
    /// the run. All others are holes, and may be; a sparse file has thousands of millions.
    pub(super) fn pages_to_judge(&self, node: NodeId, found: &FileContent) -> BTreeSet<u64> {
        let end = found.size.div_ceil(PAGE_SIZE as u64);
        let given = self.versions.range((node, 0)..(node, end)).map(|((_, index), _)| *index);
        let initial = self.history.initial.blocks_in(node, 0..end);
        let found = found.pages.indexes(..end);
        given.chain(initial).chain(found).collect()
    }
}
