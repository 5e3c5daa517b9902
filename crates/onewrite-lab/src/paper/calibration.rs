//! Calibration: the device figures of the papers, measured in the papers' way on the emulated devices, with the
//! micro-benchmark of `onewrite-device`.

use onewrite_block::{MIB, PAGE_SIZE};
use onewrite_device::Profile;
use onewrite_device::micro::{self, Bench, BufferProbe, Load};

use crate::error::LabError;

const DEVICE_BYTES: u64 = 256 * MIB;
/// Requests of a throughput measurement.
const REQUESTS: u64 = 40_000;

pub(super) fn buffer_read_ms() -> Result<f64, LabError> {
    Ok(buffer()?.buffer_read_nanos as f64 / 1e6)
}

pub(super) fn flash_read_ms() -> Result<f64, LabError> {
    Ok(buffer()?.flash_read_nanos as f64 / 1e6)
}

pub(super) fn eviction_begins_mb() -> Result<f64, LabError> {
    Ok(megabytes(buffer()?.eviction_begins_bytes))
}

pub(super) fn eviction_certain_mb() -> Result<f64, LabError> {
    Ok(megabytes(buffer()?.eviction_certain_bytes))
}

fn buffer() -> Result<BufferProbe, LabError> {
    Ok(micro::probe_buffer(&Profile::load("sata-850pro")?, DEVICE_BYTES)?)
}

/// NaN if nothing was found, so that no comparison agrees.
fn megabytes(bytes: Option<u64>) -> f64 {
    bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6)
}

pub(super) fn sync_drop_ssd() -> Result<f64, LabError> {
    sync_drop("sata-850pro")
}

pub(super) fn sync_drop_nvme() -> Result<f64, LabError> {
    sync_drop("nvme-960pro")
}

pub(super) fn sync_drop_hdd() -> Result<f64, LabError> {
    sync_drop("hdd-barracuda")
}

fn sync_drop(profile: &str) -> Result<f64, LabError> {
    Ok(micro::sync_drop(&Profile::load(profile)?, DEVICE_BYTES)?.times)
}

pub(super) fn share_write_kiops() -> Result<f64, LabError> {
    random_kiops(true)
}

pub(super) fn share_read_kiops() -> Result<f64, LabError> {
    random_kiops(false)
}

/// Thousands of random 4 KiB reads or writes a second, 64 under way.
fn random_kiops(is_write: bool) -> Result<f64, LabError> {
    let mut bench = Bench::new(Profile::load("nvme-share")?.device(Some(DEVICE_BYTES))?, 1);
    let pages = bench.device().geometry().pages / 2;
    bench.fill(pages);
    let load = Load { is_random: true, is_write, request_bytes: PAGE_SIZE as u64, depth: 64, flush_every: 0 };
    Ok(bench.run(load, REQUESTS, pages).iops / 1e3)
}
