//! Open-channel and zoned devices: their rules, and what a power cut leaves of zones.

use onewrite_block::{
    Cause, Choices, Completion, Device, DeviceError, Durable, Lpn, MIB, Nanos, Operation, Outcome, Page, PowerCut,
    PowerLoss, Request, Token, Zones,
};
use onewrite_device::ftl::{Ftl, FtlDevice, Open, OpenPlan};
use onewrite_device::{Age, Layer, MediumFaults, MediumOperation, Profile};

/// A device of 128 MiB: zones of 2 MiB, or 4 MiB (`zns`).
fn device(profile: &str) -> (Box<dyn PowerCut>, Zones) {
    let device = Profile::load(profile).unwrap().device(Some(128 * MIB)).unwrap();
    let zones = device.geometry().zones.expect("zones");
    (device, zones)
}

fn page(number: u64) -> Page {
    Page::from_slice(&number.to_le_bytes())
}

fn write(start: Lpn, numbers: std::ops::Range<u64>) -> Operation {
    Operation::Write { start, pages: numbers.map(page).collect(), durable: Durable::AfterFlush }
}

/// Submits all requests at once and returns their outcomes, in the order of the requests, and the time that they took.
fn run_all(device: &mut dyn PowerCut, now: &mut Nanos, operations: Vec<Operation>) -> (Vec<Outcome>, Nanos) {
    let (start, count) = (*now, operations.len());
    for (token, operation) in (0..).map(Token).zip(operations) {
        device.submit(token, Request::new(operation, Cause::Data), start);
    }
    let mut completed: Vec<Completion> = Vec::new();
    while completed.len() < count {
        *now = device.next_event().moment().expect("a request goes on");
        device.advance(*now, &mut completed);
    }
    completed.sort_by_key(|completion| completion.token);
    (completed.into_iter().map(|completion| completion.outcome).collect(), *now - start)
}

fn run(device: &mut dyn PowerCut, now: &mut Nanos, operation: Operation) -> (Outcome, Nanos) {
    let (mut outcomes, span) = run_all(device, now, vec![operation]);
    (outcomes.pop().unwrap(), span)
}

fn read(device: &mut dyn PowerCut, now: &mut Nanos, start: Lpn, count: u32) -> Vec<Page> {
    run(device, now, Operation::Read { start, count }).0.unwrap()
}

#[test]
fn a_zone_is_written_in_order_and_reset_as_a_whole() {
    for profile in ["ocssd-huawei", "zns"] {
        let ((mut device, zones), mut now) = (device(profile), Nanos::ZERO);
        let (device, start) = (&mut *device, zones.start(3));
        run(device, &mut now, write(start, 0..7)).0.unwrap();
        let refused = run(device, &mut now, write(start.offset(3), 0..1)).0.unwrap_err();
        assert_eq!(refused, DeviceError::ZonePointer { page: start.offset(3), pointer: start.offset(7) });
        run(device, &mut now, write(start.offset(7), 7..9)).0.unwrap();
        assert_eq!(read(device, &mut now, start, 10)[..9], (0..9).map(page).collect::<Vec<_>>());
        assert!(read(device, &mut now, start.offset(9), 1)[0].is_zeros(), "not written");
        let part = Operation::Trim { start, count: zones.zone_pages - 1 };
        assert!(matches!(run(device, &mut now, part).0, Err(DeviceError::ZoneTrim { .. })));
        run(device, &mut now, Operation::Trim { start, count: zones.zone_pages }).0.unwrap();
        assert!(read(device, &mut now, start, 9).iter().all(Page::is_zeros), "{profile}");
        run(device, &mut now, write(start, 20..22)).0.unwrap();
        assert_eq!(read(device, &mut now, start, 2), [page(20), page(21)]);
        device.check().unwrap();
    }
}

#[test]
fn a_write_that_comes_too_early_waits_for_those_before_it() {
    let ((mut device, zones), mut now) = (device("ocssd-huawei"), Nanos::ZERO);
    let start = zones.start(0);
    let late = vec![write(start.offset(5), 5..9), write(start.offset(3), 3..5), write(start, 0..3)];
    let (outcomes, _) = run_all(&mut *device, &mut now, late);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(read(&mut *device, &mut now, start, 9), (0..9).map(page).collect::<Vec<_>>());
    // With the whole queue waiting, nothing can come that they wait for.
    let depth = u64::from(device.geometry().queue_depth);
    let hopeless = (0..depth).map(|number| write(start.offset(20 + number), 0..1)).collect();
    let (outcomes, _) = run_all(&mut *device, &mut now, hopeless);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(DeviceError::ZonePointer { .. }))), "{outcomes:?}");
    run(&mut *device, &mut now, write(start.offset(9), 9..10)).0.unwrap();
    // Nobody waits for a place that another write has.
    let twice = vec![write(start.offset(12), 0..1), write(start.offset(12), 1..2), write(start.offset(10), 10..14)];
    let (outcomes, _) = run_all(&mut *device, &mut now, twice);
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, false, true], "{outcomes:?}");
}

