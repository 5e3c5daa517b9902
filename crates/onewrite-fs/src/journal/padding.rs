//! Padding: commits without FLUSH. Writing zeros pushes earlier writes out of the device's write buffer.
//!
//! ```text
//!   journal blocks ─► zeros up to the eviction spot ─► TRIMs ─► commit block ─► zeros ─► TRIMs
//!                          └─ re-read: each block timed; still in the buffer: FLUSH ─┘
//! ```
//!
//! # Assumptions about the device
//! 1. The buffer evicts pages in the order of their last write. After `spot` bytes of other pages all earlier pages are
//!    in flash ([`WriteBuffer`](onewrite_block::WriteBuffer)).
//! 2. After a power loss the device finds the pages in flash even if it had not written its map
//!    ([`Geometry::oob_hints`]).
//!
//! If 1 does not hold, re-reading notices it. If 2 does not hold, or the spot is unknown, re-reading sends FLUSH each
//! time.
//!
//! # Where the zeros go
//! They go into free log space behind the head; the log always keeps enough of it free. They never reach the tail.
//! Recovery reads them as the end of the log, which is correct. With TRIM each padding starts right behind the record;
//! TRIM drops the zeros before the flash has taken most of them. Without TRIM the paddings go round the free space.
//! Zeros on the same blocks would still be in the buffer and push nothing out.
//!
//! Source: Kang and Eom, APSys 2017 (`papers/003`) §4 and §6; docs/decisions/009.

use std::cell::Cell;
use std::ops::Range;

use onewrite_block::{Cause, DeviceError, EvictionOrder, Geometry, Lpn, Nanos, PAGE_SIZE, Page, Request, TrimRead};

use super::commit::{Barrier, Commit, CommitFuture, LogFeatures, PrepareFuture, Record, send_and_wait};
use super::eviction_spot::EvictionSpot;
use super::log::Log;
use super::ring::{self, LogBlock};
use crate::api::{FsError, FsResult};
use crate::transfer::{Durability, wait_all};

/// Largest transaction that [`Check::Hybrid`] pads, in pages, with its data in place. In varmail on `sata-850pro` a
/// commit takes 9.6 ms with two paddings and 13 ms with two FLUSHes. Re-reading takes at least 0.23 ms for each page.
const HYBRID_PAGES_MAX: usize = 8;
/// Minimum number of log blocks beside the padding.
const LEAST_LOG_BLOCKS: u64 = 256;
/// Number of blocks timed in the buffer and in flash, to tell one from the other.
const TIMED_BLOCKS: u64 = 6;

/// How a commit checks that padding made its blocks durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// No check: trusts the eviction spot.
    #[default]
    Trust,
    /// Reads every block again, with no other request on the device. If a block comes from the buffer, sends FLUSH.
    Reread,
    /// As [`Check::Reread`] for small transactions; FLUSH for large ones.
    Hybrid,
}

/// Options of zero padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Padding {
    /// Whether to TRIM the zeros before the device has written them all to flash.
    pub trims: bool,
    /// How to check the result.
    pub check: Check,
}

impl Padding {
    /// TRIM, and no check: the paper's ext4-zp.
    pub const PLAIN: Padding = Padding { trims: true, check: Check::Trust };
}

/// Reasons why padding may not be safe on this device, one sentence each. Empty if it is safe or is re-read.
pub fn padding_warnings(padding: Padding, geometry: &Geometry, given: Option<EvictionSpot>) -> Vec<String> {
    if padding.check != Check::Trust {
        return Vec::new();
    }
    let name = &geometry.name;
    let Some(spot) = given.or_else(|| EvictionSpot::stated(geometry)) else {
        return vec![format!(
            "the eviction spot of {name} is not known: every commit sends FLUSH instead of padding; find it with \
             `onewrite probe` and give it with --eviction-spot"
        )];
    };
    let mut warnings = Vec::new();
    let mut warn = |what: String| warnings.push(format!("{what}; a power cut may lose what was synced: add `+reread`"));
    if !geometry.oob_hints {
        warn(format!("{name} keeps no out-of-band hints: what padding evicts may not be found after a power cut"));
    }
    let Some(buffer) = geometry.write_buffer else { return warnings };
    if buffer.eviction_order != EvictionOrder::LeastRecentlyWritten {
        warn(format!("the write buffer of {name} does not evict the oldest pages first"));
    }
    if spot.bytes < buffer.eviction_certain_bytes {
        let (bytes, certain) = (spot.bytes, buffer.eviction_certain_bytes);
        warn(format!("an eviction spot of {bytes} bytes is too small for {name}, which needs {certain}"));
    }
    warnings
}

