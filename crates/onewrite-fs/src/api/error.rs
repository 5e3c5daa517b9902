//! Errors of the file-system API.

use onewrite_block::DeviceError;
use thiserror::Error;

use super::Ino;

/// Why an operation failed. [`FsError::errno`] gives the number that Linux uses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FsError {
    /// No such name or inode.
    #[error("no such file or directory: {0}")]
    NotFound(String),
    /// Nobody may do this to such an inode, for example give a directory a second name.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The name is taken.
    #[error("{0} exists already")]
    Exists(String),
    /// A draft has the file: only its owner may change the content. The text names the cure.
    #[error("busy: {0}")]
    Busy(String),
    /// The operation needs a directory.
    #[error("{0} is not a directory")]
    NotDirectory(String),
    /// The operation does not allow a directory.
    #[error("{0} is a directory")]
    IsDirectory(String),
    /// The directory still holds names.
    #[error("directory {0} is not empty")]
    NotEmpty(String),
    /// No block or inode is left.
    #[error("no space: {needed} needed, {free} free ({what}); delete something or make a larger image")]
    NoSpace {
        /// Blocks or inodes.
        what: &'static str,
        /// How many were needed.
        needed: u64,
        /// How many were free.
        free: u64,
    },
    /// Drafts of atomic files would change more than one transaction of the log can hold.
    #[error(
        "drafts of atomic files would change {blocks} blocks; one commit takes {blocks_max}; commit or abort some, or \
         mount with a larger page cache or, on ext4, make a larger log"
    )]
    TooManyChanges {
        /// Blocks that all drafts together would change.
        blocks: usize,
        /// Blocks that one transaction may have.
        blocks_max: usize,
    },
    /// One call shares more pages than can change in one step.
    #[error("{pages} pages in one call; one step takes {pages_max}; share them by several calls")]
    TooManyPages {
        /// Pages of all ranges.
        pages: u64,
        /// Pages that one SHARE of the device takes, or one transaction of the log.
        pages_max: u64,
    },
    /// No such extended attribute.
    #[error("no data: {0}")]
    NoData(String),
    /// There is no data or hole at or behind the offset.
    #[error("no data or hole: {0}")]
    BeyondEnd(String),
    /// The file would be larger than the format allows.
    #[error("{ino} would grow to {size} bytes; at most {size_max} are possible")]
    TooLarge {
        /// The file.
        ino: Ino,
        /// Size asked for.
        size: u64,
        /// Largest size.
        size_max: u64,
    },
    /// Too many names for one inode.
    #[error("{0} has as many links as the format allows")]
    TooManyLinks(Ino),
    /// A name longer than 255 bytes.
    #[error("name of {0} bytes; at most 255 are possible")]
    NameTooLong(usize),
    /// An invalid argument; the text says which and why.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The file system accepts no changes.
    #[error("the file system is read-only: {0}")]
    ReadOnly(String),
    /// The image has no superblock and no backup of one.
    #[error("it holds no ext2, ext3, ext4 or F2FS file system: there is no superblock, and no backup of one")]
    NoFileSystem,
    /// A structure on disk is wrong.
    #[error("damaged file system: {place}: {problem}; run `onewrite fsck`")]
    Damaged {
        /// Structure, block and inode.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The image uses a feature that this version lacks.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// Too many levels of symbolic links.
    #[error("too many levels of symbolic links: {0}")]
    Loop(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl FsError {
    /// The number that Linux gives this error (asm-generic/errno).
    pub const fn errno(&self) -> i32 {
        match self {
            FsError::NotPermitted(_) => 1,
            FsError::NotFound(_) => 2,
            FsError::Device(_) => 5,
            FsError::BeyondEnd(_) => 6,
            FsError::Busy(_) => 16,
            FsError::Exists(_) => 17,
            FsError::NotDirectory(_) => 20,
            FsError::IsDirectory(_) => 21,
            FsError::Invalid(_) | FsError::NoFileSystem => 22,
            // SQLite goes back to a journal after EFBIG, and gives up after ENOSPC.
            FsError::TooLarge { .. } | FsError::TooManyChanges { .. } | FsError::TooManyPages { .. } => 27,
            FsError::NoSpace { .. } => 28,
            FsError::ReadOnly(_) => 30,
            FsError::NoData(_) => 61,
            FsError::TooManyLinks(_) => 31,
            FsError::NameTooLong(_) => 36,
            FsError::NotEmpty(_) => 39,
            FsError::Loop(_) => 40,
            FsError::Unsupported(_) => 95,
            FsError::Damaged { .. } => 117,
        }
    }
}

/// The result of an operation.
pub type FsResult<T> = Result<T, FsError>;
