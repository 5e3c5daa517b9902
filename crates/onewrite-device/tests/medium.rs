//! Failing media, victims, wear and suspension.

#[allow(dead_code, missing_docs, reason = "each test crate uses its part")]
mod support;

use onewrite_block::mark::{self, Listener};
use onewrite_block::{
    Cause, Choices, Device, DeviceError, Durable, Lpn, MIB, Nanos, Operation, Outcome, Page, PowerCut, Request, Token,
};
use onewrite_device::ftl::FlashBlock;
use onewrite_device::micro::{Bench, Load};
use onewrite_device::{MediumFaults, MediumOperation, Profile, Ssd, Victim};
use support::{Driver, Mix};

const MIX: Mix = Mix { write: 50, fua: 4, flush: 6, trim: 6, share: 12, read: 8, pages_max: 24, range: 1024, depth: 8 };

fn run(device: &mut Ssd, now: &mut Nanos, operation: Operation) -> Outcome {
    device.submit(Token(1), Request::new(operation, Cause::Data), *now);
    let mut completed = Vec::new();
    while completed.is_empty() {
        *now = device.next_event().moment().expect("a request goes on");
        device.advance(*now, &mut completed);
    }
    completed.pop().unwrap().outcome
}

fn write(start: u64, count: u64) -> Operation {
    let page = |lpn: u64| Page::from_slice(&(lpn + 1).to_le_bytes());
    Operation::Write {
        start: Lpn(start),
        pages: (start..start + count).map(page).collect(),
        durable: Durable::AfterFlush,
    }
}

fn read(start: u64) -> Operation {
    Operation::Read { start: Lpn(start), count: 1 }
}

/// Runs `work`, which has to come to the situation of this mark.
fn coming_to(mark: &str, work: impl FnOnce()) {
    let _listener = Listener::new();
    let ((), reached) = mark::during(work);
    assert!(reached.contains(mark::number(mark)), "this test is for {mark:?}, and did not come to it");
}

#[test]
fn failing_programs_and_erases_lose_nothing() {
    for seed in 0..3 {
        for profile in ["sata-850pro", "nvme-share"] {
            let mut device = Profile::load(profile).unwrap().ssd(Some(4 * MIB)).unwrap();
            let mut faults = MediumFaults::new(seed);
            (faults.program_one_in, faults.erase_one_in) = (6_000, 400);
            device.set_faults(faults);
            let mut driver = Driver::new(device);
            let mut choices = Choices::new(seed);
            while !driver.device.is_worn_out() && driver.requests < 4000 {
                driver.torture(&MIX, 50, 4000, &mut choices);
            }
            assert!(driver.device.wear().bad_blocks > 0, "no fault struck");
        }
    }
}

#[test]
fn an_unreadable_page_is_named_until_it_is_written_again() {
    let mut device = Profile::load("nvme-share").unwrap().ssd(Some(4 * MIB)).unwrap();
    let mut now = Nanos::ZERO;
    run(&mut device, &mut now, write(0, 8)).unwrap();
    run(&mut device, &mut now, Operation::Flush).unwrap();
    let mut faults = MediumFaults::new(1);
    faults.chosen.push((MediumOperation::Read, 1));
    device.set_faults(faults);
    assert!(run(&mut device, &mut now, read(3)).is_ok());
    let lost = Err(DeviceError::ReadFailed { page: Lpn(4) });
    assert_eq!(run(&mut device, &mut now, read(4)), lost);
    assert_eq!(run(&mut device, &mut now, read(4)), lost, "it stays lost");
    device.cut(&mut Choices::new(1));
    device.recover(now).unwrap();
    device.check().unwrap();
    now += Nanos::from_secs(1);
    assert_eq!(run(&mut device, &mut now, read(4)), lost, "after recovery too");
    run(&mut device, &mut now, write(4, 1)).unwrap();
    assert!(run(&mut device, &mut now, read(4)).is_ok());
}