/// See the module's head. Call [`Commit::prepare`] before the first commit.
pub struct ZeroPadding {
    padding: Padding,
    /// Number of blocks of one padding; 0 if every commit uses FLUSH.
    blocks: Cell<u64>,
    /// A read that takes at least this long came from flash.
    flash_read_min: Cell<Nanos>,
    trims: Cell<bool>,
    /// Where the next padding starts, without TRIM.
    next: Cell<LogBlock>,
}

impl ZeroPadding {
    /// A strategy with these options.
    pub fn new(padding: Padding) -> ZeroPadding {
        let (blocks, next, trims) = (Cell::new(0), Cell::new(LogBlock(0)), Cell::new(false));
        ZeroPadding { padding, blocks, flash_read_min: Cell::new(Nanos::ZERO), trims, next }
    }

    async fn learn(&self, log: &Log, spot: Option<EvictionSpot>, free: Vec<Range<LogBlock>>) -> FsResult<()> {
        let geometry = log.port().geometry();
        let Some(spot) = spot.or_else(|| EvictionSpot::stated(geometry)) else { return Ok(()) };
        if self.padding.check != Check::Trust {
            if !geometry.oob_hints {
                return Ok(());
            }
            match spot.flash_read_min {
                Some(least) => self.flash_read_min.set(least),
                None => match time_reads(log, &free).await? {
                    Some(least) => self.flash_read_min.set(least),
                    None => return Ok(()),
                },
            }
        }
        let blocks = spot.bytes.div_ceil(PAGE_SIZE as u64);
        let has: u64 = free.iter().map(|run| u64::from(ring::count(run))).sum();
        if has < blocks + LEAST_LOG_BLOCKS {
            let needs = (blocks + LEAST_LOG_BLOCKS + 1).div_ceil(256);
            return Err(FsError::Invalid(format!(
                "a log of {has} blocks has no room for padding of {blocks} blocks; make one of at least {needs} MiB"
            )));
        }
        self.blocks.set(blocks);
        self.trims.set(self.padding.trims && geometry.trim_read != TrimRead::Unsupported);
        Ok(())
    }

    async fn commit_record(&self, log: &Log, record: Record) -> Result<(), DeviceError> {
        let written: Vec<LogBlock> =
            record.runs.iter().flat_map(|(start, pages)| ring::blocks(start.run(pages.len() as u32))).collect();
        let data = log.data_written();
        if self.prefers_flush(written.len() + data) {
            onewrite_block::reached!("commit sends FLUSH instead of padding");
            return Barrier.commit(log, record).await;
        }
        send_and_wait(log, record.runs).await?;
        if self.padding.check != Check::Trust {
            // Leaves data that arrives later to the next padding: re-reading it here would delay this commit.
            log.begin_last();
        }
        self.push_out(log, &record.free, &written, log.take_data_written()).await?;
        log.write(record.commit_at, vec![record.commit], Cause::Journal).await?;
        log.begin_last();
        self.push_out(log, &record.free, &[record.commit_at], Some(Vec::new())).await
    }

    fn prefers_flush(&self, pages: usize) -> bool {
        self.blocks.get() == 0 || self.padding.check == Check::Hybrid && pages > HYBRID_PAGES_MAX
    }

