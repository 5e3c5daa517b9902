//! Calibration: the device figures of the papers, measured in the papers' way on the emulated devices, with the
//! micro-benchmark of `onewrite-device`.

use onewrite_block::{MIB, PAGE_SIZE};
use onewrite_device::Profile;
use onewrite_device::micro::{self, Bench, Load};

use super::entry::DeviceFigure;
use super::found::Found;
use super::sync_drop;
use crate::error::LabError;
use crate::job::Direction;

const DEVICE_BYTES: u64 = 256 * MIB;
/// Requests of a throughput measurement.
const REQUESTS: u64 = 40_000;

/// A figure of `profile`, in the unit of its kind.
pub(super) fn figure(profile: &str, figure: DeviceFigure) -> Result<Found, LabError> {
    let profile = Profile::load(profile)?;
    if let DeviceFigure::SyncDrop = figure {
        return sync_drop::largest(&profile);
    }
    plain(&profile, figure).map(Found::from)
}

fn plain(profile: &Profile, figure: DeviceFigure) -> Result<f64, LabError> {
    let buffer = || micro::probe_buffer(profile, DEVICE_BYTES);
    Ok(match figure {
        DeviceFigure::BufferRead => buffer()?.buffer_read_nanos as f64 / 1e6,
        DeviceFigure::FlashRead => buffer()?.flash_read_nanos as f64 / 1e6,
        DeviceFigure::EvictionBegins => megabytes(buffer()?.eviction_begins_bytes),
        DeviceFigure::EvictionCertain => megabytes(buffer()?.eviction_certain_bytes),
        DeviceFigure::SyncDrop => unreachable!("it has cases"),
        DeviceFigure::RandomWrites => random_kiops(profile, Direction::Write)?,
        DeviceFigure::RandomReads => random_kiops(profile, Direction::Read)?,
    })
}

/// NaN if nothing was found, so that no comparison agrees.
fn megabytes(bytes: Option<u64>) -> f64 {
    bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6)
}

/// Thousands of random 4 KiB reads or writes a second, 64 under way.
fn random_kiops(profile: &Profile, direction: Direction) -> Result<f64, LabError> {
    let mut bench = Bench::new(profile.device(Some(DEVICE_BYTES))?, 1);
    let pages = bench.device().geometry().pages / 2;
    bench.fill(pages);
    let is_write = direction == Direction::Write;
    let load = Load { is_random: true, is_write, request_bytes: PAGE_SIZE as u64, depth: 64, flush_every: 0 };
    Ok(bench.run(load, REQUESTS, pages).iops / 1e3)
}
