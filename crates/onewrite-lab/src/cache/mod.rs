//! Cache study: runs a trace through policies and cache sizes, and the after-cache trace through a device.
//!
//! ```text
//!   before-cache trace ─► policy × size ─► after-cache trace ─► file
//!                                                └────────────► device or translation layer: time, WAF, erases
//! ```
//!
//! A cell of the grid is one policy at one size. Cells share only the trace, so they run on all cores and give the same
//! results on any number of cores. A trace of at most [`HELD_MAX`] page requests is kept in memory. A longer one is
//! read again for each cell, so memory stays bounded for any length.
//!
//! Source: dissertation §2.4.1.

mod curves;
mod device;
mod events;
mod figures;
mod layer;
mod progress;
mod target;

use std::path::{Path, PathBuf};

use onewrite_block::Nanos;
use onewrite_cache::{CacheShape, Counts, Future, FutureBuilder, PageNo, PageRequest, PolicyKind, Utilization};
use serde::Serialize;

use crate::cores::side_by_side;
use crate::error::LabError;
use crate::partial::is_same_file;
use crate::trace::{Trace, TraceOptions, TraceWriter, VOLUME_PAGES};
pub use device::DevicePlan;
use device::Replayed;
pub use figures::{DeviceFigures, LayerFigures};
use layer::Counted;
pub use progress::{Stage, StudyProgress};

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
    /// Sizes of the cache in bytes.
    pub sizes: Vec<u64>,
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

