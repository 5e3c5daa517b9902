//! Counters: what a translation layer did for the host's pages.

use serde::Serialize;

/// Operations of the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashCounters {
    /// Pages read; in recovery, out-of-band areas.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// What was done, in pages and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FtlCounters {
    /// Pages read by the host.
    pub host_reads: u64,
    /// Pages written by the host.
    pub host_writes: u64,
    /// Pages trimmed by the host.
    pub host_trims: u64,
    /// All operations of the flash.
    pub flash: FlashCounters,
    /// Pages copied by merges or garbage collection.
    pub moved_pages: u64,
    /// A log block became the data block as it was.
    pub switch_merges: u64,
    /// A log block became the data block after the rest was copied to it.
    pub partial_merges: u64,
    /// A data block was gathered from several blocks.
    pub full_merges: u64,
    /// Pages read for the map: translation pages.
    pub map_reads: u64,
    /// Pages programmed for the map: translation pages, records of trims.
    pub map_programs: u64,
    /// Look-ups of the map that its cache answered.
    pub map_hits: u64,
    /// Look-ups of the map that its cache did not answer.
    pub map_misses: u64,
}

impl FtlCounters {
    /// Flash pages programmed for each page of the host; none if the host wrote nothing.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_writes > 0).then(|| self.flash.programs as f64 / self.host_writes as f64)
    }
}
