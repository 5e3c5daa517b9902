//! Commit: how a sealed transaction becomes durable. Holds the strategies and the code that all of them share.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use onewrite_block::sync::RwGuard;
use onewrite_block::{Cause, DeviceError, JobCost, PAGE_SIZE, Page};

use super::Journal;
use super::eviction_spot::EvictionSpot;
use super::format::{self, JournalSuperblock, Sequence, Style, Tag, VersionOneSum, compat, incompat};
use super::live::Logged;
use super::log::Log;
use super::place::LogPlace;
use super::ring::{self, LogBlock};
use super::transaction::Sealed;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;
use crate::transfer::{Durability, wait_all};

/// The future of [`Commit::commit`] and [`Commit::settle`].
pub type CommitFuture<'a> = Pin<Box<dyn Future<Output = Result<(), DeviceError>> + 'a>>;

/// The future of [`Commit::prepare`].
pub type PrepareFuture<'a> = Pin<Box<dyn Future<Output = FsResult<()>> + 'a>>;

/// Feature bits of the log that a strategy writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFeatures {
    /// Compatible bits.
    pub compat: u32,
    /// Incompatible bits.
    pub incompat: u32,
}

/// A transaction as log blocks with their places.
pub struct Record {
    /// Revokes, descriptors and blocks without the commit block, as runs of (first log block, pages).
    pub runs: Vec<(LogBlock, Vec<Page>)>,
    /// Where the commit block goes.
    pub commit_at: LogBlock,
    /// The commit block.
    pub commit: Page,
    /// Free log blocks behind the record, in ring order, up to the tail. No strategy may write to the tail.
    pub free: Vec<Range<LogBlock>>,
}

/// How a transaction is stored in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// jbd2's blocks.
    Blocks,
    /// A compressed [`frame`](format::frame). In its [`Record`] the first log block stands for the commit block.
    Frames,
    /// A length followed by a compressed stream. In its [`Record`] the first log block stands for the commit block.
    Streams,
}

/// How a sealed transaction becomes durable.
///
/// # Contract
/// After a crash at any command, in any state that the device's promises allow, recovery gives
/// 1. *atomicity*: each transaction whole, or no trace of it;
/// 2. *order*: if a transaction survives, so does every earlier one;
/// 3. *durability*: a transaction survives if `commit` had returned.
///
/// When `commit` returns, data written before the call is durable too. Strategies send the last FLUSH through
/// [`Log::last_flush`]. The crash explorer tests every strategy against this contract.
pub trait Commit {
    /// Feature bits for the log's superblock.
    fn features(&self) -> LogFeatures;

    /// The encoding of the records that the strategy writes.
    fn encoding(&self) -> Encoding {
        Encoding::Blocks
    }

    /// Makes `record` durable.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted.
    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a>;

    /// Called once, before the first commit. All log blocks are free then, and `_free` names them.
    ///
    /// # Errors
    /// If the strategy cannot work on this log; device errors.
    fn prepare<'a>(
        &'a self,
        _log: &'a Log,
        _spot: Option<EvictionSpot>,
        _free: Vec<Range<LogBlock>>,
    ) -> PrepareFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    /// Makes all writes durable that completed before the call: an fsync with nothing to commit. With padding, no
    /// transaction commits meanwhile. `_free` is as in [`Record::free`].
    ///
    /// # Errors
    /// Device errors.
    fn settle<'a>(&'a self, log: &'a Log, _free: Vec<Range<LogBlock>>) -> CommitFuture<'a> {
        Box::pin(log.flush())
    }

    /// Number of free log blocks that the strategy needs behind a record for itself; 0 without padding.
    fn padding_blocks(&self) -> u32 {
        0
    }

    /// Whether the strategy needs to know which data was written to its place.
    fn rereads_data(&self) -> bool {
        false
    }
}

/// Writes blocks, FLUSH, commit block, FLUSH. With FUA the commit block needs no second FLUSH.
pub struct Barrier;

impl Commit for Barrier {
    fn features(&self) -> LogFeatures {
        let incompat = incompat::REVOKE | incompat::BITS_64 | incompat::CHECKSUM_V3;
        LogFeatures { compat: 0, incompat }
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(async move {
            send_and_wait(log, record.runs).await?;
            if log.port().geometry().fua {
                log.last_flush().await?;
                return log.write_fua(record.commit_at, record.commit, Cause::Journal).await;
            }
            log.flush().await?;
            log.write(record.commit_at, vec![record.commit], Cause::Journal).await?;
            log.last_flush().await
        })
    }
}

/// Writes blocks and commit block together, then one FLUSH. Recovery detects a torn transaction by its checksum (jbd2's
/// async commit). The checksum covers only the log. Use this strategy only if no write outside the log has to be
/// durable first.
pub struct Checksum;

impl Commit for Checksum {
    fn features(&self) -> LogFeatures {
        let incompat = incompat::REVOKE | incompat::BITS_64 | incompat::ASYNC_COMMIT;
        LogFeatures { compat: compat::CHECKSUM, incompat }
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        Box::pin(all_at_once(log, record))
    }
}

