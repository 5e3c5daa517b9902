//! Micro-benchmark: the behaviour of a device, measured with requests only.
//!
//! Everything runs on any [`Device`] in its own time and gives serialisable results. It measures throughput and latency
//! by pattern, operation and depth; the cost of FLUSH against dirty bytes; a read from the buffer against a read from
//! flash, and the sizes at which pages leave the buffer (`papers/003` §3.1); the cost of an fsync after every hundred
//! writes (`papers/001` §6.1). [`measure`] does all of it; the parts can be called alone.

use onewrite_block::{
    Cause, Choices, Completion, Device, Durable, KIB, Lpn, MIB, Nanos, Operation, PAGE_SIZE, Page, Pattern, PowerCut,
    Request, Token,
};
use serde::Serialize;

use crate::error::Error;
use crate::latency::{Latencies, Latency};
use crate::profile::Profile;

const PAGE: u64 = PAGE_SIZE as u64;
/// Repetitions of each size in the buffer probe. Each repetition first writes some more pages.
const PROBE_PHASES: u64 = 24;
const PROBE_PHASE_PAGES: u64 = 1;
/// Bytes written before and during the measurement of a sustained speed: more than any buffer holds.
const WARM_UP_BYTES: u64 = 64 * MIB;
const SUSTAINED_BYTES: u64 = 32 * MIB;
/// Pages in one write of the buffer probe.
const PROBE_PAGES: u64 = 8;

/// A load on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Random addresses, or ascending ones.
    pub is_random: bool,
    /// Writes, or reads.
    pub is_write: bool,
    /// Bytes in a request.
    pub request_bytes: u64,
    /// Requests under way.
    pub depth: u32,
    /// Writes between two FLUSHes; 0 for none. The load waits for each FLUSH.
    pub flush_every: u64,
}

/// Results of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// The load.
    pub load: Load,
    /// Requests per second; zero if the device takes no time.
    pub iops: f64,
    /// Megabytes (10⁶) per second.
    pub mb_s: f64,
    /// Latency of a request.
    pub latency: Latency,
}

/// Cost of a FLUSH after writes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlushCost {
    /// Bytes written since the last FLUSH.
    pub dirty_bytes: u64,
    /// Time of the FLUSH.
    pub nanos: u64,
}

/// A read from the buffer against a read from flash, and when pages leave the buffer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BufferProbe {
    /// Time of a 4 KiB read just after its write.
    pub buffer_read_nanos: u64,
    /// Time of a 4 KiB read after write and FLUSH.
    pub flash_read_nanos: u64,
    /// From this many bytes written on, page 0 is sometimes read from flash; `None` if never up to 8 MiB.
    pub eviction_begins_bytes: Option<u64>,
    /// From this many bytes written on, page 0 is always read from flash.
    pub eviction_certain_bytes: Option<u64>,
}

/// The largest drop of write throughput by an fsync after every hundred writes.
#[derive(Clone, Debug, Serialize)]
pub struct SyncDrop {
    /// Throughput without fsync divided by throughput with it, at the worst point.
    pub times: f64,
    /// The load at that point, with its FLUSHes.
    pub worst: Load,
}

/// All results of [`measure`].
#[derive(Clone, Debug, Serialize)]
pub struct Micro {
    /// Name of the profile.
    pub profile: String,
    /// Measured capacity.
    pub capacity_bytes: u64,
    /// Random and sequential, read and write, depth 1 and 32.
    pub throughput: Vec<Throughput>,
    /// FLUSH against dirty bytes.
    pub flush: Vec<FlushCost>,
    /// Buffer against flash.
    pub buffer: BufferProbe,
    /// FLUSH against none.
    pub sync_drop: SyncDrop,
}

/// A device under load, and its time.
pub struct Bench<D: Device + ?Sized = dyn PowerCut> {
    device: Box<D>,
    now: Nanos,
    choices: Choices,
    next_seed: u64,
    completed: Vec<Completion>,
}

