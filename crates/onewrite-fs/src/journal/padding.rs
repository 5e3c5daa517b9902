//! Padding: commits without FLUSH. What has to be durable is pushed out of the device's write buffer by zeros.
//!
//! ```text
//!   journal blocks ─► zeros up to the eviction spot ─► TRIMs ─► commit block ─► zeros ─► TRIMs
//!                          └─ re-read: each block timed; still in the buffer: FLUSH ─┘
//! ```
//!
//! # What it rests on
//! 1. The buffer gives pages up in the order of their last write, and after `spot` bytes of other pages all earlier
//!    ones are in flash ([`WriteBuffer`](onewrite_block::WriteBuffer)).
//! 2. What is in flash is found after a power cut although the map was not written ([`Geometry::oob_hints`]).
//!
//! Where 1 does not hold, re-reading notices; without 2, or if the spot is unknown, re-reading sends FLUSH each time.
//!
//! # Where the zeros go
//! Into free log space behind the head; its owner promises that there is as much of it. They never reach the tail, and
//! recovery takes them for the end of the log, which they are. With TRIM they go right behind the record each time, and
//! are dropped before the flash has taken most of them. Without, they would still be in the buffer when they are
//! written again and push nothing out, so they go round the free space.
//!
//! Source: Kang and Eom, APSys 2017 (`papers/003`) §4 and §6; DESIGN §4, rules 5 and 7; docs/decisions/009.

use std::cell::Cell;
use std::ops::Range;

use onewrite_block::{Cause, DeviceError, EvictionOrder, Geometry, Lpn, Nanos, PAGE_SIZE, Page, Request, TrimRead};

use super::commit::{Barrier, Commit, CommitFuture, LogFeatures, PrepareFuture, Record, send_and_wait};
use super::log::Log;
use super::ring::{self, LogBlock};
use crate::api::{FsError, FsResult};
use crate::transfer::{Durability, wait_all};

/// Pages of a transaction, its data in place included, up to which [`Check::Hybrid`] pads. In varmail on `sata-850pro`
/// a commit takes 9.6 ms with two paddings and 13 ms with two FLUSHes, and a page that is re-read at least 0.23 ms.
const HYBRID_PAGES_MAX: usize = 8;
/// Blocks that the log must have beside the padding.
const LEAST_LOG_BLOCKS: u64 = 256;
/// Blocks that are timed in the buffer and in flash, to tell one from the other.
const TIMED_BLOCKS: u64 = 6;

/// How sure one makes of what padding has pushed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// The eviction spot is trusted.
    #[default]
    Trust,
    /// Every block is read again, alone on the device; one that comes from the buffer makes it a FLUSH.
    Reread,
    /// Small transactions as [`Check::Reread`], large ones by FLUSH.
    Hybrid,
}

/// Options of zero padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Padding {
    /// Tell the device that the zeros are void, before it has written them all to flash.
    pub trims: bool,
    /// How sure one makes of it.
    pub check: Check,
}

impl Padding {
    /// With TRIM, trusting the spot: ext4-zp of the paper.
    pub const PLAIN: Padding = Padding { trims: true, check: Check::Trust };
}

/// What was found out about a write buffer (`onewrite probe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionSpot {
    /// Bytes written after which everything earlier is in flash.
    pub bytes: u64,
    /// From here on a read of one page has come from flash, if that was measured.
    pub flash_read_min: Option<Nanos>,
}

impl EvictionSpot {
    /// What the device states of itself.
    pub fn stated(geometry: &Geometry) -> Option<EvictionSpot> {
        let buffer = geometry.write_buffer?;
        Some(EvictionSpot { bytes: buffer.eviction_certain_bytes, flash_read_min: None })
    }
}

/// Why padding may not be enough on a device, each a sentence; nothing where it is, or where it is re-read.
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

/// See the module's head. It is ready when [`Commit::prepare`] has been called.
pub struct ZeroPadding {
    padding: Padding,
    /// Blocks of one padding; 0 where everything is made durable by FLUSH.
    blocks: Cell<u64>,
    /// A read that takes at least as long has come from flash.
    flash_read_min: Cell<Nanos>,
    trims: Cell<bool>,
    /// Where the next padding begins that is not trimmed.
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
            return Barrier.commit(log, record).await;
        }
        send_and_wait(log, record.runs).await?;
        if self.padding.check != Check::Trust {
            // Data that comes later is left to the next padding: re-reading it here would hold up this commit.
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

    /// Makes durable what has completed. Re-reading looks at the log blocks `written` and at `data`, if that is known;
    /// what is not in flash then makes it a FLUSH.
    async fn push_out(
        &self,
        log: &Log,
        free: &[Range<LogBlock>],
        written: &[LogBlock],
        data: Option<Vec<Lpn>>,
    ) -> Result<(), DeviceError> {
        let Some(area) = self.area(free) else { return log.flush().await };
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
        let Some(data) = data else { return log.flush().await };
        let pages: Vec<Lpn> = written.iter().map(|block| log.page_of(*block)).chain(data).collect();
        if self.is_in_flash(log, &pages).await? { Ok(()) } else { log.flush().await }
    }

    /// The log blocks that the next padding covers; `None` if the free ones are too few.
    fn area(&self, free: &[Range<LogBlock>]) -> Option<Vec<Range<LogBlock>>> {
        let blocks = self.blocks.get();
        let whole: u64 = free.iter().map(|run| u64::from(ring::count(run))).sum();
        if whole < blocks {
            return None;
        }
        let skip = if self.trims.get() { 0 } else { offset_of(free, self.next.get()).unwrap_or(0) };
        let area = around(free, skip, blocks);
        if let Some(last) = area.last() {
            self.next.set(last.end);
        }
        Some(area)
    }

    /// Reads each page alone on the device and tells by the time it takes whether it came from flash.
    async fn is_in_flash(&self, log: &Log, pages: &[Lpn]) -> Result<bool, DeviceError> {
        let alone = log.port().alone().await;
        for lpn in pages {
            let begin = log.runtime().now();
            alone.request(Request::read(*lpn, 1, Cause::Journal)).await?;
            if log.runtime().now() - begin < self.flash_read_min.get() {
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

/// The time from which on a read has come from flash: half way between the slowest from the buffer and the fastest from
/// flash; `None` where these overlap. Writes a few free log blocks.
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

/// How many blocks of `runs` come before `block`, if it is one of them.
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

/// `count` blocks of `runs` from the one with `skip` before it on, going round at the end.
fn around(runs: &[Range<LogBlock>], skip: u64, count: u64) -> Vec<Range<LogBlock>> {
    let mut area = part(runs, skip, count);
    let taken: u64 = area.iter().map(|run| u64::from(ring::count(run))).sum();
    area.extend(part(runs, 0, count - taken));
    area
}

/// Up to `count` blocks of `runs` behind the first `skip`.
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
