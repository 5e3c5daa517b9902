//! Device: an after-cache trace replayed on an emulated device, as deep as its queue allows.
//!
//! Requests are submitted in the order of the trace, as many under way as the device's queue holds (NCQ); the next goes in
//! when one completes. The device has been filled once before, in order, and has come to rest, unless it is to be blank;
//! time and counters begin then. At the end a FLUSH empties its buffer, whose time counts.

use onewrite_block::{Cause, Completion, Lpn, Nanos, Operation, PAGE_SIZE, Page, Pattern, PowerCut, Request, Token};
use onewrite_cache::PageRequest;
use onewrite_device::Profile;
use onewrite_device::micro::Bench;
use serde::Serialize;

use crate::error::LabError;

/// Smallest device that a study makes by itself.
const LEAST_BYTES: u64 = Profile::RUN_BYTES;

/// Which device, and in which state.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// The device on paper.
    pub profile: Profile,
    /// Its capacity; none for the least power of two from 1 GiB on that holds the trace.
    pub size_bytes: Option<u64>,
    /// Not filled before.
    pub is_blank: bool,
}

/// What a device made of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Name of the profile.
    pub profile: String,
    /// Bytes of the device.
    pub size_bytes: u64,
    /// Requests under way at most.
    pub queue_depth: u32,
    /// From the first request until the last and a FLUSH are done, on the device's own clock.
    pub elapsed_seconds: f64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes programmed to flash.
    pub flash_program_bytes: u64,
    /// Bytes programmed for each byte written; none where there is no flash or nothing was written.
    pub waf: Option<f64>,
    /// Flash blocks erased.
    pub erases: u64,
    /// Pages moved by garbage collection and wear levelling.
    pub moved_pages: u64,
}

impl DevicePlan {
    /// Refuses pages that are not the device's.
    pub(super) fn check(&self, page_bytes: u64) -> Result<(), LabError> {
        match page_bytes.is_multiple_of(PAGE_SIZE as u64) {
            true => Ok(()),
            false => {
                let problem = format!("pages of {page_bytes} bytes on a device with pages of {PAGE_SIZE}");
                Err(LabError::Option(format!("{problem}; take a multiple for --page-size")))
            }
        }
    }

    /// A device that holds `end_bytes`.
    pub(super) fn open(&self, page_bytes: u64, end_bytes: u64) -> Result<Replayed, LabError> {
        const MOST_BYTES: u64 = 1 << 40;
        let needed = end_bytes.max(LEAST_BYTES);
        let size = self.size_bytes.unwrap_or(needed.checked_next_power_of_two().unwrap_or(u64::MAX));
        if end_bytes > size || size > MOST_BYTES {
            let cure = "give a larger --device-size, or take one volume or a part of the trace (onewrite trace cut)";
            let problem = format!("the trace reaches to byte {end_bytes}; the device has {size}, at most {MOST_BYTES}");
            return Err(LabError::Option(format!("{problem}: {cure}")));
        }
        let mut bench = Bench::new(self.profile.device(Some(size))?, 1);
        let pages = bench.device().geometry().pages;
        if !self.is_blank {
            bench.fill(pages);
        }
        bench.device_mut().reset_counters();
        Ok(Replayed::new(&self.profile.name, bench, page_bytes))
    }
}

/// A device in the middle of a trace.
pub(super) struct Replayed {
    profile: String,
    bench: Bench<dyn PowerCut>,
    begin: Nanos,
    now: Nanos,
    depth: u32,
    free: Vec<u32>,
    completed: Vec<Completion>,
    pages_each: u64,
    next_seed: u64,
}

impl Replayed {
    fn new(profile: &str, bench: Bench<dyn PowerCut>, page_bytes: u64) -> Replayed {
        let (begin, depth) = (bench.now(), bench.device().geometry().queue_depth);
        Replayed {
            profile: profile.to_owned(),
            bench,
            begin,
            now: begin,
            depth,
            free: (0..depth).collect(),
            completed: Vec::new(),
            pages_each: page_bytes / PAGE_SIZE as u64,
            next_seed: 1 << 40,
        }
    }

    /// Submits one request as soon as there is room for it.
    pub(super) fn take(&mut self, request: PageRequest) -> Result<(), LabError> {
        let start = request.page() * self.pages_each;
        let most = u64::from(self.bench.device().geometry().transfer_pages_max);
        let mut done = 0;
        while done < self.pages_each {
            let count = most.min(self.pages_each - done);
            let operation = self.operation(request.is_write(), Lpn(start + done), count);
            self.submit(operation)?;
            done += count;
        }
        Ok(())
    }

    fn operation(&mut self, is_write: bool, start: Lpn, count: u64) -> Operation {
        if !is_write {
            return Operation::Read { start, count: count as u32 };
        }
        let seeds = self.next_seed..self.next_seed + count;
        self.next_seed = seeds.end;
        let pages = seeds.map(|seed| Page::pattern(Pattern { seed, compressible_percent: 0 })).collect();
        Operation::Write { start, pages, fua: false }
    }

    fn submit(&mut self, operation: Operation) -> Result<(), LabError> {
        while self.free.is_empty() {
            self.wait()?;
        }
        let token = Token(self.free.pop().expect("there is room"));
        self.bench.device_mut().submit(token, Request::new(operation, Cause::Data), self.now);
        Ok(())
    }

    /// Lets time pass until the next event.
    fn wait(&mut self) -> Result<(), LabError> {
        self.now = self.bench.device().next_event().expect("a request under way has an event to come");
        self.bench.device_mut().advance(self.now, &mut self.completed);
        for completion in self.completed.drain(..) {
            self.free.push(completion.token.0);
            if let Err(source) = completion.outcome {
                let (job, operation) = (self.profile.clone(), "the after-cache trace".to_owned());
                return Err(LabError::Raw { job, operation, source });
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), LabError> {
        while self.free.len() < self.depth as usize {
            self.wait()?;
        }
        Ok(())
    }

    /// Ends the trace.
    pub(super) fn finish(mut self) -> Result<DeviceFigures, LabError> {
        self.drain()?;
        self.submit(Operation::Flush)?;
        self.drain()?;
        let device = self.bench.device();
        let counters = device.counters();
        Ok(DeviceFigures {
            profile: self.profile,
            size_bytes: device.geometry().pages * PAGE_SIZE as u64,
            queue_depth: self.depth,
            elapsed_seconds: (self.now - self.begin).as_secs_f64(),
            host_read_bytes: counters.host_read_bytes,
            host_write_bytes: counters.host_write_bytes(),
            flash_program_bytes: counters.flash_program_bytes,
            waf: counters.write_amplification(),
            erases: counters.erases,
            moved_pages: counters.moved_pages,
        })
    }
}
