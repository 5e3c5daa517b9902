//! How F2FS is read: blocks of 4 KiB from a device. Metadata goes through a small cache; content bypasses it.
//!
//! # Invariants
//! - Nothing writes.
//! - A block behind the end of the device is damage, not a device error.

use std::cell::RefCell;
use std::collections::VecDeque;

use onewrite_block::{Cause, DevicePort, Page, Request};
use rustc_hash::FxHashMap;

use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};

/// See the module's head.
pub(super) struct Blocks {
    port: DevicePort,
    cache: RefCell<Cache>,
}

/// Pages; evicts the oldest first.
struct Cache {
    pages: FxHashMap<BlockNo, Page>,
    order: VecDeque<BlockNo>,
    pages_max: usize,
}

impl Blocks {
    pub(super) fn new(port: &DevicePort, cache_pages: usize) -> Blocks {
        let cache = Cache { pages: FxHashMap::default(), order: VecDeque::new(), pages_max: cache_pages.max(1) };
        Blocks { port: port.clone(), cache: RefCell::new(cache) }
    }

    /// Blocks of the device.
    pub(super) fn count(&self) -> u64 {
        self.port.geometry().pages
    }

    fn check(&self, run: BlockRange) -> FsResult<()> {
        if run.ends_by(BlockNo(self.count())) {
            return Ok(());
        }
        let problem = format!("it lies beyond the {} blocks of the device", self.count());
        Err(FsError::Damaged { place: format!("block {}", run.start), problem })
    }

    /// The content of a metadata block.
    pub(super) async fn block(&self, block: BlockNo) -> FsResult<Page> {
        if let Some(page) = self.cache.borrow().pages.get(&block) {
            return Ok(page.clone());
        }
        self.check(block.alone())?;
        let mut pages = self.port.request(Request::read(block.page(), 1, Cause::Metadata)).await?;
        let page = pages.pop().expect("a read of one page gives one");
        self.cache.borrow_mut().insert(block, page.clone());
        Ok(page)
    }

    /// The content of a run of blocks, without the cache.
    pub(super) async fn run(&self, run: BlockRange) -> FsResult<Vec<Page>> {
        self.check(run)?;
        let most = u64::from(self.port.geometry().transfer_pages_max);
        let mut pages = Vec::with_capacity(run.count as usize);
        while (pages.len() as u64) < run.count {
            let done = pages.len() as u64;
            let part = (run.count - done).min(most) as u32;
            pages.extend(self.port.request(Request::read((run.start + done).page(), part, Cause::Data)).await?);
        }
        Ok(pages)
    }
}

impl Cache {
    fn insert(&mut self, block: BlockNo, page: Page) {
        if self.pages.insert(block, page).is_some() {
            return;
        }
        self.order.push_back(block);
        if self.order.len() > self.pages_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.pages.remove(&oldest);
        }
    }
}
