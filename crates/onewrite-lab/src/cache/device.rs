//! Device: replays an after-cache trace on a device, as deep as its queue allows.
//!
//! Requests follow the order of the trace. The queue (NCQ) stays full: when one request completes, the next goes in.
//! Before that the device is filled once in order (unless it is blank) and aged (if asked for), and comes to rest. Then
//! time and counters begin. A FLUSH at the end counts too.
//!
//! The target is the whole emulated device ([`events`](super::events)), or a translation layer that only counts and
//! estimates ([`layer`](super::layer)).

use onewrite_block::{Choices, Nanos, PAGE_SIZE};
use onewrite_cache::PageRequest;
use onewrite_device::{Layer, Profile};
use serde::Serialize;

use super::events::Emulated;
use super::layer::Counted;
use super::{Stage, StudyProgress};
use crate::error::LabError;
use crate::results::Distribution;

/// Smallest device that a study makes without a given size.
const LEAST_BYTES: u64 = Profile::RUN_BYTES;
/// Largest device of a study.
const MOST_BYTES: u64 = 1 << 40;
/// Largest device with a layer, which keeps 16 to 24 bytes for each page.
const LAYER_MOST_BYTES: u64 = 1 << 38;
/// Pages in a sequential run of aging, and single pages after it.
const AGE_RUN_PAGES: u64 = 256;
/// Seed of aging.
const AGE_SEED: u64 = 1;

/// Which device, and in which state.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// The device on paper.
    pub profile: Profile,
    /// Translation layer; none for the emulated device as it is.
    pub layer: Option<Layer>,
    /// Capacity; none for the least power of two from 1 GiB on that holds the trace.
    pub size_bytes: Option<u64>,
    /// Whether the device is not filled first.
    pub is_blank: bool,
    /// Bytes written to age the device, before the trace. Half are sequential runs of 1 MiB at random places, half are
    /// single random pages, in turn, over the whole device. Source: dissertation §2.4.5, which gives only size and
    /// mixture.
    pub age_bytes: u64,
}

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

/// A device that takes requests.
pub(super) trait Target {
    /// Pages of the device.
    fn pages(&self) -> u64;

    /// Most pages in a request.
    fn transfer_pages_max(&self) -> u64;

    /// Submits a request; waits first if the queue is full.
    fn submit(&mut self, is_write: bool, start: u64, count: u64) -> Result<(), LabError>;

    /// Waits until the device is at rest; then starts time and counters.
    fn begin(&mut self) -> Result<(), LabError>;

    /// Lets time pass until `since` after the beginning; later requests are due then.
    fn wait_until(&mut self, since: Nanos) -> Result<(), LabError>;

    /// Flushes and waits until the device is at rest.
    fn finish(self: Box<Self>) -> Result<DeviceFigures, LabError>;
}

impl DevicePlan {
    /// Refuses a page size that is not a multiple of the device's.
    pub(super) fn check(&self, page_bytes: u64) -> Result<(), LabError> {
        match page_bytes.is_multiple_of(PAGE_SIZE as u64) {
            true => Ok(()),
            false => {
                let problem = format!("pages of {page_bytes} bytes on a device with pages of {PAGE_SIZE}");
                Err(LabError::Option(format!("{problem}; take a multiple for --page-size")))
            }
        }
    }

    /// Bytes of a device that holds `end_bytes`.
    fn size(&self, end_bytes: u64) -> Result<u64, LabError> {
        let most = if self.layer.is_some() { LAYER_MOST_BYTES } else { MOST_BYTES };
        let needed = end_bytes.max(LEAST_BYTES);
        let size = self.size_bytes.unwrap_or(needed.checked_next_power_of_two().unwrap_or(u64::MAX));
        if end_bytes > size || size > most {
            let cure = "give another --device-size, or take one volume or a part of the trace (onewrite trace cut)";
            let problem = format!("the trace reaches to byte {end_bytes}; the device has {size}, at most {most}");
            return Err(LabError::Option(format!("{problem}: {cure}")));
        }
        Ok(size)
    }

    /// Fills and ages the layer once; each cell takes a copy. None where each cell makes a device of its own.
    pub(super) fn prepare(&self, end_bytes: u64, watch: &dyn Fn(StudyProgress)) -> Result<Option<Counted>, LabError> {
        let Some(layer) = self.layer else { return Ok(None) };
        watch(StudyProgress::begin(Stage::Filling));
        let mut counted = Counted::open(&self.profile, layer, self.size(end_bytes)?, self.is_blank)?;
        self.age(&mut counted, watch)?;
        Ok(Some(counted))
    }

    /// Opens a device that holds `end_bytes`, or a copy of `ready`.
    pub(super) fn open(
        &self,
        page_bytes: u64,
        end_bytes: u64,
        ready: Option<&Counted>,
        watch: &dyn Fn(StudyProgress),
    ) -> Result<Replayed, LabError> {
        let target: Box<dyn Target> = match ready {
            Some(counted) => Box::new(counted.fork()),
            None => {
                watch(StudyProgress::begin(Stage::Filling));
                let mut emulated = Emulated::open(&self.profile, self.size(end_bytes)?, self.is_blank)?;
                self.age(&mut emulated, watch)?;
                Box::new(emulated)
            }
        };
        Ok(Replayed { target, pages_each: page_bytes / PAGE_SIZE as u64 })
    }

    /// Ages a device and leaves it at rest.
    fn age(&self, target: &mut dyn Target, watch: &dyn Fn(StudyProgress)) -> Result<(), LabError> {
        let mut choices = Choices::new(AGE_SEED).stream("age", 0);
        let total = self.age_bytes / PAGE_SIZE as u64;
        let (all, mut left) = (target.pages(), total);
        while left > 0 {
            let run = AGE_RUN_PAGES.min(left).min(all);
            submit(target, true, choices.below(all - run + 1), run)?;
            left -= run;
            let single = run.min(left);
            (0..single).try_for_each(|_| submit(target, true, choices.below(all), 1))?;
            left -= single;
            watch(StudyProgress { stage: Stage::Aging, done: run + single, total });
        }
        target.begin()
    }
}

/// Submits a request, in pieces if it is larger than the device takes.
fn submit(target: &mut dyn Target, is_write: bool, start: u64, count: u64) -> Result<(), LabError> {
    let most = target.transfer_pages_max();
    let mut done = 0;
    while done < count {
        let piece = most.min(count - done);
        target.submit(is_write, start + done, piece)?;
        done += piece;
    }
    Ok(())
}

/// A device while a trace runs on it.
pub(super) struct Replayed {
    target: Box<dyn Target>,
    pages_each: u64,
}

impl Replayed {
    /// Submits one request.
    pub(super) fn take(&mut self, request: PageRequest) -> Result<(), LabError> {
        submit(&mut *self.target, request.is_write(), request.page() * self.pages_each, self.pages_each)
    }

    /// Makes later requests due at `since` after the beginning.
    pub(super) fn wait_until(&mut self, since: Nanos) -> Result<(), LabError> {
        self.target.wait_until(since)
    }

    /// Ends the trace.
    pub(super) fn finish(self) -> Result<DeviceFigures, LabError> {
        self.target.finish()
    }
}
