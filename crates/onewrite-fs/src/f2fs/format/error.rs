//! Errors of the format: which structure is wrong, where it lies, and which rule it breaks.

use std::fmt;

use thiserror::Error;

use super::address::{Nid, SegmentNo};
use crate::api::FsError;
use crate::block::BlockNo;
pub use crate::problem::Problem;

/// Where a structure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A copy of the superblock: 0 or 1.
    Superblock(u8),
    /// A checkpoint pack: 0 or 1.
    Checkpoint(u8),
    /// The checkpoint in use.
    Current,
    /// Entry of a node in the NAT or its journal.
    Nat(Nid),
    /// Entry of a segment in the SIT or its journal.
    Sit(SegmentNo),
    /// Summary of a segment.
    Summary(SegmentNo),
    /// A node.
    Node(Nid),
    /// An inode.
    Inode(Nid),
    /// A block of an inode's content.
    FileBlock {
        /// The inode.
        inode: Nid,
        /// Number of the block within the file.
        logical: u64,
    },
    /// A block of the image.
    Block(BlockNo),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Superblock(copy) => write!(f, "superblock {copy}"),
            Place::Checkpoint(pack) => write!(f, "checkpoint pack {pack}"),
            Place::Current => write!(f, "checkpoint"),
            Place::Nat(nid) => write!(f, "NAT entry of node {nid}"),
            Place::Sit(segment) => write!(f, "SIT entry of segment {segment}"),
            Place::Summary(segment) => write!(f, "summary of segment {segment}"),
            Place::Node(nid) => write!(f, "node {nid}"),
            Place::Inode(nid) => write!(f, "inode {nid}"),
            Place::FileBlock { inode, logical } => write!(f, "block {logical} of inode {inode}"),
            Place::Block(block) => write!(f, "block {block}"),
        }
    }
}

/// Why these bytes cannot be used as F2FS.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The bytes contradict the format.
    #[error("{place}: {problem}")]
    Damaged {
        /// Where the structure lies.
        place: Place,
        /// What is wrong.
        problem: Problem,
    },
    /// The image is sound but uses something that Onewrite does not support.
    #[error("unsupported: {what}")]
    Unsupported {
        /// The features or sizes, by name.
        what: String,
    },
}

impl FormatError {
    pub(crate) fn new(place: Place, problem: Problem) -> FormatError {
        FormatError::Damaged { place, problem }
    }

    pub(crate) fn field(place: Place, field: &'static str, value: impl Into<u64>, rule: &'static str) -> FormatError {
        FormatError::new(place, Problem::Field { field, value: value.into(), rule })
    }
}

impl From<FormatError> for FsError {
    fn from(error: FormatError) -> FsError {
        match error {
            FormatError::Damaged { place, problem } => {
                FsError::Damaged { place: place.to_string(), problem: problem.to_string() }
            }
            FormatError::Unsupported { what } => FsError::Unsupported(what),
        }
    }
}

/// Ok if the stored checksum is the one computed.
pub(crate) fn expect_checksum(place: Place, found: u32, expected: u32) -> Result<(), FormatError> {
    match found == expected {
        true => Ok(()),
        false => Err(FormatError::new(place, Problem::Checksum { found, expected })),
    }
}
