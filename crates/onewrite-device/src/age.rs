//! Age: the past of a device, written before anything is measured.
//!
//! A new device has all its flash blank: the first writes go to free blocks and cost no collection and no merge. One that was in
//! use has none: what it costs to write then is what it costs for good. The past is another tenant's: every page holds something
//! (zeros, which take no memory), and nobody has trimmed it. When it is over, the device rests, its time and its counters begin
//! anew, and its wear stays.

use onewrite_block::{Cause, Choices, Device, Lpn, Nanos, Operation, PAGE_SIZE, Page, PowerCut, Request, Token};

use crate::ftl::FtlDevice;
use crate::ssd::Ssd;

/// What was written to a device before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Age {
    /// Nothing.
    #[default]
    New,
    /// Every page once, in order.
    Filled,
    /// After that single pages at random over the whole device, until write amplification has come to rest or two capacities
    /// are written.
    Steady,
}

/// Seed of the random places.
const SEED: u64 = 1;
/// Random writes end after so many capacities.
const CAPACITIES_MAX: u64 = 2;
/// Write amplification rests when it differs by less than this share between two spans.
const RESTS_WITHIN: f64 = 0.03;

impl Age {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Age::New => "none",
            Age::Filled => "filled",
            Age::Steady => "steady",
        }
    }
}

/// How write amplification is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    /// Pages of a span.
    pub(crate) pages: u64,
    /// Spans that are not judged.
    pub(crate) ignored: u64,
}

impl Spans {
    /// For layers that collect when their spare blocks are used up: that must have happened.
    pub(crate) fn of_pages(logical_pages: u64) -> Spans {
        Spans { pages: (logical_pages / 8).max(1), ignored: 4 }
    }

    /// For layers with log blocks, which merge as soon as these are full.
    pub(crate) fn of_blocks(logical_pages: u64, log_pages: u64) -> Spans {
        Spans { pages: log_pages.clamp(1, (logical_pages / 8).max(1)), ignored: 2 }
    }
}

/// Writes pages at random until write amplification rests; `write` takes a span of places and gives the flash pages programmed.
pub(crate) fn until_steady(logical_pages: u64, spans: Spans, mut write: impl FnMut(&[u32]) -> u64) {
    let mut choices = Choices::new(SEED).stream("age", 0);
    let mut before = f64::INFINITY;
    for span in 0..(CAPACITIES_MAX * logical_pages).div_ceil(spans.pages) {
        let places: Vec<u32> = (0..spans.pages).map(|_| choices.below(logical_pages) as u32).collect();
        let programmed = write(&places) as f64 / spans.pages as f64;
        if span >= spans.ignored && (programmed - before).abs() <= RESTS_WITHIN * before {
            return;
        }
        before = programmed;
    }
}

impl FtlDevice {
    /// The device with this past; it must be new.
    pub fn aged(mut self, age: Age) -> FtlDevice {
        self.grow_old(age);
        self
    }
}

impl Ssd {
    /// The device with this past; it must be new.
    pub fn aged(mut self, age: Age) -> Ssd {
        if age == Age::New {
            return self;
        }
        let pages = self.geometry().pages;
        let most = u64::from(self.geometry().transfer_pages_max);
        let mut now = Nanos::ZERO;
        let runs = (0..pages).step_by(most as usize).map(|start| (start, most.min(pages - start)));
        write_all(&mut self, &mut now, runs);
        if age == Age::Steady {
            until_steady(pages, Spans::of_pages(pages), |places| {
                let before = self.counters().flash_program_bytes;
                write_all(&mut self, &mut now, places.iter().map(|lpn| (u64::from(*lpn), 1)));
                (self.counters().flash_program_bytes - before) / PAGE_SIZE as u64
            });
        }
        flush(&mut self, &mut now);
        self.begin_anew();
        self
    }
}

/// Writes zeros to runs of pages, as many at once as the queue holds.
fn write_all(device: &mut dyn PowerCut, now: &mut Nanos, runs: impl Iterator<Item = (u64, u64)>) {
    let depth = device.geometry().queue_depth;
    let mut free: Vec<u32> = (0..depth).collect();
    for (start, count) in runs {
        while free.is_empty() {
            wait(device, now, &mut free);
        }
        let pages = vec![Page::ZEROS; count as usize];
        let token = Token(free.pop().expect("one is free"));
        let operation = Operation::Write { start: Lpn(start), pages, fua: false };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_writes_end_when_amplification_rests_or_after_two_capacities() {
        let mut spans = 0;
        until_steady(8000, Spans::of_pages(8000), |places| {
            spans += 1;
            places.len() as u64 * 2
        });
        assert_eq!(spans, 5, "the first is compared with none, four are not judged");
        let mut spans = 0;
        until_steady(8000, Spans::of_pages(8000), |places| {
            spans += 1;
            places.len() as u64 * spans
        });
        assert_eq!(spans, 16);
    }
}
