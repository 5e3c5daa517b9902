//! The promises of devices with the translation layer FAST, BAST or DFTL, each as a small story.

use std::sync::Arc;

use onewrite_block::{
    Choices, Counters, Device, DeviceError, Durable, Lpn, MIB, Nanos, NextEvent, Operation, PAGE_SIZE, Page, PowerCut,
    Token,
};
use onewrite_device::ftl::{self, FtlDevice, FtlRules};
use onewrite_device::{Age, Layer, Profile};

use super::{idle, page, read, remap, run, share, survivor, write};

const FAST: Layer = Layer::Fast { random_blocks: None };
const BAST: Layer = Layer::Bast { log_blocks: None };
const DFTL: Layer = Layer::Dftl { cache_bytes: None };

fn layered(profile: &str, layer: Layer, bytes: u64) -> FtlDevice {
    let profile = Profile::load(profile).unwrap().with_layer(Some(layer)).unwrap();
    profile.ftl_device(Some(bytes)).unwrap()
}

#[test]
fn a_write_may_be_lost_until_a_flush_and_is_read_from_the_buffer_meanwhile() {
    for layer in [FAST, BAST, DFTL] {
        let (mut device, mut now) = (layered("microsd-adata", layer, 16 * MIB), Nanos::ZERO);
        run(&mut device, &mut now, write(7, vec![page(1)])).0.unwrap();
        run(&mut device, &mut now, write(7, vec![page(2)])).0.unwrap();
        assert_eq!(run(&mut device, &mut now, read(7)).0.unwrap(), [page(2)]);
        assert_eq!(device.counters().flash_program_bytes, 0, "the buffer took both");
        assert_eq!(survivor(&device, 1, 7), Page::ZEROS);
        run(&mut device, &mut now, Operation::Flush).0.unwrap();
        assert_eq!(device.counters().flash_program_bytes, PAGE_SIZE as u64, "one of them went to flash");
        assert_eq!(survivor(&device, 1, 7), page(2));
    }
}

#[test]
fn a_fua_write_is_durable_at_its_end_and_a_capacitor_saves_every_write() {
    let write_fua = Operation::Write { start: Lpn(5), pages: vec![page(1); 3], durable: Durable::OnCompletion };
    for layer in [FAST, BAST, DFTL] {
        let (mut device, mut now) = (layered("nvme-share", layer, 16 * MIB), Nanos::ZERO);
        run(&mut device, &mut now, write_fua.clone()).0.unwrap();
        assert_eq!(survivor(&device, 1, 7), page(1));
        let (mut device, mut now) = (layered("nvme-p3600", layer, 16 * MIB), Nanos::ZERO);
        run(&mut device, &mut now, write(5, vec![page(1); 3])).0.unwrap();
        run(&mut device, &mut now, write(6, vec![page(2)])).0.unwrap();
        assert_eq!([survivor(&device, 1, 5), survivor(&device, 1, 6)], [page(1), page(2)]);
    }
}

#[test]
fn share_is_refused_with_a_cure() {
    let mut device = layered("nvme-share", FAST, 16 * MIB);
    assert!(device.geometry().share_refusal.as_ref().is_some_and(|why| why.contains("--ftl page")));
    let error = run(&mut device, &mut Nanos::ZERO.clone(), share(&[remap(1, 0)])).0.unwrap_err();
    assert!(matches!(error, DeviceError::Unsupported { operation: "SHARE", .. }), "{error}");
}

/// Random single writes, one at a time; returns the time of each, and the device.
fn random_writes(mut device: FtlDevice, pages: u64, count: u64) -> (Vec<u64>, FtlDevice, Nanos) {
    let (mut now, mut choices) = (Nanos::ZERO, Choices::new(3));
    let spans =
        (0..count).map(|_| run(&mut device, &mut now, write(choices.below(pages), vec![page(1)])).1.0).collect();
    (spans, device, now)
}

#[test]
fn a_merge_takes_its_time_and_delays_what_comes_after_it() {
    let (mut spans, device, _) = random_writes(layered("microsd-adata", FAST, 64 * MIB).aged(Age::Filled), 16384, 4000);
    spans.sort_unstable();
    let (half, longest) = (spans[2000], spans[3999]);
    let merges = device.counters().full_merges;
    assert!(merges > 100, "{merges} full merges");
    assert!(longest > 50 * half, "the longest write took {longest} ns, half of them {half} at most");
}

