//! FTL replay: map and garbage collection only. Prints host pages per second of processor time and memory per page.

use onewrite_block::GIB;
use onewrite_device::ftl::{Fast, FastPlan, Ftl, FtlPlan, Lpn};
use onewrite_device::waf;

/// Resident bytes of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Processor time of this process, in seconds. Other work on the machine does not count.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells the processor time");
    let nanos: u64 = text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number");
    nanos as f64 / 1e9
}

fn main() {
    memory_of_fast();
    let before = resident_bytes();
    let mut ftl = waf::Replay::new(4 << 20, 1024, 15);
    (0..4 << 20).for_each(|lpn| ftl.write(Lpn(lpn)));
    println!("ftl-replay bytes/page={:.2}", (resident_bytes() - before) as f64 / f64::from(4 << 20));
    ftl.check().expect("a sound FTL");
    drop(ftl);
    for (percent, range) in [(25, 16 * GIB), (25, GIB), (100, 16 * GIB)] {
        replay("page", percent, range, || waf::run(percent, range, 1));
        replay("fast", percent, range, || waf::run_fast(percent, range, 1, None));
    }
    for cache_kib in [64, 256, 1024, 8192, 32768] {
        let name = format!("dftl/{cache_kib} KiB cache");
        replay(&name, 25, 16 * GIB, || waf::run_dftl(25, 16 * GIB, 1, cache_kib << 10));
        replay(&name, 25, GIB, || waf::run_dftl(25, GIB, 1, cache_kib << 10));
    }
    for blocks in [50, 100, 200, 300, 400, 500] {
        replay(&format!("fast/{blocks} log blocks"), 25, 16 * GIB, || waf::run_fast(25, 16 * GIB, 1, Some(blocks)));
        replay(&format!("fast/{blocks} log blocks"), 25, GIB, || waf::run_fast(25, GIB, 1, Some(blocks)));
    }
}

fn memory_of_fast() {
    let before = resident_bytes();
    let space = FtlPlan::of_bytes(16 * GIB, 1024, 15.0);
    let mut ftl = Fast::new(FastPlan { space, random_blocks: None });
    (0..4 << 20).for_each(|lpn| assert!(ftl.write(Lpn(lpn)).is_ok()));
    println!("ftl-replay fast bytes/page={:.2}", (resident_bytes() - before) as f64 / f64::from(4 << 20));
}

fn replay(name: &str, percent: u32, range: u64, run: impl FnOnce() -> waf::Waf) {
    let start = processor_seconds();
    let found = run();
    let seconds = processor_seconds() - start;
    println!(
        "ftl-replay {name} utilization={percent}% range={}GiB waf={:.4} host_pages={} Mpages/s={:.2}",
        range / GIB,
        found.waf,
        found.host_pages,
        found.host_pages as f64 / seconds / 1e6
    );
}
