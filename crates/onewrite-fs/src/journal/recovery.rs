//! Recovery: reads the log once, in order, and writes the newest version of each block home.
//!
//! Nothing is written before the whole log is understood, and the log is marked empty only when everything is durably
//! home: cut anywhere, recovery starts again from the same log and ends with the same blocks.
//!
//! The log ends at the first block that is not the next one of the next transaction: wrong magic number, sequence or
//! checksum of a descriptor, revoke or commit block. In a log of async commits (version 1 checksums) a transaction whose
//! blocks are torn ends it, too. In a version 3 log a block whose own checksum is wrong inside a transaction with a good
//! commit block cannot come from a power cut: that is damage, and refused.

use std::collections::BTreeMap;

use onewrite_block::{Cause, DevicePort, JobCost, Lpn, PAGE_SIZE, Page, Remap, Request};
use rustc_hash::FxHashMap;

use super::CheckpointBy;
use super::format::{self, JournalSuperblock, Kind, Style, Tag, VersionOneSum};
use super::log::{LogMap, send_run, wait_all};
use crate::api::{FsError, FsResult};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovered {
    /// Whole transactions found.
    pub transactions: u64,
    /// Log blocks read.
    pub log_blocks_read: u64,
    /// Copies of blocks in those transactions.
    pub logged_blocks: u64,
    /// Blocks written home: the newest copy of each that was not revoked.
    pub written_blocks: u64,
    /// Those of them that were shared, not written.
    pub shared_blocks: u64,
    /// Copies that a later transaction revoked.
    pub revoked_blocks: u64,
}

/// Replays the log that `superblock` describes, if it holds anything, and leaves it empty; `superblock` then says so.
///
/// # Errors
/// [`FsError::Damaged`] if the log names blocks outside the device or inside itself, or holds a damaged block; device
/// errors.
pub async fn recover(
    port: &DevicePort,
    map: &LogMap,
    (superblock, superblock_page): (&mut JournalSuperblock, &mut Page),
    by: CheckpointBy,
) -> FsResult<Recovered> {
    if superblock.start == 0 {
        return Ok(Recovered::default());
    }
    let mut scan = Scan::new(port, map, superblock);
    scan.run().await?;
    let blocks = scan.newest();
    scan.done.written_blocks = blocks.len() as u64;
    check_homes(port, map, &blocks)?;
    let can_share = |copy: &Copy| by == CheckpointBy::Share && !copy.is_escaped;
    let (shared, copied): (Blocks, Blocks) = blocks.into_iter().partition(|(_, copy)| can_share(copy));
    scan.done.shared_blocks = shared.len() as u64;
    write_home(port, copied).await?;
    share_home(port, shared).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    superblock.start = 0;
    superblock.sequence = scan.sequence.wrapping_add(1);
    *superblock = superblock.plain();
    superblock.encode_into(superblock_page.bytes_mut());
    let home = map.runs(0, 1)[0].start;
    port.request(Request::write(Lpn(home), vec![superblock_page.clone()], Cause::Recovery)).await?;
    port.request(Request::flush(Cause::Recovery)).await?;
    Ok(scan.done)
}

/// Copies by their home blocks, in ascending order.
type Blocks = Vec<(u64, Copy)>;

/// # Errors
/// [`FsError::Damaged`] if a block has no place where it may go.
fn check_homes(port: &DevicePort, map: &LogMap, blocks: &Blocks) -> FsResult<()> {
    let pages = port.geometry().pages;
    let in_log = |block: u64| map.contains(block);
    if let Some((block, _)) = blocks.iter().find(|(block, _)| *block >= pages || in_log(*block)) {
        return Err(damage(format!("journal, tag for block {block}"), "it lies outside the device or in the log"));
    }
    Ok(())
}

async fn write_home(port: &DevicePort, blocks: Blocks) -> FsResult<()> {
    let content =
        |(block, copy): (u64, Copy)| (block, if copy.is_escaped { format::unescape(copy.page) } else { copy.page });
    let blocks: Vec<(u64, Page)> = blocks.into_iter().map(content).collect();
    let mut under_way = Vec::new();
    for run in blocks.chunk_by(|one, next| one.0 + 1 == next.0) {
        let content = run.iter().map(|(_, page)| page.clone());
        under_way.extend(send_run(port, run[0].0, content, false, Cause::Recovery).await);
    }
    Ok(wait_all(under_way).await?)
}

