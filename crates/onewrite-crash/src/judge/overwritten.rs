//! Overwritten: what a file may hold where a sync writes pages over their blocks (in-place updates of F2FS).
//!
//! A sync that is under way, or one that followed none of the nodes that survived, leaves some of its pages in blocks
//! that an older node names. So each page holds what the node's state had, or what it was given since, while it kept
//! its block. Size and attributes are the state's: they lie in the node.

use onewrite_block::Page;

use super::rolling::{BlockChange, Rolled, State};
use super::{Judge, Version};
use crate::hash::ZEROS;
use crate::model::{FileContent, NodeId};

impl Judge<'_> {
    /// Whether a file is in one of the states in which recovery may bring it back.
    pub(super) fn is_in_any(&self, file: &Rolled, found: &FileContent, happened: usize) -> bool {
        let is_in = |state: &State| self.is_in(state, file.node, found, happened);
        file.hashes.contains(&found.full_hash()) || self.promises.overwrites && file.states.iter().any(is_in)
    }

    /// Whether a file is in this state; where syncs overwrite, but for pages that were given newer content.
    pub(super) fn is_in(&self, state: &State, node: NodeId, found: &FileContent, happened: usize) -> bool {
        if state.hash == found.full_hash() {
            return true;
        }
        let is_alike = state.size == found.size && state.attributes == found.attributes;
        let is_possible = |index: u64| self.is_seen_in(found, index, &self.given_since(state, (node, index), happened));
        self.promises.overwrites && is_alike && self.pages_to_judge(node, found).into_iter().all(is_possible)
    }

    /// What a page had in a state, and what it was given since while it kept its block.
    fn given_since(&self, state: &State, (node, index): (NodeId, u64), happened: usize) -> Vec<(Page, u64)> {
        let had = self.trees[state.place].page(node, index).unwrap_or((Page::ZEROS, ZEROS));
        let versions = self.versions.get(&(node, index)).map_or(&[][..], Vec::as_slice);
        std::iter::once(had).chain(in_place(versions, state.place, happened)).collect()
    }
}

/// What a page was given behind `place` ended operations while it kept its block. Where one operation takes a block
/// away and gives another (a collapsed range), the file system copies, and the block stays.
pub(super) fn in_place(versions: &[Version], place: usize, happened: usize) -> Vec<(Page, u64)> {
    let later = || versions.iter().filter(|version| version.order >= place && version.begin < happened);
    let mut next = later().skip(1);
    let (mut given, mut was_taken_by) = (Vec::new(), None);
    // A commit of drafts writes nothing over its block.
    for version in later().take_while(|version| !version.is_committed) {
        let is_regained = next.next().is_some_and(|next| next.order == version.order);
        match version.block {
            BlockChange::Lost if is_regained => was_taken_by = Some(version.order),
            BlockChange::Gained if was_taken_by == Some(version.order) => given.push(version.content()),
            BlockChange::Kept => given.push(version.content()),
            BlockChange::Lost | BlockChange::Gained => break,
        }
    }
    given
}
