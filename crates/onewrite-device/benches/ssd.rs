//! SSD with full timing: 4 KiB random writes in steady garbage collection. Prints flash programs per second of
//! processor time, and memory early and late in the run.

use std::process::ExitCode;

use onewrite_block::{Cause, Choices, Device, GIB, Lpn, Nanos, PAGE_SIZE, Page, Pattern, Request, Token};
use onewrite_device::Profile;
use onewrite_testing::verdict;

/// Resident bytes of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Writes `count` pages with `depth` requests under way.
fn write(device: &mut dyn Device, now: &mut Nanos, count: u64, depth: u32, mut next: impl FnMut() -> u64) {
    let mut completed = Vec::new();
    let (mut submitted, mut under_way) = (0, 0);
    let mut free: Vec<u32> = (0..depth).collect();
    while submitted < count || under_way > 0 {
        while under_way < depth && submitted < count {
            let page = Page::pattern(Pattern { seed: submitted, compressible_percent: 0 });
            let token = Token(free.pop().expect("a free token"));
            device.submit(token, Request::write(Lpn(next()), vec![page], Cause::Data), *now);
            submitted += 1;
            under_way += 1;
        }
        while completed.is_empty() {
            *now = device.next_event().moment().expect("writes go on");
            device.advance(*now, &mut completed);
        }
        under_way -= completed.len() as u32;
        free.extend(completed.drain(..).map(|completion| completion.token.0));
    }
}

/// Processor time of this process, in seconds. Other work on the machine does not count.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells the processor time");
    let nanos: u64 = text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number");
    nanos as f64 / 1e9
}

/// Least million programs a second that we want; the ideal device has no aim.
const WANTED: f64 = 3.0;

fn main() -> ExitCode {
    for name in ["nvme-share", "sata-850pro", "ideal"] {
        let bytes = 2 * GIB;
        let pages = bytes / PAGE_SIZE as u64;
        let mut device = Profile::load(name).unwrap().device(Some(bytes)).unwrap();
        let (mut now, mut choices) = (Nanos::ZERO, Choices::new(1));
        let mut lpn = 0..pages;
        write(&mut *device, &mut now, pages, 32, || lpn.next().unwrap());
        write(&mut *device, &mut now, pages, 32, || choices.below(pages));
        let early = resident_bytes();
        device.reset_counters();
        let (start, moment) = (processor_seconds(), now);
        write(&mut *device, &mut now, pages, 32, || choices.below(pages));
        let seconds = processor_seconds() - start;
        let counters = device.counters();
        let programs = counters.flash_program_bytes / PAGE_SIZE as u64;
        println!(
            "ssd {name}: waf={:.2} map={:.3} Mprograms/s={:.2} Mhost/s={:.2} simulated_iops={:.0} memory early \
             {} MiB, late {} MiB {}",
            counters.write_amplification().unwrap(),
            counters.map_program_bytes as f64 / counters.host_write_bytes() as f64,
            programs as f64 / seconds / 1e6,
            pages as f64 / seconds / 1e6,
            pages as f64 / (now - moment).as_secs_f64(),
            early >> 20,
            resident_bytes() >> 20,
            if name == "ideal" { "" } else { verdict(programs as f64 / seconds / 1e6 >= WANTED) }
        );
        device.check().unwrap();
    }
    onewrite_testing::all_reached()
}
