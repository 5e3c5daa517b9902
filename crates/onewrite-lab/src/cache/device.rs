//! Device: replays an after-cache trace on a device, as deep as its queue allows.
//!
//! Requests follow the order of the trace. The queue (NCQ) stays full: when one request completes, the next goes in.
//! Before that the device is filled once in order (unless it is blank) and aged (if asked for), and comes to rest. Then
//! time and counters begin. A FLUSH at the end counts too.
//!
//! The target is the whole emulated device ([`events`](super::events)), or a translation layer that only counts and
//! estimates ([`layer`](super::layer)).

use onewrite_block::{Choices, Nanos, PAGE_SIZE};
use onewrite_cache::{Access, PageRequest};
use onewrite_device::{Layer, Profile};

use super::events::Emulated;
use super::figures::DeviceFigures;
use super::layer::Counted;
use super::progress::{Stage, StudyProgress};
use super::target::Target;
use crate::error::LabError;

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
    pub(super) fn prepare(
        &self,
        end_bytes: u64,
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<Option<Counted>, LabError> {
        let Some(layer) = self.layer else { return Ok(None) };
        watch(StudyProgress::begin(Stage::Filling))?;
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
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<Replayed, LabError> {
        let target: Box<dyn Target> = match ready {
            Some(counted) => Box::new(counted.fork()),
            None => {
                watch(StudyProgress::begin(Stage::Filling))?;
                let mut emulated = Emulated::open(&self.profile, self.size(end_bytes)?, self.is_blank)?;
                self.age(&mut emulated, watch)?;
                Box::new(emulated)
            }
        };
        Ok(Replayed { target, pages_each: page_bytes / PAGE_SIZE as u64 })
    }

    /// Ages a device and leaves it at rest.
    fn age(
        &self,
        target: &mut dyn Target,
        watch: &dyn Fn(StudyProgress) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut choices = Choices::new(AGE_SEED).stream("age", 0);
        let total = self.age_bytes / PAGE_SIZE as u64;
        let (all, mut left) = (target.pages(), total);
        while left > 0 {
            let run = AGE_RUN_PAGES.min(left).min(all);
            submit(target, Access::Write, choices.below(all - run + 1), run)?;
            left -= run;
            let single = run.min(left);
            (0..single).try_for_each(|_| submit(target, Access::Write, choices.below(all), 1))?;
            left -= single;
            watch(StudyProgress { stage: Stage::Aging, done: run + single, total })?;
        }
        target.begin()
    }
}

/// Submits a request, in pieces if it is larger than the device takes.
fn submit(target: &mut dyn Target, access: Access, start: u64, count: u64) -> Result<(), LabError> {
    let most = target.transfer_pages_max();
    let mut done = 0;
    while done < count {
        let piece = most.min(count - done);
        target.submit(access, start + done, piece)?;
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
        submit(&mut *self.target, request.access(), request.page() * self.pages_each, self.pages_each)
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