#[test]
fn a_read_waits_for_the_merge_under_way() {
    let (_, mut device, mut now) =
        random_writes(layered("microsd-adata", FAST, 64 * MIB).aged(Age::Filled), 16384, 2000);
    idle(&mut device, &mut now);
    let alone = run(&mut device, &mut now, read(0)).1;
    let mut slowest = Nanos::ZERO;
    for lpn in 0..64 {
        run(&mut device, &mut now, write(lpn * 211 % 16384, vec![page(1)])).0.unwrap();
        slowest = slowest.max(run(&mut device, &mut now, read(16000)).1);
    }
    assert!(slowest.0 > 10 * alone.0, "{slowest} behind a merge, {alone} alone");
}

#[test]
fn stale_content_is_dropped() {
    for layer in [FAST, BAST, DFTL] {
        let (_, mut device, mut now) = random_writes(layered("microsd-adata", layer, 16 * MIB), 64, 20_000);
        run(&mut device, &mut now, Operation::Flush).0.unwrap();
        idle(&mut device, &mut now);
        device.check().unwrap();
        let kept = device.kept_contents();
        assert!((64..6000).contains(&kept), "{layer:?}: {kept} contents for 4096 pages and the spare ones");
    }
}

#[test]
fn recovery_is_timed_and_reads_every_area() {
    for layer in [FAST, BAST, DFTL] {
        let mut reports = Vec::new();
        for pages in [256, 4096] {
            let (mut device, mut now) = (layered("microsd-adata", layer, 16 * MIB), Nanos::ZERO);
            for start in (0..pages).step_by(64) {
                run(&mut device, &mut now, write(start, vec![page(1); 64])).0.unwrap();
            }
            run(&mut device, &mut now, Operation::Flush).0.unwrap();
            device.cut(&mut Choices::new(1));
            reports.push(device.recover(now).unwrap());
        }
        assert!(reports[1].oob_pages_read >= 4096 && reports[1].pages_recovered == 4096, "{layer:?}: {reports:?}");
        assert!(reports[1].duration.0 > 8 * reports[0].duration.0, "{layer:?}: {reports:?}");
    }
}

#[test]
fn a_device_of_an_age_holds_zeros_everywhere_and_pays_for_writes_at_once() {
    for layer in [FAST, BAST, DFTL] {
        let [new, filled, steady] = [Age::New, Age::Filled, Age::Steady].map(|age| {
            let device = layered("microsd-adata", layer, 16 * MIB).aged(age);
            device.check().unwrap();
            assert_eq!(device.counters(), Counters::default(), "counting begins after its past");
            let untouched = 4095;
            let (_, mut device, mut now) = random_writes(device, untouched, 1000);
            assert_eq!(run(&mut device, &mut now, read(untouched)).0.unwrap(), [Page::ZEROS]);
            assert_eq!(survivor(&device, 3, untouched), Page::ZEROS);
            device.counters().write_amplification().unwrap()
        });
        println!("{layer:?}: {new:.2} new, {filled:.2} filled, {steady:.2} steady");
        let pays = if layer == DFTL { steady > 1.3 && new < 1.2 } else { filled > 1.3 * new && steady > 1.3 * new };
        assert!(pays, "{layer:?}: {new} new, {filled} filled, {steady} steady");
    }
}

#[test]
fn an_aged_ssd_rests_at_time_zero_and_collects_at_once() {
    let waf = |age| {
        let profile = Profile::load("sata-850pro").unwrap();
        let (mut device, mut now) = (profile.device_of_age(Some(16 * MIB), age).unwrap(), Nanos::ZERO);
        assert_eq!((device.next_event(), device.counters()), (NextEvent::Idle, Counters::default()));
        let mut choices = Choices::new(3);
        for _ in 0..2000 {
            run(&mut *device, &mut now, write(choices.below(4095), vec![page(1)])).0.unwrap();
        }
        device.check().unwrap();
        assert_eq!(survivor(&*device, 3, 4095), Page::ZEROS);
        device.counters().write_amplification().unwrap()
    };
    let (new, steady) = (waf(Age::New), waf(Age::Steady));
    assert!(new < 1.3 && steady > 1.5, "{new} new, {steady} aged");
}

#[test]
fn a_hard_disk_has_no_age() {
    let error = Profile::load("hdd-barracuda").unwrap().device_of_age(None, Age::Steady).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("leave --age out"), "{error}");
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
}

