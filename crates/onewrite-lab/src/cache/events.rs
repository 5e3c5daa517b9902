//! Events: the emulated device in full, event by event.

use onewrite_block::{
    Cause, Completion, Durable, Lpn, Nanos, Operation, PAGE_SIZE, Page, Pattern, PowerCut, Request, Token,
};
use onewrite_cache::Access;
use onewrite_device::Profile;
use onewrite_device::micro::Bench;

use super::figures::DeviceFigures;
use super::target::Target;
use crate::driver::Latencies;
use crate::error::LabError;
use crate::results::Distribution;

/// An emulated device with requests under way.
pub(super) struct Emulated {
    profile: String,
    bench: Bench<dyn PowerCut>,
    begin: Nanos,
    now: Nanos,
    depth: u32,
    free: Vec<u32>,
    completed: Vec<Completion>,
    next_seed: u64,
    /// When the request of each token was due.
    due: Vec<Nanos>,
    /// When the next requests are due; none if they are due at once.
    next_due: Option<Nanos>,
    responses: Latencies,
}

/// The profile with the page-level layer, whatever its own layer is; `layer` counts the others.
fn page_level(profile: &Profile) -> Result<Profile, LabError> {
    Ok(match profile.own_layer() {
        None => profile.clone(),
        Some(_) => profile.clone().with_layer(None)?,
    })
}

impl Emulated {
    /// Opens a device of `size_bytes` and fills it once in order, unless `is_blank`.
    pub(super) fn open(profile: &Profile, size_bytes: u64, is_blank: bool) -> Result<Emulated, LabError> {
        let mut bench = Bench::new(page_level(profile)?.device(Some(size_bytes))?, 1);
        let (pages, depth) = (bench.device().geometry().pages, bench.device().geometry().queue_depth);
        if !is_blank {
            bench.fill(pages);
        }
        Ok(Emulated {
            profile: profile.name.clone(),
            begin: bench.now(),
            now: bench.now(),
            bench,
            depth,
            free: (0..depth).collect(),
            completed: Vec::new(),
            next_seed: 1 << 40,
            due: vec![Nanos::ZERO; depth as usize],
            next_due: None,
            responses: Latencies::default(),
        })
    }

    fn operation(&mut self, access: Access, start: Lpn, count: u64) -> Operation {
        if access == Access::Read {
            return Operation::Read { start, count: count as u32 };
        }
        let seeds = self.next_seed..self.next_seed + count;
        self.next_seed = seeds.end;
        let pages = seeds.map(|seed| Page::pattern(Pattern { seed, compressible_percent: 0 })).collect();
        Operation::Write { start, pages, durable: Durable::AfterFlush }
    }

    fn submit_one(&mut self, operation: Operation) -> Result<(), LabError> {
        while self.free.is_empty() {
            self.wait()?;
        }
        let token = Token(self.free.pop().expect("there is room"));
        self.due[token.0 as usize] = self.next_due.unwrap_or(self.now);
        self.bench.device_mut().submit(token, Request::new(operation, Cause::Data), self.now);
        Ok(())
    }

    /// Lets time pass until the next event.
    fn wait(&mut self) -> Result<(), LabError> {
        self.now = self.bench.device().next_event().moment().expect("a request under way has an event to come");
        self.bench.device_mut().advance(self.now, &mut self.completed);
        for completion in self.completed.drain(..) {
            self.free.push(completion.token.0);
            if self.next_due.is_some() {
                self.responses.record(self.now.saturating_sub(self.due[completion.token.0 as usize]));
            }
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

    fn flush(&mut self) -> Result<(), LabError> {
        self.drain()?;
        self.submit_one(Operation::Flush)?;
        self.drain()
    }
}

impl Target for Emulated {
    fn pages(&self) -> u64 {
        self.bench.device().geometry().pages
    }

    fn transfer_pages_max(&self) -> u64 {
        u64::from(self.bench.device().geometry().transfer_pages_max)
    }

    fn submit(&mut self, access: Access, start: u64, count: u64) -> Result<(), LabError> {
        let operation = self.operation(access, Lpn(start), count);
        self.submit_one(operation)
    }

    fn begin(&mut self) -> Result<(), LabError> {
        self.flush()?;
        self.begin = self.now;
        self.bench.device_mut().reset_counters();
        Ok(())
    }

    fn wait_until(&mut self, since: Nanos) -> Result<(), LabError> {
        let due = self.begin + since;
        while self.bench.device().next_event().moment().is_some_and(|next| next <= due) {
            self.wait()?;
        }
        self.now = self.now.max(due);
        self.next_due = Some(due);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<DeviceFigures, LabError> {
        self.drain()?;
        let response_ns = self.next_due.take().map(|_| Distribution::new(&self.responses));
        self.flush()?;
        let device = self.bench.device();
        let counters = device.counters();
        Ok(DeviceFigures {
            profile: self.profile.clone(),
            size_bytes: device.geometry().pages * PAGE_SIZE as u64,
            queue_depth: self.depth,
            elapsed_seconds: (self.now - self.begin).as_secs_f64(),
            host_read_bytes: counters.host_read_bytes,
            host_write_bytes: counters.host_write_bytes(),
            flash_program_bytes: counters.flash_program_bytes,
            waf: counters.write_amplification(),
            erases: counters.erases,
            moved_pages: counters.moved_pages,
            response_ns,
            layer: None,
        })
    }
}
