//! Cuts inside emulated SSDs, through `PowerCut` alone.

use std::rc::Rc;
use std::sync::Arc;

use onewrite_block::{PAGE_SIZE, PowerCut};
use onewrite_crash::{
    CrashPlan, DeviceCuts, ExploreOptions, Explorer, Ext4Subject, MakeDevice, Promise, Report, Workload, WorkloadSpec,
    crash, replay,
};
use onewrite_device::ftl::FtlRules;
use onewrite_device::{Layer, Profile, Rules};
use onewrite_fs::ext4::Mode;
use onewrite_fs::journal::CheckpointBy;

const WORKLOAD: &str = "mkdir /d; create /a; write /a 0 60000 1; fsync /a; append /a 5000 2; rename /a /d/a; \
                        fsync /d/a; \
                        truncate /d/a 3000; write /d/a 8192 30000 3; sync; unlink /d/a; sync \
                        | create /p; write /p 0 70000 4; fsync /p; unlink /p; create /q; append /q 90000 6; fsync /q";

fn device(profile: &str, pages: u64) -> Box<dyn PowerCut> {
    Profile::load(profile).expect("profile").device(Some(pages * PAGE_SIZE as u64)).expect("device")
}

fn options(profile: &str) -> ExploreOptions {
    ExploreOptions { cache_pages: 256, ..ExploreOptions::default() }.on(device(profile, 8192).geometry())
}

const ORDERED: Ext4Subject = Ext4Subject::new(Mode::Ordered);

fn workload() -> Workload {
    WORKLOAD.parse().expect("workload")
}

fn explored(make: &MakeDevice<'_>, mode: Mode, options: &ExploreOptions, points: u64) -> Report {
    let mut explorer = Explorer::new(Ext4Subject::new(mode), options);
    explorer.explore_device(make, &workload(), &DeviceCuts { points, chances: 2, only: None }).expect("the run");
    explorer.into_report()
}

#[test]
fn cuts_inside_share_map_log_collection_and_recovery_of_an_ssd_break_no_promise() {
    for (profile, shares) in [("sata-850pro", false), ("nvme-share", true)] {
        let can = |mode: &Mode| shares || mode.checkpoint() == CheckpointBy::Copy;
        // Where a FLUSH is alone, few cuts of one mode fall into its recovery.
        let mut inside_recovery = 0;
        for mode in Mode::ALL.into_iter().filter(|mode| mode.padding().is_none()).filter(can) {
            let report = explored(&|pages| device(profile, pages), mode, &options(profile), 150);
            assert!(report.is_sound(), "{profile} {mode}: {:#?}", report.violations);
            let kinds = report.states_by_kind;
            assert!(kinds.inside_device > 60, "{profile} {mode}: {report:?}");
            inside_recovery += kinds.inside_recovery;
            assert!(kinds.inside_map_log > 10 && kinds.inside_collection > 10, "{profile} {mode}: {report:?}");
            assert!(kinds.inside_device_recovery > 5, "{profile} {mode}: {report:?}");
            assert_eq!(kinds.inside_share > 10, shares, "{profile} {mode}: {report:?}");
        }
        assert!(inside_recovery > 0, "{profile}: no cut inside a recovery");
    }
}

#[test]
fn cuts_inside_a_hard_disk_break_no_promise() {
    let profile = "hdd-barracuda";
    for mode in [Mode::Ordered, Mode::Data] {
        let report = explored(&|pages| device(profile, pages), mode, &options(profile), 250);
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        assert!(report.states_by_kind.inside_device > 100, "{mode}: {report:?}");
    }
}

#[test]
fn a_tenth_of_the_states_of_a_named_device_is_cut_inside_it() {
    let options = ExploreOptions { states_max: 1_500, ..options("nvme-share") };
    let make = |pages| device("nvme-share", pages);
    let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    let spec: WorkloadSpec = "random:60".parse().expect("workload");
    let report = crash(ORDERED, spec.workloads(&ORDERED, options.seed), plan, |_| ()).expect("the run");
    assert!(report.is_sound(), "{:#?}", report.violations);
    assert!(report.states == 1_500 && (120..=200).contains(&report.states_by_kind.inside_device), "{report:?}");
}