impl<D: Device + ?Sized> Bench<D> {
    /// Loads `device` from now on; `seed` gives the random addresses.
    pub fn new(device: Box<D>, seed: u64) -> Bench<D> {
        let choices = Choices::new(seed).stream("micro", 0);
        Bench { device, now: Nanos::ZERO, choices, next_seed: 1, completed: Vec::new() }
    }

    /// The same bench for a device whose time is already `now`.
    pub fn starting_at(self, now: Nanos) -> Bench<D> {
        Bench { now, ..self }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to set it up or to take records out.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The device's time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    fn content(&mut self, pages: u64) -> Vec<Page> {
        let start = self.next_seed;
        self.next_seed += pages;
        (start..start + pages).map(|seed| Page::pattern(Pattern { seed, compressible_percent: 0 })).collect()
    }

    fn operation(&mut self, load: Load, number: u64, range_pages: u64) -> Operation {
        let pages = load.request_bytes / PAGE;
        let places = range_pages / pages;
        let place = if load.is_random { self.choices.below(places) } else { number % places };
        let start = Lpn(place * pages);
        if load.is_write {
            Operation::Write { start, pages: self.content(pages), durable: Durable::AfterFlush }
        } else {
            Operation::Read { start, count: pages as u32 }
        }
    }

    /// Runs one operation and returns its time.
    ///
    /// # Panics
    /// If the device refuses it: the benchmark needs a device that works.
    pub fn one(&mut self, operation: Operation) -> Nanos {
        let start = self.now;
        self.device.submit(Token(u32::MAX), Request::new(operation, Cause::Data), start);
        self.wait();
        self.completed.clear();
        self.now - start
    }

    /// Reads pages, one request at a time.
    ///
    /// # Panics
    /// If the device fails to read them.
    pub fn read(&mut self, start: Lpn, count: u32) -> Vec<Page> {
        let request = Request::read(start, count, Cause::Data);
        self.device.submit(Token(u32::MAX), request, self.now);
        self.wait();
        self.completed.drain(..).flat_map(|completion| completion.outcome.expect("seen to be good")).collect()
    }

    fn wait(&mut self) {
        while self.completed.is_empty() {
            self.now = self.device.next_event().moment().expect("a request under way has an event to come");
            self.device.advance(self.now, &mut self.completed);
        }
        for completion in &self.completed {
            if let Err(error) = &completion.outcome {
                panic!("the device failed under load: {error}");
            }
        }
    }

    /// Runs until all background work has ended.
    pub fn run_until_idle(&mut self) {
        while let Some(moment) = self.device.next_event().moment() {
            self.now = moment;
            self.device.advance(moment, &mut self.completed);
        }
        self.completed.clear();
    }

    /// Fills the first `pages` pages in order and makes them durable.
    pub fn fill(&mut self, pages: u64) {
        let most = u64::from(self.device.geometry().transfer_pages_max).min(64);
        for start in (0..pages).step_by(most as usize) {
            let content = self.content(most.min(pages - start));
            self.one(Operation::Write { start: Lpn(start), pages: content, durable: Durable::AfterFlush });
        }
        self.one(Operation::Flush);
        self.run_until_idle();
    }

    /// Runs `requests` requests of `load` over the first `range_pages` pages.
    pub fn run(&mut self, load: Load, requests: u64, range_pages: u64) -> Throughput {
        let start = self.now;
        let depth = load.depth.min(self.device.geometry().queue_depth);
        let mut latencies = Latencies::default();
        let mut submitted_at = vec![Nanos::ZERO; depth as usize];
        let mut free: Vec<u32> = (0..depth).collect();
        let mut submitted = 0;
        while submitted < requests || free.len() < depth as usize {
            while submitted < requests && !free.is_empty() {
                if load.flush_every > 0 && submitted % load.flush_every == 0 && submitted > 0 {
                    self.drain(&mut free, &submitted_at, &mut latencies, depth);
                    self.one(Operation::Flush);
                }
                let token = free.pop().expect("one is free");
                let operation = self.operation(load, submitted, range_pages);
                submitted_at[token as usize] = self.now;
                self.device.submit(Token(token), Request::new(operation, Cause::Data), self.now);
                submitted += 1;
            }
            self.collect(&mut free, &submitted_at, &mut latencies);
        }
        let seconds = (self.now - start).as_secs_f64();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        Throughput {
            load,
            iops: per_second(requests as f64),
            mb_s: per_second((requests * load.request_bytes) as f64 / 1e6),
            latency: latencies.summary(),
        }
    }

