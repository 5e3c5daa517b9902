//! Zero padding inside emulated SSDs. The write buffer decides what survives, so every state is a cut inside a device.

use std::cell::RefCell;
use std::ops::Range;

use onewrite_block::{DevicePort, GIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Alter, Altered, CrashPlan, DeviceCuts, ExploreOptions, Explorer, Ext4Subject, Mounting, Report, Subject,
    WorkloadSpec, crash,
};
use onewrite_device::{Eviction, Profile};
use onewrite_fs::FsResult;
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::journal::{
    Commit, CommitFuture, EvictionSpot, Log, LogBlock, LogFeatures, Padding, PrepareFuture, Record, ZeroPadding,
};

/// Commits in sequence, with data in place that they order.
const SYNCING: &str = "script:create /a; write /a 0 60000 1; fsync /a; append /a 5000 2; rename /a /b; fsync /b; \
                       mkdir /d; \
                       fsync /d; write /b 8192 30000 3; sync; unlink /b; sync; create /c; append /c 9000 6; fsync /c \
                       | create /p; write /p 0 70000 4; fsync /p; unlink /p; create /q; append /q 90000 6; fsync /q; \
                       append /q 4096 7; fsync /q; rename /q /r; sync";

/// The papers' SSD with a part changed.
fn profile(change: impl Fn(&mut Profile)) -> Profile {
    let mut profile = Profile::load("sata-850pro").expect("profile");
    change(&mut profile);
    profile
}

fn without_hints() -> Profile {
    profile(|profile| profile.flash.as_mut().expect("an SSD").oob_hints = false)
}

fn without_order() -> Profile {
    profile(|profile| profile.buffer.as_mut().expect("an SSD").eviction_order = Eviction::Unspecified)
}

fn explored<S: Subject + Clone + Send>(subject: S, profile: &Profile, spec: &str, options: ExploreOptions) -> Report {
    let make = |pages: u64| -> Box<dyn PowerCut> { profile.device(Some(pages * PAGE_SIZE as u64)).expect("device") };
    let options = options.on(make(8192).geometry());
    let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    let spec: WorkloadSpec = spec.parse().expect("workload");
    crash(subject.clone(), spec.workloads(&subject, options.seed), plan, |_| ()).expect("the run")
}

fn subject(mode: &str) -> Ext4Subject {
    Ext4Subject::new(mode.parse().expect("mode"))
}

fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions {
        states_max,
        e2fsck_every: 50,
        nested_every: 10,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        ..ExploreOptions::default()
    }
}

#[test]
fn on_the_papers_ssd_padding_breaks_no_promise() {
    for mode in Mode::padded() {
        let report = explored(subject(mode.name()), &profile(|_| ()), "random:40", options(80));
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        let kinds = report.states_by_kind;
        let inside = kinds.inside_device + kinds.inside_recovery + kinds.inside_nested_recovery;
        assert!(inside == report.states && report.states >= 80 && kinds.inside_recovery > 0, "{mode}: {report:?}");
    }
}

/// Asserts that plain padding is caught on `profile`, and that padding with re-reading is sound.
fn assert_caught(profile: &Profile, spot: Option<u64>) {
    let eviction_spot = spot.map(|bytes| EvictionSpot { bytes, flash_read_min: None });
    let at = |mode: &str| Ext4Subject { eviction_spot, ..subject(mode) };
    for mode in ["zp", "zp-data"] {
        let report = explored(at(mode), profile, SYNCING, options(400));
        assert!(!report.is_sound(), "{mode}: not caught in {} states", report.states);
        for check in ["reread", "hybrid"] {
            let mode = format!("{mode}+{check}");
            let report = explored(at(&mode), profile, SYNCING, options(150));
            assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        }
    }
}

#[test]
fn padding_without_oob_hints_is_caught_and_rereading_saves_it() {
    assert_caught(&without_hints(), None);
}

#[test]
fn padding_of_a_buffer_in_no_order_is_caught_and_rereading_saves_it() {
    assert_caught(&without_order(), None);
}

#[test]
fn too_small_a_spot_is_caught_and_rereading_saves_it() {
    assert_caught(&profile(|_| ()), Some(GIB / 4096));
}

/// In modes that pad, a checkpoint sends its own FLUSHes when nobody waits for it. Unmounting the fourth of these
/// workloads begins meanwhile. It once moved the tail at the same time, and transactions were dropped twice.
#[test]
fn unmounting_waits_for_a_checkpoint_that_moves_the_tail() {
    let device =
        |pages: u64| -> Box<dyn PowerCut> { profile(|_| ()).device(Some(pages * PAGE_SIZE as u64)).expect("device") };
    let options = ExploreOptions { seed: 323, ..ExploreOptions::default() };
    let options = options.on(device(8192).geometry());
    let spec: WorkloadSpec = "random:80".parse().expect("workload");
    let mut explorer = Explorer::new(subject("zp-data"), &options);
    for workload in spec.workloads(&subject("zp-data"), options.seed).skip(356).take(8) {
        explorer
            .explore_device(&device, &workload, &DeviceCuts { points: 1, chances: 1, only: None })
            .expect("the run");
    }
    assert!(explorer.report().is_sound(), "{:#?}", explorer.report().violations);
}

/// Padding that begins at the tail of the log instead of ending there.
struct OverTheTail {
    padding: ZeroPadding,
    /// All blocks of the ring.
    ring: RefCell<Range<LogBlock>>,
}

impl OverTheTail {
    fn wrong(&self, free: &[Range<LogBlock>]) -> Vec<Range<LogBlock>> {
        let Range { start: first, end } = self.ring.borrow().clone();
        let tail = free.last().map_or(first, |run| run.end);
        let tail = if tail == end { first } else { tail };
        vec![tail..end, first..tail]
    }
}

impl Commit for OverTheTail {
    fn features(&self) -> LogFeatures {
        self.padding.features()
    }

    fn prepare<'a>(
        &'a self,
        log: &'a Log,
        spot: Option<EvictionSpot>,
        free: Vec<Range<LogBlock>>,
    ) -> PrepareFuture<'a> {
        self.ring.replace(free[0].clone());
        self.padding.prepare(log, spot, free)
    }

    fn padding_blocks(&self) -> u32 {
        self.padding.padding_blocks()
    }

    fn commit<'a>(&'a self, log: &'a Log, record: Record) -> CommitFuture<'a> {
        let free = self.wrong(&record.free);
        self.padding.commit(log, Record { free, ..record })
    }
}

#[derive(Clone)]
struct PadsOverTheTail;

impl Alter<Ext4Subject> for PadsOverTheTail {
    async fn mount(&self, sound: &Ext4Subject, port: DevicePort, mounting: Mounting) -> FsResult<Ext4> {
        let commit = OverTheTail { padding: ZeroPadding::new(Padding::PLAIN), ring: RefCell::default() };
        Ext4::mount_with(port, sound.mount_options(mounting), Box::new(commit)).await
    }
}

#[test]
fn padding_over_the_tail_is_caught() {
    for mode in ["zp", "zp-data"] {
        let altered = Altered { sound: subject(mode), change: PadsOverTheTail };
        let report = explored(altered, &profile(|_| ()), SYNCING, options(400));
        assert!(!report.is_sound(), "{mode}: not caught in {} states", report.states);
    }
}
