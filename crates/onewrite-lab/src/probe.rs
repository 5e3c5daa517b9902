//! Probe: finds out from outside what a device's write buffer does. Measures the time of a read from the buffer and
//! from flash, the bytes to write until earlier pages have left the buffer, and the costs of FLUSH and of eviction.
//!
//! ```text
//!   write, read: buffer ─► FLUSH, read: flash ─► a line between the two
//!   for each size: FLUSH ─► write that size from page 0 on ─► read page 0: which side of the line?
//!   a few KiB written ─► FLUSH │ a few KiB written ─► zeros up to the spot
//! ```
//!
//! It uses nothing but requests, one at a time. So it works on emulated devices in virtual time and on real ones in
//! wall time. It overwrites the beginning of the device. Source: `papers/003` §3, figures 1 to 4 and table 2.

use onewrite_block::{
    Cause, Choices, DeviceError, DevicePort, KIB, Lpn, MIB, Nanos, Operation, PAGE_SIZE, Page, Pattern, Request,
};
use onewrite_fs::FsError;
use onewrite_fs::journal::EvictionSpot;
use serde::{Deserialize, Serialize};

use crate::error::LabError;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages read from the buffer and from flash; repeats of each FLUSH and each eviction.
const READS: u64 = 64;
const REPEATS: u64 = 16;
/// Reads after each size, and near the certain size.
const READS_OF_SIZE: u64 = 6;
const READS_NEAR_END: u64 = 24;
/// Pages in a write.
const WRITE_PAGES: u64 = 8;
/// First size of the search; the next size is larger by 1/`STEP_PART` of it, at least by `STEP_BYTES`.
const FIRST_BYTES: u64 = 64 * KIB;
const STEP_BYTES: u64 = 32 * KIB;
const STEP_PART: u64 = 64;
/// The search ends after so many sizes in a row without a read from the buffer.
const SIZES_AFTER_LAST: usize = 12;
/// Bytes written before FLUSH or padding.
const DIRTY_KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];

/// Limits of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Most bytes written at once in the search for the eviction spot.
    pub bytes_max: u64,
    /// The seed of all chance.
    pub seed: u64,
}

impl Default for ProbeOptions {
    fn default() -> ProbeOptions {
        ProbeOptions { bytes_max: 32 * MIB, seed: 1 }
    }
}

/// Latencies of requests, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The shortest.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Spread {
    fn of(spans: &[Nanos]) -> Spread {
        let all = || spans.iter().map(|span| span.0);
        let mean_ns = all().sum::<u64>() / spans.len().max(1) as u64;
        Spread { min_ns: all().min().unwrap_or(0), mean_ns, max_ns: all().max().unwrap_or(0) }
    }
}

/// Reads of page 0 after writes of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeProbe {
    /// Bytes written from page 0 on.
    pub bytes: u64,
    /// Times of the reads of page 0 after them, in nanoseconds.
    pub reads_ns: Vec<u64>,
    /// Number of these reads that came from flash.
    pub from_flash: u64,
}

/// FLUSH beside padding after writes of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistProbe {
    /// Bytes written before.
    pub dirty_bytes: u64,
    /// How long FLUSH took.
    pub flush: Spread,
    /// How long padding up to the certain size took.
    pub eviction: Spread,
}

/// Result of [`probe`]; `zp` accepts it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Profile or path of the device.
    pub device: String,
    /// A read of 4 KiB just after its write.
    pub buffer_read: Spread,
    /// A read of 4 KiB after its write and a FLUSH.
    pub flash_read: Spread,
    /// A read that takes at least this time came from flash; none if the times of the two kinds overlap.
    pub flash_read_min_ns: Option<u64>,
    /// Bytes written after which page 0 sometimes comes from flash.
    pub eviction_begins_bytes: Option<u64>,
    /// Bytes written after which page 0 always comes from flash.
    pub eviction_certain_bytes: Option<u64>,
    /// All sizes that were tried.
    pub sizes: Vec<SizeProbe>,
    /// FLUSH beside eviction; empty if no eviction spot was found.
    pub persist: Vec<PersistProbe>,
}

