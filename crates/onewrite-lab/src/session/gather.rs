//! Gather: the result of a run, from what was measured and counted.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::Usage;
use onewrite_block::{DevicePort, Nanos, Time};

use super::spec::{RunSpec, device_bytes};
use super::stack::Stack;
use crate::driver::JobMeasure;
use crate::results::{DeviceFigures, DiskUtil, Figures, FsFigures, RunResult, Settings};

/// How busy the device was.
pub(super) type SharedUsage = Rc<RefCell<Usage>>;

/// The result of `spec`: what the jobs measured, how long they took and how busy the device was, and of a file system
/// its figures with the bytes of its journal.
pub(super) fn gather(
    spec: &RunSpec,
    port: &DevicePort,
    measures: &[JobMeasure],
    (duration, usage): (Nanos, Usage),
    fs: Option<(FsFigures, Option<u64>)>,
) -> RunResult {
    let seconds = Some(duration.as_secs_f64());
    let (virtual_seconds, wall_seconds) = if spec.time == Time::Virtual { (seconds, None) } else { (None, seconds) };
    let is_raw = spec.stack == Stack::Raw;
    let (fs, journal_bytes) = fs.unzip();
    let journal_bytes = journal_bytes.flatten();
    RunResult::new(measures, DiskUtil::new(&spec.device, &usage, duration), |total, operations_per_second| Figures {
        job: spec.job.name().into_owned(),
        seed: spec.seed,
        virtual_seconds,
        wall_seconds,
        device: DeviceFigures::new(&spec.device, &port.device().counters(), total.write.io_bytes),
        operations_per_second,
        total,
        settings: Settings {
            fs: spec.stack.fs_name().to_owned(),
            mode: fs.as_ref().map(|fs| fs.mode.clone()),
            device: spec.device.clone(),
            setup: spec.setup.clone(),
            host: spec.host_name.clone(),
            size_bytes: device_bytes(port),
            journal_bytes,
            cache_bytes: (!is_raw).then_some(spec.cache_bytes),
            cache_policy: (!is_raw).then(|| spec.cache_policy.name().to_owned()),
            delayed_allocation: spec.delays(),
            max_batch_ns: Some(spec.max_batch_time.0).filter(|longest| *longest > 0),
            drop_caches: spec.drop_caches,
        },
        fs,
    })
}
