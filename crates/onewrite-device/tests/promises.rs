//! Every promise of the device contract, each as a small story.

#[allow(dead_code, missing_docs, reason = "each test crate uses its part")]
mod support;

mod layers;

use onewrite_block::{
    Cause, Choices, Device, DeviceError, Durable, Lpn, MIB, Nanos, NextEvent, Operation, Outcome, PAGE_SIZE, Page,
    PowerCut, Remap, Request, Token,
};
use onewrite_device::Profile;

fn device(profile: &str) -> Box<dyn PowerCut> {
    Profile::load(profile).unwrap().translated().device(Some(16 * MIB)).unwrap()
}

/// Runs one request; returns its outcome and its time.
fn run(device: &mut dyn PowerCut, now: &mut Nanos, operation: Operation) -> (Outcome, Nanos) {
    let start = *now;
    device.submit(Token(1), Request::new(operation, Cause::Data), start);
    let mut completed = Vec::new();
    while completed.is_empty() {
        *now = device.next_event().moment().expect("a request goes on");
        device.advance(*now, &mut completed);
    }
    (completed.pop().unwrap().outcome, *now - start)
}

fn idle(device: &mut dyn PowerCut, now: &mut Nanos) {
    while let Some(moment) = device.next_event().moment() {
        *now = moment;
        device.advance(moment, &mut Vec::new());
    }
}

fn page(byte: u8) -> Page {
    Page::from_slice(&[byte])
}

fn write(start: u64, pages: Vec<Page>) -> Operation {
    Operation::Write { start: Lpn(start), pages, durable: Durable::AfterFlush }
}

fn read(start: u64) -> Operation {
    Operation::Read { start: Lpn(start), count: 1 }
}

/// A pair: `target` will read as `source` does.
fn remap(target: u64, source: u64) -> Remap {
    Remap { target: Lpn(target), source: Lpn(source) }
}

fn share(pairs: &[Remap]) -> Operation {
    Operation::Share(pairs.to_vec())
}

/// Cuts, recovers, checks, and reads one page.
fn survivor(device: &dyn PowerCut, seed: u64, lpn: u64) -> Page {
    let mut device = device.fork();
    device.cut(&mut Choices::new(seed));
    device.recover(Nanos::from_secs(9)).unwrap();
    device.check().unwrap();
    let mut now = Nanos::from_secs(99);
    run(&mut *device, &mut now, read(lpn)).0.unwrap().remove(0)
}

/// Writes `bytes` bytes from page 0 on, then reads page 0; returns the time of the read.
fn read_after_writing(bytes: u64) -> Nanos {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    for start in (0..bytes / PAGE_SIZE as u64).step_by(16) {
        let count = 16.min(bytes / PAGE_SIZE as u64 - start);
        run(&mut *device, &mut now, write(start, vec![page(1); count as usize])).0.unwrap();
    }
    run(&mut *device, &mut now, read(0)).1
}

#[test]
fn buffer_read_and_flash_read_take_what_the_paper_measured() {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    run(&mut *device, &mut now, write(3, vec![page(1)])).0.unwrap();
    let from_buffer = run(&mut *device, &mut now, read(3)).1;
    run(&mut *device, &mut now, Operation::Flush).0.unwrap();
    let from_flash = run(&mut *device, &mut now, read(3)).1;
    assert!(from_buffer.0.abs_diff(29_000) < 300, "{from_buffer}");
    assert!(from_flash.0.abs_diff(227_000) < 2_000, "{from_flash}");
}

#[test]
fn eviction_begins_and_is_certain_at_the_stated_sizes() {
    let from_buffer = Nanos::from_micros(100);
    assert!(read_after_writing(1_700_000) < from_buffer);
    assert!(read_after_writing(2_300_000 + 4096) > from_buffer);
}

#[test]
fn a_completed_write_may_be_lost_until_a_flush() {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1)])).0.unwrap();
    assert_eq!(survivor(&*device, 1, 0), Page::ZEROS, "it is in the buffer only");
    run(&mut *device, &mut now, Operation::Flush).0.unwrap();
    run(&mut *device, &mut now, write(0, vec![page(2)])).0.unwrap();
    assert_eq!(survivor(&*device, 1, 0), page(1));
}

#[test]
fn a_fua_write_survives_with_its_mapping() {
    for profile in ["nvme-share", "ideal"] {
        let (mut device, mut now) = (device(profile), Nanos::ZERO);
        let operation = Operation::Write { start: Lpn(5), pages: vec![page(1); 3], durable: Durable::OnCompletion };
        run(&mut *device, &mut now, operation).0.unwrap();
        assert_eq!(survivor(&*device, 1, 7), page(1));
    }
}

