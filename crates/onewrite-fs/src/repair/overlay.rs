//! An image with changes laid over it. The image itself stays as it is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::Page;

use crate::block::BlockNo;
use crate::check::{ReadBlocks, ReadError};

/// Changes over an image. All copies read the original image, so make them before writing pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// New content of blocks; takes 4 KiB of memory for each.
    pub pages: BTreeMap<BlockNo, Page>,
    /// Target and source of each copy. A copy never reads a target.
    pub copies: BTreeMap<BlockNo, BlockNo>,
    /// The blocks that copies read.
    sources: BTreeSet<BlockNo>,
}

/// The changes above a reader.
pub(super) struct Overlay<'a, R> {
    below: &'a R,
    changes: RefCell<Changes>,
}

impl<'a, R: ReadBlocks> Overlay<'a, R> {
    pub(super) fn new(below: &'a R, changes: Changes) -> Overlay<'a, R> {
        Overlay { below, changes: RefCell::new(changes) }
    }

    pub(super) fn put(&self, block: BlockNo, page: Page) {
        self.changes.borrow_mut().pages.insert(block, page);
    }

    /// Makes `target` read as `source` does now; false if `source` cannot be read.
    pub(super) async fn copy(&self, target: BlockNo, source: BlockNo) -> bool {
        let Ok(page) = self.read_block(source).await else { return false };
        let mut changes = self.changes.borrow_mut();
        if changes.pages.contains_key(&source) || changes.sources.contains(&target) {
            changes.pages.insert(target, page);
            return true;
        }
        let below = changes.copies.get(&source).copied().unwrap_or(source);
        changes.pages.remove(&target);
        changes.copies.insert(target, below);
        changes.sources.insert(below);
        true
    }

    pub(super) fn into_changes(self) -> Changes {
        self.changes.into_inner()
    }
}

impl<R: ReadBlocks> ReadBlocks for Overlay<'_, R> {
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError> {
        let (changed, below) = {
            let changes = self.changes.borrow();
            (changes.pages.get(&block).cloned(), changes.copies.get(&block).copied())
        };
        match changed {
            Some(page) => Ok(page),
            None => self.below.read_block(below.unwrap_or(block)).await,
        }
    }
}
