//! Cleaning of F2FS under the explorer: a small image with few free segments, so that a few writes start it; cuts
//! before, inside and after it. Each test asserts that content did move in the runs that it explored.

use std::cell::Cell;

use onewrite_block::layer::{TraceEvent, Traced};
use onewrite_block::{Cause, Device, Geometry, MIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{Alter, Altered, CrashPlan, ExploreOptions, F2fsSubject, Report, Workload, WorkloadSpec, crash};
use onewrite_device::Profile;
use onewrite_fs::f2fs::{Clean, FsyncMode};

/// The workload that starts cleaning, the same for each seed.
pub fn scarce() -> Workload {
    let series = WorkloadSpec::Scarce(5).workloads(&F2fsSubject::new(FsyncMode::Posix), 1);
    series.into_iter().next().expect("an endless series")
}

const SIZE_BYTES: u64 = 64 * MIB;
/// More states than there are.
const STATES_MAX: u64 = 4_000;
const PAGE: u64 = PAGE_SIZE as u64;

/// A few states at each place, so that all of the run is explored.
fn options(seed: u64) -> ExploreOptions {
    let (commit_interval, states_max) = (Nanos::from_secs(5), STATES_MAX);
    let (exhaustive_writes_max, samples, nested_every, e2fsck_every) = (2, 3, 100, 200);
    let plain = ExploreOptions { exhaustive_writes_max, samples, nested_every, e2fsck_every, ..Default::default() };
    ExploreOptions { cache_pages: 1024, commit_interval, states_max, seed, ..plain }.with_size(SIZE_BYTES)
}

thread_local! {
    /// Pages that cleaning wrote or shared in this test.
    static MOVED: Cell<u64> = const { Cell::new(0) };
}

/// The sound file system on a disk that counts.
#[derive(Clone, Copy)]
struct Counting;

impl Alter<F2fsSubject> for Counting {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(Traced::new(disk, Box::new(count)))
    }
}

fn count(event: TraceEvent) {
    if event.cause == Cause::Cleaning {
        MOVED.set(MOVED.get() + event.count);
    }
}

/// Explores, asserts that nothing is broken, and that cleaning moved content.
#[track_caller]
fn assert_sound(mode: FsyncMode, clean: Clean, plan: CrashPlan<'_>) -> Report {
    let subject = Altered { sound: F2fsSubject { clean, ..F2fsSubject::new(mode) }, change: Counting };
    MOVED.set(0);
    let report = crash(subject, std::iter::once(scarce()), plan, |_| ()).expect("the run");
    assert!(report.is_sound(), "{mode} {clean}: {:#?}", report.violations);
    assert!(report.states < STATES_MAX, "{mode} {clean}: a part of the run only");
    let moved = MOVED.get();
    assert!(moved > 200, "{mode} {clean}: {moved} pages moved");
    report
}

#[test]
fn cuts_around_cleaning_break_no_promise() {
    for (clean, mode) in
        [(Clean::Share, FsyncMode::Posix), (Clean::Share, FsyncMode::Strict), (Clean::Copy, FsyncMode::Posix)]
    {
        let report = assert_sound(mode, clean, CrashPlan::new(&options(1)));
        assert!(report.states_by_kind.log_not_empty > 20, "{mode} {clean}: {report:?}");
    }
}

#[test]
fn a_share_that_arrives_in_part_breaks_no_promise() {
    let options = options(2);
    let tearing = ExploreOptions { geometry: Geometry { share_atomic: false, ..options.geometry.clone() }, ..options };
    let report = assert_sound(FsyncMode::Posix, Clean::Share, CrashPlan::new(&tearing));
    assert!(report.states_by_kind.torn_share > 0, "{report:?}");
}

#[test]
fn cuts_inside_a_device_that_shares_break_no_promise() {
    let device = |pages: u64| -> Box<dyn PowerCut> {
        let profile = Profile::load("nvme-share").expect("profile");
        profile.device(Some(pages * PAGE)).expect("device")
    };
    let geometry = device(SIZE_BYTES / PAGE).geometry().clone();
    let options = options(3).on(&geometry);
    let plan = CrashPlan { device: Some(&device), ..CrashPlan::new(&options) };
    let report = assert_sound(FsyncMode::Posix, Clean::Share, plan);
    assert!(report.states_by_kind.inside_device >= 20, "{report:?}");
}
