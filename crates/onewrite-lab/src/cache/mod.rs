//! Cache study: runs a trace through policies and cache sizes, and the after-cache trace through a device.
//!
//! ```text
//!   before-cache trace ─► policy × size ─► after-cache trace ─► file
//!                                                └────────────► device or translation layer: time, WAF, erases
//! ```
//!
//! A cell of the grid is one policy at one size. Cells share only the trace, so they run on all cores and give the same
//! results on any number of cores. A trace of at most [`HELD_MAX`] page requests is kept in memory ([`requests`]). A
//! longer one is read once for all cells, in rounds ([`rounds`]); with a device, or by the times of its records, it is
//! read again for each cell. So memory stays bounded for any length.
//!
//! Source: dissertation §2.4.1.

mod cell;
mod curves;
mod device;
mod events;
mod figures;
mod layer;
mod progress;
mod requests;
mod rounds;
mod target;

use std::path::{Path, PathBuf};

use onewrite_cache::{CacheShape, PolicyKind, Utilization};
use serde::Serialize;

use crate::cores::side_by_side;
use crate::error::LabError;
use crate::partial::is_same_file;
use crate::size::SizeOrShare;
use crate::trace::{Trace, TraceOptions, VOLUME_PAGES};
use cell::Cell;
pub use device::DevicePlan;
pub use figures::{DeviceFigures, LayerFigures};
pub use progress::{Stage, StudyProgress};
use requests::Requests;

/// Most page requests kept in memory: 512 MiB.
pub const HELD_MAX: usize = 64 << 20;
/// Page requests handled between two progress reports.
const CHUNK: usize = 1 << 16;

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

impl CacheStudy {
    /// Refuses options that make no sense.
    fn check(&self) -> Result<(), LabError> {
        let refuse = |problem: String| Err(LabError::Option(problem));
        if self.page_bytes == 0
            || self.flash_block_bytes == 0
            || !self.flash_block_bytes.is_multiple_of(self.page_bytes)
        {
            let (block, page) = (self.flash_block_bytes, self.page_bytes);
            return refuse(format!("a flash block of {block} bytes is not made of whole pages of {page} bytes"));
        }
        if self.policies.is_empty() || self.sizes.is_empty() {
            return refuse("a study needs at least one policy and one size".into());
        }
        for size in &self.sizes {
            match *size {
                SizeOrShare::Bytes(size) => drop(self.shape(size)?),
                SizeOrShare::Share(_) => (),
            }
        }
        if self.is_timed && self.device.as_ref().is_none_or(|plan| plan.layer.is_some()) {
            return refuse("--timed needs an emulated device in full: --device with --ftl page".into());
        }
        match &self.device {
            Some(plan) => plan.check(self.page_bytes),
            None => Ok(()),
        }
    }

    /// Where the last request ends.
    fn end_bytes(&self, requests: &Requests) -> u64 {
        (requests.last_page + 1).saturating_mul(self.page_bytes)
    }

    /// The shape of a cache of `size` bytes.
    ///
    /// # Errors
    /// If it holds no page, or more than a cache can.
    fn shape(&self, size: u64) -> Result<CacheShape, LabError> {
        if size < self.page_bytes {
            let page = self.page_bytes;
            return Err(LabError::Option(format!("a cache of {size} bytes holds no page of {page} bytes")));
        }
        CacheShape::new(size / self.page_bytes, self.flash_block_bytes / self.page_bytes).map_err(LabError::Option)
    }

    /// Size in bytes and policy of each cell.
    fn cells(&self, footprint_bytes: u64) -> Vec<(u64, PolicyKind)> {
        let sizes = self.sizes.iter().map(|size| size.bytes(footprint_bytes, self.page_bytes));
        sizes.flat_map(|size| self.policies.iter().map(move |policy| (size, *policy))).collect()
    }

