//! Request: the one way to a device, and what comes back.

use serde::{Deserialize, Serialize};

use crate::page::Page;
use crate::units::Lpn;

/// Why a request was made. Devices count by cause and never act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// Content of files, written to its place.
    Data,
    /// Metadata of the file system, written to its place without a journal (mkfs, unmount).
    Metadata,
    /// Log blocks: descriptors, copies of blocks, revokes, commit blocks.
    Journal,
    /// Committed blocks on their way home.
    Checkpoint,
    /// The journal's own superblock: the moving tail.
    LogTail,
    /// Blocks written home by recovery.
    Recovery,
    /// Moves by the segment cleaning of a log-structured file system.
    Cleaning,
    /// Translation pages and map records.
    Map,
    /// Zeros that push other pages out of a write buffer (zero padding), and their TRIMs.
    Padding,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 9] = [
        Cause::Data,
        Cause::Metadata,
        Cause::Journal,
        Cause::Checkpoint,
        Cause::LogTail,
        Cause::Recovery,
        Cause::Cleaning,
        Cause::Map,
        Cause::Padding,
    ];

    /// The name used in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Data => "data",
            Cause::Metadata => "metadata",
            Cause::Journal => "journal",
            Cause::Checkpoint => "checkpoint",
            Cause::LogTail => "log-tail",
            Cause::Recovery => "recovery",
            Cause::Cleaning => "cleaning",
            Cause::Map => "map",
            Cause::Padding => "padding",
        }
    }
}

/// Lifetime hint: pages of one stream probably die together. Stream 0 gives no hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u8);

/// One pair of a SHARE: `target` then reads as `source` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remap {
    /// The page that changes.
    pub target: Lpn,
    /// The page whose content both then have.
    pub source: Lpn,
}

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durable {
    /// With the next FLUSH that is submitted after its completion.
    AfterFlush,
    /// When it completes: force unit access. Refused if the device has no FUA.
    OnCompletion,
}

impl Durable {
    /// Whether force unit access is asked for.
    pub const fn is_fua(self) -> bool {
        matches!(self, Durable::OnCompletion)
    }
}

/// What a device is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Returns `count` pages from `start` on.
    Read {
        /// First page.
        start: Lpn,
        /// Number of pages, at least one and at most [`Geometry::transfer_pages_max`](crate::Geometry).
        count: u32,
    },
    /// Replaces the pages from `start` on. Durable after a FLUSH submitted after its completion, or on completion, as
    /// `durable` says.
    Write {
        /// First page.
        start: Lpn,
        /// New content, at least one page and at most [`Geometry::transfer_pages_max`](crate::Geometry).
        pages: Vec<Page>,
        /// When content and mapping are durable.
        durable: Durable,
    },
    /// Makes every write, trim and share that completed before its submission durable; nothing else.
    Flush,
    /// Drops the content of `count` pages, also in the write buffer. They then read as [`TrimRead`](crate::TrimRead)
    /// says. Durable as a write is.
    Trim {
        /// First page.
        start: Lpn,
        /// Number of pages; any length inside the device.
        count: u64,
    },
    /// Makes each target read as its source does now, without moving data.
    ///
    /// Only the mapping changes: both pages then name one physical page, which the FTL keeps while either refers to it.
    /// If [`Geometry::share_atomic`](crate::Geometry) holds, all pairs take effect or none does, also across power
    /// loss; else each pair is atomic by itself. Durable on completion. Costs one page program in all; a copy would
    /// cost a read and a program for each pair.
    ///
    /// Refused if a page is out of range, a source holds nothing, a target is named twice or is another pair's source,
    /// or there are more than [`Geometry::share_pairs_max`](crate::Geometry) pairs. Source: Oh et al., SIGMOD 2016;
    /// dissertation §3.2.
    Share(Vec<Remap>),
}

impl Operation {
    /// The word for error messages and traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Operation::Read { .. } => "read",
            Operation::Write { .. } => "write",
            Operation::Flush => "flush",
            Operation::Trim { .. } => "trim",
            Operation::Share(_) => "share",
        }
    }
}

/// An operation with its envelope. Owns its buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Why, for the counters.
    pub cause: Cause,
    /// Lifetime hint.
    pub stream: Stream,
    /// Submission queue; devices with one queue ignore it.
    pub queue: u16,
}

impl Request {
    /// A request without hints on queue 0.
    pub const fn new(operation: Operation, cause: Cause) -> Request {
        Request { operation, cause, stream: Stream(0), queue: 0 }
    }

    /// Reads `count` pages from `start` on.
    pub const fn read(start: Lpn, count: u32, cause: Cause) -> Request {
        Request::new(Operation::Read { start, count }, cause)
    }

    /// Writes `pages` from `start` on, without FUA.
    pub const fn write(start: Lpn, pages: Vec<Page>, cause: Cause) -> Request {
        Request::new(Operation::Write { start, pages, durable: Durable::AfterFlush }, cause)
    }

    /// Writes `pages` from `start` on with FUA.
    pub const fn write_fua(start: Lpn, pages: Vec<Page>, cause: Cause) -> Request {
        Request::new(Operation::Write { start, pages, durable: Durable::OnCompletion }, cause)
    }

    /// A FLUSH.
    pub const fn flush(cause: Cause) -> Request {
        Request::new(Operation::Flush, cause)
    }

    /// Trims `count` pages from `start` on.
    pub const fn trim(start: Lpn, count: u64, cause: Cause) -> Request {
        Request::new(Operation::Trim { start, count }, cause)
    }

    /// Shares `pairs`.
    pub const fn share(pairs: Vec<Remap>, cause: Cause) -> Request {
        Request::new(Operation::Share(pairs), cause)
    }
}

/// Names a request from submission to completion. The submitter chooses it; it is unique while the request is under
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);