    fn collect(&mut self, free: &mut Vec<u32>, submitted_at: &[Nanos], latencies: &mut Latencies) {
        self.wait();
        for completion in self.completed.drain(..) {
            latencies.record(self.now - submitted_at[completion.token.0 as usize]);
            free.push(completion.token.0);
        }
    }

    fn drain(&mut self, free: &mut Vec<u32>, submitted_at: &[Nanos], latencies: &mut Latencies, depth: u32) {
        while free.len() < depth as usize {
            self.collect(free, submitted_at, latencies);
        }
    }
}

/// Random and sequential, read and write, depth 1 and 32: 4 KiB random, 128 KiB sequential.
///
/// # Errors
/// If no device of that size can be made.
pub fn throughput(profile: &Profile, capacity_bytes: u64) -> Result<Vec<Throughput>, Error> {
    let mut found = Vec::new();
    for is_write in [false, true] {
        for is_random in [true, false] {
            for depth in [1, 32] {
                let mut bench = Bench::new(profile.device(Some(capacity_bytes))?, 1);
                let pages = bench.device().geometry().pages;
                let range = if is_write && profile.flash.is_some() { pages } else { pages / 2 };
                if !is_write {
                    bench.fill(range);
                }
                let request_bytes = if is_random { 4 * KIB } else { 128 * KIB };
                let load = Load { is_random, is_write, request_bytes, depth, flush_every: 0 };
                let requests = (range * PAGE / request_bytes).min(if is_random { 20_000 } else { 4_000 });
                found.push(bench.run(load, requests, range));
            }
        }
    }
    Ok(found)
}

/// A FLUSH after 0 bytes to 2 MiB of random 4 KiB writes.
///
/// # Errors
/// If no device of that size can be made.
pub(crate) fn flush_costs(profile: &Profile, capacity_bytes: u64) -> Result<Vec<FlushCost>, Error> {
    let mut bench = Bench::new(profile.device(Some(capacity_bytes))?, 1);
    let pages = bench.device().geometry().pages;
    let sizes = [0, 4, 16, 64, 256, 1024, 2048].map(|kib| kib * KIB);
    let cost = |dirty_bytes: u64| {
        bench.run_until_idle();
        let load = Load { is_random: true, is_write: true, request_bytes: PAGE, depth: 1, flush_every: 0 };
        if dirty_bytes > 0 {
            bench.run(load, dirty_bytes / PAGE, pages);
        }
        FlushCost { dirty_bytes, nanos: bench.one(Operation::Flush).0 }
    };
    Ok(sizes.map(cost).to_vec())
}

/// Measures the write buffer as `papers/003` §3.1 did: writes some bytes in order and reads page 0. The latency shows
/// where the page was.
///
/// # Errors
/// If no device of that size can be made.
pub fn probe_buffer(profile: &Profile, capacity_bytes: u64) -> Result<BufferProbe, Error> {
    let mut bench = Bench::new(profile.device(Some(capacity_bytes))?, 1);
    let read = Operation::Read { start: Lpn(0), count: 1 };
    bench.one(Operation::Write {
        start: Lpn(0),
        pages: vec![Page::from_slice(b"probe")],
        durable: Durable::AfterFlush,
    });
    let buffer_read = bench.one(read.clone());
    bench.one(Operation::Flush);
    bench.run_until_idle();
    let flash_read = bench.one(read);
    let is_flash = |read: Nanos| read.0 > (buffer_read.0 + flash_read.0) / 2;
    let mut hits = Vec::new();
    for bytes in (1..=2048).map(|count| count * PAGE).filter(|bytes| bytes % (32 * KIB) == 0) {
        let mut reads = Vec::new();
        for phase in 0..PROBE_PHASES {
            let mut bench = Bench::new(profile.device(Some(capacity_bytes))?, 1);
            reads.push(is_flash(bench.read_after_writing(bytes, phase * PROBE_PHASE_PAGES)));
        }
        hits.push((bytes, reads));
    }
    let differ = flash_read.0 > buffer_read.0;
    let begins = hits.iter().find(|(_, reads)| reads.contains(&true)).map(|(bytes, _)| *bytes).filter(|_| differ);
    let last_hit = hits.iter().rposition(|(_, reads)| reads.contains(&false));
    let certain = last_hit.and_then(|index| hits.get(index + 1)).map(|(bytes, _)| *bytes).filter(|_| differ);
    Ok(BufferProbe {
        buffer_read_nanos: buffer_read.0,
        flash_read_nanos: flash_read.0,
        eviction_begins_bytes: begins,
        eviction_certain_bytes: certain,
    })
}

