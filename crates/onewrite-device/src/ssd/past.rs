//! Past: requests give a device its past, in its own time.

use onewrite_block::{Cause, Device, Durable, Lpn, Nanos, Operation, PAGE_SIZE, Page, PowerCut, Request, Token};

use super::Ssd;
use crate::age::{Age, Spans, until_steady};

impl Ssd {
    /// The device with this past; it must be new.
    pub fn aged(mut self, age: Age) -> Ssd {
        if age == Age::New {
            return self;
        }
        let pages = self.geometry().pages;
        let most = u64::from(self.geometry().transfer_pages_max);
        let mut now = Nanos::ZERO;
        let run = |start| Run { start: Lpn(start), pages: most.min(pages - start) };
        let runs = (0..pages).step_by(most as usize).map(run);
        write_all(&mut self, &mut now, runs);
        if age == Age::Steady {
            until_steady(pages, Spans::of_pages(pages), |random| {
                let before = self.counters().flash_program_bytes;
                write_all(&mut self, &mut now, random.iter().map(|lpn| Run { start: lpn.wide(), pages: 1 }));
                (self.counters().flash_program_bytes - before) / PAGE_SIZE as u64
            });
        }
        flush(&mut self, &mut now);
        self.begin_anew();
        self
    }
}

/// Consecutive pages.
struct Run {
    start: Lpn,
    pages: u64,
}

/// Writes zeros to runs of pages, with a full queue.
fn write_all(device: &mut dyn PowerCut, now: &mut Nanos, runs: impl Iterator<Item = Run>) {
    let depth = device.geometry().queue_depth;
    let mut free: Vec<u32> = (0..depth).collect();
    for run in runs {
        while free.is_empty() {
            wait(device, now, &mut free);
        }
        let pages = vec![Page::ZEROS; run.pages as usize];
        let token = Token(free.pop().expect("one is free"));
        let operation = Operation::Write { start: run.start, pages, durable: Durable::AfterFlush };
        device.submit(token, Request::new(operation, Cause::Data), *now);
    }
    while free.len() < depth as usize {
        wait(device, now, &mut free);
    }
}

fn flush(device: &mut dyn PowerCut, now: &mut Nanos) {
    device.submit(Token(0), Request::flush(Cause::Data), *now);
    let mut free = Vec::new();
    while device.next_event().moment().is_some() {
        wait(device, now, &mut free);
    }
}

/// Lets the next event happen.
fn wait(device: &mut dyn PowerCut, now: &mut Nanos, free: &mut Vec<u32>) {
    *now = device.next_event().moment().expect("a request under way has an event to come");
    let mut completed = Vec::new();
    device.advance(*now, &mut completed);
    for completion in completed {
        completion.outcome.expect("a new device takes every write");
        free.push(completion.token.0);
    }
}
