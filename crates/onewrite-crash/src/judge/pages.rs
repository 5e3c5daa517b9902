//! Pages: which pages of a file are judged, and how one is compared with what it may hold.

use std::collections::BTreeSet;

use onewrite_block::{PAGE_SIZE, Page};

use super::Judge;
use crate::hash::page_hash;
use crate::model::{FileContent, NodeId};
use crate::states::SECTOR;

impl Judge<'_> {
    /// The pages of a file that can be wrong, in order: any that was found, was given something, or was there before
    /// the run. All others are holes, and may be; a sparse file has thousands of millions.
    pub(super) fn pages_to_judge(&self, node: NodeId, found: &FileContent) -> BTreeSet<u64> {
        let end = found.size.div_ceil(PAGE_SIZE as u64);
        let given = self.versions.range((node, 0)..(node, end)).map(|((_, index), _)| *index);
        let initial = self.history.initial.blocks_in(node, 0..end);
        let found = found.pages.iter().map(|(index, ..)| *index).filter(|index| *index < end);
        given.chain(initial).chain(found).collect()
    }
}

/// Whether each sector of a page, within the file's size, comes from one of `versions`. On a disk that tears pages,
/// content that is overwritten in place may be torn.
pub(super) fn is_mixed(page: &Page, versions: &[Page], visible: usize) -> bool {
    let bytes = page.bytes();
    let versions: Vec<_> = versions.iter().map(Page::bytes).collect();
    (0..visible).step_by(SECTOR).all(|start| {
        let sector = start..visible.min(start + SECTOR);
        versions.iter().any(|version| version[sector.clone()] == bytes[sector.clone()])
    })
}

/// Whether this version of a page has the hash `found` when only its first `visible` bytes are in the file.
pub(super) fn is_seen((page, hash): (Page, u64), found: u64, visible: usize) -> bool {
    hash == found || visible < PAGE_SIZE && cut(page, visible) == found
}

/// The hash of a page when only its first `visible` bytes are in the file.
fn cut(mut page: Page, visible: usize) -> u64 {
    page.bytes_mut()[visible..].fill(0);
    page_hash(&page)
}
