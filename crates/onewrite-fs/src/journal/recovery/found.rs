//! What recovery finds in a log.

use onewrite_block::Page;
use rustc_hash::FxHashMap;

use crate::api::FsError;
use crate::block::BlockNo;
use crate::journal::place::LogPlace;
use crate::journal::ring::LogBlock;

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
    /// Written blocks that were shared instead of copied.
    pub shared_blocks: u64,
    /// Copies that a later transaction revoked.
    pub revoked_blocks: u64,
    /// Bytes written, without the log's superblock.
    pub written_bytes: u64,
    /// Duration in nanoseconds.
    pub nanoseconds: u64,
}

/// The newest copy of a block in the part of the log read so far.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) place: LogPlace,
    /// Content of its log block, if it is in memory.
    pub(super) page: Option<Page>,
}

/// The frames in memory, by their first log block.
pub(super) type Frames = FxHashMap<LogBlock, Vec<Page>>;

/// The newest copies, sorted by home block.
pub(super) type Blocks = Vec<(BlockNo, Copy)>;

pub(super) fn damage(place: String, problem: &str) -> FsError {
    FsError::Damaged { place, problem: problem.into() }
}
