//! Recovery beside its rivals. `data+lazy`, `ldj` and `sdj` write logs of the same transactions; we replay them all,
//! and e2fsck replays the plain ones, on copies of the same image file. Measures wall time with the image in the host's
//! page cache.
//!
//! A log holds 128 MB or 1 GB of transactions of random writes of 4 KiB; half of each page is compressible. The file
//! has half the size of the log, so about half of the copies are not the newest. Each replay runs three times; the
//! median counts.
//!
//! `cargo bench --package onewrite-fs --bench recovery`

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use onewrite_block::{
    Choices, DevicePort, Executor, Geometry, HostProfile, Image, MIB, Nanos, PAGE_SIZE, RamDisk, Time,
};
use onewrite_device::FileDisk;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, replay};
use onewrite_fs::journal::Recovered;
use onewrite_fs::{Content, FileSystem, FileView, FsResult, Manner, NewNode, Position};
use rustix::time::{ClockId, clock_gettime};
use support::volume::{image, new_disk, save};

const PAGE: u64 = PAGE_SIZE as u64;

/// The image after a crash, with `log_bytes` bytes of transactions in its log.
fn crashed(mode: Mode, log_bytes: u64) -> (Image, Geometry) {
    // No checkpoint starts while the log is less than half full.
    let size_bytes = 8 * log_bytes;
    let disk = new_disk(size_bytes, (4 * log_bytes / PAGE) as u32);
    let plain = Geometry::plain("ram", size_bytes / PAGE);
    let geometry = Geometry { share_pairs_max: 500, share_atomic: true, ..plain };
    let disk = RamDisk::with_image(disk.image().clone(), geometry.clone());
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(disk));
    let door = port.clone();
    let outcome = executor.block_on(async move { work(&door, mode, log_bytes).await });
    outcome.expect("nothing halts").expect("no error");
    drop(executor);
    (image(port.unplug()), geometry)
}

async fn work(port: &DevicePort, mode: Mode, log_bytes: u64) -> FsResult<()> {
    let cache_pages = (log_bytes / PAGE) as usize;
    let checkpoint_age = Nanos::from_secs(1_000_000);
    let options = MountOptions { cache_pages: 4 * cache_pages, checkpoint_age, ..MountOptions::new(mode) };
    let fs = Rc::new(Ext4::mount(port.clone(), options).await?);
    let file = fs.create(fs.root(), b"file", NewNode::FILE).await?;
    let mut choices = Choices::new(5);
    for number in 0..log_bytes / PAGE {
        let content = Content::Pattern { seed: number, compressible_percent: 50, length: PAGE };
        let page = choices.below(log_bytes / PAGE / 2);
        fs.write(file, Position::At(page * PAGE), content, Manner::default()).await?;
        if number % 256 == 255 {
            fs.fsync(file).await?;
        }
    }
    fs.fsync(file).await?;
    assert_eq!(fs.counters().checkpoints, 0, "{mode}: all is in the log");
    Ok(())
}

/// Wall time of this machine.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Median seconds of three replays, each of a fresh copy, and the result of the last one.
fn middle<T>(image: &Image, path: &Path, mut treat: impl FnMut(&Path) -> T) -> (f64, T) {
    let mut times: Vec<Duration> = Vec::new();
    let mut result = None;
    for _ in 0..3 {
        save(image, path);
        assert!(Command::new("sync").arg(path).status().expect("sync").success());
        let start = now();
        result = Some(treat(path));
        times.push(now() - start);
    }
    times.sort_unstable();
    (times[1].as_secs_f64(), result.expect("three of them"))
}

fn by_us(path: &Path) -> Recovered {
    let executor = Executor::new(Time::Wall { civil_start: Nanos::ZERO }, HostProfile::default());
    let port = executor.runtime().attach(Box::new(FileDisk::open(path).expect("the image")));
    let outcome = executor.block_on(async move { replay(&port).await });
    outcome.expect("nothing halts").expect("no error").expect("a log to replay")
}

fn by_e2fsck(path: &Path) {
    let status = Command::new("e2fsck").args(["-fy", "-E", "journal_only"]).arg(path).output().expect("e2fsck").status;
    assert!(status.code().is_some_and(|code| code <= 1), "e2fsck: {status}");
}

/// Bytes that a mount on a device with SHARE writes to replay the log.
fn bytes_with_share(image: Image, geometry: Geometry) -> u64 {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(Box::new(RamDisk::with_image(image, geometry)));
    let outcome = executor.block_on(async move { Ext4::mount(port, MountOptions::new(Mode::Sdj)).await });
    let fs = outcome.expect("nothing halts").expect("no error");
    fs.recovered().expect("a log to replay").written_bytes
}

fn row(log: &str, what: &str, seconds: f64, recovered: Option<Recovered>) {
    let figures = recovered.map_or_else(String::new, |done| {
        let (read, written) = (done.log_blocks_read * PAGE / MIB, done.written_bytes / MIB);
        format!("{:>6} transactions, {read:>5} MiB read, {written:>4} MiB written", done.transactions)
    });
    println!("{log:8} {what:24} {:>8.0} ms  {figures}", seconds * 1000.0);
}

fn main() {
    let path: PathBuf = std::env::temp_dir().join(format!("onewrite-recovery-{}", std::process::id()));
    for (name, log_bytes) in [("128 MiB", 128 * MIB), ("1 GiB", 1024 * MIB)] {
        let (plain, _) = crashed(Mode::DataLazy, log_bytes);
        let (seconds, recovered) = middle(&plain, &path, by_us);
        row(name, "data, by us", seconds, Some(recovered));
        let (seconds, ()) = middle(&plain, &path, by_e2fsck);
        row(name, "data, by e2fsck", seconds, None);
        drop(plain);
        let (compressed, _) = crashed(Mode::Ldj, log_bytes);
        let (seconds, recovered) = middle(&compressed, &path, by_us);
        row(name, "ldj, by us", seconds, Some(recovered));
        drop(compressed);
        let (shared, geometry) = crashed(Mode::Sdj, log_bytes);
        println!("{name:8} sdj, on a device with SHARE: {} MiB written", bytes_with_share(shared, geometry) / MIB);
    }
    let _ = std::fs::remove_file(&path);
}
