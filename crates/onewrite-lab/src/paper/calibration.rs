//! Calibration: the device figures that the papers print, measured on the emulated devices as the papers measured them.

use onewrite_block::{
    Cause, DeviceError, DevicePort, Executor, HostProfile, Lpn, MIB, Nanos, PAGE_SIZE, Page, Pattern, Request, Time,
};
use onewrite_fs::FsError;
use onewrite_fs::ext4::Mode;

use crate::error::LabError;
use crate::job::JobFile;
use crate::results::RunResult;
use crate::session::{self, DeviceChoice, Extras, JobSpec, RunSpec, Stack};

const SSD: &str = "sata-850pro";
const SHARE_SSD: &str = "nvme-share";
const DEVICE_BYTES: u64 = 256 * MIB;

/// 4 KiB just written and read back (`papers/003` table 2).
pub(super) fn buffer_read_ms() -> Result<f64, LabError> {
    Ok(read_after(PAGE_SIZE as u64, Writing::PageByPage, false)?.as_secs_f64() * 1e3)
}

/// 4 KiB written, flushed and read back (`papers/003` table 2).
pub(super) fn flash_read_ms() -> Result<f64, LabError> {
    Ok(read_after(PAGE_SIZE as u64, Writing::PageByPage, true)?.as_secs_f64() * 1e3)
}

/// Size of a write after which its first page is, for the first time, not read from the buffer (`papers/003` §3.1).
///
/// Written page by page, so that the device has all the time it wants to evict.
pub(super) fn eviction_begins_mb() -> Result<f64, LabError> {
    let missed = missed(Writing::PageByPage)?;
    Ok(missed.iter().position(|missed| *missed).map_or(f64::NAN, megabytes))
}

/// Size of a write from which on its first page is never read from the buffer (`papers/003` §3.1).
///
/// Written as fast as the link allows, so that the device has no time to evict before it must.
pub(super) fn eviction_certain_mb() -> Result<f64, LabError> {
    let missed = missed(Writing::AtOnce)?;
    Ok(missed.iter().rposition(|missed| !missed).map_or(f64::NAN, |last| megabytes(last + 1)))
}

/// How a large write is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// One page after the other.
    PageByPage,
    /// In the largest requests that the device takes.
    AtOnce,
}

/// Above it the papers take a read for one of flash.
const FLASH_READ_LIMIT: Nanos = Nanos::from_micros(100);
/// Sizes tried are multiples of this.
const STEP_BYTES: u64 = 8 * PAGE_SIZE as u64;
const STEPS: u64 = 128;

fn megabytes(step: usize) -> f64 {
    (step as u64 * STEP_BYTES) as f64 / 1e6
}

/// Whether the first page is read from flash, after writes of each size in turn to a device that was new.
fn missed(writing: Writing) -> Result<Vec<bool>, LabError> {
    let missed = |step: u64| Ok(step > 0 && read_after(step * STEP_BYTES, writing, false)? > FLASH_READ_LIMIT);
    (0..STEPS).map(missed).collect()
}

/// Writes `bytes` from the beginning of a new device on, and reads the first page: how long that took.
fn read_after(bytes: u64, writing: Writing, flush: bool) -> Result<Nanos, LabError> {
    let executor = Executor::ideal();
    let device = DeviceChoice::named(SSD)?.open(Some(DEVICE_BYTES))?;
    let port = executor.runtime().attach(device);
    let pages = bytes / PAGE_SIZE as u64;
    let read = executor.block_on(async move { write_and_read(&port, pages, writing, flush).await })?;
    Ok(read.map_err(FsError::from)?)
}

async fn write_and_read(port: &DevicePort, pages: u64, writing: Writing, flush: bool) -> Result<Nanos, DeviceError> {
    let most = if writing == Writing::AtOnce { u64::from(port.geometry().transfer_pages_max) } else { 1 };
    for start in (0..pages).step_by(most as usize) {
        let page = |seed| Page::pattern(Pattern { seed, compressible_percent: 0 });
        let part = (start..pages.min(start + most)).map(page).collect();
        port.request(Request::write(Lpn(start), part, Cause::Data)).await?;
    }
    if flush {
        port.request(Request::flush(Cause::Data)).await?;
    }
    let begin = port.runtime().now();
    port.request(Request::read(Lpn(0), 1, Cause::Data)).await?;
    Ok(port.runtime().now() - begin)
}

/// Largest ratio of write throughput without fsync to that with one every 100 writes, on ext4 (`papers/001` §6.1).
pub(super) fn fsync_drop() -> Result<f64, LabError> {
    let mut largest = 0.0_f64;
    for (rw, bs) in FSYNC_DROPS {
        let bandwidth = |fsync: u64| {
            let settings = format!("rw={rw}\nbs={bs}\nioengine=libaio\niodepth=64\ndirect=1\nsize=64m\nfsync={fsync}");
            let result = run(SSD, &settings, Stack::Ext4(Mode::Ordered), HostProfile::default());
            result.map(|result| result.onewrite.total.write.bw_bytes as f64)
        };
        largest = largest.max(bandwidth(0)? / bandwidth(100)?);
    }
    Ok(largest)
}

/// Patterns and block sizes of the sweep.
const FSYNC_DROPS: [(&str, &str); 8] = [
    ("write", "4k"),
    ("randwrite", "4k"),
    ("write", "16k"),
    ("randwrite", "16k"),
    ("write", "64k"),
    ("randwrite", "64k"),
    ("write", "256k"),
    ("randwrite", "256k"),
];

/// 4 KiB random writes (`papers/000` §3.5).
pub(super) fn share_write_kiops() -> Result<f64, LabError> {
    let settings = "rw=randwrite\nbs=4k\nioengine=libaio\niodepth=64\ndirect=1\nsize=128m";
    Ok(raw_run(SHARE_SSD, settings)?.onewrite.total.write.iops / 1e3)
}

/// 4 KiB random reads of what was written before (`papers/000` §3.5).
pub(super) fn share_read_kiops() -> Result<f64, LabError> {
    let settings = "rw=write\nbs=128k\nioengine=libaio\niodepth=8\ndirect=1\nsize=128m\nend_fsync=1\n\
                    [read]\nstonewall\nrw=randread\nbs=4k\nioengine=libaio\niodepth=64\ndirect=1\nsize=128m";
    Ok(raw_run(SHARE_SSD, settings)?.onewrite.total.read.iops / 1e3)
}

/// A raw run on a host that costs nothing: the device alone is measured.
fn raw_run(device: &str, settings: &str) -> Result<RunResult, LabError> {
    run(device, settings, Stack::Raw, HostProfile::ideal())
}

fn run(device: &str, settings: &str, stack: Stack, host: HostProfile) -> Result<RunResult, LabError> {
    let choice = DeviceChoice::named(device)?;
    let spec = RunSpec {
        job: JobSpec::Fio(JobFile::parse("calibration", &format!("[job]\n{settings}\n"))?),
        stack,
        device: choice.name(),
        time: Time::Virtual,
        host_name: "calibration".to_owned(),
        host,
        journal_bytes: None,
        cache_bytes: 16 * MIB,
        seed: 1,
    };
    session::run(&spec, choice.open(Some(DEVICE_BYTES))?, Extras::default())
}
