//! An image with changes laid over it; nothing below is written.

use std::cell::RefCell;
use std::collections::BTreeMap;

use onewrite_block::Page;

use crate::check::{ReadBlocks, ReadError};

/// The changed blocks above a reader: 4 KiB of memory for each.
pub(super) struct Overlay<'a, R> {
    below: &'a R,
    changed: RefCell<BTreeMap<u64, Page>>,
}

impl<'a, R: ReadBlocks> Overlay<'a, R> {
    pub fn new(below: &'a R, changed: BTreeMap<u64, Page>) -> Overlay<'a, R> {
        Overlay { below, changed: RefCell::new(changed) }
    }

    pub fn put(&self, block: u64, page: Page) {
        self.changed.borrow_mut().insert(block, page);
    }

    pub fn into_changed(self) -> BTreeMap<u64, Page> {
        self.changed.into_inner()
    }
}

impl<R: ReadBlocks> ReadBlocks for Overlay<'_, R> {
    async fn read_block(&self, block: u64) -> Result<Page, ReadError> {
        let changed = self.changed.borrow().get(&block).cloned();
        match changed {
            Some(page) => Ok(page),
            None => self.below.read_block(block).await,
        }
    }
}
