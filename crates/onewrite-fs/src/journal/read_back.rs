//! Read back: reads committed blocks that have left memory from the log.
//!
//! A block that is not home may leave memory only if its place in the log is known ([`LogPlace`]). After the read, the
//! content counts only if the entry is unchanged: as long as the entry exists, its log blocks cannot be reused.

use std::collections::BTreeMap;

use onewrite_block::{DeviceError, PAGE_SIZE, Page};

use super::live::CheckpointBlock;
use super::place::LogPlace;
use super::stored::{LogReads, StoredLog};
use super::transaction::TransactionId;
use super::views::Copies;
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;

/// A read of one log block or one chunk under way.
struct Fetch {
    reads: LogReads,
    place: LogPlace,
    /// Indexes of the wanted blocks that this read gives.
    wanted: Vec<usize>,
}

impl Copies<'_> {
    /// The committed content of `block` that is not home yet, from memory or from the log. `None` if the home block is
    /// up to date.
    ///
    /// # Errors
    /// Device errors.
    pub async fn newest(&self, block: BlockNo) -> FsResult<Option<Page>> {
        Ok(self.newest_run(block, 1).await?.pop())
    }

    /// [`Copies::newest`] of up to `count` blocks from `block` on; stops at the first whose home block is up to date.
    /// Reads each log block and each chunk once.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) async fn newest_run(&self, block: BlockNo, count: u64) -> FsResult<Vec<Page>> {
        loop {
            let known = self.newer_entries(block, count);
            let mut absent = known.iter().filter(|(_, page, _)| page.is_none()).peekable();
            if absent.peek().is_none() {
                return Ok(known.into_iter().filter_map(|(_, page, _)| page).collect());
            }
            onewrite_block::reached!("block read back from the log");
            let places: Vec<LogPlace> = absent.map(|(.., place)| *place).collect();
            let mut fetched = self.fetch(&places).await?.into_iter();
            let mut pages = Vec::with_capacity(known.len());
            for (block, (tid, page, _)) in block.run(count).blocks().zip(known) {
                let page = page.or_else(|| fetched.next().flatten());
                // The loop asks again for a block that was superseded or came home meanwhile.
                if !self.is_newest(block, tid) {
                    onewrite_block::reached!("superseded while read back");
                    break;
                }
                pages.push(page.ok_or_else(|| damaged(block))?);
            }
            onewrite_block::reached!("nothing of what was read back is newest", pages.is_empty());
            if !pages.is_empty() {
                return Ok(pages);
            }
        }
    }

    /// The entries of up to `count` blocks from `block` on, up to the first block without an entry.
    fn newer_entries(&self, block: BlockNo, count: u64) -> Vec<(TransactionId, Option<Page>, LogPlace)> {
        let live = self.live.borrow();
        let entries = block.run(count).blocks().map_while(|block| live.newest(block));
        entries.map(|entry| (entry.tid, entry.page.clone(), entry.place)).collect()
    }

    /// Whether the journal holds a newer version of `block` than its home block.
    pub(crate) fn has_newer(&self, block: BlockNo) -> bool {
        self.live.borrow().newest(block).is_some()
    }

    fn is_newest(&self, block: BlockNo, tid: TransactionId) -> bool {
        self.live.borrow().newest(block).is_some_and(|entry| entry.tid == tid)
    }

    /// Loads the content of all `blocks` that have left memory. Their log blocks cannot be reused meanwhile: only the
    /// checkpoint that calls this moves the tail.
    pub(super) async fn read_back(&self, blocks: &mut [CheckpointBlock]) -> FsResult<()> {
        let mut missing: Vec<&mut CheckpointBlock> =
            blocks.iter_mut().filter(|homeward| homeward.page.is_none()).collect();
        let places: Vec<LogPlace> = missing.iter().map(|homeward| homeward.place).collect();
        for (homeward, page) in missing.iter_mut().zip(self.fetch(&places).await?) {
            homeward.page = Some(page.ok_or_else(|| damaged(homeward.home_block))?);
        }
        Ok(())
    }

    /// The content at `places`, in their order; `None` for what does not decompress. Each chunk is read and
    /// decompressed once.
    async fn fetch(&self, places: &[LogPlace]) -> Result<Vec<Option<Page>>, DeviceError> {
        let ring = self.live.borrow().ring();
        let log = self.log.stored(ring);
        let mut by_place: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, place) in places.iter().enumerate() {
            by_place.entry(log.position(*place)).or_default().push(index);
        }
        let mut fetches = Vec::with_capacity(by_place.len());
        for wanted in by_place.into_values() {
            onewrite_block::reached!("several blocks of one chunk read back", wanted.len() > 1);
            fetches.push(begin_fetch(&log, places[wanted[0]], wanted).await);
        }
        self.counters.borrow_mut().read_back_bytes += (places.len() * PAGE_SIZE) as u64;
        let mut pages = vec![None; places.len()];
        for Fetch { reads, place, wanted } in fetches {
            let blocks = self.content(place, log.receive(reads).await?).await;
            for index in wanted {
                pages[index] = blocks.get(places[index].index()).cloned();
            }
        }
        Ok(pages)
    }

    /// The blocks that the log blocks of a place hold; empty if they do not decompress.
    async fn content(&self, place: LogPlace, stored: Vec<Page>) -> Vec<Page> {
        match place {
            LogPlace::Chunk(chunk) => {
                let unpacked = self.log.runtime().job(chunk.unpack_cost(), move || chunk.unpack(&stored)).await;
                unpacked.unwrap_or_default()
            }
            _ => stored.into_iter().map(|page| place.content(page)).collect(),
        }
    }
}

/// Sends the read of one log block or one chunk.
async fn begin_fetch(log: &StoredLog<'_>, place: LogPlace, wanted: Vec<usize>) -> Fetch {
    let (start, count) = match place {
        LogPlace::Chunk(chunk) => (log.after(chunk.frame, chunk.log_blocks().start), chunk.log_blocks().len() as u32),
        LogPlace::Exact(block) | LogPlace::Escaped(block) => (block, 1),
        LogPlace::Nowhere => unreachable!("such content does not leave memory"),
    };
    let mut reads = LogReads::default();
    log.send(start, count, &mut reads).await;
    Fetch { reads, place, wanted }
}

fn damaged(block: BlockNo) -> FsError {
    FsError::Damaged { place: format!("copy of block {block} in the log"), problem: "it cannot be decompressed".into() }
}
