//! Record: one read or write of a trace.

use onewrite_cache::Access;

/// The addresses of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range of bytes.
    Bytes {
        /// First byte.
        offset: u64,
        /// Number of bytes; may be zero, which touches nothing.
        length: u64,
    },
    /// One page; its size is up to the reader of the trace.
    Page(u64),
}

/// A read or write of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time in nanoseconds on the trace's own clock; zero if the format has none.
    pub time_ns: u64,
    /// Number of the disk or file, if the trace has several; else zero.
    pub volume: u32,
    /// What is done.
    pub access: Access,
    /// The addresses.
    pub extent: Extent,
}
