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
mod study;
mod target;

use onewrite_cache::PolicyKind;

use crate::cores::side_by_side;
use crate::error::LabError;
use crate::partial::is_same_file;
use crate::size::SizeOrShare;
use crate::trace::{Trace, VOLUME_PAGES};
use cell::Cell;
pub use device::DevicePlan;
pub use figures::{CacheCell, CacheFigures, DeviceFigures, LayerFigures, UtilizationFigures};
pub use progress::{Stage, StudyProgress};
use requests::Requests;
pub use study::{CacheStudy, HELD_MAX};

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
}
