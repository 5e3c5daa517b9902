//! How a view reads: blocks of any size from a device with pages of 4 KiB. Newer copies in the log replace them.
//!
//! Metadata goes through a small cache of pages; reads of content bypass it, in long runs. Nothing writes.

use std::cell::RefCell;
use std::collections::VecDeque;

use onewrite_block::{Cause, DevicePort, Lpn, PAGE_SIZE, Page, Request};
use rustc_hash::FxHashMap;

use crate::api::{FsError, FsResult};
use crate::block::{BlockNo, BlockRange};
use crate::journal::LogView;

const PAGE: u64 = PAGE_SIZE as u64;

/// Reads blocks; see the module's head.
pub(super) struct Blocks {
    port: DevicePort,
    block_size: usize,
    /// Number of readable blocks: those of the image that lie on the device.
    block_count: u64,
    cache: RefCell<Cache>,
    log: Option<LogView>,
}

/// Pages; evicts the oldest first.
struct Cache {
    pages: FxHashMap<u64, Page>,
    order: VecDeque<u64>,
    pages_max: usize,
}

impl Blocks {
    pub(super) fn new(port: &DevicePort, block_size: u32, block_count: u64, cache_pages: usize) -> Blocks {
        let cache = Cache { pages: FxHashMap::default(), order: VecDeque::new(), pages_max: cache_pages.max(1) };
        let on_device = port.geometry().pages.saturating_mul(PAGE) / u64::from(block_size);
        Blocks {
            port: port.clone(),
            block_size: block_size as usize,
            block_count: block_count.min(on_device),
            cache: RefCell::new(cache),
            log: None,
        }
    }

    /// From now on, newer copies in `log` replace blocks of the image.
    pub(super) fn lay_over(&mut self, log: LogView) {
        self.log = Some(log);
    }

    pub(super) fn block_size(&self) -> usize {
        self.block_size
    }

    pub(super) fn port(&self) -> &DevicePort {
        &self.port
    }

    fn check(&self, run: BlockRange) -> FsResult<()> {
        if run.ends_by(BlockNo(self.block_count)) {
            return Ok(());
        }
        let problem = format!("it lies beyond the {} blocks of the image", self.block_count);
        Err(FsError::Damaged { place: format!("block {}", run.start), problem })
    }

    /// The content of a metadata block.
    pub(super) async fn block(&self, block: BlockNo) -> FsResult<Vec<u8>> {
        self.check(block.alone())?;
        if let Some(newer) = self.newer(block).await? {
            return Ok(newer);
        }
        let start = block.0 * self.block_size as u64;
        let mut bytes = Vec::with_capacity(self.block_size);
        while bytes.len() < self.block_size {
            let at = start + bytes.len() as u64;
            let page = self.page(at / PAGE).await?;
            let within = (at % PAGE) as usize;
            let end = PAGE_SIZE.min(within + self.block_size - bytes.len());
            bytes.extend_from_slice(&page.bytes()[within..end]);
        }
        Ok(bytes)
    }

    async fn newer(&self, block: BlockNo) -> FsResult<Option<Vec<u8>>> {
        let Some(log) = &self.log else { return Ok(None) };
        let page = log.block(block).await?;
        Ok(page.map(|page| page.bytes()[..self.block_size].to_vec()))
    }

    async fn page(&self, number: u64) -> FsResult<Page> {
        if let Some(page) = self.cache.borrow().pages.get(&number) {
            return Ok(page.clone());
        }
        let mut pages = self.port.request(Request::read(Lpn(number), 1, Cause::Metadata)).await?;
        let page = pages.pop().expect("a read of one page gives one");
        self.cache.borrow_mut().insert(number, page.clone());
        Ok(page)
    }

    /// The content of a run of blocks, without the cache.
    pub(super) async fn run(&self, run: BlockRange) -> FsResult<Vec<u8>> {
        self.check(run)?;
        let size = self.block_size as u64;
        let (start, end) = (run.start.0 * size, run.end().0 * size);
        let mut bytes = Vec::with_capacity((end - start) as usize + 2 * PAGE_SIZE);
        let (mut page, last) = (start / PAGE, end.div_ceil(PAGE));
        while page < last {
            let part = (last - page).min(u64::from(self.port.geometry().transfer_pages_max));
            let pages = self.port.request(Request::read(Lpn(page), part as u32, Cause::Data)).await?;
            pages.iter().for_each(|page| bytes.extend_from_slice(&page.bytes()[..]));
            page += part;
        }
        bytes.truncate((end - start / PAGE * PAGE) as usize);
        bytes.drain(..(start % PAGE) as usize);
        self.lay_log_over(run.start, &mut bytes).await?;
        Ok(bytes)
    }

    async fn lay_log_over(&self, first: BlockNo, bytes: &mut [u8]) -> FsResult<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let end = first + (bytes.len() / self.block_size) as u64;
        let mut from = first;
        while let Some(block) = log.next(from).filter(|block| *block < end) {
            let newer = self.newer(block).await?.expect("the log named it");
            let at = (block - first) as usize * self.block_size;
            bytes[at..at + self.block_size].copy_from_slice(&newer);
            from = block + 1;
        }
        Ok(())
    }
}

impl Cache {
    fn insert(&mut self, number: u64, page: Page) {
        if self.pages.insert(number, page).is_some() {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > self.pages_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.pages.remove(&oldest);
        }
    }
}
