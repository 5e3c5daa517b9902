//! F2FS under the explorer: its checkpoints, and the fsyncs that its recovery rolls forward.

use onewrite_block::{DevicePort, MIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, F2fsSubject, Mounting, Promise, Report, Workload, WorkloadSpec, crash,
    replay,
};
use onewrite_device::Profile;
use onewrite_fs::FsResult;
use onewrite_fs::f2fs::{F2fs, F2fsOptions, FsyncMode, LogMode};

use crate::support::returns_early::ReturnsEarly;

const SIZE_BYTES: u64 = 64 * MIB;

/// Up to `states_max` states of a small image with little memory and many checkpoints.
fn options(states_max: u64, seed: u64) -> ExploreOptions {
    let plain = ExploreOptions::default();
    ExploreOptions { cache_pages: 256, commit_interval: Nanos::from_millis(50), states_max, seed, ..plain }
        .with_size(SIZE_BYTES)
}

/// Explores `workload`, by its name, and asserts that nothing is broken.
#[track_caller]
fn assert_sound(mode: FsyncMode, workload: &str, plan: CrashPlan<'_>) -> Report {
    assert_kept(F2fsSubject::new(mode), workload, plan)
}

#[track_caller]
fn assert_kept(subject: F2fsSubject, workload: &str, plan: CrashPlan<'_>) -> Report {
    let mode = subject.fsync_mode;
    let spec: WorkloadSpec = workload.parse().expect("workload");
    let report = crash(subject, spec.workloads(&subject, plan.options.seed), plan, |_| ()).expect("the run");
    assert!(report.is_sound(), "{mode} {workload}: {:#?}", report.violations);
    report
}

/// The first fsync after a mount is a checkpoint; those behind it are rolled forward.
const SYNCING: &str = "create /a; write /a 0 9000 1; fsync /a; append /a 5000 2; fsync /a; create /n; \
                       append /n 3000 4; fsync /n; rename /a /b; fsync /b; sync; mkdir /d; fsync /d; create /d/c; \
                       write /d/c 0 20000 3; fsync /d/c; truncate /d/c 5000; fdatasync /d/c; punch /d/c 0 4096; \
                       fsync /d/c; unlink /b; sync";

#[test]
fn synced_files_survive_over_a_checkpoint() {
    for mode in FsyncMode::ALL {
        let options = ExploreOptions { nested_every: 10, ..options(5_000, 1) };
        let report = assert_sound(mode, &format!("script:{SYNCING}"), CrashPlan::new(&options));
        let kinds = &report.states_by_kind;
        assert!(kinds.log_not_empty > 50 && kinds.inside_recovery > 20, "{mode}: {report:?}");
    }
}

#[test]
fn random_operations_break_no_promise() {
    for (seed, mode) in (5..).zip(FsyncMode::ALL) {
        for workload in ["random:60", "random-all:60"] {
            let report = assert_sound(mode, workload, CrashPlan::new(&options(1_200, seed)));
            assert!(report.states_by_kind.log_not_empty > 100, "{mode} {workload}: {report:?}");
        }
    }
}

/// Fsyncs that overwrite.
const IN_PLACE: F2fsSubject = F2fsSubject { in_place_below: 16, ..F2fsSubject::new(FsyncMode::Posix) };

/// Overwrites of synced pages by fsyncs of several pages, with growth and a hole.
const OVERWRITING: &str = "create /a; write /a 0 60000 1; fsync /a; sync; write /a 0 20000 2; fsync /a; \
                           write /a 5000 30000 3; fdatasync /a; append /a 9000 4; write /a 100 50 5; fsync /a; \
                           punch /a 4096 4096; write /a 0 12000 6; fsync /a; truncate /a 10000; fdatasync /a; \
                           append /a 3000 7; fsync /a; sync; write /a 0 13000 8; fsync /a";

#[test]
fn fsyncs_that_overwrite_break_no_promise() {
    let options = ExploreOptions { nested_every: 10, ..options(2_500, 21) };
    assert_kept(IN_PLACE, &format!("script:{OVERWRITING}"), CrashPlan::new(&options));
    for workload in ["random:60", "random-all:60"] {
        assert_kept(IN_PLACE, workload, CrashPlan::new(&ExploreOptions { states_max: 1_000, ..options.clone() }));
    }
    let tearing = ExploreOptions {
        geometry: onewrite_block::Geometry { atomic_write_pages: 0, ..options.geometry.clone() },
        states_max: 1_000,
        ..options
    };
    let report = assert_kept(IN_PLACE, &format!("script:{OVERWRITING}"), CrashPlan::new(&tearing));
    assert!(report.states_by_kind.torn_page > 50, "{report:?}");
}

