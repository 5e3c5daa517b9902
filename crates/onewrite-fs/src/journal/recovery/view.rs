//! Log view: reads a log in place, without writing blocks home. Readers of a home block ask here first.

use std::collections::BTreeMap;

use onewrite_block::{DevicePort, PAGE_SIZE, Page};

use super::super::format::JournalSuperblock;
use super::super::log_map::LogMap;
use super::super::stored::StoredLog;
use super::scan::Scan;
use super::{Copy, Frames, Recovered, contents, damage};
use crate::api::{FsError, FsResult};
use crate::block::BlockNo;

/// The newest copy of each block of a log that waits for replay.
///
/// Memory: 56 bytes for each block that the log names, and copies up to a given limit. The view reads other copies from
/// the log again.
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
    /// Reads the log that `superblock` describes. Home blocks have the size of log blocks.
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
            (newest, frames, scan.done())
        };
        let blocks = port.geometry().pages.saturating_mul((PAGE_SIZE / superblock.block_size as usize) as u64);
        if let Some((block, _)) = newest.iter().find(|(block, _)| block.0 >= blocks || map.contains(*block)) {
            return Err(damage(format!("journal, tag for block {block}"), "it lies outside the device or in the log"));
        }
        done.nanoseconds = (port.runtime().now() - begin).0;
        Ok(LogView { port: port.clone(), map, superblock, copies: newest.into_iter().collect(), frames, done })
    }

    /// What the scan found. The view writes nothing.
    pub fn recovered(&self) -> Recovered {
        self.done
    }

    /// Number of blocks with a newer copy in the log than in the image.
    pub fn newer_blocks(&self) -> u64 {
        self.copies.len() as u64
    }

    /// The first block from `block` on that has a newer copy in the log.
    pub fn next(&self, block: BlockNo) -> Option<BlockNo> {
        self.copies.range(block..).next().map(|(home, _)| *home)
    }

    /// The newer copy of `block` at the beginning of a page; `None` if there is none.
    ///
    /// # Errors
    /// Device errors, and a chunk that does not decompress.
    pub async fn block(&self, block: BlockNo) -> FsResult<Option<Page>> {
        let Some(copy) = self.copies.get(&block) else { return Ok(None) };
        let log = StoredLog::to_recover(&self.port, &self.map, &self.superblock);
        let found =
            contents(&log, &[(block, copy.clone())], super::Packed { frames: &self.frames, known: None }).await?;
        Ok(found.into_iter().next().map(|(_, page)| page))
    }
}