impl Probe {
    /// What `zp` needs: the certain size and an eighth more. The addition is there because no probe sees every page: on
    /// `nvme-share` nine tenths of the promised size are enough in practice.
    pub fn eviction_spot(&self) -> Option<EvictionSpot> {
        let bytes = self.eviction_certain_bytes?;
        let flash_read_min = self.flash_read_min_ns.map(Nanos);
        Some(EvictionSpot { bytes: (bytes + bytes / 8).next_multiple_of(PAGE), flash_read_min })
    }

    /// Reads a probe from `json`, as [`Probe`] serialises it.
    ///
    /// # Errors
    /// If `json` is no probe; `name` says where it came from.
    pub fn from_json(name: &str, json: &str) -> Result<Probe, LabError> {
        serde_json::from_str(json).map_err(|error| {
            LabError::Option(format!("{name}: {error}; it must be what `onewrite probe DEVICE --json FILE` writes"))
        })
    }
}

/// Probes the device on `port` and overwrites its beginning; calls `progress` with the bytes of each size.
///
/// # Errors
/// If [`ProbeOptions::bytes_max`] is below the first size; if the device cannot hold twice as much; device errors.
pub async fn probe(port: &DevicePort, options: ProbeOptions, mut progress: impl FnMut(u64)) -> Result<Probe, LabError> {
    if options.bytes_max < FIRST_BYTES {
        let problem = format!("--max {}: the search begins with {FIRST_BYTES} bytes; give more", options.bytes_max);
        return Err(LabError::Option(problem));
    }
    let geometry = port.geometry();
    let least = 2 * options.bytes_max.div_ceil(PAGE);
    if geometry.pages < least {
        let (bytes, has) = (least * PAGE, geometry.pages * PAGE);
        return Err(LabError::Option(format!(
            "{} has {has} bytes; looking at up to {} bytes of writes needs {bytes}: make it larger or --max smaller",
            geometry.name, options.bytes_max
        )));
    }
    let chance = Choices::new(options.seed).stream("probe", 0);
    let mut prober = Prober { port, chance, zeros_at: 0 };
    Ok(prober.run(options.bytes_max, &mut progress).await.map_err(FsError::from)?)
}

struct Prober<'p> {
    port: &'p DevicePort,
    chance: Choices,
    /// Page of the second half of the device at which the next padding begins.
    zeros_at: u64,
}

