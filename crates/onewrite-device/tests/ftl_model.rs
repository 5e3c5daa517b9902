//! Translation layers against a simple model of their contract: random writes, trims and reads, with power cuts at any
//! flash operation, also in recovery. And canaries: the model must notice recovery with one broken rule.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use onewrite_block::Choices;
use onewrite_device::ftl::{
    Bast, BastPlan, Dftl, DftlPlan, Fast, FastPlan, Ftl, FtlPlan, FtlRules, Lpn, PowerLost, SoundFtl,
};

/// Logical pages of FAST; the last block is partial.
const PAGES: u32 = 203;
/// Logical pages of DFTL: two translation pages and a small part of a third.
const DFTL_PAGES: u32 = 2_100;
const BLOCK_PAGES: u32 = 8;

/// The device under test and its expected answers.
struct Driver {
    ftl: Box<dyn Ftl>,
    /// Version of each page; zero for none.
    versions: Vec<u64>,
    choices: Choices,
    cuts: u64,
    cuts_in_recovery: u64,
}

/// A request of the host.
#[derive(Clone, Copy, Debug)]
enum HostRequest {
    Write { start: u32, count: u32 },
    Trim { start: u32, count: u32 },
    Read { lpn: u32 },
}

/// The effect of a cut request: each of these pages reads as before the request or as after it.
#[derive(Clone, Debug)]
enum Open {
    Written(Range<u32>),
    Trimmed(Range<u32>),
    Nothing,
}

impl Open {
    /// Whether `found` is an allowed version of a page that had version `known` before the request.
    fn allows(&self, lpn: u32, found: u64, known: u64) -> bool {
        match self {
            Open::Written(pages) => pages.contains(&lpn) && found > known,
            Open::Trimmed(pages) => pages.contains(&lpn) && found == 0,
            Open::Nothing => false,
        }
    }
}

impl Driver {
    fn new(ftl: Box<dyn Ftl>, seed: u64) -> Driver {
        let versions = vec![0; ftl.logical_pages() as usize];
        Driver { ftl, versions, choices: Choices::new(seed), cuts: 0, cuts_in_recovery: 0 }
    }

    /// A driver with every page written once.
    fn filled(ftl: Box<dyn Ftl>, seed: u64) -> Driver {
        let mut driver = Driver::new(ftl, seed);
        driver.run(HostRequest::Write { start: 0, count: driver.ftl.logical_pages() }).unwrap();
        driver
    }

    /// Random requests: runs of whole and half blocks, single pages (some of them hot), trims of any length, reads.
    fn step(&mut self) -> HostRequest {
        let pages = self.ftl.logical_pages();
        let place = self.choices.below(u64::from(pages)) as u32;
        let block = place / BLOCK_PAGES * BLOCK_PAGES;
        let fits = |start: u32, count: u32| count.min(pages - start);
        match self.choices.below(100) {
            0..12 => HostRequest::Write { start: block, count: fits(block, BLOCK_PAGES) },
            12..24 => HostRequest::Write { start: block, count: fits(block, 1 + self.choices.below(12) as u32) },
            24..54 => HostRequest::Write { start: place, count: 1 },
            54..64 => HostRequest::Write { start: place % 24, count: 1 },
            64..70 => HostRequest::Trim { start: place, count: fits(place, 1 + self.choices.below(40) as u32) },
            70..74 => HostRequest::Trim { start: place, count: 1 },
            _ => HostRequest::Read { lpn: place },
        }
    }

    /// Runs a request. If it is cut, returns the pages that the cut leaves open.
    fn run(&mut self, step: HostRequest) -> Result<(), Open> {
        match step {
            HostRequest::Write { start, count } => (start..start + count).try_for_each(|lpn| {
                let version = self.ftl.write(Lpn(lpn)).map_err(|PowerLost| Open::Written(lpn..lpn + 1))?;
                self.versions[lpn as usize] = version;
                Ok(())
            }),
            HostRequest::Trim { start, count } => {
                let trimmed = self.ftl.trim(Lpn(start).run(count));
                trimmed.map_err(|PowerLost| Open::Trimmed(start..start + count))?;
                self.versions[start as usize..(start + count) as usize].fill(0);
                Ok(())
            }
            HostRequest::Read { lpn } => {
                let found = self.ftl.read(Lpn(lpn)).map_err(|PowerLost| Open::Nothing)?;
                assert_eq!(found.unwrap_or(0), self.versions[lpn as usize], "page {lpn}");
                Ok(())
            }
        }
    }

