//! The emulated SSD against a simple model of its promises: random requests, with cuts at any event, also in recovery.

#[allow(dead_code, missing_docs, reason = "each test crate uses its part")]
mod support;

use onewrite_block::{Choices, Device, MIB, PowerCut};
use onewrite_device::ftl::FtlDevice;
use onewrite_device::{Layer, MapLogKind, MediumFaults, Profile, Ssd};
use support::{Driver, Mix};

const BALANCED: Mix =
    Mix { write: 40, fua: 6, flush: 6, trim: 6, share: 12, read: 8, pages_max: 24, range: 900, depth: 8 };

fn torture(profile: &str, mix: Mix, seed: u64, requests: u64, pace: u64) -> Driver<Ssd> {
    let device = Profile::load(profile).unwrap().ssd(Some(4 * MIB)).unwrap();
    let mut driver = Driver::new(device);
    driver.torture(&mix, requests, pace, &mut Choices::new(seed));
    driver
}

#[test]
fn random_requests_with_cuts_keep_every_promise() {
    for profile in ["sata-850pro", "nvme-share", "ideal", "nvme-960pro", "nvme-750", "ssd-tlc-120g"] {
        for seed in 0..6 {
            let driver = torture(profile, BALANCED, seed, 4000, 400);
            assert!(driver.cuts > 5 && driver.cuts_in_recovery > 0, "{} cuts", driver.cuts);
        }
    }
}

/// Each life begins the round of the map's segments anew, so the oldest block of the map log is never free by itself.
#[test]
fn short_lives_take_the_map_log_round_and_lose_nothing() {
    for profile in ["sata-850pro", "nvme-share", "ideal"] {
        for seed in 0..2 {
            let mix = Mix { flush: 40, trim: 3, share: 3, pages_max: 4, ..BALANCED };
            let driver = torture(profile, mix, seed, 6000, 40);
            assert!(driver.cuts > 300, "{profile}: {} cuts", driver.cuts);
        }
    }
}

/// The same promises where the map log takes whole segments; `nvme-share` beside SHAREs, `nvme-750` with a capacitor.
#[test]
fn a_map_log_of_whole_segments_keeps_every_promise() {
    for name in ["sata-850pro", "nvme-share", "nvme-750"] {
        for (seed, pace) in [(0, 400), (1, 400), (2, 40), (3, 40)] {
            let mut profile = Profile::load(name).unwrap();
            profile.flash.as_mut().unwrap().map_log = MapLogKind::Segments;
            let mut driver = Driver::new(profile.ssd(Some(4 * MIB)).unwrap());
            let mix = Mix { flush: 20, ..BALANCED };
            driver.torture(&mix, 4000, pace, &mut Choices::new(seed));
            assert!(driver.cuts > 5, "{name}: {} cuts", driver.cuts);
        }
    }
}

#[test]
fn rare_cuts_find_a_device_deep_in_garbage_collection_whole() {
    for profile in ["sata-850pro", "nvme-share", "ideal"] {
        let driver = torture(profile, Mix { range: 1024, ..BALANCED }, 77, 12_000, 20_000);
        let counters = driver.device.counters();
        assert!(counters.moved_pages > 1000, "{profile}: {} pages moved", counters.moved_pages);
    }
}

#[test]
fn a_hard_disk_keeps_every_promise_too() {
    for seed in 0..4 {
        let mut driver = Driver::new(Profile::load("hdd-barracuda").unwrap().hard_disk(Some(4 * MIB)).unwrap());
        driver.torture(&BALANCED, 3000, 300, &mut Choices::new(seed));
        assert!(driver.cuts > 5);
    }
}

fn layered(profile: &str, layer: Layer) -> Driver<FtlDevice> {
    let profile = Profile::load(profile).unwrap().with_layer(Some(layer)).unwrap();
    let mut driver = Driver::new(profile.ftl_device(Some(4 * MIB)).unwrap());
    driver.recovery_points = 3000;
    driver
}

const LAYERS: [Layer; 4] = [
    Layer::Fast { random_blocks: None },
    Layer::Fast { random_blocks: Some(1) },
    Layer::Bast { log_blocks: None },
    Layer::Dftl { cache_bytes: Some(400) },
];