impl Prober<'_> {
    async fn run(&mut self, bytes_max: u64, progress: &mut impl FnMut(u64)) -> Result<Probe, DeviceError> {
        let (from_buffer, from_flash) = self.reads().await?;
        let (buffer_read, flash_read) = (Spread::of(&from_buffer), Spread::of(&from_flash));
        let is_apart = buffer_read.max_ns < flash_read.min_ns;
        let flash_read_min_ns = is_apart.then(|| u64::midpoint(buffer_read.max_ns, flash_read.min_ns));
        let mut found = Probe {
            device: self.port.geometry().name.clone(),
            buffer_read,
            flash_read,
            flash_read_min_ns,
            eviction_begins_bytes: None,
            eviction_certain_bytes: None,
            sizes: Vec::new(),
            persist: Vec::new(),
        };
        // Single reads are late on a busy machine. So only nine tenths of each kind must be apart, not all.
        let (slow_buffer, fast_flash) = (tenth(from_buffer, 9), tenth(from_flash, 1));
        if slow_buffer >= fast_flash {
            return Ok(found);
        }
        let line = u64::midpoint(slow_buffer, fast_flash);
        self.search(&mut found, line, bytes_max, progress).await?;
        if let Some(certain) = found.eviction_certain_bytes {
            for dirty_bytes in DIRTY_KIB.map(|kib| kib * KIB) {
                found.persist.push(self.persist(dirty_bytes, certain).await?);
            }
        }
        Ok(found)
    }

    /// Times of reads from the buffer, and of reads of the same pages from flash.
    async fn reads(&mut self) -> Result<(Vec<Nanos>, Vec<Nanos>), DeviceError> {
        let (mut from_buffer, mut from_flash, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..READS {
            let place = self.chance.below(self.port.geometry().pages);
            self.write(place, 1).await?;
            from_buffer.push(self.read(place).await?);
            places.push(place);
        }
        self.flush().await?;
        for place in places {
            from_flash.push(self.read(place).await?);
        }
        Ok((from_buffer, from_flash))
    }

    /// Tries larger and larger sizes until page 0 has left the buffer, then measures the last sizes again with more
    /// reads.
    async fn search(
        &mut self,
        found: &mut Probe,
        line: u64,
        bytes_max: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), DeviceError> {
        let mut bytes = FIRST_BYTES;
        while bytes <= bytes_max && !ends_in_flash(&found.sizes) {
            progress(bytes);
            found.sizes.push(self.size(bytes, line, READS_OF_SIZE).await?);
            bytes += (bytes / STEP_PART).max(STEP_BYTES).next_multiple_of(PAGE);
        }
        if !ends_in_flash(&found.sizes) {
            return Ok(());
        }
        let last_hit = found.sizes.iter().rposition(|size| size.from_flash < size.reads_ns.len() as u64);
        let near = last_hit.map_or(FIRST_BYTES, |index| found.sizes[index].bytes);
        let step = (near / 128).max(4 * PAGE).next_multiple_of(PAGE);
        for bytes in (1..=10).map(|number| near + number * step).filter(|bytes| *bytes <= bytes_max) {
            progress(bytes);
            found.sizes.push(self.size(bytes, line, READS_NEAR_END).await?);
        }
        found.sizes.sort_by_key(|size| size.bytes);
        let hit = |size: &SizeProbe| size.from_flash < size.reads_ns.len() as u64;
        let begins = found.sizes.iter().find(|size| size.from_flash > 0);
        found.eviction_begins_bytes = begins.map(|size| size.bytes);
        let certain = found.sizes.iter().rposition(hit).map_or(0, |index| index + 1);
        found.eviction_certain_bytes = found.sizes.get(certain).map(|size| size.bytes);
        Ok(())
    }

    async fn size(&mut self, bytes: u64, line: u64, reads: u64) -> Result<SizeProbe, DeviceError> {
        let mut reads_ns = Vec::new();
        for number in 0..reads {
            // Another page goes first, so that page 0 does not always take the same slot of the buffer.
            self.write(self.port.geometry().pages - 1 - number, 1).await?;
            self.flush().await?;
            self.fill(0, bytes / PAGE).await?;
            reads_ns.push(self.read(0).await?.0);
        }
        let from_flash = reads_ns.iter().filter(|read| **read > line).count() as u64;
        Ok(SizeProbe { bytes, reads_ns, from_flash })
    }

    async fn persist(&mut self, dirty_bytes: u64, spot_bytes: u64) -> Result<PersistProbe, DeviceError> {
        let (mut flushes, mut evictions) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            self.flush().await?;
            self.dirty(dirty_bytes).await?;
            flushes.push(self.timed(Request::flush(Cause::Data)).await?);
            self.dirty(dirty_bytes).await?;
            evictions.push(self.pad(spot_bytes / PAGE).await?);
        }
        Ok(PersistProbe { dirty_bytes, flush: Spread::of(&flushes), eviction: Spread::of(&evictions) })
    }

    /// Writes random pages of the first half.
    async fn dirty(&mut self, bytes: u64) -> Result<(), DeviceError> {
        for _ in 0..bytes / PAGE {
            let place = self.chance.below(self.port.geometry().pages / 2);
            self.write(place, 1).await?;
        }
        Ok(())
    }

    /// Writes zeros over the second half, around and around, in requests of the largest size, all at once.
    async fn pad(&mut self, pages: u64) -> Result<Nanos, DeviceError> {
        let (half, most) = (self.port.geometry().pages / 2, u64::from(self.port.geometry().transfer_pages_max));
        if self.zeros_at + pages > half {
            self.zeros_at = 0;
        }
        let start = half + self.zeros_at;
        self.zeros_at += pages;
        let begin = self.port.runtime().now();
        let mut under_way = Vec::new();
        for at in (0..pages).step_by(most as usize) {
            let zeros = vec![Page::ZEROS; most.min(pages - at) as usize];
            under_way.push(self.port.submit(Request::write(Lpn(start + at), zeros, Cause::Padding)));
        }
        for write in under_way {
            write.await?;
        }
        Ok(self.port.runtime().now() - begin)
    }

    async fn fill(&mut self, start: u64, pages: u64) -> Result<(), DeviceError> {
        let most = WRITE_PAGES.min(u64::from(self.port.geometry().transfer_pages_max));
        for at in (0..pages).step_by(most as usize) {
            self.write(start + at, most.min(pages - at)).await?;
        }
        Ok(())
    }

    async fn write(&mut self, start: u64, pages: u64) -> Result<(), DeviceError> {
        let mut fresh = || Page::pattern(Pattern { seed: self.chance.bits(), compressible_percent: 0 });
        let content = (0..pages).map(|_| fresh()).collect();
        self.port.submit(Request::write(Lpn(start), content, Cause::Data)).await.map(drop)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.port.submit(Request::flush(Cause::Data)).await.map(drop)
    }

    async fn read(&self, place: u64) -> Result<Nanos, DeviceError> {
        let operation = Operation::Read { start: Lpn(place), count: 1 };
        self.timed(Request::new(operation, Cause::Data)).await
    }

    async fn timed(&self, request: Request) -> Result<Nanos, DeviceError> {
        let begin = self.port.runtime().now();
        self.port.submit(request).await?;
        Ok(self.port.runtime().now() - begin)
    }
}