#[test]
fn sata_has_no_fua_and_says_so() {
    let operation = Operation::Write { start: Lpn(0), pages: vec![page(1)], durable: Durable::OnCompletion };
    let error = run(&mut *device("sata-850pro"), &mut Nanos::ZERO.clone(), operation).0.unwrap_err();
    assert_eq!(error.to_string(), "device sata-850pro has no FUA");
}

#[test]
fn evicted_pages_survive_by_their_oob_alone() {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1); 10])).0.unwrap();
    for start in (16..16 + 576).step_by(64) {
        run(&mut *device, &mut now, write(start, vec![Page::ZEROS; 64])).0.unwrap();
    }
    let mut dark = device.fork();
    dark.cut(&mut Choices::new(3));
    let report = dark.recover(now).unwrap();
    assert!(report.pages_recovered >= 10, "{report:?}");
    assert_eq!(survivor(&*device, 3, 9), page(1));
    assert_eq!(device.counters().flushes, 0);
}

#[test]
fn a_durable_trim_is_not_undone_by_the_oob_scan() {
    for profile in Profile::names().filter(|name| !name.starts_with("hdd")) {
        let (mut device, mut now) = (device(profile), Nanos::ZERO);
        for start in (0..640).step_by(32) {
            run(&mut *device, &mut now, write(start, vec![page(1); 32])).0.unwrap();
        }
        run(&mut *device, &mut now, Operation::Trim { start: Lpn(0), count: 640 }).0.unwrap();
        assert_eq!(run(&mut *device, &mut now, read(1)).0.unwrap(), [Page::ZEROS]);
        run(&mut *device, &mut now, Operation::Flush).0.unwrap();
        for lpn in [0, 300, 639] {
            assert_eq!(survivor(&*device, lpn, lpn), Page::ZEROS, "{profile}: page {lpn}");
        }
    }
}

#[test]
fn a_trim_drops_pages_in_the_buffer_so_that_they_never_reach_flash() {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1); 100])).0.unwrap();
    run(&mut *device, &mut now, Operation::Trim { start: Lpn(0), count: 100 }).0.unwrap();
    run(&mut *device, &mut now, Operation::Flush).0.unwrap();
    idle(&mut *device, &mut now);
    assert_eq!(device.counters().flash_program_bytes - device.counters().map_program_bytes, 0);
}

#[test]
fn a_share_is_durable_at_completion_and_moves_no_data() {
    let (mut device, mut now) = (device("nvme-share"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1), page(2)])).0.unwrap();
    run(&mut *device, &mut now, share(&[remap(10, 0), remap(11, 1)])).0.unwrap();
    assert_eq!(survivor(&*device, 5, 10), page(1));
    assert_eq!(survivor(&*device, 5, 1), page(2), "sources are durable too");
    let counters = device.counters();
    assert_eq!((counters.flash_program_bytes - counters.map_program_bytes) / PAGE_SIZE as u64, 2);
    run(&mut *device, &mut now, write(0, vec![page(9)])).0.unwrap();
    assert_eq!(run(&mut *device, &mut now, read(10)).0.unwrap(), [page(1)]);
}

#[test]
fn torn_share_changes_no_target() {
    let (mut device, mut now) = (device("nvme-share"), Nanos::ZERO);
    let count = u64::from(device.geometry().share_pairs_max);
    for start in (0..count).step_by(200) {
        let pages = (start..count.min(start + 200)).map(|lpn| page(lpn as u8 | 1)).collect();
        run(&mut *device, &mut now, write(start, pages)).0.unwrap();
    }
    run(&mut *device, &mut now, Operation::Flush).0.unwrap();
    idle(&mut *device, &mut now);
    let pairs: Vec<Remap> = (0..count).map(|lpn| remap(2000 + lpn, lpn)).collect();
    device.submit(Token(2), Request::new(share(&pairs), Cause::Data), now);
    let mut outcomes = [0; 2];
    let mut completed = Vec::new();
    while completed.is_empty() {
        for seed in 0..12 {
            let mut dark = device.fork();
            dark.cut(&mut Choices::new(seed));
            dark.recover(now).unwrap();
            let targets = Operation::Read { start: Lpn(2000), count: 256.min(count as u32) };
            let found = run(&mut *dark, &mut now.clone(), targets).0.unwrap();
            let blank = found.iter().filter(|page| page.is_zeros()).count();
            assert!(blank == 0 || blank == found.len(), "{blank} of {} targets changed", found.len());
            outcomes[usize::from(blank == 0)] += 1;
        }
        now = device.next_event().moment().unwrap();
        device.advance(now, &mut completed);
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "cuts fell on one side only: {outcomes:?}");
}

