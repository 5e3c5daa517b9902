//! Figures of a study: of its cells, and of an after-cache trace on a device.

use onewrite_cache::Utilization;
use serde::Serialize;

use crate::results::Distribution;

/// Results of a trace on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Name of the profile.
    pub profile: String,
    /// Bytes of the device.
    pub size_bytes: u64,
    /// Requests under way at most.
    pub queue_depth: u32,
    /// Time on the device's own clock from the first request until the last request and a FLUSH are done; with a layer,
    /// an estimate.
    pub elapsed_seconds: f64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes programmed to flash.
    pub flash_program_bytes: u64,
    /// Bytes programmed for each byte written; none where there is no flash or nothing was written.
    pub waf: Option<f64>,
    /// Flash blocks erased.
    pub erases: u64,
    /// Pages moved by merges, garbage collection and wear levelling.
    pub moved_pages: u64,
    /// Time from when a request is due until it is done; only in a timed study.
    pub response_ns: Option<Distribution>,
    /// Other counts of the layer; none without a layer.
    pub layer: Option<LayerFigures>,
}

/// Counts that only a layer has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerFigures {
    /// Its name.
    pub ftl: &'static str,
    /// Bytes of a block, the unit of an erase.
    pub block_bytes: u64,
    /// Switch merges: a log block becomes a data block as it is.
    pub switch_merges: u64,
    /// Partial merges: the missing pages are copied to a log block, which becomes a data block.
    pub partial_merges: u64,
    /// Full merges: a new data block is gathered from several blocks.
    pub full_merges: u64,
    /// Pages read for the mapping table.
    pub map_reads: u64,
    /// Pages programmed for the mapping table.
    pub map_programs: u64,
    /// Most erases of one block since the device was new.
    pub most_worn_erases: u32,
}

/// A histogram of the dissertation's figure 2-5, in bins of ten percent of a flash block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UtilizationFigures {
    /// Runs of sorted writes to one block, by their share of the block.
    pub runs: [u64; Utilization::BINS],
    /// Pages written in them.
    pub pages: [u64; Utilization::BINS],
}

/// One policy at one size. Counts are in pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheCell {
    /// Name of the policy.
    pub policy: &'static str,
    /// Bytes of the cache.
    pub size_bytes: u64,
    /// Page requests.
    pub requests: u64,
    /// Page requests that found their page in the cache.
    pub hits: u64,
    /// Page requests that did not, reads and writes.
    pub misses: u64,
    /// Clean pages evicted.
    pub evicted_clean: u64,
    /// Dirty pages evicted.
    pub evicted_dirty: u64,
    /// Reads of the after-cache trace: read misses.
    pub after_reads: u64,
    /// Writes of the after-cache trace: dirty pages evicted.
    pub after_writes: u64,
    /// How full the writes fill flash blocks.
    pub utilization: UtilizationFigures,
    /// Results of the after-cache trace on the device; none without a device.
    pub device: Option<DeviceFigures>,
}

/// Results of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheFigures {
    /// The volume, if the study takes only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<u32>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a flash block.
    pub flash_block_bytes: u64,
    /// Cells: for each size, every policy, in the order asked for.
    pub cells: Vec<CacheCell>,
}