/// Collection moves other pages meanwhile. It need not move lost ones, so it moves fewer than without faults.
#[test]
fn reads_that_fail_beside_collection_lose_no_other_page() {
    let mut device = Profile::load("nvme-share").unwrap().ssd(Some(16 * MIB)).unwrap();
    let (mut now, mut choices, pages) = (Nanos::ZERO, Choices::new(1), device.geometry().pages);
    (0..pages).for_each(|page| drop(run(&mut device, &mut now, write(page, 1)).unwrap()));
    let mut faults = MediumFaults::new(1);
    faults.read_one_in = 10;
    device.set_faults(faults);
    let (mut completed, mut under_way, mut failed) = (Vec::new(), 0, 0);
    coming_to("page went stale while it was moved", || {
        for round in 0..60_000 {
            // One write and three reads.
            for token in 4 * round..4 * round + 4 {
                let page = choices.below(pages);
                let operation = if token % 4 == 0 { write(page, 1) } else { read(page) };
                device.submit(Token(token), Request::new(operation, Cause::Data), now);
                under_way += 1;
            }
            while under_way > if round < 59_999 { 16 } else { 0 } {
                now = device.next_event().moment().expect("requests go on");
                device.advance(now, &mut completed);
                under_way -= completed.len();
                for completion in completed.drain(..) {
                    let is_read = completion.token.0 % 4 > 0;
                    let is_lost = matches!(completion.outcome, Err(DeviceError::ReadFailed { .. }));
                    assert!(completion.outcome.is_ok() || is_read && is_lost, "{completion:?}");
                    failed += u64::from(is_lost);
                }
            }
            if round % 1_000 == 0 {
                device.check().unwrap();
            }
        }
    });
    assert!(failed > 100 && device.counters().moved_pages > 1_000, "{failed} lost, {:?}", device.counters());
    device.set_faults(MediumFaults::new(1));
    for page in 0..pages {
        let content = Page::from_slice(&(page + 1).to_le_bytes());
        match run(&mut device, &mut now, read(page)) {
            Ok(found) => assert_eq!(found, [content], "page {page}"),
            Err(error) => assert_eq!(error, DeviceError::ReadFailed { page: Lpn(page) }),
        }
    }
}

/// Erases that take long leave the map log without a blank block: what needs it waits.
#[test]
fn a_map_log_without_a_blank_block_waits_for_an_erase() {
    let mut profile = Profile::load("nvme-share").unwrap();
    profile.flash.as_mut().expect("flash").erase_us = 500_000.0;
    let mut device = profile.ssd(Some(4 * MIB)).unwrap();
    let (mut now, mut choices) = (Nanos::ZERO, Choices::new(1));
    let mut flushes = || {
        for _ in 0..20_000 {
            run(&mut device, &mut now, write(choices.below(1000), 1)).unwrap();
            run(&mut device, &mut now, Operation::Flush).unwrap();
        }
    };
    coming_to("map log waits for a blank block", &mut flushes);
    device.check().unwrap();
    device.cut(&mut Choices::new(1));
    device.recover(now).unwrap();
    now += Nanos::from_secs(1);
    for page in 0..1000 {
        let found = run(&mut device, &mut now, read(page)).unwrap();
        assert_eq!(found, [Page::from_slice(&(page + 1).to_le_bytes())], "page {page}");
    }
}

#[test]
fn a_worn_out_device_refuses_writes_and_still_reads() {
    let mut device = Profile::load("nvme-share").unwrap().ssd(Some(4 * MIB)).unwrap();
    let mut now = Nanos::ZERO;
    run(&mut device, &mut now, write(0, 8)).unwrap();
    run(&mut device, &mut now, Operation::Flush).unwrap();
    let mut faults = MediumFaults::new(1);
    faults.erase_one_in = 1;
    device.set_faults(faults);
    let mut choices = Choices::new(1);
    let refused = (0..200_000).find_map(|_| run(&mut device, &mut now, write(8 + choices.below(1000), 8)).err());
    assert!(matches!(refused, Some(DeviceError::WornOut { .. })), "{refused:?}");
    assert_eq!(run(&mut device, &mut now, Operation::Flush), Err(DeviceError::FlushFailed));
    assert_eq!(run(&mut device, &mut now, read(3)).unwrap(), [Page::from_slice(&4_u64.to_le_bytes())]);
    device.cut(&mut Choices::new(1));
    device.recover(now).unwrap();
    now += Nanos::from_secs(1);
    assert_eq!(run(&mut device, &mut now, read(3)).unwrap(), [Page::from_slice(&4_u64.to_le_bytes())]);
}

