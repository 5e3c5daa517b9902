//! StageFS under the explorer: F2FS whose fsyncs write records into a staging area.

use onewrite_block::{KIB, MIB, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Altered, CrashPlan, ExploreOptions, Explorer, F2fsSubject, Promise, Report, Workload, WorkloadSpec, crash,
};
use onewrite_device::Profile;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::returns_early::ReturnsEarly;

const SIZE_BYTES: u64 = 65 * MIB;
const SUBJECT: F2fsSubject = F2fsSubject::new(FsyncMode::Posix).with_stage(MIB);
/// An area that a few fsyncs fill.
const SMALL: F2fsSubject = F2fsSubject::new(FsyncMode::Posix).with_stage(256 * KIB);

fn options(states_max: u64, seed: u64, interval: Nanos) -> ExploreOptions {
    let plain = ExploreOptions::default();
    ExploreOptions { cache_pages: 256, commit_interval: interval, states_max, seed, ..plain }.with_size(SIZE_BYTES)
}

/// Explores `workload`, by its name, and asserts that nothing is broken.
#[track_caller]
fn assert_sound(subject: F2fsSubject, workload: &str, plan: CrashPlan<'_>) -> Report {
    let spec: WorkloadSpec = workload.parse().expect("workload");
    let report = crash(subject, spec.workloads(&subject, plan.options.seed), plan, |_| ()).expect("the run");
    assert!(report.is_sound(), "{workload}: {:#?}", report.violations);
    report
}

/// Small and whole writes, names, truncation before records that it makes stale, a number that is used again.
const SYNCING: &str = "create /a; write /a 0 9000 1; fsync /a; append /a 100 2; fsync /a; write /a 50 30 9; \
                       write /a 8000 20 8; fsync /a; create /n; append /n 3000 4; fsync /n; rename /a /b; fsync /b; \
                       truncate /b 100; append /b 5 7; fsync /b; truncate /b 9000; fsync /b; mkdir /d; fsync /d; \
                       create /d/c; write /d/c 0 20000 3; fsync /d/c; truncate /d/c 5000; fdatasync /d/c; \
                       punch /d/c 0 4096; fsync /d/c; unlink /b; create /e; append /e 10 5; fsync /e; sync; \
                       append /e 10 6; fsync /e";

#[test]
fn synced_files_survive_in_the_log() {
    for interval in [Nanos::from_secs(5), Nanos::from_millis(50)] {
        let options = ExploreOptions { nested_every: 10, ..options(5_000, 1, interval) };
        let report = assert_sound(SUBJECT, &format!("script:{SYNCING}"), CrashPlan::new(&options));
        let kinds = &report.states_by_kind;
        assert!(kinds.log_not_empty > 50 && kinds.inside_recovery > 20, "{report:?}");
    }
}

/// Fsyncs that go to the area, then a checkpoint of the background that patches their pages.
const PATCHED: &str = "mkdir /shared >> create /shared/w0; create /shared/w1; create /shared/w2; create /shared/w3; \
                       fsync /shared/w0; append /shared/w1 5000 1; fsync /shared/w1; append /shared/w2 5000 2; \
                       fsync /shared/w2; append /shared/w3 5000 3; fsync /shared/w3; append /shared/w0 5000 4; \
                       fsync /shared/w0; append /shared/w1 5000 5; fsync /shared/w1 >> pause 49";

#[test]
fn a_failed_write_of_the_background_is_told() {
    let workload: Workload = PATCHED.parse().expect("workload");
    let options = options(2_000, 1, Nanos::from_millis(50));
    let mut explorer = Explorer::new(SMALL, &options);
    explorer.explore_faults(&workload, 1).expect("the run");
    let report = explorer.into_report();
    assert!(report.is_sound() && report.judged > 100, "{:#?}", report.violations);
}

#[test]
fn random_operations_break_no_promise() {
    for (seed, subject) in (5..).zip([SUBJECT, SMALL]) {
        for workload in ["random:60", "random-all:60"] {
            for interval in [Nanos::from_secs(5), Nanos::from_millis(50)] {
                let options = options(1_200, seed, interval);
                let report = assert_sound(subject, workload, CrashPlan::new(&options));
                assert!(report.states_by_kind.log_not_empty > 100, "{workload}: {report:?}");
            }
        }
    }
}