    /// Recovers, with some further cuts, and compares every page.
    fn recover(&mut self, open: &Open) {
        self.cuts += 1;
        loop {
            if self.choices.chance(1, 2) {
                let most = 2 * u64::from(self.ftl.logical_pages());
                self.ftl.flash_mut().cut_after(self.choices.below(most), self.choices.bits());
            }
            match self.ftl.recover() {
                Ok(()) => break,
                Err(PowerLost) => self.cuts_in_recovery += 1,
            }
        }
        self.ftl.flash_mut().cut_after(u64::MAX - 1, 0);
        self.ftl.check().unwrap();
        for lpn in 0..self.ftl.logical_pages() {
            let (found, known) = (self.ftl.read(Lpn(lpn)).unwrap().unwrap_or(0), self.versions[lpn as usize]);
            let is_allowed = found == known || open.allows(lpn, found, known);
            assert!(is_allowed, "page {lpn} reads {found} after the cut, {known} was promised");
            self.versions[lpn as usize] = found;
        }
    }

    /// Runs `steps` requests with a cut about every `pace` flash operations.
    fn torture(&mut self, steps: u64, pace: u64) {
        self.ftl.flash_mut().cut_after(self.choices.below(pace), self.choices.bits());
        for turn in 0..steps {
            let step = self.step();
            if let Err(open) = self.run(step) {
                self.recover(&open);
                self.ftl.flash_mut().cut_after(self.choices.below(pace), self.choices.bits());
            }
            if turn % 64 == 0 {
                self.ftl.check().unwrap();
            }
        }
    }
}

fn fast(spare_blocks: u32, rules: Arc<dyn FtlRules>) -> Box<dyn Ftl> {
    let space = FtlPlan { logical_pages: PAGES, block_pages: BLOCK_PAGES, spare_blocks };
    Box::new(Fast::new(FastPlan { space, random_blocks: None }).with_rules(rules))
}

fn bast(spare_blocks: u32, rules: Arc<dyn FtlRules>) -> Box<dyn Ftl> {
    let space = FtlPlan { logical_pages: PAGES, block_pages: BLOCK_PAGES, spare_blocks };
    Box::new(Bast::new(BastPlan { space, log_blocks: None }).with_rules(rules))
}

fn dftl(cache_entries: u64, more_blocks: u32, rules: Arc<dyn FtlRules>) -> Box<dyn Ftl> {
    let spare_blocks = DftlPlan::spare_blocks_min(DFTL_PAGES, BLOCK_PAGES) + more_blocks;
    let space = FtlPlan { logical_pages: DFTL_PAGES, block_pages: BLOCK_PAGES, spare_blocks };
    let cache_bytes = cache_entries * DftlPlan::ENTRY_BYTES;
    Box::new(Dftl::new(DftlPlan { space, cache_bytes }).with_rules(rules))
}

type Make = fn(Arc<dyn FtlRules>) -> Box<dyn Ftl>;

const FAST: [(&str, Make); 2] = [("FAST, least spare", |rules| fast(3, rules)), ("FAST", |rules| fast(8, rules))];
const BAST: [(&str, Make); 2] = [("BAST, least spare", |rules| bast(2, rules)), ("BAST", |rules| bast(8, rules))];
const DFTL: [(&str, Make); 3] = [
    ("DFTL, one entry cached, least spare", |rules| dftl(1, 0, rules)),
    ("DFTL, 40 entries cached", |rules| dftl(40, 20, rules)),
    ("DFTL, all entries cached", |rules| dftl(4096, 0, rules)),
];