fn ends_in_flash(sizes: &[SizeProbe]) -> bool {
    let in_flash = |size: &&SizeProbe| size.from_flash == size.reads_ns.len() as u64;
    sizes.iter().rev().take_while(in_flash).count() >= SIZES_AFTER_LAST
}

/// The time that `tenths` tenths of the reads do not exceed.
fn tenth(mut spans: Vec<Nanos>, tenths: usize) -> u64 {
    spans.sort_unstable();
    spans.get(spans.len() * tenths / 10).map_or(0, |span| span.0)
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Executor, RamDisk};
    use onewrite_device::Profile;

    use super::*;

    fn probed(device: Box<dyn onewrite_block::Device>, bytes_max: u64) -> Result<Probe, LabError> {
        let executor = Executor::ideal();
        let port = executor.runtime().attach(device);
        let options = ProbeOptions { bytes_max, ..ProbeOptions::default() };
        executor.block_on(async move { probe(&port, options, |_| ()).await }).expect("nothing halts")
    }

    #[test]
    fn the_spot_of_every_buffered_profile_is_at_least_what_it_states() {
        for name in ["sata-850pro", "nvme-960pro", "nvme-share", "sata-530"] {
            let device = Profile::load(name).unwrap().device(Some(64 * MIB)).unwrap();
            let stated = device.geometry().write_buffer.unwrap();
            let found = probed(device, 32 * MIB).unwrap();
            let spot = found.eviction_spot().unwrap();
            assert!(
                (stated.eviction_certain_bytes..stated.eviction_certain_bytes * 3 / 2).contains(&spot.bytes),
                "{name}: {spot:?}"
            );
            let begins = found.eviction_begins_bytes.unwrap();
            assert!(begins >= stated.eviction_begins_bytes, "{name}: {begins} of {}", stated.eviction_begins_bytes);
            assert_eq!(Probe::from_json(name, &serde_json::to_string(&found).unwrap()).unwrap(), found);
        }
    }

    #[test]
    fn a_device_whose_reads_all_take_the_same_time_has_no_spot() {
        let found = probed(Box::new(RamDisk::volatile(4096)), 8 * MIB).unwrap();
        assert!(found.eviction_spot().is_none() && found.sizes.is_empty() && found.flash_read_min_ns.is_none());
        assert!(crate::draw::probe(&found).contains("no eviction spot was found"));
    }

    #[test]
    fn a_device_too_small_to_look_at_is_refused_with_the_cure() {
        let error = probed(Box::new(RamDisk::volatile(1024)), 8 * MIB).unwrap_err().to_string();
        assert!(error.contains("--max smaller"), "{error}");
    }
}
