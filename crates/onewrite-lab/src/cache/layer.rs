//! Layer: a translation layer that counts flash operations and estimates time.

use onewrite_block::{Nanos, PAGE_SIZE};
use onewrite_cache::Access;
use onewrite_device::ftl::{Lpn, TimedFtl};
use onewrite_device::{Layer, Profile};

use super::figures::{DeviceFigures, LayerFigures};
use super::target::Target;
use crate::error::LabError;

const PAGE: u64 = PAGE_SIZE as u64;

/// A translation layer while a trace runs on it.
pub(super) struct Counted {
    profile: String,
    layer: Layer,
    device: TimedFtl,
}

impl Counted {
    /// Opens a layer over `size_bytes` and fills it once in order, unless `is_blank`.
    pub(super) fn open(profile: &Profile, layer: Layer, size_bytes: u64, is_blank: bool) -> Result<Counted, LabError> {
        let device = profile.layer(layer, Some(size_bytes))?;
        let mut counted = Counted { profile: profile.name.clone(), layer, device };
        if !is_blank {
            let (pages, most) = (counted.pages(), counted.transfer_pages_max());
            (0..pages.div_ceil(most))
                .try_for_each(|chunk| counted.submit(Access::Write, chunk * most, most.min(pages - chunk * most)))?;
        }
        Ok(counted)
    }
}

impl Counted {
    /// A copy in the same state.
    pub(super) fn fork(&self) -> Counted {
        Counted { profile: self.profile.clone(), layer: self.layer, device: self.device.fork() }
    }
}

impl Target for Counted {
    fn pages(&self) -> u64 {
        u64::from(self.device.ftl().logical_pages())
    }

    fn transfer_pages_max(&self) -> u64 {
        u64::from(self.device.geometry().transfer_pages_max)
    }

    fn submit(&mut self, access: Access, start: u64, count: u64) -> Result<(), LabError> {
        let pages = Lpn(start as u32).run(count as u32);
        let done = match access {
            Access::Write => self.device.write(pages),
            Access::Read => self.device.read(pages),
        };
        done.map_err(|error| LabError::Option(error.to_string()))
    }

    fn begin(&mut self) -> Result<(), LabError> {
        self.device.begin();
        Ok(())
    }

    fn wait_until(&mut self, _: Nanos) -> Result<(), LabError> {
        Err(LabError::Option("a layer that estimates time has no clock to wait on; take --ftl page".into()))
    }

    fn finish(mut self: Box<Self>) -> Result<DeviceFigures, LabError> {
        let elapsed = self.device.finish();
        let counters = self.device.ftl().counters();
        let worn = self.device.ftl().flash().erase_counts().iter().copied().max();
        let layer = LayerFigures {
            ftl: self.layer.name(),
            block_bytes: u64::from(self.device.ftl().flash().block_pages()) * PAGE,
            switch_merges: counters.switch_merges,
            partial_merges: counters.partial_merges,
            full_merges: counters.full_merges,
            map_reads: counters.map_reads,
            map_programs: counters.map_programs,
            most_worn_erases: worn.unwrap_or(0),
        };
        Ok(DeviceFigures {
            size_bytes: self.pages() * PAGE,
            profile: self.profile,
            queue_depth: self.device.geometry().queue_depth,
            elapsed_seconds: elapsed.as_secs_f64(),
            host_read_bytes: counters.host_reads * PAGE,
            host_write_bytes: counters.host_writes * PAGE,
            flash_program_bytes: counters.flash.programs * PAGE,
            waf: counters.write_amplification(),
            erases: counters.flash.erases,
            moved_pages: counters.moved_pages,
            response_ns: None,
            layer: Some(layer),
        })
    }
}