    /// Makes completed writes durable. Re-reading checks the log blocks `written` and the pages `data`; it sends FLUSH
    /// if one of them is not in flash, or if `data` is unknown (`None`).
    async fn push_out(
        &self,
        log: &Log,
        free: &[Range<LogBlock>],
        written: &[LogBlock],
        data: Option<Vec<Lpn>>,
    ) -> Result<(), DeviceError> {
        let Some(area) = self.area(free) else { return log.flush().await };
        onewrite_block::reached!("padding in two parts", area.len() > 1);
        let mut under_way = Vec::new();
        for run in &area {
            let zeros = vec![Page::ZEROS; ring::count(run) as usize];
            under_way.extend(log.send(run.start, zeros, Durability::Volatile, Cause::Padding).await);
        }
        wait_all(under_way).await?;
        if self.trims.get() {
            trim(log, &area).await?;
        }
        if self.padding.check == Check::Trust {
            return Ok(());
        }
        onewrite_block::reached!("too much data to read again", data.is_none());
        let Some(data) = data else { return log.flush().await };
        let pages: Vec<Lpn> = written.iter().map(|block| log.page_of(*block)).chain(data).collect();
        if self.is_in_flash(log, &pages).await? { Ok(()) } else { log.flush().await }
    }

    /// The log blocks that the next padding covers; `None` if there are too few free blocks.
    fn area(&self, free: &[Range<LogBlock>]) -> Option<Vec<Range<LogBlock>>> {
        let blocks = self.blocks.get();
        let whole: u64 = free.iter().map(|run| u64::from(ring::count(run))).sum();
        if whole < blocks {
            onewrite_block::reached!("no room for padding");
            return None;
        }
        let skip = if self.trims.get() { 0 } else { offset_of(free, self.next.get()).unwrap_or(0) };
        let area = around(free, skip, blocks);
        if let Some(last) = area.last() {
            self.next.set(last.end);
        }
        Some(area)
    }

