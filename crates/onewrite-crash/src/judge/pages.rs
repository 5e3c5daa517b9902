//! Pages: how one is compared with what it may hold.

use onewrite_block::{PAGE_SIZE, Page};

use crate::hash::page_hash;
use crate::states::SECTOR;

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
pub(crate) fn is_seen((page, hash): (Page, u64), found: u64, visible: usize) -> bool {
    hash == found || visible < PAGE_SIZE && cut(page, visible) == found
}

/// The hash of a page when only its first `visible` bytes are in the file.
fn cut(mut page: Page, visible: usize) -> u64 {
    page.bytes_mut()[visible..].fill(0);
    page_hash(&page)
}
