//! Canaries: each breaks one rule of the FTL. The model test must notice each within 10,000 cuts from three seeds, and
//! must pass the sound device with the same seeds.

#[allow(dead_code, missing_docs, reason = "each test crate uses its part")]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use onewrite_block::{Choices, MIB};
use onewrite_device::ftl::{FtlRules, SoundFtl};
use onewrite_device::{Layer, Profile, Rules, Sound};
use support::{Driver, Mix};

const CUTS_MAX: u64 = 10_000;
const SEEDS: [u64; 3] = [1, 2, 3];

/// Forgets every owner except the last.
#[derive(Debug)]
struct IgnoresReferences;

impl Rules for IgnoresReferences {
    fn is_garbage(&self, _owners_left: usize) -> bool {
        true
    }
}

#[derive(Debug)]
struct ErasesBeforeMap;

impl Rules for ErasesBeforeMap {
    fn may_erase(&self, _batch_needed: u64, _batch_durable: u64) -> bool {
        true
    }
}

#[derive(Debug)]
struct FlushForgetsMap;

impl Rules for FlushForgetsMap {
    fn flush_persists_map(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct SharesByHalves;

impl Rules for SharesByHalves {
    fn share_pairs_together(&self, pairs: usize) -> usize {
        pairs.div_ceil(2)
    }
}

#[derive(Debug)]
struct ScansTooMuch;

impl Rules for ScansTooMuch {
    fn scan_start(&self, _covered: u32) -> u32 {
        0
    }
}

fn mix(range: u64) -> Mix {
    Mix { write: 30, fua: 3, flush: 4, trim: 8, share: 30, read: 4, pages_max: 12, range, depth: 8 }
}

/// Runs until the model notices an error or there are no cuts left; returns the number of cuts.
fn hunt(rules: Rc<dyn Rules>, seed: u64, cuts_max: u64) -> Option<u64> {
    let device = Profile::load("ideal").unwrap().ssd(Some(4 * MIB)).unwrap().with_rules(rules);
    let mut driver = Driver::new(device);
    let mut choices = Choices::new(seed);
    while driver.cuts < cuts_max {
        let run = catch_unwind(AssertUnwindSafe(|| driver.torture(&mix(1000), 400, 150, &mut choices)));
        if run.is_err() {
            return Some(driver.cuts);
        }
    }
    None
}

fn is_caught(name: &str, rules: impl Fn() -> Rc<dyn Rules>) {
    for seed in SEEDS {
        let cuts = hunt(rules(), seed, CUTS_MAX);
        assert!(cuts.is_some(), "{name} went unnoticed through {CUTS_MAX} cuts of seed {seed}");
        println!("{name}: seed {seed} caught it after {} cuts", cuts.unwrap_or(0));
    }
}

#[test]
fn an_ignored_reference_count_is_caught() {
    is_caught("an ignored reference count", || Rc::new(IgnoresReferences));
}

#[test]
fn a_victim_erased_before_its_map_records_are_durable_is_caught() {
    is_caught("an early erase", || Rc::new(ErasesBeforeMap));
}

#[test]
fn a_flush_that_does_not_persist_the_map_is_caught() {
    is_caught("a flush without the map", || Rc::new(FlushForgetsMap));
}

#[test]
fn a_half_applied_share_is_caught() {
    is_caught("half a SHARE", || Rc::new(SharesByHalves));
}

#[test]
fn a_trim_undone_by_the_scan_is_caught() {
    is_caught("an undone trim", || Rc::new(ScansTooMuch));
}

#[test]
fn the_sound_device_passes_the_same_seeds() {
    for seed in SEEDS {
        assert_eq!(hunt(Rc::new(Sound), seed, 600), None);
    }
}

/// Recovery of a translation layer with one broken rule.
#[derive(Debug)]
enum BrokenFtl {
    IgnoresVersions,
    IgnoresTrims,
    ErasesUnsettled,
}

impl FtlRules for BrokenFtl {
    fn is_newer(&self, candidate: u64, known: u64) -> bool {
        matches!(self, BrokenFtl::IgnoresVersions) || candidate > known
    }

    fn trims_count(&self) -> bool {
        !matches!(self, BrokenFtl::IgnoresTrims)
    }

    fn supersedes_before_erase(&self) -> bool {
        !matches!(self, BrokenFtl::ErasesUnsettled)
    }
}

/// The same for a translation layer behind the requests of a memory card.
fn hunt_layer(layer: Layer, rules: Arc<dyn FtlRules>, seed: u64) -> Option<u64> {
    let profile = Profile::load("microsd-adata").unwrap().with_layer(Some(layer)).unwrap();
    let mut driver = Driver::new(profile.ftl_device(Some(4 * MIB)).unwrap().with_rules(rules));
    let mut choices = Choices::new(seed);
    for _ in 0..20 {
        if catch_unwind(AssertUnwindSafe(|| driver.torture(&mix(1000), 200, 150, &mut choices))).is_err() {
            return Some(driver.cuts);
        }
    }
    None
}

#[test]
fn a_translation_layer_with_a_broken_rule_is_caught_through_its_device() {
    let (fast, bast) = (Layer::Fast { random_blocks: None }, Layer::Bast { log_blocks: None });
    let dftl = Layer::Dftl { cache_bytes: Some(400) };
    let broken: [(Layer, fn() -> BrokenFtl); 7] = [
        (fast, || BrokenFtl::IgnoresVersions),
        (fast, || BrokenFtl::IgnoresTrims),
        (fast, || BrokenFtl::ErasesUnsettled),
        (bast, || BrokenFtl::IgnoresVersions),
        (bast, || BrokenFtl::IgnoresTrims),
        (dftl, || BrokenFtl::IgnoresVersions),
        (dftl, || BrokenFtl::IgnoresTrims),
    ];
    for (layer, rules) in broken {
        for seed in SEEDS {
            let cuts = hunt_layer(layer, Arc::new(rules()), seed);
            assert!(cuts.is_some(), "{layer:?}, {:?} went unnoticed with seed {seed}", rules());
            println!("{layer:?}, {:?}: seed {seed} caught it after {} cuts", rules(), cuts.unwrap_or(0));
        }
    }
    for layer in [fast, bast, dftl] {
        SEEDS.iter().for_each(|seed| assert_eq!(hunt_layer(layer, Arc::new(SoundFtl), *seed), None));
    }
}
