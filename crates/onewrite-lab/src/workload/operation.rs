//! Operation: one step of a workload, in terms of files and descriptors.

use onewrite_block::Nanos;
use onewrite_fs::Position;

use crate::job::{Direction, SyncMode};

/// A file of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A descriptor of a task, the number of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskDescriptor(pub u32);

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteManner {
    /// Bypasses the page cache.
    pub direct: bool,
    /// Whether it is durable on return.
    pub sync: SyncMode,
}

/// Effect of fallocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Reserves blocks and extends the size.
    Extend,
    /// Reserves blocks and keeps the size.
    KeepSize,
    /// Frees blocks.
    PunchHole,
}

/// One step of a workload. On a raw device only reads, writes, trims, syncs and pauses are possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes a file and opens it.
    Create {
        /// The file; it must not exist.
        file: FileId,
        /// Its descriptor.
        slot: TaskDescriptor,
    },
    /// Opens a file, and makes it first if it does not exist and `create` says so.
    Open {
        /// The file.
        file: FileId,
        /// Its descriptor.
        slot: TaskDescriptor,
        /// Whether it may make the file.
        create: bool,
    },
    /// Ends an [`Operation::Open`] or [`Operation::Create`].
    Close {
        /// The descriptor.
        slot: TaskDescriptor,
    },
    /// Removes a file's name.
    Unlink {
        /// The file.
        file: FileId,
    },
    /// Reads a file's attributes.
    Stat {
        /// The file.
        file: FileId,
    },
    /// Drops the cached pages of a file.
    Invalidate {
        /// The descriptor.
        slot: TaskDescriptor,
    },
    /// Reads a range.
    Read {
        /// The descriptor.
        slot: TaskDescriptor,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Bypasses the page cache.
        direct: bool,
    },
    /// Reads a file from its beginning to its end.
    ReadWhole {
        /// The descriptor.
        slot: TaskDescriptor,
        /// Bytes in each read.
        chunk: u64,
    },
    /// Writes the pattern of `seed`.
    Write {
        /// The descriptor.
        slot: TaskDescriptor,
        /// Where it writes.
        position: Position,
        /// Number of bytes.
        length: u64,
        /// Selects the content.
        seed: u64,
        /// Percent of the content that compresses.
        compressible_percent: u8,
        /// Direct and sync flags.
        manner: WriteManner,
    },
    /// Frees a range (raw devices only, as in fio).
    Trim {
        /// The descriptor.
        slot: TaskDescriptor,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// Reserves or frees a range of a file, in place of an access in `direction`.
    Allocate {
        /// The descriptor.
        slot: TaskDescriptor,
        /// The direction it counts as.
        direction: Direction,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// The effect.
        reservation: Reservation,
    },
    /// Sets a file's size, in place of a write of `length` bytes.
    SetSize {
        /// The descriptor.
        slot: TaskDescriptor,
        /// The new size in bytes.
        size: u64,
        /// Bytes it counts as.
        length: u64,
    },
    /// Makes a file durable.
    Fsync {
        /// The descriptor.
        slot: TaskDescriptor,
    },
    /// Makes a file's content durable.
    Fdatasync {
        /// The descriptor.
        slot: TaskDescriptor,
    },
    /// Waits for this time.
    Think(Nanos),
}

impl Operation {
    /// The direction it counts as; `None` if it is no access.
    pub const fn direction(&self) -> Option<Direction> {
        match self {
            Operation::Read { .. } | Operation::ReadWhole { .. } => Some(Direction::Read),
            Operation::Write { .. } | Operation::SetSize { .. } => Some(Direction::Write),
            Operation::Trim { .. } => Some(Direction::Trim),
            Operation::Allocate { direction, .. } => Some(*direction),
            _ => None,
        }
    }

    /// Name for errors and reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Operation::Create { .. } => "create",
            Operation::Open { .. } => "open",
            Operation::Close { .. } => "close",
            Operation::Unlink { .. } => "unlink",
            Operation::Stat { .. } => "stat",
            Operation::Invalidate { .. } => "invalidate",
            Operation::Read { .. } | Operation::ReadWhole { .. } => "read",
            Operation::Write { .. } => "write",
            Operation::Trim { .. } => "trim",
            Operation::Allocate { .. } => "allocate",
            Operation::SetSize { .. } => "truncate",
            Operation::Fsync { .. } => "fsync",
            Operation::Fdatasync { .. } => "fdatasync",
            Operation::Think(_) => "think",
        }
    }
}