/// Makes the home blocks read as the log does: nothing is written.
async fn share_home(port: &DevicePort, blocks: Blocks) -> FsResult<()> {
    let mut under_way = Vec::new();
    for part in blocks.chunks(port.geometry().share_pairs_max.max(1) as usize) {
        let pairs = part.iter().map(|(block, copy)| Remap { source: copy.place, target: Lpn(*block) });
        under_way.push(port.send(Request::share(pairs.collect(), Cause::Recovery)).await);
    }
    Ok(wait_all(under_way).await?)
}

fn damage(place: String, problem: &str) -> FsError {
    FsError::Damaged { place, problem: problem.into() }
}

/// A copy of a block in the log.
struct Copy {
    tid: u32,
    is_escaped: bool,
    page: Page,
    /// Where in the log.
    place: Lpn,
}

/// A transaction that is being read; nothing of it counts before its commit block.
#[derive(Default)]
struct Pending {
    copies: Vec<(u64, bool, Page, Lpn)>,
    revokes: Vec<u64>,
    damaged: Option<u64>,
}

struct Scan<'a> {
    reader: Reader<'a>,
    style: Style,
    sequence: u32,
    start: u32,
    copies: FxHashMap<u64, Copy>,
    revoked: FxHashMap<u64, u32>,
    done: Recovered,
}

/// Whether `a` comes after `b` in the ring of sequence numbers.
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl<'a> Scan<'a> {
    fn new(port: &'a DevicePort, map: &'a LogMap, superblock: &JournalSuperblock) -> Scan<'a> {
        Scan {
            reader: Reader::new(port, map, superblock),
            style: superblock.style(),
            sequence: superblock.sequence,
            start: superblock.start,
            copies: FxHashMap::default(),
            revoked: FxHashMap::default(),
            done: Recovered::default(),
        }
    }

    async fn run(&mut self) -> FsResult<()> {
        self.reader.seek(self.start);
        while let Some(transaction) = self.transaction().await? {
            if let Some(block) = transaction.damaged {
                let place = format!("journal, transaction {}, copy of block {block}", self.sequence);
                return Err(damage(place, "its checksum is wrong although the transaction is committed"));
            }
            self.accept(transaction);
            self.sequence = self.sequence.wrapping_add(1);
        }
        self.done.log_blocks_read = self.reader.blocks_read;
        Ok(())
    }

    /// The next transaction, if it is whole.
    async fn transaction(&mut self) -> FsResult<Option<Pending>> {
        let mut pending = Pending::default();
        let mut sum = VersionOneSum::START;
        loop {
            let Some(page) = self.reader.next().await? else { return Ok(None) };
            let bytes = page.bytes();
            match format::header(&bytes) {
                Some((Kind::Descriptor, sequence)) if sequence == self.sequence && self.style.tail_holds(&bytes) => {
                    sum.add(&bytes);
                    if !self.blocks(&bytes, &mut pending, &mut sum).await? {
                        return Ok(None);
                    }
                }
                Some((Kind::Revoke, sequence)) if sequence == self.sequence && self.style.tail_holds(&bytes) => {
                    pending.revokes.extend(self.style.revoked(&bytes));
                }
                Some((Kind::Commit, sequence)) if sequence == self.sequence => {
                    return Ok(self.style.commit_holds(&bytes, sum.0).then_some(pending));
                }
                _ => return Ok(None),
            }
        }
    }

    /// Reads the blocks that a descriptor names; false if the log ends before.
    async fn blocks(
        &mut self,
        descriptor: &onewrite_block::PageBytes,
        pending: &mut Pending,
        sum: &mut VersionOneSum,
    ) -> FsResult<bool> {
        let tags = self.style.tags(descriptor);
        let (mut pages, mut places) = (Vec::with_capacity(tags.len()), Vec::with_capacity(tags.len()));
        for _ in &tags {
            places.push(self.reader.place());
            let Some(page) = self.reader.next().await? else { return Ok(false) };
            pages.push(page);
        }
        let (style, sequence) = (self.style, self.sequence);
        let cost = JobCost::Checksum { bytes: (pages.len() * PAGE_SIZE) as u64 };
        let checked = move || check(&style, sequence, tags, pages);
        let checked = self.reader.port.runtime().job(cost, checked).await;
        for ((tag, page, holds), place) in checked.into_iter().zip(places) {
            if style.checksums == format::Checksums::V1 {
                sum.add(&page.bytes());
            }
            if !holds {
                pending.damaged.get_or_insert(tag.home_block);
            }
            pending.copies.push((tag.home_block, tag.is_escaped, page, place));
        }
        Ok(true)
    }

    fn accept(&mut self, transaction: Pending) {
        self.done.transactions += 1;
        self.done.logged_blocks += transaction.copies.len() as u64;
        let tid = self.sequence;
        for (block, is_escaped, page, place) in transaction.copies {
            self.copies.insert(block, Copy { tid, is_escaped, page, place });
        }
        for block in transaction.revokes {
            self.revoked.insert(block, tid);
        }
    }

    /// The newest copy of each block that no later or equal transaction revoked, by home block.
    fn newest(&mut self) -> Blocks {
        let copies = std::mem::take(&mut self.copies);
        let revoked = &self.revoked;
        let is_live = |block: u64, tid: u32| revoked.get(&block).is_none_or(|&revoke| is_after(tid, revoke));
        let all = copies.len();
        let live = copies.into_iter().filter(|(block, copy)| is_live(*block, copy.tid));
        let newest: BTreeMap<u64, Copy> = live.collect();
        self.done.revoked_blocks = (all - newest.len()) as u64;
        newest.into_iter().collect()
    }
}

