//! Flash: one run on the open-channel SSD: StageFS or F2FS on the flash itself, or ext4 over PFTL.

use onewrite_block::{Device, GIB, HostProfile};

use crate::error::LabError;
use crate::paper::cell::Work;
use crate::paper::variant::Variant;
use crate::results::RunResult;
use crate::session::{self, DeviceChoice, Extras, F2fsStack, RunSpec, Stack};

/// The device without a translation layer.
const OPEN: &str = "ocssd-huawei";
/// The paper's memory, for the page cache.
pub(super) const MEMORY: u64 = 8 * GIB;
/// The default host's tick.
const TICK_NS: u64 = 4_000_000;

/// A file system on the open-channel SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnFlash {
    pub(super) stack: Stack,
    /// Bytes of the device.
    pub(super) bytes: u64,
    /// Bytes of the page cache.
    pub(super) cache_bytes: u64,
    /// Tick of the host, ns.
    pub(super) tick_ns: u64,
    /// Parallel units, each on a channel of its own; `None` for the device's 16.
    pub(super) units: Option<u32>,
    /// So many times smaller a flash block is, and erased in so much less time. A device that is as much smaller then
    /// has as many blocks as the whole one.
    pub(super) part: u32,
}

impl OnFlash {
    /// ext4 or F2FS, with the paper's memory.
    pub(super) const fn of(stack: Stack) -> OnFlash {
        OnFlash { stack, bytes: 16 * GIB, cache_bytes: MEMORY, tick_ns: TICK_NS, units: None, part: 1 }
    }

    /// StageFS with a staging area of this size.
    pub(super) fn staged(stage_bytes: u64) -> OnFlash {
        OnFlash::of(Stack::F2fs(F2fsStack { stage_bytes, ..F2fsStack::default() }))
    }

    pub(super) fn run(self, work: &Work) -> Result<RunResult, LabError> {
        session::run(&self.spec(work)?, self.device()?, Extras::default())
    }

    pub(super) fn spec(self, work: &Work) -> Result<RunSpec, LabError> {
        let OnFlash { stack, cache_bytes, tick_ns, .. } = self;
        let host = HostProfile { tick_ns, ..HostProfile::default() };
        Ok(RunSpec { cache_bytes, host, ..RunSpec::new(work.job(Variant::PLAIN)?, stack, OPEN) })
    }

    pub(super) fn device(self) -> Result<Box<dyn Device>, LabError> {
        let mut choice = DeviceChoice::named(OPEN)?;
        if let DeviceChoice::Emulated { profile, .. } = &mut choice {
            let flash = profile.flash.as_mut().expect("the open-channel SSD has flash");
            let units = self.units.unwrap_or(flash.dies);
            (flash.channels, flash.dies) = (units, units);
            flash.pages_per_block /= self.part;
            flash.erase_us /= f64::from(self.part);
        }
        choice.under(self.stack).open(Some(self.bytes))
    }

    /// Operations a second.
    pub(super) fn speed(self, work: &Work) -> Result<f64, LabError> {
        Ok(work.speed(&self.run(work)?))
    }
}

#[cfg(test)]
mod tests {
    use onewrite_block::MIB;
    use onewrite_fs::ext4::Mode;

    use super::*;
    use crate::workload::filebench::{Length, Personality};

    #[test]
    fn the_device_has_the_units_that_are_asked_for() {
        let work = Work::Fio { name: "write", text: "rw=write\nbs=1m\nsize=32m\nend_fsync=1\n" };
        let seconds = |units| {
            let place = OnFlash { bytes: GIB, units, ..OnFlash::staged(16 * MIB) };
            place.run(&work).unwrap().onewrite.virtual_seconds.unwrap()
        };
        let (one, four, all) = (seconds(Some(1)), seconds(Some(4)), seconds(None));
        assert!(one > 3.0 * four && four > 2.0 * all, "{one} {four} {all}");
        assert_eq!(all, seconds(Some(16)));
    }

    /// An fsync of ext4 commits an inode if its times changed.
    #[test]
    fn shorter_ticks_make_ext4_write_more_and_stagefs_hardly() {
        let text = "rw=randwrite\nbs=4k\nsize=8m\nio_size=4m\noverwrite=1\nfsync=1\n";
        let bytes = |place: OnFlash, tick_ns| {
            let place = OnFlash { bytes: GIB, tick_ns, ..place };
            place.run(&Work::Fio { name: "random", text }).unwrap().onewrite.device.flash_program_bytes as f64
        };
        let gain = |place| bytes(place, 1_000_000) / bytes(place, 100_000_000);
        let (ext4, staged) = (gain(OnFlash::of(Stack::Ext4(Mode::Ordered))), gain(OnFlash::staged(16 * MIB)));
        assert!(ext4 > 1.5 && staged < 1.2, "{ext4} {staged}");
    }

    /// What nobody syncs is not staged; the paper's StageFS writes 1.89 times what F2FS does.
    #[test]
    fn writes_without_syncs_cost_what_they_cost_without_an_area() {
        let text = "rw=randwrite\nbs=1k\nsize=64m\nio_size=32m\nnorandommap=1\n";
        let bytes = |stack: OnFlash| {
            let place = OnFlash { bytes: GIB, ..stack };
            place.run(&Work::Fio { name: "random", text }).unwrap().onewrite.device.flash_program_bytes as f64
        };
        let ratio = bytes(OnFlash::staged(16 * MIB)) / bytes(OnFlash::of(Stack::F2fs(F2fsStack::default())));
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
    }

    /// A checkpoint waits while writeback goes on, with more dirty content than the reserve has room for.
    #[test]
    fn dirty_content_of_a_fifth_of_the_device_leaves_checkpoints_the_room_that_they_need() {
        let text = "rw=randwrite\nbs=1k\nsize=100m\nio_size=220m\nfsync=20000\nnorandommap=1\n";
        for stage_bytes in [0, 16 * MIB] {
            let place = OnFlash { bytes: 256 * MIB, cache_bytes: 256 * MIB, part: 16, ..OnFlash::staged(stage_bytes) };
            let result = place.run(&Work::Fio { name: "random", text }).unwrap();
            let cleaning = result.onewrite.fs.unwrap().cleaning.unwrap();
            assert!(cleaning.segments > 10 && result.onewrite.device.erases > 100, "{cleaning:?}");
        }
    }

    /// Writeback took the reserve that checkpoints opened for staged pages: no block was left for nodes.
    #[test]
    fn writeback_leaves_a_checkpoint_with_staged_pages_its_reserve() {
        let (personality, length) = (Personality::Fileserver, Length::Operations(60_000));
        let work = Work::Personality { personality, files: Some(1_300), length, compressible_percent: 0 };
        let place = OnFlash { bytes: 384 * MIB, cache_bytes: 384 * MIB, part: 16, ..OnFlash::staged(32 * MIB) };
        for seed in 1..=6 {
            let spec = RunSpec { seed, ..place.spec(&work).unwrap() };
            let result = session::run(&spec, place.device().unwrap(), Extras::default());
            let cleaning = result.unwrap_or_else(|error| panic!("seed {seed}: {error}")).onewrite.fs.unwrap().cleaning;
            assert!(cleaning.unwrap().segments > 10, "seed {seed}");
        }
    }
}