/// FTL rules with one of them broken.
#[derive(Debug)]
enum Broken {
    /// Erases a block before the map log records where its pages went.
    ErasesBeforeMap,
    /// FLUSH leaves the map in memory.
    FlushForgetsMap,
    /// A SHARE takes two pages of the map log, so a cut can halve it.
    SharesByHalves,
}

impl Rules for Broken {
    fn may_erase(&self, batch_needed: u64, batch_durable: u64) -> bool {
        matches!(self, Broken::ErasesBeforeMap) || batch_needed <= batch_durable
    }

    fn flush_persists_map(&self) -> bool {
        !matches!(self, Broken::FlushForgetsMap)
    }

    fn share_pairs_together(&self, pairs: usize) -> usize {
        if matches!(self, Broken::SharesByHalves) { pairs.div_ceil(2) } else { pairs }
    }
}

#[test]
fn an_ssd_that_breaks_a_rule_is_caught_and_its_state_replayed() {
    let kinds: [fn() -> Broken; 3] =
        [|| Broken::ErasesBeforeMap, || Broken::FlushForgetsMap, || Broken::SharesByHalves];
    for broken in kinds {
        let make = |pages: u64| -> Box<dyn PowerCut> {
            let ssd = Profile::load("nvme-share").expect("profile").ssd(Some(pages * PAGE_SIZE as u64));
            Box::new(ssd.expect("device").with_rules(Rc::new(broken())))
        };
        let options = options("nvme-share");
        let report = explored(&make, Mode::Ordered, &options, 250);
        let violation =
            report.violations.first().unwrap_or_else(|| panic!("{:?} went unnoticed: {report:?}", broken()));
        println!("{:?}: {:?}, {}, at state {}", broken(), violation.promise, violation.what, report.states);
        assert_eq!(violation.promise, Promise::Device, "{:?}: {violation:#?}", broken());
        let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
        let again = replay(ORDERED, &workload(), &violation.state, plan).expect("replayed");
        assert_eq!(again.violations.first().map(|again| &again.what), Some(&violation.what), "{:?}", broken());
        let sound = |pages| device("nvme-share", pages);
        let plan = CrashPlan { device: Some(&sound), ..plan };
        assert!(replay(ORDERED, &workload(), &violation.state, plan).expect("replayed").is_sound(), "{:?}", broken());
    }
}

/// A memory card with this translation layer.
fn card(layer: Layer) -> Profile {
    Profile::load("microsd-adata").expect("profile").with_layer(Some(layer)).expect("a layer")
}

#[test]
fn cuts_inside_merges_of_a_card_and_inside_their_recovery_break_no_promise() {
    let layers =
        [Layer::Fast { random_blocks: None }, Layer::Bast { log_blocks: None }, Layer::Dftl { cache_bytes: None }];
    let (mut merging, mut cut_again) = (0, 0);
    for layer in layers {
        let make = |pages: u64| card(layer).device(Some(pages * PAGE_SIZE as u64)).expect("device");
        for mode in [Mode::Ordered, Mode::Data] {
            let options = options("microsd-adata");
            let report = explored(&make, mode, &options, 120);
            assert!(report.is_sound(), "{layer:?} {mode}: {:#?}", report.violations);
            let kinds = report.states_by_kind;
            assert!(kinds.inside_device > 20, "{layer:?} {mode}: {report:?}");
            merging += kinds.inside_collection;
            cut_again += kinds.inside_device_recovery;
        }
    }
    assert!(merging > 20 && cut_again > 10, "{merging} states in a merge or a collection, {cut_again} in recovery");
}

/// Erases a log block with the only copy of its content.
#[derive(Debug)]
struct ErasesUnsettled;

impl FtlRules for ErasesUnsettled {
    fn supersedes_before_erase(&self) -> bool {
        false
    }
}

#[test]
fn a_card_that_erases_too_early_is_caught() {
    let make = |pages: u64| -> Box<dyn PowerCut> {
        let device = card(Layer::Fast { random_blocks: None }).ftl_device(Some(pages * PAGE_SIZE as u64));
        Box::new(device.expect("device").with_rules(Arc::new(ErasesUnsettled)))
    };
    let options = options("microsd-adata");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        !explored(&make, Mode::Ordered, &options, 250).is_sound()
    }));
    assert!(caught.unwrap_or(true), "an early erase went unnoticed");
}
