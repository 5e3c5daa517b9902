//! What is served beside what: SATA keeps FLUSH and TRIM alone, reads go before programs that wait, a FLUSH costs what
//! it has to write.

use onewrite_block::{
    Cause, Choices, Completion, Durable, GIB, Lpn, MIB, Nanos, Operation, Page, PowerCut, Request, Token,
};
use onewrite_device::micro::{Bench, Load};
use onewrite_device::{Layer, MapLogKind, Profile, ftl};

const RANDOM_WRITES: Load = Load { is_random: true, is_write: true, request_bytes: 4096, depth: 32, flush_every: 0 };
const RANDOM_READS: Load = Load { is_write: false, ..RANDOM_WRITES };
const WRITES: Load = Load { is_random: false, request_bytes: 131_072, ..RANDOM_WRITES };

fn profile(name: &str) -> Profile {
    Profile::load(name).unwrap()
}

fn write(start: u64) -> Operation {
    Operation::Write { start: Lpn(start), pages: vec![Page::from_slice(b"content")], durable: Durable::AfterFlush }
}

/// The moments at which `operations` end, all submitted at once behind 64 writes and a pause that leaves them buffered.
fn ends(name: &str, operations: Vec<Operation>) -> Vec<u64> {
    let mut device = profile(name).device(Some(64 * MIB)).unwrap();
    let (mut now, mut completed) = (Nanos::ZERO, Vec::new());
    for start in 0..64 {
        now = one(&mut *device, now, write(start));
    }
    let count = operations.len();
    for (token, operation) in operations.into_iter().enumerate() {
        device.submit(Token(token as u32), Request::new(operation, Cause::Data), now);
    }
    let mut ends = vec![0; count];
    while completed.len() < count {
        let moment = device.next_event().moment().unwrap();
        let before = completed.len();
        device.advance(moment, &mut completed);
        completed[before..].iter().for_each(|one: &Completion| ends[one.token.0 as usize] = moment.0);
    }
    ends
}

fn one(device: &mut dyn PowerCut, now: Nanos, operation: Operation) -> Nanos {
    let mut completed = Vec::new();
    device.submit(Token(0), Request::new(operation, Cause::Data), now);
    loop {
        let moment = device.next_event().moment().unwrap();
        device.advance(moment, &mut completed);
        if !completed.is_empty() {
            return moment;
        }
    }
}

#[test]
fn nothing_is_served_inside_a_flush_of_sata() {
    let read = |start| Operation::Read { start: Lpn(start), count: 1 };
    for name in ["sata-850pro", "sata-530", "ssd-tlc-120g", "hdd-barracuda"] {
        let ends = ends(name, vec![write(70), Operation::Flush, write(71), read(3), Operation::Flush, write(72)]);
        assert!(ends[0] < ends[1] && ends[1] < ends[2].min(ends[3]), "{name}: {ends:?}");
        assert!(ends[2].max(ends[3]) < ends[4] && ends[4] < ends[5], "{name}: {ends:?}");
    }
    let ends = ends("nvme-960pro", vec![write(70), Operation::Flush, write(71), read(3)]);
    assert!(ends[2].max(ends[3]) < ends[1], "NVMe queues a FLUSH: {ends:?}");
}

#[test]
fn a_trim_of_sata_waits_for_the_writes_before_it() {
    let trim = Operation::Trim { start: Lpn(0), count: 8 };
    let read = Operation::Read { start: Lpn(3), count: 1 };
    let sata = ends("sata-850pro", vec![write(70), trim.clone(), read.clone()]);
    assert!(sata[0] < sata[1] && sata[1] < sata[2], "{sata:?}");
    let nvme = ends("nvme-960pro", vec![write(70), trim, read]);
    assert!(nvme[2] < nvme[1], "{nvme:?}");
}

/// Data sheet of the 850 PRO of 128 GB: 470 MB/s in sequence, 90,000 random writes of 4 KiB (369 MB/s).
#[test]
fn the_850_pro_writes_in_sequence_and_at_random_as_its_data_sheet_says() {
    let speed = |load: Load, requests| {
        let mut bench = Bench::new(profile("sata-850pro").device(Some(4 * GIB)).unwrap(), 1);
        let pages = bench.device().geometry().pages;
        bench.run(load, requests / 4, pages);
        bench.run(load, requests, pages)
    };
    let (sequence, random) = (speed(WRITES, 6_000).mb_s, speed(RANDOM_WRITES, 100_000).iops / 1e3);
    println!("sequential {sequence:.0} MB/s, random {random:.1} K IOPS");
    assert!((0.95..1.05).contains(&(sequence / 470.0)), "{sequence} MB/s");
    assert!((0.95..1.05).contains(&(random / 90.0)), "{random} K IOPS");
}

/// Time of a FLUSH after `writes` writes, at random or in order.
fn flush(map_log: MapLogKind, is_random: bool) -> Nanos {
    let mut profile = profile("sata-850pro");
    profile.flash.as_mut().unwrap().map_log = map_log;
    let mut bench = Bench::new(profile.device(Some(4 * GIB)).unwrap(), 1);
    let pages = bench.device().geometry().pages;
    bench.run(Load { is_random, ..RANDOM_WRITES }, 64, pages);
    bench.one(Operation::Flush)
}