#[test]
fn a_share_from_nothing_is_refused_by_name() {
    let error = run(&mut *device("ideal"), &mut Nanos::ZERO.clone(), share(&[remap(1, 7)])).0.unwrap_err();
    assert_eq!(error, DeviceError::ShareSource { source_page: Lpn(7) });
}

#[test]
fn a_flush_takes_longer_with_more_dirty_pages() {
    let flush_after = |pages: u64| {
        let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
        for lpn in 0..pages {
            run(&mut *device, &mut now, write(lpn * 7 % 4000, vec![page(1)])).0.unwrap();
        }
        run(&mut *device, &mut now, Operation::Flush).1
    };
    let times = [0, 1, 64, 400].map(flush_after);
    assert!(times.is_sorted() && times[0] < times[1] && times[2] < times[3], "{times:?}");
}

#[test]
fn requests_overlap_on_dies_and_not_beyond_them() {
    let time_for = |depth: u32| {
        let (mut device, mut now) = (device("nvme-share"), Nanos::ZERO);
        for start in (0..2048).step_by(64) {
            run(&mut *device, &mut now, write(start, vec![page(1); 64])).0.unwrap();
        }
        run(&mut *device, &mut now, Operation::Flush).0.unwrap();
        idle(&mut *device, &mut now);
        let start = now;
        for token in 0..depth {
            let lpn = u64::from(token * 61 % 2048);
            device.submit(Token(token), Request::new(read(lpn), Cause::Data), now);
        }
        let mut completed = Vec::new();
        while completed.len() < depth as usize {
            now = device.next_event().moment().unwrap();
            device.advance(now, &mut completed);
        }
        (now - start).0
    };
    let (one, many) = (time_for(1), time_for(64));
    assert!(many < 64 * one / 2, "64 reads overlap: {many} ns against {one} ns for one");
    assert!(many > one * 2, "the dies are finite: {many} ns against {one} ns for one");
}

#[test]
fn the_same_requests_give_the_same_run() {
    let run_once = || {
        let mut driver = support::Driver::new(Profile::load("sata-850pro").unwrap().ssd(Some(16 * MIB)).unwrap());
        let mix = support::Mix {
            write: 30,
            fua: 0,
            flush: 2,
            trim: 2,
            share: 0,
            read: 10,
            pages_max: 32,
            range: 4096,
            depth: 16,
        };
        let mut choices = Choices::new(4);
        for _ in 0..3000 {
            if driver.queue_length() >= 16 {
                driver.step();
            } else {
                driver.submit_random(&mix, &mut choices);
            }
        }
        driver.drain();
        driver.device.check().unwrap();
        (driver.now, driver.device.cut_points(), driver.device.counters())
    };
    assert_eq!(run_once(), run_once());
}

#[test]
fn a_fork_goes_its_own_way() {
    let (mut device, mut now) = (device("ideal"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1)])).0.unwrap();
    let mut fork = device.fork();
    run(&mut *device, &mut now, write(0, vec![page(2)])).0.unwrap();
    assert_eq!(run(&mut *fork, &mut now, read(0)).0.unwrap(), [page(1)]);
    assert_eq!(run(&mut *device, &mut now, read(0)).0.unwrap(), [page(2)]);
}

#[test]
fn nothing_happens_after_the_armed_point_until_recovery() {
    let (mut device, mut now) = (device("ideal"), Nanos::ZERO);
    run(&mut *device, &mut now, write(0, vec![page(1)])).0.unwrap();
    device.arm(device.cut_points() + 1);
    device.submit(Token(1), Request::flush(Cause::Data), now);
    let mut completed = Vec::new();
    device.advance(Nanos::from_secs(1), &mut completed);
    assert!(device.is_dark() && completed.is_empty());
    assert_eq!(device.next_event(), NextEvent::Idle);
    device.recover(Nanos::from_secs(2)).unwrap();
    assert!(!device.is_dark());
}

#[test]
fn the_recovery_scan_is_bounded_by_the_open_blocks() {
    let (mut device, mut now) = (device("sata-850pro"), Nanos::ZERO);
    for round in 0..4 {
        for start in (0..4096).step_by(64) {
            run(&mut *device, &mut now, write(start, vec![page(round); 64])).0.unwrap();
        }
    }
    device.cut(&mut Choices::new(1));
    let report = device.recover(now).unwrap();
    assert!(report.oob_pages_read < 2048, "of more than 16,000 pages written: {report:?}");
    assert!(report.duration > Nanos::ZERO);
}