fn layers() -> impl Iterator<Item = (&'static str, Make)> {
    FAST.into_iter().chain(BAST).chain(DFTL)
}

#[test]
fn what_was_acknowledged_is_read_back_after_cuts_at_any_flash_operation() {
    for (name, make) in layers() {
        let (mut cuts, mut in_recovery, mut moved, mut map_programs) = (0, 0, 0, 0);
        for seed in 0..12 {
            for pace in [40, 400, 4000] {
                let start = if seed % 2 == 0 { Driver::filled } else { Driver::new };
                let mut driver = start(make(Arc::new(SoundFtl)), seed);
                driver.torture(1500, pace);
                cuts += driver.cuts;
                in_recovery += driver.cuts_in_recovery;
                moved += driver.ftl.counters().moved_pages;
                map_programs += driver.ftl.counters().map_programs;
            }
        }
        println!(
            "{name}: {cuts} cuts, {in_recovery} more in recovery, {moved} pages moved, \
             {map_programs} programs for the map"
        );
        assert!(cuts > 1000 && in_recovery > 300, "{name}: {cuts} cuts, {in_recovery} in recovery");
        assert!(moved > 300 && map_programs > 300, "{name}: {moved} pages moved, {map_programs} programs for the map");
    }
}

/// Cuts after `operations` operations, and recovers; false if the run ended before.
fn cut_at(make: Make, operations: u64) -> bool {
    let mut driver = Driver::filled(make(Arc::new(SoundFtl)), 5);
    driver.ftl.flash_mut().cut_after(operations, operations);
    for _ in 0..150 {
        let step = driver.step();
        if let Err(open) = driver.run(step) {
            driver.choices = Choices::new(operations);
            driver.recover(&open);
            return true;
        }
    }
    false
}

#[test]
fn every_single_operation_of_a_short_run_can_be_the_last() {
    for (name, make) in layers() {
        let operations = (0..).find(|operations| !cut_at(make, *operations)).unwrap();
        println!("{name}: {operations} operations, each cut");
        assert!(operations > 400, "{name}: {operations} operations");
    }
}

#[test]
fn recovery_without_a_cut_changes_nothing() {
    for (_, make) in layers() {
        let mut driver = Driver::new(make(Arc::new(SoundFtl)), 9);
        for _ in 0..30 {
            driver.torture(100, u64::MAX - 1);
            driver.recover(&Open::Nothing);
        }
    }
}

/// A layer of random size, block size, spare blocks and cache.
fn any_layer(choices: &mut Choices) -> (String, Box<dyn Ftl>) {
    let mut between = |low: u64, high: u64| (low + choices.below(high - low + 1)) as u32;
    let block_pages = between(2, 24);
    let kind = between(0, 2);
    if kind == 0 {
        let space = FtlPlan { logical_pages: between(1, 400), block_pages, spare_blocks: between(3, 20) };
        let plan = FastPlan { space, random_blocks: Some(between(1, 20)) };
        return (format!("{plan:?}"), Box::new(Fast::new(plan)));
    }
    if kind == 1 {
        let space = FtlPlan { logical_pages: between(1, 400), block_pages, spare_blocks: between(2, 20) };
        let plan = BastPlan { space, log_blocks: Some(between(1, 20)) };
        return (format!("{plan:?}"), Box::new(Bast::new(plan)));
    }
    let logical_pages = between(1, 3000);
    let spare_blocks = DftlPlan::spare_blocks_min(logical_pages, block_pages) + between(0, 30);
    let space = FtlPlan { logical_pages, block_pages, spare_blocks };
    let plan = DftlPlan { space, cache_bytes: u64::from(between(8, 3000)) };
    (format!("{plan:?}"), Box::new(Dftl::new(plan)))
}

/// Numbers of power cuts.
struct Cuts {
    all: u64,
    in_recovery: u64,
}

