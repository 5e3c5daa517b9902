//! Sizes: what a file's size may be after a cut, where allocation is delayed.
//!
//! There a size that a write made larger reaches the inode when the content does, not when the write joins a
//! transaction; every other change of a size is part of a transaction. So at a place of the run a size lies between
//! the one that was last certain (synced, or set by a truncation that is there) and the largest that was given since.

use std::collections::BTreeMap;

use onewrite_block::PAGE_SIZE;

use crate::model::NodeId;

/// A change of a file's size.
struct Change {
    operation: usize,
    /// Surviving of its operation among the ended ones.
    order: usize,
    begin: usize,
    size: u64,
    /// A write made it larger.
    grows: bool,
}

/// Where in the run a state is judged.
pub(crate) struct Surviving<'a> {
    /// Ended operations that are there.
    pub(crate) prefix: usize,
    /// Operations under way of which steps are there.
    pub(crate) partial: &'a [(usize, usize)],
    /// Ended operations whose content has to be there.
    pub(crate) synced: usize,
    /// Happenings before the cut.
    pub(crate) happened: usize,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Sizes {
    changes: BTreeMap<NodeId, Vec<Change>>,
}

impl Sizes {
    /// An operation, the `order`-th to end, begun at happening `begin`, sets the size of a file.
    pub(crate) fn note(&mut self, node: NodeId, (operation, order, begin): (usize, usize, usize), size: (u64, bool)) {
        let (size, grows) = size;
        self.changes.entry(node).or_default().push(Change { operation, order, begin, size, grows });
    }

    /// Puts the changes of each file into their order.
    pub(crate) fn sort(&mut self) {
        self.changes.values_mut().for_each(|changes| changes.sort_by_key(|change| change.order));
    }

    /// Whether `node`, of `initial` bytes when the run began, may have `size` bytes.
    pub(crate) fn allows(&self, node: NodeId, initial: u64, size: u64, place: &Surviving<'_>) -> bool {
        let (mut least, mut most, mut is_given) = (initial, initial, size == initial);
        for change in self.changes.get(&node).map_or(&[][..], Vec::as_slice) {
            let is_there = change.order < place.prefix
                || place.partial.iter().any(|(operation, _)| *operation == change.operation);
            if !change.grows && !is_there {
                break;
            }
            if !change.grows || change.order < place.synced {
                (least, most, is_given) = (change.size, change.size, size == change.size);
            } else if change.begin < place.happened {
                most = most.max(change.size);
                is_given |= size == change.size;
            }
        }
        (least..=most).contains(&size) && (is_given || size.is_multiple_of(PAGE_SIZE as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> (Sizes, NodeId) {
        let (mut sizes, node) = (Sizes::default(), NodeId(3));
        sizes.note(node, (0, 0, 0), (5_000, true));
        sizes.note(node, (1, 1, 2), (100, false));
        sizes.note(node, (2, 2, 4), (9_000, true));
        sizes.sort();
        (sizes, node)
    }

    fn place(prefix: usize, synced: usize) -> Surviving<'static> {
        Surviving { prefix, partial: &[], synced, happened: 6 }
    }

    #[test]
    fn a_write_may_be_missing_in_part_until_it_is_synced() {
        let (sizes, node) = sizes();
        for size in [0, 4_096, 5_000] {
            assert!(sizes.allows(node, 0, size, &place(1, 0)), "{size}");
        }
        assert!(!sizes.allows(node, 0, 4_000, &place(1, 0)) && !sizes.allows(node, 0, 8_192, &place(1, 0)));
        assert!(sizes.allows(node, 0, 5_000, &place(1, 1)) && !sizes.allows(node, 0, 4_096, &place(1, 1)));
    }

    #[test]
    fn a_truncation_is_there_or_not() {
        let (sizes, node) = sizes();
        assert!(sizes.allows(node, 0, 100, &place(2, 0)) && sizes.allows(node, 0, 8_192, &place(2, 0)));
        assert!(!sizes.allows(node, 0, 0, &place(2, 0)), "what was before the truncation is gone");
        assert!(!sizes.allows(node, 0, 9_000, &place(1, 0)), "what came after it is not there without it");
    }
}