/// Other writes go on all the while, so nobody sees that nothing happens.
#[test]
fn a_write_that_waits_in_vain_is_refused_after_a_second() {
    for profile in ["ocssd-huawei", "zns"] {
        let ((mut device, zones), mut now, mut completed) = (device(profile), Nanos::ZERO, Vec::new());
        run(&mut *device, &mut now, write(zones.start(1), 0..2)).0.unwrap();
        let (pointer, page) = (zones.start(1).offset(2), zones.start(1).offset(5));
        let begin = now;
        device.submit(Token(0), Request::new(write(page, 0..1), Cause::Data), now);
        for number in 1_u32.. {
            if completed.iter().any(|completion: &Completion| completion.token == Token(0)) {
                break;
            }
            assert!(now - begin < Nanos::from_millis(2_000), "{profile}: it waits for ever");
            now += Nanos::from_millis(1);
            let other = Request::new(write(zones.start(2).offset(u64::from(number) - 1), 0..1), Cause::Data);
            device.submit(Token(number), other, now);
            while !completed.iter().any(|completion| completion.token == Token(number)) {
                now = device.next_event().moment().expect("a request goes on");
                device.advance(now, &mut completed);
            }
        }
        assert!(now - begin >= Nanos::from_millis(1_000), "{profile}: refused after {}", now - begin);
        let refused = completed.into_iter().find(|completion| completion.token == Token(0)).expect("just seen");
        assert_eq!(refused.outcome, Err(DeviceError::ZonePointer { page, pointer }));
        run(&mut *device, &mut now, write(pointer, 2..4)).0.unwrap();
    }
}

#[test]
fn a_write_ends_with_its_zone_and_conventional_pages_take_any_order() {
    let ((mut device, zones), mut now) = (device("ocssd-huawei"), Nanos::ZERO);
    let end = zones.start(1);
    let across = write(Lpn(end.0 - 1), 0..2);
    assert!(matches!(run(&mut *device, &mut now, across).0, Err(DeviceError::ZoneEnd { room: 1, .. })));
    for (number, lpn) in [900, 3, 900, 0].into_iter().enumerate() {
        run(&mut *device, &mut now, write(Lpn(lpn), number as u64..number as u64 + 1)).0.unwrap();
    }
    assert_eq!(read(&mut *device, &mut now, Lpn(900), 1), [page(2)]);
}

#[test]
fn no_more_zones_are_open_than_the_device_allows() {
    let ((mut device, zones), mut now) = (device("zns"), Nanos::ZERO);
    assert_eq!(zones.open_max, 14, "[atc21]");
    for zone in 0..14 {
        run(&mut *device, &mut now, write(zones.start(zone), 0..1)).0.unwrap();
    }
    let one_more = run(&mut *device, &mut now, write(zones.start(14), 0..1)).0.unwrap_err();
    assert_eq!(one_more, DeviceError::ZonesOpen { page: zones.start(14), open_max: 14 });
    run(&mut *device, &mut now, Operation::Trim { start: zones.start(5), count: zones.zone_pages }).0.unwrap();
    run(&mut *device, &mut now, write(zones.start(14), 0..1)).0.unwrap();
}