/// Sends the writes of all runs of log blocks, then waits for all.
///
/// # Errors
/// Device errors.
pub async fn send_and_wait(log: &Log, runs: Vec<(LogBlock, Vec<Page>)>) -> Result<(), DeviceError> {
    let mut under_way = Vec::new();
    for (log_block, pages) in runs {
        under_way.extend(log.send(log_block, pages, Durability::Volatile, Cause::Journal).await);
    }
    wait_all(under_way).await
}

impl Journal {
    /// Makes a sealed transaction durable and returns it, with the blocks that it frees. The caller has written its
    /// ordered data.
    ///
    /// # Errors
    /// Device errors; the journal is then aborted.
    pub async fn commit(&self, sealed: Sealed) -> FsResult<Sealed> {
        // An operation that failed in the middle may have aborted the journal while this transaction was being sealed.
        self.check_aborted()?;
        let written = match self.options.commit.encoding() {
            Encoding::Blocks => self.write_blocks(&sealed).await,
            Encoding::Frames => self.packing().write_frame(&sealed).await,
            Encoding::Streams => self.packing().write_stream(&sealed).await,
        };
        match written {
            Ok(written) => {
                self.finish_commit(&sealed, written);
                Ok(sealed)
            }
            Err(error) => {
                onewrite_block::reached!("commit fails");
                let error = FsError::from(error);
                self.abort(&error);
                Err(error)
            }
        }
    }

    async fn write_blocks(&self, sealed: &Sealed) -> Result<Written, DeviceError> {
        let runtime = self.log.runtime();
        let (style, sequence, civil_ns) = (self.log.style(), sealed.tid.on_disk(), runtime.civil_now().0);
        let (blocks, revokes) = (sealed.blocks.clone(), sealed.revokes.clone());
        let bytes = (blocks.len() * PAGE_SIZE) as u64;
        let cost = JobCost::Checksum { bytes };
        let encoded = runtime.job(cost, move || encode(&style, sequence, civil_ns, &blocks, &revokes)).await;
        let Encoded { mut pages, offsets } = encoded;
        let count = pages.len() as u32;
        let _alone = self.alone_in_the_log().await;
        let places = self.live.borrow_mut().take(count);
        let last = places.last().expect("a record has at least its commit block");
        let commit_at = LogBlock(last.end.0 - 1);
        let commit = pages.pop().expect("a record ends with its commit block");
        let mut pages = pages.into_iter();
        let runs = places.iter().map(|run| (run.start, pages.by_ref().take(ring::count(run) as usize).collect()));
        let runs = runs.filter(|(_, pages): &(LogBlock, Vec<Page>)| !pages.is_empty()).collect();
        let free = self.live.borrow().free_runs();
        self.options.commit.commit(&self.log, Record { runs, commit_at, commit, free }).await?;
        self.settled.set(self.settling.get());
        self.counters.borrow_mut().journal_bytes += u64::from(count) * PAGE_SIZE as u64;
        let (start, ring) = (places[0].start, self.live.borrow().ring());
        let place = |CopyOffset { index, is_escaped }| match is_escaped {
            true => LogPlace::Escaped(ring.after(start, index)),
            false => LogPlace::Exact(ring.after(start, index)),
        };
        Ok(Written { start, count, places: offsets.into_iter().map(place).collect() })
    }

    fn finish_commit(&self, sealed: &Sealed, written: Written) {
        let logged = sealed.blocks.iter().zip(written.places);
        let logged = logged.map(|((block, page), place)| Logged { home_block: *block, page: page.clone(), place });
        let mut live = self.live.borrow_mut();
        live.add(sealed.tid, self.log.runtime().now(), written.start, written.count, logged.collect());
        sealed.freed.iter().for_each(|run| live.drop_entries(*run));
        live.forget(self.options.retained_pages_max);
        drop(live);
        self.committing.replace(None);
        self.committed.set(sealed.tid);
        self.batch.end(self.log.runtime().now());
        self.counters.borrow_mut().commits += 1;
        self.reclaim_if_flushed();
        self.debug_check();
        self.changed.notify_all();
        self.work.notify_all();
    }

    /// Makes all completed writes durable: an fsync with nothing to commit.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) async fn settle(&self) -> FsResult<()> {
        if self.options.commit.padding_blocks() == 0 {
            return Ok(self.options.commit.settle(&self.log, Vec::new()).await?);
        }
        let wanted = self.settling.get() + 1;
        let _alone = self.alone_in_the_log().await;
        if self.settled.get() >= wanted {
            onewrite_block::reached!("fsync settled by padding of others");
            return Ok(());
        }
        let free = self.live.borrow().free_runs();
        self.options.commit.settle(&self.log, free).await?;
        self.settled.set(self.settling.get());
        Ok(())
    }

    /// With padding, only one task at a time writes behind the head; `None` without padding. The next task that gets
    /// the lock makes durable what has completed by now.
    async fn alone_in_the_log(&self) -> Option<RwGuard<'_>> {
        if self.options.commit.padding_blocks() == 0 {
            return None;
        }
        let alone = self.behind_head.write().await;
        self.settling.set(self.settling.get() + 1);
        Some(alone)
    }

    /// Waits until no block is on its way home. Then freed blocks may be reused.
    pub(crate) async fn homeward_writes_done(&self) {
        drop(self.homeward.write().await);
    }
}