impl<D: Device + ?Sized> Bench<D> {
    /// Writes `earlier` pages elsewhere, empties the buffer, writes `bytes` from page 0 on, and reads page 0.
    fn read_after_writing(&mut self, bytes: u64, earlier: u64) -> Nanos {
        let end = self.device.geometry().pages;
        for lpn in end - earlier..end {
            let pages = self.content(1);
            self.one(Operation::Write { start: Lpn(lpn), pages, durable: Durable::AfterFlush });
        }
        self.one(Operation::Flush);
        let most = PROBE_PAGES.min(u64::from(self.device.geometry().transfer_pages_max));
        for start in (0..bytes / PAGE).step_by(most as usize) {
            let pages = self.content(most.min(bytes / PAGE - start));
            self.one(Operation::Write { start: Lpn(start), pages, durable: Durable::AfterFlush });
        }
        self.one(Operation::Read { start: Lpn(0), count: 1 })
    }
}

/// The largest drop of write throughput by an fsync after every hundred writes: block sizes of 4 KiB to 1 MiB,
/// sequential and random, depth 64. An fsync is a FLUSH here: the work of the file system is not part of the device.
///
/// # Errors
/// If no device of that size can be made.
pub fn sync_drop(profile: &Profile, capacity_bytes: u64) -> Result<SyncDrop, Error> {
    let mut worst: Option<SyncDrop> = None;
    for is_random in [false, true] {
        for request_bytes in [4, 64, 1024].map(|kib| kib * KIB) {
            let mut speeds = [0.0; 2];
            let load = Load { is_random, is_write: true, request_bytes, depth: 64, flush_every: 100 };
            for (speed, flush_every) in speeds.iter_mut().zip([0, 100]) {
                let mut bench = Bench::new(profile.device(Some(capacity_bytes))?, 1);
                let most = u64::from(bench.device().geometry().transfer_pages_max) * PAGE;
                let load = Load { flush_every, request_bytes: request_bytes.min(most), ..load };
                let pages = bench.device().geometry().pages;
                bench.run(load, WARM_UP_BYTES / load.request_bytes, pages);
                *speed = bench.run(load, SUSTAINED_BYTES / load.request_bytes, pages).mb_s;
            }
            let times = if speeds[1] > 0.0 { speeds[0] / speeds[1] } else { 1.0 };
            if worst.as_ref().is_none_or(|worst| times > worst.times) {
                worst = Some(SyncDrop { times, worst: load });
            }
        }
    }
    Ok(worst.expect("several loads were run"))
}

/// Measures everything on devices of `capacity_bytes`.
///
/// # Errors
/// If no device of that size can be made.
pub fn measure(profile: &Profile, capacity_bytes: u64) -> Result<Micro, Error> {
    Ok(Micro {
        profile: profile.name.clone(),
        capacity_bytes,
        throughput: throughput(profile, capacity_bytes)?,
        flush: flush_costs(profile, capacity_bytes)?,
        buffer: probe_buffer(profile, capacity_bytes)?,
        sync_drop: sync_drop(profile, capacity_bytes)?,
    })
}