/// What completed is there, what was under way is there or not, and the zone goes on behind it.
#[test]
fn a_power_cut_leaves_what_completed_and_zones_that_are_written_to_a_point() {
    for profile in ["ocssd-huawei", "zns"] {
        let (mut cut_short, mut in_recovery) = (0, 0);
        for seed in 0..150 {
            let ((mut device, zones), mut now) = (device(profile), Nanos::ZERO);
            assert_eq!(device.geometry().on_power_loss, PowerLoss::KeepsCompleted);
            let mut choices = Choices::new(seed);
            let (start, point) = (zones.start(seed % zones.count), device.cut_points() + 5 + choices.below(120));
            device.arm(point);
            let (mut durable, mut sent) = (0, 0);
            while !device.is_dark() {
                let pages = 1 + choices.below(6);
                device.submit(Token(0), Request::new(write(start.offset(sent), sent..sent + pages), Cause::Data), now);
                sent += pages;
                let mut completed = Vec::new();
                while completed.is_empty()
                    && let Some(moment) = device.next_event().moment()
                {
                    now = moment;
                    device.advance(now, &mut completed);
                }
                durable += if completed.is_empty() { 0 } else { pages };
            }
            device.cut(&mut choices);
            device.arm(device.cut_points() + 1 + choices.below(40));
            if device.recover(now) == Err(DeviceError::PowerLost) {
                in_recovery += 1;
                device.cut(&mut choices);
                device.arm(u64::MAX);
                device.recover(now).unwrap();
            }
            device.arm(u64::MAX);
            device.check().unwrap();
            now += Nanos::from_secs(1);
            let found: Vec<Page> =
                (0..=sent).flat_map(|number| read(&mut *device, &mut now, start.offset(number), 1)).collect();
            let kept = found.iter().zip(0..).take_while(|(found, number)| **found == page(*number)).count() as u64;
            assert!(kept >= durable, "{profile}, seed {seed}: {kept} pages of {durable}");
            assert!(found[kept as usize..].iter().all(Page::is_zeros), "{profile}, seed {seed}: beyond page {kept}");
            cut_short += u64::from(kept < sent);
            let reset = Operation::Trim { start, count: zones.zone_pages };
            run(&mut *device, &mut now, reset).0.unwrap();
            run(&mut *device, &mut now, write(start, 0..3)).0.unwrap();
        }
        assert!(in_recovery > 20, "{profile}: {in_recovery} recoveries cut");
        assert!(cut_short > 20 || profile == "zns", "{profile}: {cut_short} runs lost what was under way");
    }
}

/// Table 1 of `papers/002`: one unit reads a page of 8 KiB in 52.3 us and programs it in 544.9 us.
#[test]
fn sixteen_units_work_side_by_side() {
    let profile = Profile::load("ocssd-huawei").unwrap();
    let device = profile.device(Some(2 << 30)).unwrap();
    let (mut device, mut now) = (device, Nanos::ZERO);
    let zones = device.geometry().zones.unwrap();
    let unit = run(&mut *device, &mut now, write(zones.start(0), 0..2)).1;
    assert!((544.9..640.0).contains(&(unit.0 as f64 / 1e3)), "a page of 8 KiB takes {unit}");
    let all = run(&mut *device, &mut now, write(zones.start(1), 0..32)).1;
    assert!(all.0 < unit.0 * 13 / 10, "16 pages of 8 KiB on 16 units take {all}, one {unit}");
    let more = run(&mut *device, &mut now, write(zones.start(2), 0..64)).1;
    assert!(more.0 > unit.0 * 17 / 10, "32 pages of 8 KiB on 16 units take {more}, one {unit}");
    let read = run(&mut *device, &mut now, Operation::Read { start: zones.start(0), count: 1 }).1;
    assert!((52.3..120.0).contains(&(read.0 as f64 / 1e3)), "a read takes {read}");
}