#[test]
fn torn_pages_break_no_promise() {
    let options = options(600, 3, Nanos::from_secs(5));
    let tearing = ExploreOptions {
        geometry: onewrite_block::Geometry { atomic_write_pages: 0, ..options.geometry.clone() },
        ..options
    };
    let report = assert_sound(SUBJECT, &format!("script:{SYNCING}"), CrashPlan::new(&tearing));
    assert!(report.states_by_kind.torn_page > 50, "{report:?}");
}

/// Explores `workload` with cuts inside a device that takes time.
#[track_caller]
fn assert_sound_inside_a_device(workload: &str, seed: u64) -> Report {
    let device = |pages: u64| -> Box<dyn PowerCut> {
        let profile = Profile::load("sata-850pro").expect("profile");
        profile.device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let geometry = device(SIZE_BYTES / PAGE_SIZE as u64).geometry().clone();
    let options = options(1_500, seed, Nanos::from_secs(5)).on(&geometry);
    assert_sound(SUBJECT, workload, CrashPlan { device: Some(&device), ..CrashPlan::new(&options) })
}

#[test]
fn cuts_inside_a_device_break_no_promise() {
    let report = assert_sound_inside_a_device("random:60", 7);
    assert!(report.states_by_kind.inside_device >= 50, "{report:?}");
}

/// The checkpoint had the block of the direct write with the size before it, and recovery made zeros of what lay behind
/// that size.
#[test]
fn a_checkpoint_in_the_middle_of_a_direct_write_loses_nothing_of_it() {
    let workload = "script:create /a; write /a 0 134 1; create /b >> write /a 0 4096 2 direct; fsync /a; pause 50; \
                    chmod /a 600 | chmod /b 600; sync";
    assert_sound_inside_a_device(workload, 1);
}

/// A transaction has the truncation of a file that nobody syncs, and not what was written to that page before.
#[test]
fn a_truncation_goes_with_the_sync_of_another_file() {
    let change = "truncate /f 9719; write /f 27480 100 2; fsync /s; chmod /s 600; fsync /f";
    for before in ["write /f 8200 10 3", "punch /f 8200 10"] {
        let workload = format!("script:create /s; create /f; append /f 12288 1 >> {before}; {change}");
        let options = options(2_000, 1, Nanos::from_secs(5));
        assert_sound(SUBJECT, &workload, CrashPlan::new(&options));
    }
}

/// The sync may lie before the direct write that runs beside it. Then the next sync, of another file, has the newer
/// size without the content.
#[test]
fn a_sync_may_lie_before_a_direct_write_beside_it() {
    let workload = "script:mkdir /shared; mkdir /t4; mkdir /t5; mkdir /t10; mkdir /t11; mkdir /t13; mkdir /t14; \
                    create /shared/all-1 >> create /shared/1-2 | create /t4/4-0 | create /t5/5-0 | \
                    create /shared/6-0; write /shared/6-0 28672 8192 1 direct | fsync /shared/all-1 | \
                    create /shared/10-2; mkdir /t10/e0; utimes /shared/10-2 489651 | create /t11/11-1 | \
                    create /shared/12-1; fsync /shared/12-1 | create /t13/13-0; \
                    write /shared/all-1 12288 4096 2 direct | create /t14/14-1";
    let options = options(20_000, 1, Nanos::from_secs(5)).with_size(64 * MIB + 256 * KIB);
    assert_sound(SMALL, workload, CrashPlan::new(&options));
}

#[test]
fn requests_that_fail_break_no_promise() {
    let workload =
        "script:create /a; append /a 5000 1; fsync /a; sync; append /a 3000 2; fsync /a; mkdir /d; rename /a /d/b";
    let options = options(2_000, 1, Nanos::from_secs(5));
    let plan = CrashPlan { faults: true, ..CrashPlan::new(&options) };
    let report = assert_sound(SUBJECT, workload, plan);
    assert!(report.judged > 60, "{report:?}");
}

#[test]
fn an_fsync_that_returns_early_is_caught() {
    let options = options(2_000, 1, Nanos::from_secs(5));
    let broken = Altered { sound: SUBJECT, change: ReturnsEarly };
    let workload: Workload = SYNCING.parse().expect("workload");
    let report = crash(broken, std::iter::once(workload), CrashPlan::new(&options), |_| ()).expect("the run");
    assert_eq!(report.violations[0].promise, Promise::Durability, "{:#?}", report.violations[0]);
}