/// The trace as the cells see it.
struct Requests {
    /// All requests, if they fit in memory.
    held: Option<Vec<PageRequest>>,
    count: u64,
    last_page: u64,
    /// Whether the trace has more than one volume; each further one lies far behind the first.
    has_volumes: bool,
    future: Option<Future>,
    /// The layer, filled and aged; every cell begins with a copy.
    ready: Option<Counted>,
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
        if let Some(size) = self.sizes.iter().find(|size| **size < self.page_bytes) {
            return refuse(format!("a cache of {size} bytes holds no page of {} bytes", self.page_bytes));
        }
        if self.policies.is_empty() || self.sizes.is_empty() {
            return refuse("a study needs at least one policy and one size".into());
        }
        for size in &self.sizes {
            self.shape(*size)?;
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

    fn shape(&self, size: u64) -> Result<CacheShape, LabError> {
        CacheShape::new(size / self.page_bytes, self.flash_block_bytes / self.page_bytes).map_err(LabError::Option)
    }

    fn cells(&self) -> Vec<(u64, PolicyKind)> {
        self.sizes.iter().flat_map(|size| self.policies.iter().map(|policy| (*size, *policy))).collect()
    }

    /// Reads the trace once and gathers what the cells need to know beforehand.
    fn gather(&self, watch: &(dyn Fn(StudyProgress) -> Result<(), LabError> + Sync)) -> Result<Requests, LabError> {
        watch(StudyProgress::begin(Stage::Reading))?;
        let mut trace = Trace::open(&self.trace, &self.options)?;
        let mut future = self.policies.iter().any(|policy| policy.needs_future()).then(FutureBuilder::default);
        let (held, count, last_page, has_volumes) = (Some(Vec::new()), 0, 0, false);
        let mut requests = Requests { held, count, last_page, has_volumes, future: None, ready: None };
        let mut chunk = Vec::with_capacity(CHUNK);
        let mut goes_on = true;
        while goes_on {
            chunk.clear();
            goes_on = trace.next_pages(self.page_bytes, CHUNK, &mut chunk)?;
            requests.count += chunk.len() as u64;
            requests.last_page = chunk.iter().map(|request| request.page()).fold(requests.last_page, u64::max);
            if let Some(future) = &mut future {
                let told = chunk.iter().try_for_each(|request| future.push(PageNo(request.page())));
                told.map_err(LabError::Option)?;
            }
            requests.hold(&chunk, self.held_max);
            watch(StudyProgress { done: chunk.len() as u64, ..StudyProgress::begin(Stage::Reading) })?;
        }
        requests.future = future.map(FutureBuilder::finish);
        requests.has_volumes = trace.seen().has_volumes;
        Ok(requests)
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
        self.check_after()?;
        let mut requests = self.gather(watch)?;
        self.check_requests(&requests)?;
        if self.is_timed && !Trace::has_times(&self.trace, &self.options)? {
            return Err(LabError::Option(format!(
                "{}: its records have no times to keep; leave --timed out",
                self.trace.display()
            )));
        }
        let ready = self.device.as_ref().map(|plan| plan.prepare(self.end_bytes(&requests), watch)).transpose()?;
        requests.ready = ready.flatten();
        let cells = self.cells();
        let total = requests.count * cells.len() as u64;
        let cells = side_by_side(self.threads, cells.len(), |place| {
            let (size, policy) = cells[place];
            self.run_cell((policy, size), &requests, &|step| match step.stage {
                Stage::Requests => watch(StudyProgress { total, ..step }),
                _ => watch(StudyProgress { total: step.total * cells.len() as u64, ..step }),
            })
        })?;
        let volume = self.options.volume;
        Ok(CacheFigures { volume, page_bytes: self.page_bytes, flash_block_bytes: self.flash_block_bytes, cells })
    }

    fn run_cell(
        &self,
        (policy, size): (PolicyKind, u64),
        requests: &Requests,
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<CacheCell, LabError> {
        let shape = self.shape(size)?;
        let mut cache = policy.simulation(shape, requests.future.clone());
        let mut after = After::new(self, (policy, size), (requests, shape), watch)?;
        requests.for_each_chunk(self, |chunk, since| {
            since.map_or(Ok(()), |since| after.wait_until(since))?;
            let mut failure = None;
            cache.feed(chunk, &mut |request| {
                if let Err(error) = after.take(request) {
                    failure.get_or_insert(error);
                }
            });
            failure.map_or(Ok(()), Err)?;
            watch(StudyProgress { done: chunk.len() as u64, ..StudyProgress::begin(Stage::Requests) })
        })?;
        after.finish(policy, size, cache.counts())
    }

    /// Refuses to write an after-cache trace over the trace that is read.
    fn check_after(&self) -> Result<(), LabError> {
        let Some(after) = &self.after else { return Ok(()) };
        let paths = self.cells().into_iter().map(|(size, policy)| self.after_path(after, policy, size));
        match paths.into_iter().find(|path| is_same_file(path, &self.trace)) {
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
        match self.options.volume {
            Some(volume) if requests.count == 0 => {
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

impl Requests {
    fn hold(&mut self, chunk: &[PageRequest], held_max: usize) {
        if self.held.as_ref().is_some_and(|held| held.len() + chunk.len() > held_max) {
            self.held = None;
        }
        if let Some(held) = &mut self.held {
            held.extend_from_slice(chunk);
        }
    }

    /// Gives the page requests in pieces. In a timed study a piece is one record, given with its time.
    fn for_each_chunk(
        &self,
        study: &CacheStudy,
        mut take: impl FnMut(&[PageRequest], Option<Nanos>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        if let Some(held) = self.held.as_ref().filter(|_| !study.is_timed) {
            return held.chunks(CHUNK).try_for_each(|chunk| take(chunk, None));
        }
        let mut trace = Trace::open(&study.trace, &study.options)?;
        let mut chunk = Vec::with_capacity(CHUNK);
        if study.is_timed {
            while let Some(since) = trace.append_record(study.page_bytes, &mut chunk)? {
                take(&chunk, Some(since))?;
                chunk.clear();
            }
            return Ok(());
        }
        let mut goes_on = true;
        while goes_on {
            chunk.clear();
            goes_on = trace.next_pages(study.page_bytes, CHUNK, &mut chunk)?;
            take(&chunk, None)?;
        }
        Ok(())
    }
}

/// Consumers of the after-cache trace of a cell.
struct After {
    utilization: Utilization,
    writer: Option<TraceWriter>,
    device: Option<Replayed>,
}

impl After {
    fn new(
        study: &CacheStudy,
        (policy, size): (PolicyKind, u64),
        (requests, shape): (&Requests, CacheShape),
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<After, LabError> {
        let path = study.after.as_deref().map(|after| study.after_path(after, policy, size));
        let end_bytes = study.end_bytes(requests);
        let open = |plan: &DevicePlan| plan.open(study.page_bytes, end_bytes, requests.ready.as_ref(), watch);
        let device = study.device.as_ref().map(open).transpose()?;
        Ok(After {
            utilization: Utilization::new(shape.block_pages),
            writer: path.as_deref().map(TraceWriter::create).transpose()?,
            device,
        })
    }

    /// Makes later requests due at `since` after the first record.
    fn wait_until(&mut self, since: Nanos) -> Result<(), LabError> {
        self.device.as_mut().map_or(Ok(()), |device| device.wait_until(since))
    }

    fn take(&mut self, request: PageRequest) -> Result<(), LabError> {
        self.utilization.push(request);
        if let Some(writer) = &mut self.writer {
            writer.page(request)?;
        }
        match &mut self.device {
            Some(device) => device.take(request),
            None => Ok(()),
        }
    }

    fn finish(self, policy: PolicyKind, size: u64, counts: Counts) -> Result<CacheCell, LabError> {
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        let (runs, pages) = self.utilization.finish();
        Ok(CacheCell {
            policy: policy.name(),
            size_bytes: size,
            requests: counts.requests,
            hits: counts.hits,
            misses: counts.misses,
            evicted_clean: counts.evicted_clean,
            evicted_dirty: counts.evicted_dirty,
            after_reads: counts.read_misses,
            after_writes: counts.evicted_dirty,
            utilization: UtilizationFigures { runs, pages },
            device: self.device.map(Replayed::finish).transpose()?,
        })
    }
}