/// A card takes one request at a time; the driver takes more, or an early write would fill its queue.
#[test]
fn the_flash_of_a_card_is_written_as_zones_by_a_driver_with_a_queue() {
    let card = Profile::load("microsd-adata").unwrap().with_layer(Some(Layer::Open { tail_bytes: 0 })).unwrap();
    let (mut device, mut now) = (card.device(Some(256 * MIB)).unwrap(), Nanos::ZERO);
    let start = device.geometry().zones.unwrap().start(0);
    let (outcomes, _) = run_all(&mut *device, &mut now, vec![write(start.offset(3), 3..5), write(start, 0..3)]);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn what_such_a_device_cannot_do_is_refused_with_a_cure() {
    let profile = Profile::load("ocssd-huawei").unwrap();
    let small = profile.device(Some(16 * MIB)).map(drop).unwrap_err().to_string();
    assert!(small.contains("--size"), "{small}");
    let aged = profile.device_of_age(Some(128 * MIB), Age::Steady).map(drop).unwrap_err().to_string();
    assert!(aged.contains("--age") && aged.contains("--ftl dftl"), "{aged}");
    let (device, _) = device("ocssd-huawei");
    assert!(device.geometry().share_refusal.as_ref().is_some_and(|why| why.contains("nvme-share")));
    let below = profile.translated();
    assert!(matches!(below.own_layer(), Some(Layer::Dftl { .. })), "PFTL for what writes anywhere");
    assert_eq!(below.device(Some(128 * MIB)).unwrap().geometry().zones, None);
}

/// A device of 128 MiB whose flash fails this often.
fn failing(profile: &str, program_one_in: u64, erase_one_in: u64, seed: u64) -> FtlDevice {
    let mut device = Profile::load(profile).unwrap().ftl_device(Some(128 * MIB)).unwrap();
    let mut faults = MediumFaults::new(seed);
    (faults.program_one_in, faults.erase_one_in) = (program_one_in, erase_one_in);
    assert!(device.set_faults(faults), "zones can fail");
    device
}

/// What a zone has, as far as the host knows.
#[derive(Clone, Copy, Default)]
struct Written {
    /// The number of the first page; the others follow.
    first: u64,
    pages: u64,
}

/// Writes into zones and resets them until the power goes or the device is worn out. Gives the zone and the pages of
/// the write under way.
fn use_zones(
    device: &mut FtlDevice,
    now: &mut Nanos,
    choices: &mut Choices,
    zones: (Zones, &mut [Written]),
) -> (usize, u64) {
    let (zones, known) = zones;
    loop {
        let at = choices.below(known.len() as u64) as usize;
        let zone = &mut known[at];
        let room = zones.zone_pages - zone.pages;
        let count = (1 + choices.below(9)).min(room);
        let (is_reset, first) = (count == 0 || choices.below(30) == 0, zone.first + zone.pages);
        let operation = match is_reset {
            true => Operation::Trim { start: zones.start(at as u64), count: zones.zone_pages },
            false => write(zones.start(at as u64).offset(zone.pages), first..first + count),
        };
        device.submit(Token(0), Request::new(operation, Cause::Data), *now);
        let mut completed = Vec::new();
        while completed.is_empty() {
            let Some(moment) = device.next_event().moment() else {
                return (at, if is_reset { u64::MAX } else { count });
            };
            *now = moment;
            device.advance(*now, &mut completed);
        }
        match completed.pop().expect("one").outcome {
            Err(DeviceError::WornOut { .. }) => return (at, 0),
            outcome => outcome.expect("failing blocks are replaced"),
        };
        match is_reset {
            true => *zone = Written { first: first + 1000, pages: 0 },
            false => zone.pages += count,
        }
    }
}

/// A zone has what was acknowledged, and of a write under way its beginning; a reset under way is over or has not
/// begun.
fn assert_kept(
    device: &mut FtlDevice,
    now: &mut Nanos,
    zones: Zones,
    (at, known): (usize, Written),
    extra: u64,
) -> u64 {
    let start = zones.start(at as u64);
    let found: Vec<Page> =
        (0..zones.zone_pages).map(|offset| read(device, now, start.offset(offset), 1).remove(0)).collect();
    let kept = found.iter().zip(known.first..).take_while(|(found, number)| **found == page(*number)).count() as u64;
    let rest = &found[kept as usize..];
    assert!(rest.iter().all(Page::is_zeros), "zone {at} has something behind page {kept}");
    match extra {
        u64::MAX => assert!(kept == 0 || kept == known.pages, "zone {at}: {kept} pages of {}", known.pages),
        more => assert!((known.pages..=known.pages + more).contains(&kept), "zone {at}: {kept} of {}", known.pages),
    }
    kept
}

#[test]
fn blocks_that_fail_are_replaced_and_nothing_acknowledged_is_lost_by_cuts_between() {
    for profile in ["ocssd-huawei", "zns"] {
        let mut bad = 0;
        for seed in 0..120 {
            let (mut device, mut now) = (failing(profile, 1200, 12, seed), Nanos::ZERO);
            let (zones, mut choices) = (device.geometry().zones.unwrap(), Choices::new(seed));
            let mut known = vec![Written::default(); 4];
            (0..).zip(&mut known).for_each(|(at, zone)| zone.first = 1 + at * 1_000_000);
            for _ in 0..3 {
                device.arm(device.cut_points() + 200 + choices.below(3000));
                let (at, extra) = use_zones(&mut device, &mut now, &mut choices, (zones, &mut known));
                device.cut(&mut choices);
                device.arm(device.cut_points() + 1 + choices.below(300));
                while device.recover(now) == Err(DeviceError::PowerLost) {
                    device.cut(&mut choices);
                    device.arm(device.cut_points() + 1 + choices.below(3000));
                }
                device.arm(u64::MAX);
                device.check().unwrap();
                now += Nanos::from_secs(1);
                for (number, zone) in known.iter_mut().enumerate() {
                    let extra = if number == at { extra } else { 0 };
                    zone.pages = assert_kept(&mut device, &mut now, zones, (number, *zone), extra);
                }
            }
            bad += device.bad_blocks();
        }
        assert!(bad > 120, "{profile}: {bad} bad blocks");
    }
}

#[test]
fn a_device_without_spare_blocks_refuses_writes_and_goes_on_reading() {
    let (mut device, mut now) = (failing("ocssd-huawei", 40, 0, 5), Nanos::ZERO);
    let zones = device.geometry().zones.unwrap();
    let (mut written, mut refusal) = (0, None);
    while refusal.is_none() {
        match run(&mut device, &mut now, write(zones.start(0).offset(written), written..written + 1)).0 {
            Ok(_) => written += 1,
            Err(error) => refusal = Some(error),
        }
    }
    assert!(matches!(refusal, Some(DeviceError::WornOut { .. })), "{refusal:?}");
    let early = write(zones.start(1).offset(4), 0..1);
    let (outcomes, _) = run_all(&mut device, &mut now, vec![early, write(zones.start(1), 0..1)]);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(DeviceError::WornOut { .. }))), "{outcomes:?}");
    for number in 0..written {
        assert_eq!(read(&mut device, &mut now, zones.start(0).offset(number), 1), [page(number)]);
    }
    run(&mut device, &mut now, write(Lpn(3), 9..10)).0.expect("conventional pages have blocks of their own");
    device.check().unwrap();
}