/// Tests layers of random shapes until there were `cuts_min` cuts.
fn torture_shapes(seeds: std::ops::RangeFrom<u64>, cuts_min: u64) -> Cuts {
    let mut cuts = Cuts { all: 0, in_recovery: 0 };
    for seed in seeds {
        let mut choices = Choices::new(seed).stream("shape", 0);
        let (plan, layer) = any_layer(&mut choices);
        let pace = [20, 100, 1000, 10_000][choices.index(4)];
        let run = catch_unwind(AssertUnwindSafe(|| {
            let start = if seed % 3 == 0 { Driver::new } else { Driver::filled };
            let mut driver = start(layer, seed);
            driver.torture(1000, pace);
            Cuts { all: driver.cuts, in_recovery: driver.cuts_in_recovery }
        }));
        let more = run.unwrap_or_else(|_| panic!("replay: seed {seed}, pace {pace}, {plan}"));
        cuts.all += more.all;
        cuts.in_recovery += more.in_recovery;
        if cuts.all >= cuts_min {
            println!("{} cuts, {} more in recovery, seeds up to {seed}", cuts.all, cuts.in_recovery);
            break;
        }
    }
    cuts
}

#[test]
fn layers_of_any_shape_keep_their_contract() {
    let Cuts { all, in_recovery } = torture_shapes(1.., 10_000);
    assert!(all >= 10_000 && in_recovery > 1_000, "{all} cuts, {in_recovery} in recovery");
}

#[test]
#[ignore = "deep: a million cuts, a minute or more"]
fn a_million_cuts_keep_the_contract() {
    torture_shapes(1_000_000.., 1_000_000);
}

/// Counts the page found last as the newest.
#[derive(Debug)]
struct IgnoresVersions;

impl FtlRules for IgnoresVersions {
    fn is_newer(&self, _candidate: u64, _known: u64) -> bool {
        true
    }
}

#[derive(Debug)]
struct IgnoresTrims;

impl FtlRules for IgnoresTrims {
    fn trims_count(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct TrustsTheMap;

impl FtlRules for TrustsTheMap {
    fn areas_count(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct ErasesUnsettled;

impl FtlRules for ErasesUnsettled {
    fn supersedes_before_erase(&self) -> bool {
        false
    }
}

/// Cuts until the model notices; `None` if it never does.
fn hunt(make: Make, rules: Arc<dyn FtlRules>, seed: u64) -> Option<u64> {
    let mut driver = Driver::new(make(rules), seed);
    for _ in 0..200 {
        if catch_unwind(AssertUnwindSafe(|| driver.torture(100, 200))).is_err() {
            return Some(driver.cuts);
        }
    }
    None
}

fn is_caught(what: &str, layers: impl Iterator<Item = (&'static str, Make)>, rules: impl Fn() -> Arc<dyn FtlRules>) {
    for (name, make) in layers {
        for seed in 1..4 {
            let cuts = hunt(make, rules(), seed);
            assert!(cuts.is_some(), "{name}: {what} went unnoticed with seed {seed}");
            println!("{name}: seed {seed} caught {what} after {} cuts", cuts.unwrap_or(0));
        }
    }
}

#[test]
fn recovery_that_ignores_the_version_is_caught() {
    is_caught("a recovery that ignores versions", layers(), || Arc::new(IgnoresVersions));
}

#[test]
fn recovery_that_ignores_trims_is_caught() {
    is_caught("a recovery that ignores trims", layers(), || Arc::new(IgnoresTrims));
}

#[test]
fn recovery_that_ignores_pages_newer_than_the_map_is_caught() {
    is_caught("a recovery by the map alone", DFTL.into_iter(), || Arc::new(TrustsTheMap));
}

#[test]
fn a_block_erased_before_what_it_held_is_elsewhere_is_caught() {
    is_caught("an early erase", FAST.into_iter(), || Arc::new(ErasesUnsettled));
}

#[test]
fn the_sound_rules_pass_the_same_seeds() {
    for (_, make) in layers() {
        (1..4).for_each(|seed| assert_eq!(hunt(make, Arc::new(SoundFtl), seed), None));
    }
}