/// A checkpoint in the middle of an append has the blocks that a later fsync writes over.
#[test]
fn what_a_part_of_an_append_holds_may_be_overwritten() {
    let script = "script:create /a; create /b; sync >> append /a 1500000 2; write /a 0 15136 3; fsync /a | sync; \
                  append /b 100 1; sync; append /b 100 1; sync; append /b 10 3; sync";
    assert_kept(IN_PLACE, script, CrashPlan::new(&options(2_000, 1)));
}

/// Fsyncs that overwrite, judged as if they were atomic.
#[derive(Clone, Copy)]
struct Overwriting;

impl Alter<F2fsSubject> for Overwriting {
    async fn mount(&self, sound: &F2fsSubject, port: DevicePort, mounting: Mounting) -> FsResult<F2fs> {
        F2fs::mount(port, F2fsOptions { in_place_below: 16, ..sound.mount_options(mounting) }).await
    }
}

#[test]
fn fsyncs_that_overwrite_are_not_atomic() {
    let options = options(2_500, 21);
    let subject = Altered { sound: F2fsSubject::new(FsyncMode::Posix), change: Overwriting };
    let workload: Workload = OVERWRITING.parse().expect("workload");
    let report = crash(subject, std::iter::once(workload), CrashPlan::new(&options), |_| ()).expect("the run");
    assert!(!report.is_sound(), "a cut in such an fsync leaves some of its pages: {report:?}");
}

#[test]
fn logs_in_whole_segments_break_no_promise() {
    let subject = F2fsSubject { log_mode: LogMode::Lfs, ..F2fsSubject::new(FsyncMode::Posix) };
    for workload in ["random:60", "random-all:60"] {
        assert_kept(subject, workload, CrashPlan::new(&options(800, 31)));
    }
}

#[test]
fn torn_pages_break_no_promise() {
    let options = options(600, 3);
    let tearing = ExploreOptions {
        geometry: onewrite_block::Geometry { atomic_write_pages: 0, ..options.geometry.clone() },
        ..options
    };
    let report = assert_sound(FsyncMode::Posix, &format!("script:{SYNCING}"), CrashPlan::new(&tearing));
    assert!(report.states_by_kind.torn_page > 50, "{report:?}");
}

#[test]
fn cuts_inside_a_device_break_no_promise() {
    let device = |pages: u64| -> Box<dyn PowerCut> {
        let profile = Profile::load("sata-850pro").expect("profile");
        profile.device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let geometry = device(SIZE_BYTES / PAGE_SIZE as u64).geometry().clone();
    let options = options(700, 7).on(&geometry);
    let plan = CrashPlan { device: Some(&device), ..CrashPlan::new(&options) };
    let report = assert_sound(FsyncMode::Strict, "random:60", plan);
    assert!(report.states_by_kind.inside_device >= 50, "{report:?}");
}

#[test]
fn requests_that_fail_break_no_promise() {
    let workload =
        "script:create /a; append /a 5000 1; fsync /a; sync; append /a 3000 2; fsync /a; mkdir /d; rename /a /d/b";
    let options = options(2_000, 1);
    let plan = CrashPlan { faults: true, ..CrashPlan::new(&options) };
    let report = assert_sound(FsyncMode::Posix, workload, plan);
    assert!(report.judged > 60, "{report:?}");
}

/// A write may end at any of its pages if the node that names them cannot be read. A TRIM that fails loses nothing, so
/// nobody has to be told.
#[test]
fn a_write_fails_at_any_page_and_a_trim_without_a_word() {
    let options = options(2_000, 1);
    for workload in [
        "script:create /b >> write /b 3500000 100000 1; fsync /b",
        "script:create /b; write /b 0 3000000 1 >> truncate /b 0; sync",
    ] {
        let report = assert_sound(FsyncMode::Posix, workload, CrashPlan { faults: true, ..CrashPlan::new(&options) });
        assert!(report.judged > 40, "{workload}: {report:?}");
    }
}

#[test]
fn a_broken_promise_comes_with_the_command_that_replays_it() {
    let options = options(1_000, 1);
    let broken = Altered { sound: F2fsSubject::new(FsyncMode::Strict), change: ReturnsEarly };
    let workload: Workload = SYNCING.parse().expect("workload");
    let report = crash(broken, std::iter::once(workload.clone()), CrashPlan::new(&options), |_| ()).expect("the run");
    let violation = &report.violations[0];
    assert_eq!(violation.promise, Promise::Durability, "{violation:#?}");
    assert!(violation.replay.contains(" --fs f2fs --fsync-mode strict --size 64MiB "), "{}", violation.replay);
    let again = replay(broken, &workload, &violation.state, CrashPlan::new(&options)).expect("the state");
    assert_eq!(again.violations[0].difference, violation.difference);
}
