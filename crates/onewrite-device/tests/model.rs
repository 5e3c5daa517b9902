//! The emulated SSD against a plain model of its promises: random requests, cuts at any event, recovery cut too.

#[allow(dead_code, missing_docs, reason = "each test crate uses its part")]
mod support;

use onewrite_block::{Choices, MIB};
use onewrite_device::Profile;
use support::{Driver, Mix};

const BALANCED: Mix =
    Mix { write: 40, fua: 6, flush: 6, trim: 6, share: 12, read: 8, pages_max: 24, range: 900, depth: 8 };

fn torture(profile: &str, mix: Mix, seed: u64, requests: u64, pace: u64) -> Driver {
    let device = Profile::load(profile).unwrap().device(Some(4 * MIB)).unwrap();
    let mut driver = Driver::new(device);
    driver.torture(&mix, requests, pace, &mut Choices::new(seed));
    driver
}

#[test]
fn random_requests_with_cuts_keep_every_promise() {
    for profile in ["sata-850pro", "nvme-share", "ideal"] {
        for seed in 0..6 {
            let driver = torture(profile, BALANCED, seed, 4000, 400);
            assert!(driver.cuts > 5 && driver.cuts_in_recovery > 0, "{} cuts", driver.cuts);
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
