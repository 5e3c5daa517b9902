//! Counters: the work of a translation layer for the host's pages.

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

/// Work done, in pages and blocks.
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
    /// Log blocks that became data blocks without any copy.
    pub switch_merges: u64,
    /// Log blocks that became data blocks after the missing pages were copied into them.
    pub partial_merges: u64,
    /// Data blocks gathered from several blocks.
    pub full_merges: u64,
    /// Pages read for the map: translation pages.
    pub map_reads: u64,
    /// Pages programmed for the map: translation pages, records of trims.
    pub map_programs: u64,
    /// Map look-ups that the cache answered.
    pub map_hits: u64,
    /// Map look-ups that the cache missed.
    pub map_misses: u64,
}

impl FtlCounters {
    /// Flash pages programmed for each page of the host; `None` if the host wrote nothing.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_writes > 0).then(|| self.flash.programs as f64 / self.host_writes as f64)
    }
}
