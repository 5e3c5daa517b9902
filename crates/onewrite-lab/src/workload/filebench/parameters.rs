//! Parameters: what a user may set of a personality.

use onewrite_block::Nanos;

/// Length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A time.
    Time(Nanos),
    /// A number of operations of all threads together.
    Operations(u64),
}

/// Parameters of a personality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries of the file set.
    pub files: u32,
    /// Mean size of a file in bytes.
    pub file_size: u64,
    /// Number of threads.
    pub threads: u32,
    /// Bound of appends in bytes: each is shorter, by chance.
    pub append_size: u64,
    /// Percent of the content that compresses, 0 to 100.
    pub compressible_percent: u8,
    /// Length of the run.
    pub length: Length,
}