#[test]
fn zones_wear_all_blocks_alike() {
    let plan = OpenPlan::new(16 * 1024, 256, 0, u32::MAX).unwrap();
    let (mut open, start) = (Open::new(plan), plan.zones.start(2).0 as u32);
    let first = open.flash().blocks() - plan.zones.count as u32;
    for number in 0..1000_u32 {
        open.write(onewrite_device::ftl::Lpn(start)).unwrap();
        open.trim(onewrite_device::ftl::Lpn(start)..onewrite_device::ftl::Lpn(start + 256)).unwrap();
        assert!(number > 0 || open.flash().erase_counts().iter().sum::<u32>() == 1);
    }
    let counts = &open.flash().erase_counts()[first as usize..];
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 1 && *least > 5, "{counts:?}");
}

/// Every zone holds a block, so that only spare ones are blank; then every program fails that may.
#[test]
fn a_zone_behind_a_torn_page_finds_a_block_when_the_spare_ones_fail() {
    let plan = OpenPlan::new(16 * 1024, 256, 0, u32::MAX).unwrap();
    let lpn = |zone: u64, page: u64| onewrite_device::ftl::Lpn((plan.zones.start(zone).0 + page) as u32);
    let mut full = Open::new(plan);
    for zone in 0..plan.zones.count {
        (0..3).map(|page| full.write(lpn(zone, page))).collect::<Result<Vec<_>, _>>().unwrap();
    }
    for seed in 0..40 {
        let mut open = full.clone();
        open.flash_mut().cut_after(0, seed);
        open.write(lpn(0, 3)).unwrap_err();
        open.recover().unwrap();
        open.check().unwrap();
        let mut faults = MediumFaults::new(seed);
        (faults.program_one_in, faults.erase_one_in) = (1, 1);
        assert!(open.set_faults(faults));
        let next = open.zone_pointers()[0];
        assert!((3..5).contains(&next), "{next}");
        let written = open.write(lpn(0, next)).unwrap();
        assert_eq!(open.read(lpn(0, next)).unwrap(), Some(written));
        assert!(open.worn_out().is_some(), "all spare blocks but the last have failed");
        open.check().unwrap();
    }
}

/// A page that failed to program has no version, so recovery takes that of the page before: given again, both would
/// read the same.
#[test]
fn no_version_is_given_twice_behind_a_page_that_failed() {
    let plan = OpenPlan::new(16 * 1024, 256, 0, u32::MAX).unwrap();
    let lpn = |zone: u64, page: u64| onewrite_device::ftl::Lpn((plan.zones.start(zone).0 + page) as u32);
    for count in 1..40 {
        let mut open = Open::new(plan);
        let versions: Vec<u64> = (0..count).map(|page| open.write(lpn(0, page)).unwrap()).collect();
        let mut faults = MediumFaults::new(1);
        faults.chosen.push((MediumOperation::Program, 0));
        assert!(open.set_faults(faults));
        // Power goes when the zone is about to move to another block.
        open.flash_mut().cut_after(1, count);
        open.write(lpn(0, count)).unwrap_err();
        open.recover().unwrap();
        let next = open.write(lpn(1, 0)).unwrap();
        assert!(versions.iter().all(|version| *version < next), "{count} pages: version {next} is given again");
    }
}