#[test]
fn factory_bad_blocks_are_never_used() {
    let mut device = Profile::load("ideal").unwrap().ssd(Some(4 * MIB)).unwrap();
    (20..24).for_each(|block| device.mark_block_bad(FlashBlock(block)));
    let mut driver = Driver::new(device);
    driver.torture(&MIX, 3000, 3000, &mut Choices::new(5));
    assert_eq!(driver.device.wear().bad_blocks, 4);
}

/// Pages moved for each page written, if nine in ten writes hit a tenth of the device.
fn amplification(victim: Victim, window: usize) -> f64 {
    let mut profile = Profile::load("ideal").unwrap();
    let flash = profile.flash.as_mut().unwrap();
    (flash.victim, flash.victim_window_blocks) = (victim, window);
    let mut device = profile.ssd(Some(16 * MIB)).unwrap();
    let (mut now, mut choices) = (Nanos::ZERO, Choices::new(3));
    let mut skewed = || if choices.chance(9, 10) { choices.below(400) } else { choices.below(4088) };
    for _ in 0..30_000 {
        run(&mut device, &mut now, write(skewed(), 1)).unwrap();
    }
    device.reset_counters();
    for _ in 0..60_000 {
        run(&mut device, &mut now, write(skewed(), 1)).unwrap();
    }
    device.check().unwrap();
    device.counters().write_amplification().unwrap()
}

#[test]
fn every_victim_policy_works_and_they_differ() {
    let found =
        [amplification(Victim::Greedy, 0), amplification(Victim::CostBenefit, 0), amplification(Victim::Windowed, 16)];
    assert!(found.iter().all(|waf| (0.5..8.0).contains(waf)), "{found:?}");
    assert!(found[0] != found[1] && found[1] != found[2], "{found:?}");
}

/// Spread of the erase counts after many writes to a twentieth of a full device.
fn erase_spread(wear_spread_max: u32) -> u32 {
    let mut profile = Profile::load("sata-850pro").unwrap();
    profile.flash.as_mut().unwrap().wear_spread_max = wear_spread_max;
    let mut device = profile.ssd(Some(4 * MIB)).unwrap();
    let mut now = Nanos::ZERO;
    for start in (0..1024).step_by(64) {
        run(&mut device, &mut now, write(start, 64)).unwrap();
    }
    let mut choices = Choices::new(3);
    for _ in 0..20_000 {
        run(&mut device, &mut now, write(choices.below(600), 8)).unwrap();
    }
    device.check().unwrap();
    let wear = device.wear();
    wear.erases_max - wear.erases_min
}

#[test]
fn static_wear_levelling_narrows_the_spread() {
    let (without, with) = (erase_spread(0), erase_spread(16));
    assert!(with * 2 < without, "spread {without} without, {with} with");
}

#[test]
fn a_read_interrupts_a_program_where_the_flash_can() {
    let slowest_read = |suspend_us: f64| {
        let mut profile = Profile::load("nvme-share").unwrap();
        profile.flash.as_mut().unwrap().suspend_us = suspend_us;
        let mut device = profile.ssd(Some(16 * MIB)).unwrap();
        let mut now = Nanos::ZERO;
        for start in (0..2048).step_by(64) {
            run(&mut device, &mut now, write(start, 64)).unwrap();
        }
        let mut choices = Choices::new(2);
        let mut slowest = Nanos::ZERO;
        for _ in 0..300 {
            run(&mut device, &mut now, write(choices.below(1984), 64)).unwrap();
            let start = now;
            run(&mut device, &mut now, read(choices.below(2048))).unwrap();
            slowest = slowest.max(now - start);
        }
        device.check().unwrap();
        slowest
    };
    let (without, with) = (slowest_read(0.0), slowest_read(20.0));
    assert!(with < without, "slowest read {without} without suspension, {with} with");
}

#[test]
fn a_device_without_latency_fills_its_dies_evenly() {
    let ssd = Profile::load("ideal").unwrap().ssd(Some(64 * MIB)).unwrap();
    let pages = ssd.geometry().pages;
    let mut bench = Bench::new(Box::new(ssd), 1);
    bench.fill(pages);
    let load = Load { is_random: true, is_write: true, request_bytes: 4096, depth: 32, flush_every: 0 };
    bench.run(load, 100_000, pages);
    bench.device().check().unwrap();
    let amplification = bench.device().counters().write_amplification().unwrap();
    assert!(amplification < 6.0, "one die is full and moves nearly everything: {amplification}");
}
