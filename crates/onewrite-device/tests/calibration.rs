//! The calibration rows of the scoreboard: a device must show the values to which its profile was fitted.

use onewrite_block::{Durable, Lpn, MIB, Operation, Page};
use onewrite_device::Profile;
use onewrite_device::micro::{self, Bench, Load};

const BYTES: u64 = 256 * MIB;

fn profile(name: &str) -> Profile {
    Profile::load(name).unwrap()
}

fn assert_near(what: &str, measured: f64, paper: f64, within: f64) {
    println!("{what}: measured {measured:.3}, paper {paper}");
    assert!((measured / paper - 1.0).abs() <= within, "{what}: measured {measured:.3}, paper {paper} within {within}");
}

#[test]
fn buffer_and_flash_reads_of_the_850_pro_are_the_papers() {
    let found = micro::probe_buffer(&profile("sata-850pro"), BYTES).unwrap();
    assert_near("cal-zp-buffer-read, ms", found.buffer_read_nanos as f64 / 1e6, 0.029, 0.02);
    assert_near("cal-zp-flash-read, ms", found.flash_read_nanos as f64 / 1e6, 0.227, 0.02);
    assert_near("cal-zp-eviction-begins, MB", found.eviction_begins_bytes.unwrap() as f64 / 1e6, 1.8, 0.05);
    assert_near("cal-zp-eviction-certain, MB", found.eviction_certain_bytes.unwrap() as f64 / 1e6, 2.3, 0.05);
}

#[test]
fn the_share_device_is_as_fast_as_the_dissertation_says() {
    let load = |is_write| Load { is_random: true, is_write, request_bytes: 4096, depth: 128, flush_every: 0 };
    let bytes = 2048 * MIB;
    let pages = bytes / 4096;
    let mut bench = Bench::new(profile("nvme-share").device(Some(bytes)).unwrap(), 1);
    let write = bench.run(load(true), 40_000, pages);
    assert_near("cal-share-ssd, K IOPS", write.iops / 1e3, 280.0, 0.05);
    let mut bench = Bench::new(profile("nvme-share").device(Some(bytes)).unwrap(), 1);
    bench.fill(pages);
    let read = bench.run(load(false), 40_000, pages);
    assert_near("cal-share-read, K IOPS", read.iops / 1e3, 360.0, 0.05);
}

#[test]
fn a_measurement_tells_of_every_pattern() {
    for name in ["sata-530", "nvme-p3600", "hdd-barracuda", "ideal"] {
        let found = micro::measure(&profile(name), 32 * MIB).unwrap();
        assert_eq!((found.throughput.len(), found.flush.len()), (8, 7));
        if name != "ideal" {
            assert!(found.throughput.iter().all(|row| row.iops > 0.0 && row.latency.p50 <= row.latency.max));
        }
        let flush = |index: usize| found.flush[index].nanos;
        assert!(flush(6) >= flush(0), "{name}: {:?}", found.flush);
        for row in &found.throughput {
            println!("{name} {:?} {:.0} iops {:.1} MB/s {:?}", row.load, row.iops, row.mb_s, row.latency);
        }
        println!("{name} {:?} {:?}", found.flush, found.buffer);
    }
}

#[test]
fn a_read_of_the_hard_disk_takes_a_seek_and_half_a_turn() {
    let mut bench = Bench::new(profile("hdd-barracuda").device(Some(1024 * MIB)).unwrap(), 1);
    let load = Load { is_random: true, is_write: false, request_bytes: 4096, depth: 1, flush_every: 0 };
    let found = bench.run(load, 2000, 1024 * MIB / 4096);
    let mean_ms = found.latency.mean as f64 / 1e6;
    assert!((5.0..8.0).contains(&mean_ms), "half a turn is 4.2 ms, a short seek 1 to 2: {mean_ms}");
    let sequential = Load { is_random: false, request_bytes: 131_072, ..load };
    let mb_s = bench.run(sequential, 2000, 1024 * MIB / 4096).mb_s;
    assert!((110.0..160.0).contains(&mb_s), "{mb_s} MB/s");
    bench.one(Operation::Write { start: Lpn(9), pages: vec![Page::ZEROS], durable: Durable::AfterFlush });
}