    /// Runs all cells and reports progress to `watch`, whose error stops them.
    ///
    /// # Errors
    /// The first error in the order of the cells.
    pub fn run(
        &self,
        watch: &(dyn Fn(StudyProgress) -> Result<(), LabError> + Sync),
    ) -> Result<CacheFigures, LabError> {
        self.check()?;
        let (mut requests, rest) = Requests::gather(self, watch)?;
        let cells = self.cells(requests.footprint_bytes);
        self.check_after(&cells)?;
        self.check_requests(&requests)?;
        if self.is_timed && !Trace::has_times(&self.trace, &self.options)? {
            return Err(LabError::Option(format!(
                "{}: its records have no times to keep; leave --timed out",
                self.trace.display()
            )));
        }
        let ready = self.device.as_ref().map(|plan| plan.prepare(self.end_bytes(&requests), watch)).transpose()?;
        requests.ready = ready.flatten();
        let cells = match requests.is_read_for_each_cell(self) {
            true => self.run_alone(&cells, &requests, watch)?,
            false => self.run_together(&cells, (requests, rest), watch)?,
        };
        self.check_count(cells[0].requests)?;
        let volume = self.options.volume;
        Ok(CacheFigures { volume, page_bytes: self.page_bytes, flash_block_bytes: self.flash_block_bytes, cells })
    }

    /// Runs each cell over the whole trace, as many at a time as there are cores.
    fn run_alone(
        &self,
        cells: &[(u64, PolicyKind)],
        requests: &Requests,
        watch: &(dyn Fn(StudyProgress) -> Result<(), LabError> + Sync),
    ) -> Result<Vec<CacheCell>, LabError> {
        let total = requests.count * cells.len() as u64;
        side_by_side(self.threads, cells.len(), |place| {
            self.run_cell(cells[place], requests, &|step| match step.stage {
                Stage::Requests => watch(StudyProgress { total, ..step }),
                _ => watch(StudyProgress { total: step.total * cells.len() as u64, ..step }),
            })
        })
    }

    fn run_cell(
        &self,
        (size, policy): (u64, PolicyKind),
        requests: &Requests,
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<CacheCell, LabError> {
        let mut cell = Cell::new(self, (size, policy), requests.future.clone())?;
        let open =
            |plan: &DevicePlan| plan.open(self.page_bytes, self.end_bytes(requests), requests.ready.as_ref(), watch);
        let mut device = self.device.as_ref().map(open).transpose()?;
        requests.for_each_chunk(self, |chunk, since| {
            if let (Some(since), Some(device)) = (since, &mut device) {
                device.wait_until(since)?;
            }
            cell.feed(chunk, device.as_mut())?;
            watch(StudyProgress { done: chunk.len() as u64, ..StudyProgress::begin(Stage::Requests) })
        })?;
        cell.finish(device)
    }

    /// Refuses to write an after-cache trace over the trace that is read.
    fn check_after(&self, cells: &[(u64, PolicyKind)]) -> Result<(), LabError> {
        let Some(after) = &self.after else { return Ok(()) };
        let mut paths = cells.iter().map(|(size, policy)| self.after_path(after, *policy, *size));
        match paths.find(|path| is_same_file(path, &self.trace)) {
            None => Ok(()),
            Some(path) => Err(LabError::Option(format!(
                "{}: the trace would be written over while it is read; give --after a new name",
                path.display()
            ))),
        }
    }

    fn check_requests(&self, requests: &Requests) -> Result<(), LabError> {
        if self.device.is_some() && requests.has_volumes {
            return Err(LabError::Option(format!(
                "{}: its volumes lie {} TiB apart, which no device holds: --pack lays them one behind the other, \
                 --each gives each a cache and a device of its own, --volume NUMBER takes one",
                self.trace.display(),
                VOLUME_PAGES.saturating_mul(self.page_bytes) >> 40
            )));
        }
        match requests.is_whole() {
            true => self.check_count(requests.count),
            false => Ok(()),
        }
    }

    /// Refuses a volume without requests.
    fn check_count(&self, count: u64) -> Result<(), LabError> {
        match self.options.volume {
            Some(volume) if count == 0 => {
                Err(LabError::Option(format!("{}: it has no requests of volume {volume}", self.trace.display())))
            }
            _ => Ok(()),
        }
    }

    /// Path of a cell's after-cache trace.
    fn after_path(&self, after: &Path, policy: PolicyKind, size: u64) -> PathBuf {
        if self.policies.len() * self.sizes.len() == 1 {
            return after.to_owned();
        }
        let name = after.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (stem, extension) = name.split_once('.').map_or((name.as_str(), ""), |(stem, rest)| (stem, rest));
        let dot = if extension.is_empty() { "" } else { "." };
        after.with_file_name(format!("{stem}-{policy}-{size}{dot}{extension}"))
    }
}
