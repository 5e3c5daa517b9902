//! Candidates: the tree of one, and which pages of a file are judged.

use std::collections::BTreeSet;

use onewrite_block::PAGE_SIZE;

use super::ways::{LastWays, Ways};
use super::{Candidate, Judge};
use crate::model::{FileContent, NodeId, Step, Tree};

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

impl<'a> Judge<'a> {
    /// The steps of operations with these numbers.
    pub(super) fn steps_of(&self, operations: &[usize]) -> Vec<&'a [Step]> {
        operations.iter().map(|operation| &self.operation(*operation).steps[..]).collect()
    }

    /// The tree of a candidate. Candidates are mostly asked for in their order.
    pub(super) fn tree_of(&self, candidate: &Candidate) -> Tree {
        let prefix = candidate.prefix;
        let (operations, way): (Vec<usize>, Vec<usize>) = candidate.partial.iter().copied().unzip();
        let mut last = self.ways.borrow_mut();
        let known = last.take().filter(|last| (last.prefix, &last.operations) == (prefix, &operations));
        let steps = self.steps_of(&operations);
        let anew = || LastWays { prefix, operations, ways: Ways::new(&self.trees[prefix]) };
        last.insert(known.unwrap_or_else(anew)).ways.tree(&steps, &way).expect("a candidate is possible")
    }
}