/// Writes the record and its commit block together, then sends the only FLUSH.
pub(super) async fn all_at_once(log: &Log, mut record: Record) -> Result<(), DeviceError> {
    record.runs.push((record.commit_at, vec![record.commit]));
    send_and_wait(log, record.runs).await?;
    log.last_flush().await
}

/// Where a copy is among the log blocks of its transaction.
#[derive(Clone, Copy, Debug)]
struct CopyOffset {
    /// Index of its log block.
    index: u32,
    is_escaped: bool,
}

/// A transaction as log blocks.
pub(super) struct Encoded {
    pub(super) pages: Vec<Page>,
    /// Where each block of the transaction is, in order.
    offsets: Vec<CopyOffset>,
}

/// Where a transaction lies in the log.
pub(super) struct Written {
    pub(super) start: LogBlock,
    pub(super) count: u32,
    /// Place of each of its blocks, in order.
    pub(super) places: Vec<LogPlace>,
}

/// Encodes a transaction as log blocks: revokes, descriptors each followed by its blocks, and the commit block.
pub(super) fn encode(
    style: &Style,
    sequence: Sequence,
    civil_ns: u64,
    blocks: &[(BlockNo, Page)],
    revokes: &[BlockNo],
) -> Encoded {
    onewrite_block::reached!("record with several descriptors", blocks.len() > style.tags_max());
    onewrite_block::reached!("record of revokes alone", blocks.is_empty() && !revokes.is_empty());
    onewrite_block::reached!("record without blocks and revokes", blocks.is_empty() && revokes.is_empty());
    let mut pages: Vec<Page> =
        revokes.chunks(style.revokes_max()).map(|chunk| Page::new(style.revoke(sequence, chunk))).collect();
    let mut sum = VersionOneSum::START;
    let sums_all = style.checksums == format::Checksums::V1;
    let mut offsets = Vec::with_capacity(blocks.len());
    for chunk in blocks.chunks(style.tags_max()) {
        let (tags, copies): (Vec<Tag>, Vec<Page>) =
            chunk.iter().map(|(block, page)| tag(style, sequence, *block, page)).unzip();
        let descriptor = style.descriptor(sequence, &tags);
        if sums_all {
            sum.add(&descriptor);
            copies.iter().for_each(|page| page.with_bytes(|bytes| sum.add(bytes)));
        }
        pages.push(Page::new(descriptor));
        let first = pages.len() as u32;
        offsets.extend((first..).zip(&tags).map(|(index, tag)| CopyOffset { index, is_escaped: tag.is_escaped }));
        pages.extend(copies);
    }
    pages.push(Page::new(style.commit(sequence, civil_ns, sum)));
    debug_assert!(says(style, &pages, sequence, sum, blocks, revokes), "what recovery would read is something else");
    Encoded { pages, offsets }
}

/// Whether recovery would read the same transaction back from these log blocks.
fn says(
    style: &Style,
    pages: &[Page],
    sequence: Sequence,
    sum: VersionOneSum,
    blocks: &[(BlockNo, Page)],
    revokes: &[BlockNo],
) -> bool {
    let (mut homes, mut revoked, mut rest) = (Vec::new(), Vec::new(), pages.iter());
    while let Some(page) = rest.next() {
        let bytes = page.bytes();
        match format::header(&bytes) {
            Some((format::Kind::Descriptor, found)) if found == sequence && style.tail_holds(&bytes) => {
                let tags = style.tags(&bytes);
                let copies = rest.by_ref().take(tags.len());
                let is_right = |(tag, copy): (&Tag, &Page)| tag.checksum == style.block_checksum(sequence, copy);
                if !tags.iter().zip(copies).all(is_right) {
                    return false;
                }
                homes.extend(tags.iter().map(|tag| tag.home_block));
            }
            Some((format::Kind::Revoke, found)) if found == sequence && style.tail_holds(&bytes) => {
                revoked.extend(style.revoked(&bytes));
            }
            Some((format::Kind::Commit, found)) if found == sequence && style.commit_holds(&bytes, sum) => {
                return rest.next().is_none()
                    && homes.iter().eq(blocks.iter().map(|(block, _)| block))
                    && revoked == revokes;
            }
            _ => return false,
        }
    }
    false
}

fn tag(style: &Style, sequence: Sequence, home_block: BlockNo, page: &Page) -> (Tag, Page) {
    let (copy, is_escaped) = format::escape(page);
    onewrite_block::reached!("escaped block logged", is_escaped);
    let checksum = style.block_checksum(sequence, &copy);
    (Tag { home_block, is_escaped, checksum }, copy)
}

impl JournalSuperblock {
    /// The superblock of a clean log, without the bits of a commit strategy. Linux expects this beside metadata
    /// checksums.
    pub fn plain(mut self) -> JournalSuperblock {
        self.compat &= !compat::CHECKSUM;
        self.incompat &= !(incompat::ASYNC_COMMIT | incompat::FRAMES | incompat::STREAMS);
        self
    }
}
