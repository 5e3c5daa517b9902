//! Study: what is run, and the shapes and places of its cells.

use std::path::{Path, PathBuf};

use onewrite_cache::{CacheShape, PolicyKind};

use super::device::DevicePlan;
use crate::error::LabError;
use crate::size::SizeOrShare;
use crate::trace::TraceOptions;

/// Most page requests kept in memory: 512 MiB.
pub const HELD_MAX: usize = 64 << 20;
/// Page requests handled between two progress reports.
pub(super) const CHUNK: usize = 1 << 16;

/// What a study runs.
#[derive(Clone, Debug)]
pub struct CacheStudy {
    /// The trace.
    pub trace: PathBuf,
    /// How to read it.
    pub options: TraceOptions,
    /// Policies, each at every size.
    pub policies: Vec<PolicyKind>,
    /// Sizes of the cache. A share is one of the footprint, which takes a reading of the whole trace before the first
    /// cell begins.
    pub sizes: Vec<SizeOrShare>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a flash block.
    pub flash_block_bytes: u64,
    /// Path of the after-cache trace. With more than one cell, each cell has its own file beside it, named by policy
    /// and size.
    pub after: Option<PathBuf>,
    /// Device on which the after-cache traces are replayed.
    pub device: Option<DevicePlan>,
    /// Cores to use; zero for all.
    pub threads: usize,
    /// Most page requests kept in memory, usually [`HELD_MAX`].
    pub held_max: usize,
    /// Whether requests reach the device at the times of the trace; else as fast as the device takes them.
    pub is_timed: bool,
}

impl CacheStudy {
    /// The shape of a cache of `size` bytes.
    ///
    /// # Errors
    /// If it holds no page, or more than a cache can.
    pub(super) fn shape(&self, size: u64) -> Result<CacheShape, LabError> {
        if size < self.page_bytes {
            let page = self.page_bytes;
            return Err(LabError::Option(format!("a cache of {size} bytes holds no page of {page} bytes")));
        }
        CacheShape::new(size / self.page_bytes, self.flash_block_bytes / self.page_bytes).map_err(LabError::Option)
    }

    /// Size in bytes and policy of each cell.
    pub(super) fn cells(&self, footprint_bytes: u64) -> Vec<(u64, PolicyKind)> {
        let sizes = self.sizes.iter().map(|size| size.bytes(footprint_bytes, self.page_bytes));
        sizes.flat_map(|size| self.policies.iter().map(move |policy| (size, *policy))).collect()
    }

    /// Path of a cell's after-cache trace.
    pub(super) fn after_path(&self, after: &Path, policy: PolicyKind, size: u64) -> PathBuf {
        if self.policies.len() * self.sizes.len() == 1 {
            return after.to_owned();
        }
        let name = after.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (stem, extension) = name.split_once('.').map_or((name.as_str(), ""), |(stem, rest)| (stem, rest));
        let dot = if extension.is_empty() { "" } else { "." };
        after.with_file_name(format!("{stem}-{policy}-{size}{dot}{extension}"))
    }
}
