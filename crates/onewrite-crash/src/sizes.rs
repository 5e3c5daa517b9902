//! Sizes: the sizes that a file may have after a power cut, if allocation is delayed.
//!
//! With delayed allocation, a size that a write increases reaches the inode together with the content, not when the
//! write joins a transaction. Every other change of a size is part of a transaction. So the size is at least the last
//! certain one (synced, or set by a truncation that survived) and at most the largest set since.

use std::collections::BTreeMap;

use onewrite_block::PAGE_SIZE;

use crate::model::NodeId;

/// A change of a file's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// Its operation.
    pub(crate) operation: usize,
    /// Position of its operation among the ended ones.
    pub(crate) order: usize,
    /// The happening at which its operation begins.
    pub(crate) begin: usize,
    /// The new size.
    pub(crate) size: u64,
    /// Whether a write increased the size.
    pub(crate) grows: bool,
}

/// Pages that a share put before the end of the file, which stay there.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Position of its operation among the ended ones.
    order: usize,
    /// The end of the pages.
    end: u64,
}

/// The operations that survive in a judged state.
pub(crate) struct Surviving<'a> {
    /// Number of ended operations that survive.
    pub(crate) prefix: usize,
    /// Operations under way with surviving steps (operation, number of steps).
    pub(crate) partial: &'a [(usize, usize)],
    /// Number of ended operations whose content must survive.
    pub(crate) synced: usize,
    /// Number of ended operations whose shared pages must survive.
    pub(crate) shared: usize,
    /// Number of happenings before the cut.
    pub(crate) happened: usize,
}

/// The sizes that a file may have.
struct Bounds {
    /// The last certain one.
    least: u64,
    /// The largest since.
    most: u64,
    /// Whether the size that was asked about was given as it is.
    is_given: bool,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Sizes {
    changes: BTreeMap<NodeId, Vec<Change>>,
    shared: BTreeMap<NodeId, Vec<Shared>>,
}

impl Sizes {
    /// Notes a change of a file's size.
    pub(crate) fn note(&mut self, node: NodeId, change: Change) {
        self.changes.entry(node).or_default().push(change);
    }

    /// Notes that the share at position `order` among the ended operations changed pages up to `end`.
    pub(crate) fn note_shared(&mut self, node: NodeId, order: usize, end: u64) {
        self.shared.entry(node).or_default().push(Shared { order, end });
    }

    /// Sorts the changes of each file.
    pub(crate) fn sort(&mut self) {
        self.changes.values_mut().for_each(|changes| changes.sort_by_key(|change| change.order));
    }

    /// Whether `node` may have `size` bytes; it had `initial` bytes when the run began.
    pub(crate) fn allows(&self, node: NodeId, initial: u64, size: u64, place: &Surviving<'_>) -> bool {
        let Bounds { least, most, is_given } = self.bounds(node, initial, size, place);
        (least..=most).contains(&size) && (is_given || size.is_multiple_of(PAGE_SIZE as u64))
    }

    /// The least size that `node` may have: any larger one was given by a write.
    pub(crate) fn certain(&self, node: NodeId, initial: u64, place: &Surviving<'_>) -> u64 {
        self.bounds(node, initial, 0, place).least
    }

    fn bounds(&self, node: NodeId, initial: u64, size: u64, place: &Surviving<'_>) -> Bounds {
        let (mut least, mut most, mut is_given) = (initial, initial, size == initial);
        let mut last_cut = None;
        for change in self.changes.get(&node).map_or(&[][..], Vec::as_slice) {
            let is_there = change.order < place.prefix
                || place.partial.iter().any(|(operation, _)| *operation == change.operation);
            if !change.grows && !is_there {
                break;
            }
            if !change.grows || change.order < place.synced {
                (least, most, is_given) = (change.size, change.size, size == change.size);
                last_cut = Some(change.order);
            } else if change.begin < place.happened {
                most = most.max(change.size);
                is_given |= size == change.size;
            }
        }
        let certain = |shared: &&Shared| shared.order < place.shared && Some(shared.order) >= last_cut;
        let shared = self.shared.get(&node).map_or(&[][..], Vec::as_slice);
        let least = shared.iter().filter(certain).map(|shared| shared.end).fold(least, u64::max);
        Bounds { least, most, is_given }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> (Sizes, NodeId) {
        let (mut sizes, node) = (Sizes::default(), NodeId(3));
        let change = |operation, begin, size, grows| Change { operation, order: operation, begin, size, grows };
        sizes.note(node, change(0, 0, 5_000, true));
        sizes.note(node, change(1, 2, 100, false));
        sizes.note(node, change(2, 4, 9_000, true));
        sizes.sort();
        (sizes, node)
    }

    fn place(prefix: usize, synced: usize) -> Surviving<'static> {
        Surviving { prefix, partial: &[], synced, shared: 0, happened: 6 }
    }

    #[test]
    fn a_file_reaches_to_the_end_of_its_shared_pages() {
        let (mut sizes, node) = sizes();
        sizes.note_shared(node, 0, 4_096);
        let shared = |prefix| Surviving { shared: 1, ..place(prefix, 0) };
        assert!(!sizes.allows(node, 0, 0, &shared(1)) && sizes.allows(node, 0, 4_096, &shared(1)));
        assert!(sizes.allows(node, 0, 100, &shared(2)), "it was truncated later");
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
