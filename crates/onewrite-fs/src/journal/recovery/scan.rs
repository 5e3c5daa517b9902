//! Scan: finds the complete transactions of the log, in order, and the newest copy of each block.
//!
//! The log ends at the first block that does not continue the next transaction: a descriptor, revoke or commit block
//! with a wrong magic number, sequence or checksum, or an incomplete frame. In a log of async commits (version 1
//! checksums) a torn transaction ends the log, too. In a version 3 log a block with a wrong checksum inside a
//! transaction with a good commit block is damage, not the result of a power loss. Recovery refuses such a log.

use std::collections::BTreeMap;

use onewrite_block::{JobCost, PAGE_SIZE, Page};
use rustc_hash::FxHashMap;

use super::super::format::frame::{self, Chunk, Extent, Frame};
use super::super::format::{self, Checksums, JournalSuperblock, Kind, Sequence, Style, Tag, VersionOneSum, incompat};
use super::super::place::{ChunkPlace, LogPlace};
use super::super::ring::LogBlock;
use super::super::stored::StoredLog;
use super::found::{Blocks, Copy, Frames, Recovered, damage};
use super::reader::Reader;
use crate::api::FsResult;
use crate::block::BlockNo;

/// The transaction that the scan is reading; it counts only when it is complete.
#[derive(Default)]
struct Pending {
    copies: Vec<(BlockNo, Copy)>,
    revokes: Vec<BlockNo>,
    damaged: Option<BlockNo>,
}

pub(super) struct Scan<'a> {
    reader: Reader<'a>,
    log: &'a StoredLog<'a>,
    style: Style,
    is_streams: bool,
    sequence: Sequence,
    copies: FxHashMap<BlockNo, (Sequence, Copy)>,
    revoked: FxHashMap<BlockNo, Sequence>,
    frames: Frames,
    kept_bytes: usize,
    kept_bytes_max: usize,
    done: Recovered,
}