fn check(style: &Style, sequence: u32, tags: Vec<Tag>, pages: Vec<Page>) -> Vec<(Tag, Page, bool)> {
    let one = |(tag, page): (Tag, Page)| {
        let holds = style.block_checksum(sequence, &page.bytes()) == tag.checksum || !style.sums_each_block();
        (tag, page, holds)
    };
    tags.into_iter().zip(pages).map(one).collect()
}

/// Reads the ring in large pieces, one block after another, and stops after one round.
struct Reader<'a> {
    port: &'a DevicePort,
    map: &'a LogMap,
    first: u32,
    length: u32,
    next_block: u32,
    ahead: std::vec::IntoIter<Page>,
    left: u32,
    blocks_read: u64,
}

const READ_AHEAD_BLOCKS: u32 = 256;

impl<'a> Reader<'a> {
    fn new(port: &'a DevicePort, map: &'a LogMap, superblock: &JournalSuperblock) -> Reader<'a> {
        let length = superblock.length.min(map.length() as u32);
        let first = superblock.first;
        let left = length.saturating_sub(first);
        Reader { port, map, first, length, next_block: first, ahead: Vec::new().into_iter(), left, blocks_read: 0 }
    }

    fn seek(&mut self, block: u32) {
        self.next_block = block.max(self.first);
    }

    async fn next(&mut self) -> FsResult<Option<Page>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.ahead.len() == 0 {
            self.read_ahead().await?;
        }
        self.left -= 1;
        Ok(self.ahead.next())
    }

    /// Where the block that comes next lies on the device, unless the log ends.
    fn place(&self) -> Lpn {
        let behind = self.next_block - self.ahead.len() as u32;
        let next = if behind >= self.length { self.first } else { behind };
        Lpn(self.map.runs(u64::from(next), 1)[0].start)
    }

    async fn read_ahead(&mut self) -> FsResult<()> {
        if self.next_block >= self.length {
            self.next_block = self.first;
        }
        let count = READ_AHEAD_BLOCKS.min(self.length - self.next_block).min(self.port.geometry().transfer_pages_max);
        let run = self.map.runs(u64::from(self.next_block), u64::from(count))[0];
        let pages = self.port.request(Request::read(Lpn(run.start), run.count as u32, Cause::Recovery)).await?;
        self.next_block += run.count as u32;
        self.blocks_read += run.count;
        self.ahead = pages.into_iter();
        Ok(())
    }
}