#[test]
fn whole_segments_make_a_flush_of_scattered_writes_dearer_and_records_do_not() {
    let times = |map_log| [true, false].map(|is_random| flush(map_log, is_random).0);
    let ([scattered, ordered], [as_records, in_order]) = (times(MapLogKind::Segments), times(MapLogKind::Records));
    assert!(scattered > ordered + 10_000_000, "64 segments of 0.3 ms each: {scattered}, in order {ordered}");
    assert!(as_records.abs_diff(in_order) < 1_000_000, "{as_records}, in order {in_order}");
}

/// Requests that write, beside one that reads.
const WRITERS: u32 = 31;

/// Mean latency of reads one after another while others write all the time, on a device with a layer of its own.
fn read_beside_writes(change: impl Fn(&mut Profile)) -> f64 {
    let mut profile = profile("ssd-tlc-120g").with_layer(Some(Layer::Dftl { cache_bytes: Some(1 << 20) })).unwrap();
    change(&mut profile);
    let device: Box<dyn PowerCut> = Box::new(profile.ftl_device(Some(256 * MIB)).unwrap());
    let mut bench = Bench::new(device, 1);
    bench.fill(32_768);
    let (mut choices, mut completed, mut now) = (Choices::new(1), Vec::new(), bench.now());
    let (mut submitted, mut reads, mut total) = (Nanos::ZERO, 0, 0);
    let mut free: Vec<u32> = (0..=WRITERS).collect();
    while reads < 2_000 {
        for token in free.drain(..) {
            let start = Lpn(choices.below(32_768));
            let is_read = token == WRITERS;
            let operation = if is_read { Operation::Read { start, count: 1 } } else { write(start.0) };
            submitted = if is_read { now } else { submitted };
            bench.device_mut().submit(Token(token), Request::new(operation, Cause::Data), now);
        }
        now = bench.device().next_event().moment().unwrap();
        bench.device_mut().advance(now, &mut completed);
        for done in completed.drain(..) {
            let is_read = done.token.0 == WRITERS;
            total += if is_read { (now - submitted).0 } else { 0 };
            reads += u64::from(is_read);
            free.push(done.token.0);
        }
    }
    total as f64 / reads as f64
}

#[test]
fn reads_go_before_programs_that_wait_and_suspended_ones_hold_them_least() {
    let in_turn = read_beside_writes(|profile| profile.flash.as_mut().unwrap().reads_first = Some(false));
    let first = read_beside_writes(|_| ());
    let suspending = read_beside_writes(|profile| profile.flash.as_mut().unwrap().suspend_us = 10.0);
    println!("in turn {in_turn:.0} ns, first {first:.0} ns, suspending {suspending:.0} ns");
    assert!(first < in_turn && suspending < 0.5 * first, "{in_turn} {first} {suspending}");
}

/// The estimate for traces gives its layer a whole buffer of pages at once; reads in turn waited for all of them.
#[test]
fn in_the_estimate_reads_no_longer_wait_for_the_write_buffer() {
    let seconds = |reads_first| {
        let mut profile = profile("ssd-tlc-120g");
        profile.flash.as_mut().unwrap().reads_first = Some(reads_first);
        let mut device = profile.layer(Layer::Dftl { cache_bytes: Some(1 << 20) }, Some(256 * MIB)).unwrap();
        let run = |start: u32, count: u32| ftl::Lpn(start)..ftl::Lpn(start + count);
        (0..512).for_each(|chunk| device.write(run(chunk * 64, 64)).unwrap());
        device.begin();
        for turn in 0..20_000_u32 {
            device.write(run(turn * 7_919 % 32_768, 1)).unwrap();
            (0..4).for_each(|next| device.read(run((turn * 7_919 + 91 * next) % 32_768, 1)).unwrap());
        }
        device.finish().as_secs_f64()
    };
    let (first, in_turn) = (seconds(true), seconds(false));
    println!("reads first {first:.3} s, in turn {in_turn:.3} s");
    assert!(first < 0.8 * in_turn, "{first} {in_turn}");
}

/// Without load a read takes the same time either way.
#[test]
fn a_read_of_an_idle_device_takes_its_time_either_way() {
    let latency = |reads_first| {
        let mut profile = profile("ssd-tlc-120g").with_layer(Some(Layer::Dftl { cache_bytes: Some(1 << 20) })).unwrap();
        profile.flash.as_mut().unwrap().reads_first = Some(reads_first);
        let mut bench = Bench::new(Box::new(profile.ftl_device(Some(64 * MIB)).unwrap()) as Box<dyn PowerCut>, 1);
        bench.fill(16_384);
        bench.run(Load { depth: 1, ..RANDOM_READS }, 500, 16_384).latency.mean
    };
    assert_eq!(latency(true), latency(false));
}