impl<'a> Scan<'a> {
    pub(super) fn new(log: &'a StoredLog<'a>, superblock: &JournalSuperblock, kept_bytes_max: usize) -> Scan<'a> {
        Scan {
            reader: Reader::new(log, LogBlock(superblock.start)),
            log,
            style: superblock.style(),
            is_streams: superblock.incompat & incompat::STREAMS != 0,
            sequence: superblock.sequence,
            copies: FxHashMap::default(),
            revoked: FxHashMap::default(),
            frames: Frames::default(),
            kept_bytes: 0,
            kept_bytes_max,
            done: Recovered::default(),
        }
    }

    /// Number of the transaction at which the scan stands; after [`Scan::run`], the first that is not whole.
    pub(super) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// What the scan found so far.
    pub(super) fn done(&self) -> Recovered {
        self.done
    }

    pub(super) async fn run(&mut self) -> FsResult<()> {
        while let Some(transaction) = self.transaction().await? {
            if let Some(block) = transaction.damaged {
                let place = format!("journal, transaction {}, copy of block {block}", self.sequence);
                return Err(damage(place, "its checksum is wrong although the transaction is committed"));
            }
            self.accept(transaction);
            self.sequence = self.sequence.next();
        }
        self.done.log_blocks_read = self.reader.blocks_read();
        Ok(())
    }

    /// Reads the next transaction; `None` if it is incomplete.
    async fn transaction(&mut self) -> FsResult<Option<Pending>> {
        if self.is_streams {
            return self.stream().await;
        }
        let mut pending = Pending::default();
        let mut sum = VersionOneSum::START;
        loop {
            let log_block = self.reader.block();
            let Some(page) = self.reader.next().await? else { return Ok(None) };
            let bytes = page.bytes();
            onewrite_block::reached!(
                "older transaction behind the end of the log",
                format::header(&bytes).is_some_and(|it| it.1 != self.sequence)
            );
            onewrite_block::reached!(
                "torn transaction without its commit block",
                !pending.copies.is_empty() && format::header(&bytes).is_none_or(|it| it.1 != self.sequence)
            );
            match format::header(&bytes) {
                Some((Kind::Descriptor, sequence)) if sequence == self.sequence && self.style.tail_holds(&bytes) => {
                    sum.add(self.style.content(&bytes));
                    if !self.blocks(&bytes, &mut pending, &mut sum).await? {
                        onewrite_block::reached!("torn transaction fills the log");
                        return Ok(None);
                    }
                }
                Some((Kind::Revoke, sequence)) if sequence == self.sequence && self.style.tail_holds(&bytes) => {
                    pending.revokes.extend(self.style.revoked(&bytes));
                }
                Some((Kind::Commit, sequence)) if sequence == self.sequence => {
                    onewrite_block::reached!("commit block without its blocks", !self.style.commit_holds(&bytes, sum));
                    return Ok(self.style.commit_holds(&bytes, sum).then_some(pending));
                }
                Some((Kind::Frame, sequence)) if sequence == self.sequence => {
                    return self.frame(log_block, &page).await;
                }
                _ => return Ok(None),
            }
        }
    }

    /// Reads the blocks that a descriptor names; false if the log ends before the last of them.
    async fn blocks(
        &mut self,
        descriptor: &onewrite_block::PageBytes,
        pending: &mut Pending,
        sum: &mut VersionOneSum,
    ) -> FsResult<bool> {
        let tags = self.style.tags(descriptor);
        let first = self.reader.block();
        let Some(pages) = self.pages(tags.len()).await? else { return Ok(false) };
        let (style, sequence) = (self.style, self.sequence);
        let cost = JobCost::Checksum { bytes: (pages.len() * PAGE_SIZE) as u64 };
        let checked = move || check(&style, sequence, tags, pages);
        let checked = self.log.port.runtime().job(cost, checked).await;
        for (offset, (tag, page, holds)) in (0..).zip(checked) {
            if style.checksums == Checksums::V1 {
                sum.add(style.content(&page.bytes()));
            }
            if !holds {
                pending.damaged.get_or_insert(tag.home_block);
            }
            let log_block = self.log.after(first, offset);
            onewrite_block::reached!("escaped block found in the log", tag.is_escaped);
            let place = if tag.is_escaped { LogPlace::Escaped(log_block) } else { LogPlace::Exact(log_block) };
            let copy = Copy { place, page: self.keep(1).then_some(page) };
            pending.copies.push((tag.home_block, copy));
        }
        Ok(true)
    }

    /// The next `count` blocks; `None` if the ring ends before.
    async fn pages(&mut self, count: usize) -> FsResult<Option<Vec<Page>>> {
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(page) = self.reader.next().await? else { return Ok(None) };
            pages.push(page);
        }
        Ok(Some(pages))
    }

    /// Whether `count` more blocks may stay in memory; counts them if so.
    fn keep(&mut self, count: usize) -> bool {
        let bytes = self.kept_bytes + count * PAGE_SIZE;
        let fits = bytes <= self.kept_bytes_max;
        if fits {
            self.kept_bytes = bytes;
        }
        fits
    }

    /// Reads the frame whose first block is `page`; `None` if it is incomplete.
    async fn frame(&mut self, log_block: LogBlock, page: &Page) -> FsResult<Option<Pending>> {
        let blocks_max = self.log.ring().blocks() as usize;
        let Some(extent) = Extent::decode(&page.bytes()[..], &self.style, blocks_max) else { return Ok(None) };
        let mut pages = vec![page.clone()];
        let Some(rest) = self.pages(extent.log_blocks() - 1).await? else { return Ok(None) };
        pages.extend(rest);
        let cost = JobCost::Checksum { bytes: (pages.len() * PAGE_SIZE) as u64 };
        let checked = move || (Frame::decode(&pages, &extent), pages);
        let (frame, pages) = self.log.port.runtime().job(cost, checked).await;
        onewrite_block::reached!("torn frame in the log", frame.is_none());
        let Some(frame) = frame else { return Ok(None) };
        let each = |chunk: &Chunk| {
            let chunk = *chunk;
            (0..chunk.blocks).map(move |index| LogPlace::Chunk(ChunkPlace::new(log_block, &chunk, index)))
        };
        let places = frame.chunks.iter().flat_map(each);
        let copies = frame.homes.into_iter().zip(places.map(|place| Copy { place, page: None })).collect();
        if self.keep(pages.len()) {
            self.frames.insert(log_block, pages);
        }
        Ok(Some(Pending { copies, revokes: frame.revokes, damaged: None }))
    }

    /// Reads the stream that begins here; `None` if it does not decompress to a transaction. This is the papers' rule.
    async fn stream(&mut self) -> FsResult<Option<Pending>> {
        let Some(first) = self.reader.next().await? else { return Ok(None) };
        let length = u32::from_be_bytes(first.bytes()[..4].try_into().expect("four bytes")) as usize;
        let log_blocks = (length + 4).div_ceil(PAGE_SIZE);
        if length == 0 || log_blocks > self.log.ring().blocks() as usize {
            return Ok(None);
        }
        let mut pages = vec![first];
        let Some(rest) = self.pages(log_blocks - 1).await? else { return Ok(None) };
        pages.extend(rest);
        let most = (length * 255).min((self.log.ring().blocks() as usize + 1) * PAGE_SIZE);
        let cost = |bytes: usize| JobCost::Decompress { bytes: bytes as u64, packed_bytes: length as u64 };
        let unpack = move || lz4_flex::block::decompress(&frame::slice(&pages, 4, length), most).ok();
        let runtime = self.log.port.runtime();
        let raw = runtime.job_by_result(cost(most), unpack, |raw| cost(raw.as_ref().map_or(length, Vec::len))).await;
        let Some(raw) = raw else { return Ok(None) };
        Ok(self.plain(raw.chunks_exact(PAGE_SIZE).map(Page::from_slice).collect()))
    }

    /// Decodes a transaction from its plain blocks, up to its commit block.
    fn plain(&self, pages: Vec<Page>) -> Option<Pending> {
        let mut pending = Pending::default();
        let mut pages = pages.into_iter();
        while let Some(page) = pages.next() {
            let bytes = page.bytes();
            match format::header(&bytes) {
                Some((Kind::Descriptor, sequence)) if sequence == self.sequence => {
                    for tag in self.style.tags(&bytes) {
                        let page = pages.next()?;
                        let page = if tag.is_escaped { format::unescape(page) } else { page };
                        pending.copies.push((tag.home_block, Copy { place: LogPlace::Nowhere, page: Some(page) }));
                    }
                }
                Some((Kind::Revoke, sequence)) if sequence == self.sequence => {
                    pending.revokes.extend(self.style.revoked(&bytes));
                }
                Some((Kind::Commit, sequence)) if sequence == self.sequence => return Some(pending),
                _ => return None,
            }
        }
        None
    }

    fn accept(&mut self, transaction: Pending) {
        self.done.transactions += 1;
        self.done.logged_blocks += transaction.copies.len() as u64;
        let sequence = self.sequence;
        for (block, copy) in transaction.copies {
            let older = self.copies.insert(block, (sequence, copy));
            onewrite_block::reached!("block in several transactions of the log", older.is_some());
            if let Some((_, Copy { page: Some(_), .. })) = older {
                self.kept_bytes = self.kept_bytes.saturating_sub(PAGE_SIZE);
            }
        }
        onewrite_block::reached!("revokes in the log", !transaction.revokes.is_empty());
        for block in transaction.revokes {
            self.revoked.insert(block, sequence);
        }
    }

    /// The newest copies in the order of their home blocks, without those that the same or a later transaction revoked;
    /// and the frames.
    pub(super) fn newest(&mut self) -> (Blocks, Frames) {
        let copies = std::mem::take(&mut self.copies);
        let revoked = &self.revoked;
        let is_live = |block: BlockNo, of: Sequence| revoked.get(&block).is_none_or(|&revoke| of.is_after(revoke));
        onewrite_block::reached!(
            "block logged again behind its revoke",
            copies.iter().any(|(block, (of, _))| revoked.get(block).is_some_and(|it| of.is_after(*it)))
        );
        let all = copies.len();
        let live = copies.into_iter().filter(|(block, (of, _))| is_live(*block, *of));
        let newest: BTreeMap<BlockNo, Copy> = live.map(|(block, (_, copy))| (block, copy)).collect();
        self.done.revoked_blocks = (all - newest.len()) as u64;
        (newest.into_iter().collect(), std::mem::take(&mut self.frames))
    }
}

fn check(style: &Style, sequence: Sequence, tags: Vec<Tag>, pages: Vec<Page>) -> Vec<(Tag, Page, bool)> {
    let one = |(tag, page): (Tag, Page)| {
        let holds = !style.sums_each_block() || style.block_checksum(sequence, &page) == tag.checksum;
        (tag, page, holds)
    };
    tags.into_iter().zip(pages).map(one).collect()
}
