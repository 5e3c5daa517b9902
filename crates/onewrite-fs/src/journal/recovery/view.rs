//! A log that is read in place: nothing is brought home, and whoever reads a home block asks here first.

use std::collections::BTreeMap;

use onewrite_block::{DevicePort, PAGE_SIZE, Page};

use super::super::format::JournalSuperblock;
use super::super::log::LogMap;
use super::super::stored::StoredLog;
use super::scan::Scan;
use super::{Copy, Frames, Recovered, contents, damage};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;

/// The newest copy of each block of a log that waits for replay.
///
/// Its memory is 56 bytes for each block that the log names, and the copies up to the bound given; the others are read
/// again from the log.
pub struct LogView {
    port: DevicePort,
    map: LogMap,
    superblock: JournalSuperblock,
    copies: BTreeMap<BlockNo, Copy>,
    frames: Frames,
    done: Recovered,
}

const _: () = assert!(size_of::<(BlockNo, Copy)>() == 56, "LogView says what a block costs");

impl LogView {
    /// Reads the log that `superblock` describes; blocks, at home too, have the log's size.
    ///
    /// # Errors
    /// [`FsError::Unsupported`] if it holds fast commits, [`FsError::Damaged`] as [`recover`](super::recover) says;
    /// device errors.
    pub async fn open(
        port: &DevicePort,
        map: LogMap,
        superblock: JournalSuperblock,
        kept_bytes_max: usize,
    ) -> FsResult<LogView> {
        if let Some(refusal) = superblock.replay_refusal() {
            return Err(FsError::Unsupported(refusal));
        }
        let begin = port.runtime().now();
        let (newest, frames, mut done) = {
            let log = StoredLog::to_recover(port, &map, &superblock);
            let mut scan = Scan::new(&log, &superblock, kept_bytes_max);
            scan.run().await?;
            let (newest, frames) = scan.newest();
            (newest, frames, scan.done)
        };
        let blocks = port.geometry().pages.saturating_mul((PAGE_SIZE / superblock.block_size as usize) as u64);
        if let Some((block, _)) = newest.iter().find(|(block, _)| block.0 >= blocks || map.contains(*block)) {
            return Err(damage(format!("journal, tag for block {block}"), "it lies outside the device or in the log"));
        }
        done.nanoseconds = (port.runtime().now() - begin).0;
        Ok(LogView { port: port.clone(), map, superblock, copies: newest.into_iter().collect(), frames, done })
    }

    /// What was found; nothing was written.
    pub fn recovered(&self) -> Recovered {
        self.done
    }

    /// Blocks of which the log has a newer copy than the image.
    pub fn newer_blocks(&self) -> u64 {
        self.copies.len() as u64
    }

    /// The first block from `block` on of which the log has a newer copy.
    pub fn next(&self, block: BlockNo) -> Option<BlockNo> {
        self.copies.range(block..).next().map(|(home, _)| *home)
    }

    /// The newer copy of `block`, if there is one, at the beginning of a page.
    ///
    /// # Errors
    /// Device errors, and a chunk that does not decompress.
    pub async fn block(&self, block: BlockNo) -> FsResult<Option<Page>> {
        let Some(copy) = self.copies.get(&block) else { return Ok(None) };
        let log = StoredLog::to_recover(&self.port, &self.map, &self.superblock);
        let found = contents(&log, &[(block, copy.clone())], &self.frames).await?;
        Ok(found.into_iter().next().map(|(_, page)| page))
    }
}
