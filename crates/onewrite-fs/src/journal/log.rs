//! Log: maps log blocks to the device, and writes, reads and flushes them.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use onewrite_block::{Cause, DeviceError, DevicePort, InFlight, Lpn, Page, Request, Runtime, TrimRead};

use super::format::Style;
use super::log_map::LogMap;
use super::ring::{LogBlock, Ring};
use super::stored::StoredLog;
use crate::block::{BlockNo, BlockRange};
use crate::transfer::{Durability, send_run, wait_all};

/// Maximum number of data runs that [`Log`] remembers for strategies that re-read data.
const DATA_RUNS_MAX: usize = 256;

/// Data written to its place since the last FLUSH.
#[derive(Default)]
struct DataWritten {
    runs: Vec<BlockRange>,
    /// Whether there were more than [`DATA_RUNS_MAX`] runs.
    is_more: bool,
}

/// The log on its device. Commit strategies and recovery use it.
pub struct Log {
    port: DevicePort,
    map: LogMap,
    style: Style,
    flushes_started: Cell<u64>,
    flushes_done: Cell<u64>,
    has_flushed: Cell<bool>,
    data_written: RefCell<DataWritten>,
}

impl Log {
    /// A log on `port`.
    pub fn new(port: DevicePort, map: LogMap, style: Style) -> Log {
        Log {
            port,
            map,
            style,
            flushes_started: Cell::new(0),
            flushes_done: Cell::new(0),
            has_flushed: Cell::new(false),
            data_written: RefCell::default(),
        }
    }

    /// The device.
    pub fn port(&self) -> &DevicePort {
        &self.port
    }

    /// Layout of its blocks.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The runtime of the device.
    pub fn runtime(&self) -> &Runtime {
        self.port.runtime()
    }

    /// The device page of a log block.
    pub fn page_of(&self, log_block: LogBlock) -> Lpn {
        self.map.block_of(log_block).page()
    }

    /// Sends writes of `pages` to the log from `log_block` on.
    pub async fn send(
        &self,
        log_block: LogBlock,
        pages: Vec<Page>,
        durability: Durability,
        cause: Cause,
    ) -> Vec<InFlight> {
        let mut under_way = Vec::new();
        let mut pages = pages.into_iter();
        for run in self.map.runs(log_block.run(pages.len() as u32)) {
            under_way.extend(
                send_run(&self.port, run.start.page(), pages.by_ref().take(run.count as usize), durability, cause)
                    .await,
            );
        }
        under_way
    }

    /// A reader of the log blocks in `ring`.
    pub(super) fn stored(&self, ring: Ring) -> StoredLog<'_> {
        StoredLog::new(&self.port, &self.map, ring, Cause::Journal)
    }

    /// Drops the content of a run of log blocks: TRIMs them if trimmed pages read as zeros, else writes zeros.
    ///
    /// # Errors
    /// Device errors.
    pub async fn clear(&self, log_blocks: Range<LogBlock>) -> Result<(), DeviceError> {
        let mut under_way = Vec::new();
        for run in self.map.runs(log_blocks) {
            if self.port.geometry().trim_read == TrimRead::Zeros {
                let request = Request::trim(run.start.page(), run.count, Cause::LogTail);
                under_way.push(self.port.send(request).await);
            } else {
                onewrite_block::reached!("log cleared with zeros for want of TRIM");
                let zeros = std::iter::repeat_n(Page::ZEROS, run.count as usize);
                under_way
                    .extend(send_run(&self.port, run.start.page(), zeros, Durability::Volatile, Cause::LogTail).await);
            }
        }
        wait_all(under_way).await
    }

    /// Writes `pages` to the log from `log_block` on.
    ///
    /// # Errors
    /// Device errors.
    pub async fn write(&self, log_block: LogBlock, pages: Vec<Page>, cause: Cause) -> Result<(), DeviceError> {
        wait_all(self.send(log_block, pages, Durability::Volatile, cause).await).await
    }

    /// Writes one block with FUA.
    ///
    /// # Errors
    /// Device errors.
    pub async fn write_fua(&self, log_block: LogBlock, page: Page, cause: Cause) -> Result<(), DeviceError> {
        wait_all(self.send(log_block, vec![page], Durability::Fua, cause).await).await
    }

    /// Sends a FLUSH and waits for it.
    ///
    /// # Errors
    /// Device errors.
    pub async fn flush(&self) -> Result<(), DeviceError> {
        let number = self.flushes_started.get() + 1;
        self.flushes_started.set(number);
        self.data_written.take();
        onewrite_block::reached!("FLUSH beside another FLUSH", number > self.flushes_done.get() + 1);
        self.port.request(Request::flush(Cause::Journal)).await?;
        self.flushes_done.set(self.flushes_done.get().max(number));
        Ok(())
    }

    /// Sends the last [`Log::flush`] of a commit. It does not cover data that others write from now on.
    ///
    /// # Errors
    /// Device errors.
    pub async fn last_flush(&self) -> Result<(), DeviceError> {
        self.begin_last();
        self.flush().await
    }

    /// Notes that the last FLUSH or padding of the commit starts now. It does not cover data that others write from now
    /// on.
    pub(crate) fn begin_last(&self) {
        self.has_flushed.set(true);
    }

    /// Notes data that was written to its place.
    pub(super) fn note_data(&self, place: BlockRange) {
        let mut written = self.data_written.borrow_mut();
        match written.runs.len() < DATA_RUNS_MAX {
            true => written.runs.push(place),
            false => written.is_more = true,
        }
    }

    /// Number of data pages written since the last FLUSH or [`Log::take_data_written`]; a huge number if too many.
    pub(super) fn data_written(&self) -> usize {
        let written = self.data_written.borrow();
        if written.is_more { usize::MAX / 2 } else { written.runs.iter().map(|run| run.count as usize).sum() }
    }

    /// Takes the data pages written since then, and clears the list; `None` if there were too many to remember.
    pub(super) fn take_data_written(&self) -> Option<Vec<Lpn>> {
        let written = self.data_written.take();
        let pages = |run: BlockRange| run.blocks().map(BlockNo::page);
        (!written.is_more).then(|| written.runs.into_iter().flat_map(pages).collect())
    }

    /// The device pages of a run of log blocks.
    pub(super) fn device_runs(&self, run: Range<LogBlock>) -> Vec<BlockRange> {
        self.map.runs(run)
    }

    /// Number of the first FLUSH sent after this call. It makes all writes durable that have completed by now.
    pub(crate) fn next_flush(&self) -> u64 {
        self.flushes_started.get() + 1
    }

    /// Whether FLUSH number `flush` or a later one is done.
    pub(crate) fn is_flushed(&self, flush: u64) -> bool {
        self.flushes_done.get() >= flush
    }

    pub(super) fn begin_commit(&self) {
        self.has_flushed.set(false);
    }

    pub(super) fn has_flushed(&self) -> bool {
        self.has_flushed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_the_ranges() {
        let range = |start, count| BlockNo(start).run(count);
        let map = LogMap::new(vec![range(100, 4), range(200, 2), range(300, 10)]);
        assert_eq!(map.length(), 16);
        assert_eq!(map.runs(LogBlock(0).run(4)), [range(100, 4)]);
        assert_eq!(map.runs(LogBlock(3).run(5)), [range(103, 1), range(200, 2), range(300, 2)]);
        assert_eq!(map.runs(LogBlock(6).run(1)), [range(300, 1)]);
    }
}