    /// Reads each page with no other request on the device. The time of a read tells whether the page came from flash.
    async fn is_in_flash(&self, log: &Log, pages: &[Lpn]) -> Result<bool, DeviceError> {
        let alone = log.port().alone().await;
        for lpn in pages {
            let begin = log.runtime().now();
            alone.request(Request::read(*lpn, 1, Cause::Journal)).await?;
            if log.runtime().now() - begin < self.flash_read_min.get() {
                onewrite_block::reached!("padding did not push everything out");
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Commit for ZeroPadding {
    fn features(&self) -> LogFeatures {
        Barrier.features()
    }

    fn prepare<'a>(
        &'a self,
        log: &'a Log,
        spot: Option<EvictionSpot>,
        free: Vec<Range<LogBlock>>,
    ) -> PrepareFuture<'a> {
        Box::pin(self.learn(log, spot, free))
    }

    fn padding_blocks(&self) -> u32 {
        self.blocks.get() as u32
    }

    fn rereads_data(&self) -> bool {
        self.padding.check != Check::Trust && self.blocks.get() > 0
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(self.commit_record(log, record))
    }

    fn settle<'a>(&'a self, log: &'a Log, free: Vec<Range<LogBlock>>) -> CommitFuture<'a> {
        Box::pin(async move {
            if self.prefers_flush(log.data_written()) {
                return log.flush().await;
            }
            onewrite_block::reached!("fsync settled by padding");
            self.push_out(log, &free, &[], log.take_data_written()).await
        })
    }
}

/// TRIMs all runs at once.
async fn trim(log: &Log, area: &[Range<LogBlock>]) -> Result<(), DeviceError> {
    let mut under_way = Vec::new();
    for run in area.iter().flat_map(|run| log.device_runs(run.clone())) {
        under_way.push(log.port().send(Request::trim(run.start.page(), run.count, Cause::Padding)).await);
    }
    wait_all(under_way).await
}

/// Minimum time of a read from flash: half way between the slowest read from the buffer and the fastest from flash.
/// `None` if these overlap. Writes to a few free log blocks.
async fn time_reads(log: &Log, free: &[Range<LogBlock>]) -> Result<Option<Nanos>, DeviceError> {
    let blocks: Vec<LogBlock> = free.iter().cloned().flat_map(ring::blocks).take(TIMED_BLOCKS as usize).collect();
    let (mut from_buffer, mut from_flash) = (Nanos::ZERO, Nanos(u64::MAX));
    for block in &blocks {
        log.write(*block, vec![Page::ZEROS], Cause::Padding).await?;
        from_buffer = from_buffer.max(timed_read(log, *block).await?);
    }
    log.flush().await?;
    for block in &blocks {
        from_flash = from_flash.min(timed_read(log, *block).await?);
    }
    Ok((from_buffer < from_flash).then(|| Nanos(from_buffer.0 + (from_flash.0 - from_buffer.0) / 2)))
}

async fn timed_read(log: &Log, block: LogBlock) -> Result<Nanos, DeviceError> {
    let alone = log.port().alone().await;
    let begin = log.runtime().now();
    alone.request(Request::read(log.page_of(block), 1, Cause::Journal)).await?;
    Ok(log.runtime().now() - begin)
}

/// Number of blocks of `runs` before `block`; `None` if `block` is not in `runs`.
fn offset_of(runs: &[Range<LogBlock>], block: LogBlock) -> Option<u64> {
    let mut before = 0;
    for run in runs {
        if run.contains(&block) {
            return Some(before + u64::from(block.0 - run.start.0));
        }
        before += u64::from(ring::count(run));
    }
    None
}

/// `count` blocks of `runs` after the first `skip`, wrapping at the end.
fn around(runs: &[Range<LogBlock>], skip: u64, count: u64) -> Vec<Range<LogBlock>> {
    let mut area = part(runs, skip, count);
    let taken: u64 = area.iter().map(|run| u64::from(ring::count(run))).sum();
    area.extend(part(runs, 0, count - taken));
    area
}

/// Up to `count` blocks of `runs` after the first `skip`, without wrapping.
fn part(runs: &[Range<LogBlock>], mut skip: u64, mut count: u64) -> Vec<Range<LogBlock>> {
    let mut area = Vec::new();
    for run in runs {
        let blocks = u64::from(ring::count(run));
        let length = blocks.saturating_sub(skip).min(count);
        if length > 0 {
            area.push(LogBlock(run.start.0 + skip as u32).run(length as u32));
            count -= length;
        }
        skip = skip.saturating_sub(blocks);
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: [Range<LogBlock>; 2] = [LogBlock(90).run(10), LogBlock(1).run(20)];

    fn run(start: u32, count: u32) -> Range<LogBlock> {
        LogBlock(start).run(count)
    }

    #[test]
    fn an_area_follows_the_free_runs_and_goes_round_at_their_end() {
        assert_eq!(around(&RUNS, 0, 4), [run(90, 4)]);
        assert_eq!(around(&RUNS, 6, 10), [run(96, 4), run(1, 6)]);
        assert_eq!(around(&RUNS, 25, 8), [run(16, 5), run(90, 3)]);
        assert_eq!(around(&RUNS, 0, 30), RUNS);
        assert_eq!((offset_of(&RUNS, LogBlock(3)), offset_of(&RUNS, LogBlock(50))), (Some(12), None));
    }

    #[test]
    fn padding_that_is_not_trimmed_covers_all_free_blocks_before_one_again() {
        let strategy = ZeroPadding::new(Padding { trims: false, ..Padding::PLAIN });
        strategy.blocks.set(12);
        let blocks = |area: Vec<Range<LogBlock>>| area.into_iter().flat_map(ring::blocks);
        let mut covered: Vec<LogBlock> = Vec::new();
        for _ in 0..10 {
            covered.extend(blocks(strategy.area(&RUNS).expect("there is room")));
        }
        for (at, block) in covered.iter().enumerate() {
            let before = covered[..at].iter().rev().position(|other| other == block);
            assert!(before.is_none_or(|others| others == 29), "{block} after {before:?} others");
        }
    }

    #[test]
    fn too_few_free_blocks_are_not_padded() {
        let strategy = ZeroPadding::new(Padding::PLAIN);
        strategy.blocks.set(31);
        assert_eq!(strategy.area(&RUNS), None);
    }
}
