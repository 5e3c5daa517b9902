//! Errors of the format: which structure is wrong, where it lies, and which rule it breaks.
//!
//! Errors are small. A damaged image can cause many of them, so they allocate nothing; only a refused feature set
//! allocates its names.

use std::fmt;

use thiserror::Error;

use super::inode_no::InodeNo;
use crate::block::BlockNo;
pub use crate::problem::Problem;

/// Where a structure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The primary superblock.
    Superblock,
    /// A block group, by number.
    Group(u32),
    /// An inode, by number.
    Inode(InodeNo),
    /// A block of the image.
    Block(BlockNo),
    /// A block of an inode's content.
    FileBlock {
        /// The inode.
        inode: InodeNo,
        /// Number of the block within the file.
        logical: u32,
    },
}

impl Place {
    /// The inode that the place names, if any.
    pub const fn inode(self) -> Option<InodeNo> {
        match self {
            Place::Inode(inode) | Place::FileBlock { inode, .. } => Some(inode),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Superblock => write!(f, "the superblock"),
            Place::Group(group) => write!(f, "group {group}"),
            Place::Inode(inode) => write!(f, "inode {inode}"),
            Place::Block(block) => write!(f, "block {block}"),
            Place::FileBlock { inode, logical } => write!(f, "block {logical} of inode {inode}"),
        }
    }
}

/// Why Onewrite cannot use these bytes as ext4.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The bytes contradict the format.
    #[error("damaged {}: {problem}", located(structure, *place))]
    Damaged {
        /// Name of the structure.
        structure: &'static str,
        /// Where it lies.
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
    pub(crate) fn new(structure: &'static str, place: Place, problem: Problem) -> FormatError {
        FormatError::Damaged { structure, place, problem }
    }

    pub(crate) fn field(
        structure: &'static str,
        place: Place,
        field: &'static str,
        value: impl Into<u64>,
        rule: &'static str,
    ) -> FormatError {
        FormatError::new(structure, place, Problem::Field { field, value: value.into(), rule })
    }
}

/// Structure and place in words, without saying "inode" or "superblock" twice.
pub(crate) fn located(structure: &str, place: Place) -> String {
    match (structure, place) {
        ("superblock", Place::Superblock) => structure.to_owned(),
        ("inode", Place::Inode(_)) => place.to_string(),
        ("group descriptor", Place::Group(_)) => format!("descriptor of {place}"),
        _ => format!("{structure} at {place}"),
    }
}

/// Ok if the stored checksum is the one computed.
pub(crate) fn expect_checksum(
    structure: &'static str,
    place: Place,
    found: u32,
    expected: u32,
) -> Result<(), FormatError> {
    match found == expected {
        true => Ok(()),
        false => Err(FormatError::new(structure, place, Problem::Checksum { found, expected })),
    }
}
