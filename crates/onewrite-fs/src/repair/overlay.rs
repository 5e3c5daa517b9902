//! An image with changes laid over it; nothing below is written.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use onewrite_block::Page;

use crate::block::BlockNo;
use crate::check::{ReadBlocks, ReadError};

/// What is laid over an image. All copies read what lies below, so they are made before a page is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Blocks and what they hold: 4 KiB of memory for each.
    pub pages: BTreeMap<BlockNo, Page>,
    /// Blocks that become as another one is below; none of them is read by another copy.
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
    pub fn new(below: &'a R, changes: Changes) -> Overlay<'a, R> {
        Overlay { below, changes: RefCell::new(changes) }
    }

    pub fn put(&self, block: BlockNo, page: Page) {
        self.changes.borrow_mut().pages.insert(block, page);
    }

    /// Makes `target` read as `source` does now; false if that cannot be read.
    pub async fn copy(&self, target: BlockNo, source: BlockNo) -> bool {
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

    pub fn into_changes(self) -> Changes {
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
