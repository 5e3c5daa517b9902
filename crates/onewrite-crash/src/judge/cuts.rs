//! Cuts: the bytes that truncations cut off pages which their files keep.
//!
//! Where data are ordered, the zeros behind a file's new end are on the device before its truncation is durable. So if
//! the file grows again, no crash shows what was cut off.

use std::collections::BTreeMap;

use onewrite_block::PAGE_SIZE;

use crate::model::NodeId;

/// For each page that was cut: positions of the truncations among the ended operations, and the first byte cut off.
#[derive(Default)]
pub(super) struct Cuts {
    of_pages: BTreeMap<(NodeId, u64), Vec<(usize, usize)>>,
}

impl Cuts {
    /// Notes that the operation at position `order` among the ended ones truncated a file to `size` bytes.
    pub(super) fn note(&mut self, node: NodeId, order: usize, size: u64) {
        let (index, first) = (size / PAGE_SIZE as u64, (size % PAGE_SIZE as u64) as usize);
        if first > 0 {
            self.of_pages.entry((node, index)).or_default().push((order, first));
        }
    }

    /// The first byte that truncations cut off a page since the operation at `since`, of those before `until`.
    pub(super) fn first_byte(&self, page: (NodeId, u64), since: Option<usize>, until: usize) -> Option<usize> {
        let cuts = self.of_pages.get(&page).map_or(&[][..], Vec::as_slice);
        let counted = cuts.iter().filter(|(order, _)| *order < until && since.is_none_or(|since| since < *order));
        counted.map(|(_, first)| *first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_truncations_since_cut_off_is_gone() {
        let (mut cuts, page) = (Cuts::default(), (NodeId(3), 1));
        cuts.note(NodeId(3), 2, 4_196);
        cuts.note(NodeId(3), 5, 4_600);
        cuts.note(NodeId(3), 6, 8_192);
        assert_eq!(cuts.first_byte(page, None, 9), Some(100));
        assert_eq!(cuts.first_byte(page, Some(2), 9), Some(504));
        assert_eq!(cuts.first_byte(page, Some(2), 5), None, "the second is not there");
        assert_eq!(cuts.first_byte(page, Some(usize::MAX), 9), None, "an operation that failed came after all");
        assert_eq!(cuts.first_byte((NodeId(3), 2), None, 9), None, "a page that is gone as a whole is not cut");
    }
}