#[test]
fn every_translation_layer_keeps_every_promise_through_cuts_inside_merges_and_recovery() {
    for layer in LAYERS {
        let (mut merges, mut map, mut erases, mut recoveries, mut cuts) = (0, 0, 0, 0, 0);
        for (profile, seeds) in
            [("microsd-adata", 0..6), ("sata-850pro", 0..3), ("nvme-share", 0..3), ("nvme-p3600", 0..3)]
        {
            for seed in seeds {
                let mut driver = layered(profile, layer);
                let mix = Mix { range: [900, 100, 1024][seed as usize % 3], ..BALANCED };
                driver.torture(&mix, 3000, [400, 2000][seed as usize % 2], &mut Choices::new(seed));
                driver.device.check().unwrap();
                cuts += driver.cuts;
                merges += driver.cuts_in_collection;
                map += driver.cuts_in_map_log;
                erases += driver.cuts_in_erase;
                recoveries += driver.cuts_in_recovery;
            }
        }
        println!(
            "{layer:?}: {cuts} cuts, {merges} at a copy, {map} at a page of the map, {erases} in an erase; \
             {recoveries} in recovery"
        );
        assert!(
            merges > 50 && erases > 5 && recoveries > 100 && map > 0,
            "{layer:?}: {merges} {erases} {recoveries} {map}"
        );
    }
}

/// Total requests of the deep run, over all its seeds.
const DEEP_REQUESTS: u64 = 10_000_000;

/// The mixes of the deep run: balanced, many SHAREs, many trims, overlapping writes on few pages.
const DEEP_MIXES: [Mix; 4] = [
    Mix { range: 1024, ..BALANCED },
    Mix { write: 25, fua: 3, flush: 3, trim: 5, share: 60, read: 4, pages_max: 8, range: 1024, depth: 16 },
    Mix { write: 40, fua: 2, flush: 8, trim: 45, share: 10, read: 5, pages_max: 40, range: 1024, depth: 8 },
    Mix { write: 80, fua: 8, flush: 6, trim: 8, share: 4, read: 8, pages_max: 6, range: 48, depth: 24 },
];

#[test]
#[ignore = "deep: ten million requests, some minutes in a release build"]
fn ten_million_requests_with_cuts_everywhere_keep_every_promise() {
    let each = 25_000;
    let mut totals = [0; 7];
    for seed in 0.. {
        let mix = DEEP_MIXES[seed as usize % DEEP_MIXES.len()];
        let profile = ["sata-850pro", "nvme-share", "ideal"][seed as usize % 3];
        let mut device = Profile::load(profile).unwrap().ssd(Some(4 * MIB)).unwrap();
        if seed % 5 == 4 {
            let mut faults = MediumFaults::new(seed);
            (faults.program_one_in, faults.erase_one_in) = (200_000, 20_000);
            device.set_faults(faults);
        }
        let mut driver = Driver::new(device);
        let pace = [100, 1000, 10_000][seed as usize / 3 % 3];
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            driver.torture(&mix, each, pace, &mut Choices::new(seed));
        }));
        assert!(run.is_ok(), "replay: seed {seed}, {profile}, {mix:?}, {each} requests, a cut every {pace} events");
        let inside = [driver.cuts_in_collection, driver.cuts_in_map_log, driver.cuts_in_share, driver.cuts_in_erase];
        let all = [driver.requests, driver.cuts, driver.cuts_in_recovery].into_iter().chain(inside);
        totals.iter_mut().zip(all).for_each(|(total, count)| *total += count);
        if totals[0] >= DEEP_REQUESTS {
            break;
        }
    }
    let [requests, cuts, recovery, collection, map_log, share, erase] = totals;
    println!(
        "{requests} requests, {cuts} cuts: {collection} in collection, {map_log} in the map log, {share} in SHARE, \
         {erase} in an erase; {recovery} in recovery"
    );
    assert!([recovery, collection, map_log, share].iter().all(|&count| count > 1000), "{totals:?}");
}