/// Requests per second: the estimate of the layer alone, and the result of the device.
struct Iops {
    estimated: f64,
    found: f64,
}

/// Requests per second of single pages at random places, one at a time, on a full device: the estimate of the layer
/// alone, and the result of the device.
fn random_iops(layer: Layer, kind: Kind) -> Iops {
    const REQUESTS: u64 = 4000;
    let bytes = 256 * MIB;
    let pages = bytes / PAGE_SIZE as u64;
    let mut alone = Profile::load("microsd-adata").unwrap().layer(layer, Some(bytes)).unwrap();
    let mut device = layered("microsd-adata", layer, bytes).aged(Age::Filled);
    let mut now = Nanos::ZERO;
    (0..pages as u32 / 128).for_each(|run| alone.write(ftl::Lpn(run * 128).run(128)).unwrap());
    let mut choices = Choices::new(9);
    let mut begin = Nanos::ZERO;
    for request in 0..2 * REQUESTS {
        if request == REQUESTS {
            alone.begin();
            idle(&mut device, &mut now);
            begin = now;
        }
        let lpn = choices.below(pages);
        let alike = ftl::Lpn(lpn as u32).run(1);
        let (operation, estimated) = match kind {
            Kind::Read => (read(lpn), alone.read(alike)),
            Kind::Write => (write(lpn, vec![page(1)]), alone.write(alike)),
        };
        estimated.unwrap();
        run(&mut device, &mut now, operation).0.unwrap();
    }
    idle(&mut device, &mut now);
    let per_second = |span: Nanos| REQUESTS as f64 / span.as_secs_f64();
    Iops { estimated: per_second(alone.finish()), found: per_second(now - begin) }
}

/// Largest relative difference of the two models. They share the clock of the flash; their buffers differ.
const ESTIMATE_WITHIN: f64 = 0.05;

#[test]
fn a_card_is_as_fast_as_the_estimate_of_its_layer_alone() {
    for layer in [FAST, BAST, DFTL] {
        for kind in [Kind::Write, Kind::Read] {
            let Iops { estimated, found } = random_iops(layer, kind);
            println!("{layer:?}, {kind:?}: {estimated:.1} a second by estimate, {found:.1} on the device");
            assert!((found / estimated - 1.0).abs() < ESTIMATE_WITHIN, "{layer:?} {kind:?}: {estimated} {found}");
        }
    }
}

#[test]
fn requests_to_a_layer_under_way_fork_with_it() {
    let (_, mut device, mut now) = random_writes(layered("microsd-adata", FAST, 16 * MIB).aged(Age::Filled), 4096, 900);
    device.submit(Token(1), onewrite_block::Request::new(Operation::Flush, onewrite_block::Cause::Data), now);
    let (mut fork, mut ends) = (device.fork(), Vec::new());
    for device in [&mut device as &mut dyn PowerCut, &mut *fork] {
        let mut completed = Vec::new();
        let mut moment = now;
        while completed.is_empty() {
            moment = device.next_event().moment().unwrap();
            device.advance(moment, &mut completed);
        }
        ends.push((moment, device.cut_points(), device.counters()));
    }
    now = ends[0].0;
    assert_eq!(ends[0], ends[1]);
    assert_eq!(run(&mut device, &mut now, read(0)).0, run(&mut *fork, &mut now.clone(), read(0)).0);
}

/// Erases log blocks although their content is nowhere else.
#[derive(Debug)]
struct ErasesUnsettled;

impl FtlRules for ErasesUnsettled {
    fn supersedes_before_erase(&self) -> bool {
        false
    }
}

#[test]
fn an_early_erase_loses_what_a_flush_had_made_durable() {
    let broken = layered("microsd-adata", FAST, 4 * MIB).with_rules(Arc::new(ErasesUnsettled));
    let losses = |device: FtlDevice| {
        let (_, mut device, mut now) = random_writes(device.aged(Age::Filled), 1024, 600);
        run(&mut device, &mut now, Operation::Flush).0.unwrap();
        let mut choices = Choices::new(3);
        let written: Vec<u64> = (0..600).map(|_| choices.below(1024)).collect();
        written.into_iter().filter(|lpn| survivor(&device, 1, *lpn) != page(1)).count()
    };
    assert_eq!(losses(layered("microsd-adata", FAST, 4 * MIB)), 0);
    let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| losses(broken)));
    assert!(lost.is_err() || lost.is_ok_and(|lost| lost > 0), "an early erase went unnoticed");
}
