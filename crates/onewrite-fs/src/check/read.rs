//! How the checker reads an image.

use onewrite_block::Page;
use thiserror::Error;

use crate::block::BlockNo;

/// A block that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot read: {reason}")]
pub struct ReadError {
    /// The error of the device or file.
    pub reason: String,
}

/// Source of the checker's blocks: an unmounted image, a snapshot, or a cache above them.
#[expect(async_fn_in_trait, reason = "one task of a single-threaded executor runs a check")]
pub trait ReadBlocks {
    /// The content of a block of 4 KiB. A block beyond the end is an error.
    async fn read_block(&self, block: BlockNo) -> Result<Page, ReadError>;
}
