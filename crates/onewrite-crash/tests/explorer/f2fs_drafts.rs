//! Atomic files on F2FS: a commit of drafts is there as a whole or not at all, in every state.

use onewrite_block::{Geometry, MIB, Nanos};
use onewrite_crash::{CrashPlan, ExploreOptions, F2fsSubject, Report, Workload, WorkloadSpec, crash, explore, trace};
use onewrite_fs::f2fs::{Clean, FsyncMode, LogMode};

use super::drafts::GROUP;

const PLAIN: F2fsSubject = F2fsSubject::new(FsyncMode::Posix);

fn options(states_max: u64, seed: u64) -> ExploreOptions {
    let plain = ExploreOptions::default();
    ExploreOptions { cache_pages: 256, commit_interval: Nanos::from_millis(50), states_max, seed, ..plain }
        .with_size(64 * MIB)
}

/// The same on a disk that tears pages.
fn tearing(options: ExploreOptions) -> ExploreOptions {
    ExploreOptions { geometry: Geometry { atomic_write_pages: 0, ..options.geometry.clone() }, ..options }
}

#[track_caller]
fn assert_sound(subject: F2fsSubject, workload: &str, options: &ExploreOptions) -> Report {
    let spec: WorkloadSpec = workload.parse().expect("workload");
    let report = crash(subject, spec.workloads(&subject, options.seed), CrashPlan::new(options), |_| ());
    let report = report.expect("the run");
    assert!(report.is_sound(), "{subject:?} {workload}: {:#?}", report.violations);
    report
}

#[test]
fn commits_of_random_drafts_are_whole_or_absent() {
    let strict = F2fsSubject::new(FsyncMode::Strict);
    for (seed, subject) in [PLAIN, strict].into_iter().zip(1..).map(|(subject, seed)| (seed, subject)) {
        let options = ExploreOptions {
            e2fsck_every: 200,
            nested_every: 20,
            samples: 3,
            exhaustive_writes_max: 2,
            ..options(1_000, seed)
        };
        let report = assert_sound(subject, "atomic:60", &options);
        assert!(report.states >= 1_000 && report.e2fsck_runs >= 2, "{report:?}");
    }
}

#[test]
fn commits_are_whole_where_fsyncs_overwrite_and_where_logs_take_whole_segments() {
    assert_sound(F2fsSubject { in_place_below: 16, ..PLAIN }, "atomic:60", &options(800, 3));
    assert_sound(F2fsSubject { log_mode: LogMode::Lfs, ..PLAIN }, "atomic:60", &options(800, 4));
}

#[test]
fn commits_are_whole_where_pages_tear() {
    for subject in [PLAIN, F2fsSubject { in_place_below: 16, ..PLAIN }] {
        let report = assert_sound(subject, "atomic:60", &tearing(options(800, 5)));
        assert!(report.states_by_kind.torn_page > 50, "{report:?}");
    }
}

#[test]
fn commits_are_whole_where_cleaning_shares() {
    let plain = options(800, 6);
    let geometry = Geometry { share_pairs_max: 256, share_atomic: true, ..plain.geometry.clone() };
    let options = ExploreOptions { geometry, ..plain };
    assert_sound(F2fsSubject { clean: Clean::Share, ..PLAIN }, "atomic:60", &options);
}

/// Chains of several nodes: the file reaches beyond its inode.
pub const FAR: &str = "create /a; write /a 0 9000 1; write /a 3900000 9000 2; write /a 8100000 9000 3; sync; \
                       append /a 10 4; fsync /a; draft 0 write /a 0 9000 5; draft 0 write /a 3900000 9000 6; \
                       draft 0 write /a 8100000 9000 7; commit 0; draft 0 write /a 100 50 8; \
                       draft 0 write /a 6000000 9000 9; commit 0; draft 0 truncate /a 50000; \
                       draft 0 write /a 3900000 100 10; commit 0; draft 0 append /a 5000 11; sync; commit 0";

#[test]
fn chains_of_several_nodes_are_whole_or_absent() {
    let whole = assert_sound(PLAIN, &format!("script:{FAR}"), &options(3_000, 7));
    let torn = assert_sound(PLAIN, &format!("script:{FAR}"), &tearing(options(3_000, 7)));
    assert!(whole.states > 200 && torn.states_by_kind.torn_page > 50, "{whole:?} {torn:?}");
}

#[test]
fn a_group_is_whole_or_absent_beside_the_syncs_of_another_task() {
    let workload: Workload = GROUP.parse().expect("workload");
    for options in [options(3_000, 8), tearing(options(3_000, 9))] {
        let report = explore(PLAIN, &workload, &options).expect("the run");
        assert!(report.is_sound() && report.states > 60, "{:#?}", report.violations);
    }
}

/// A search that never commits a group has proved nothing about groups.
#[test]
fn random_drafts_are_committed_aborted_and_refused() {
    let spec: WorkloadSpec = "atomic:80".parse().expect("workload");
    let workloads = spec.workloads(&PLAIN, 1).take(4);
    let lines: Vec<String> =
        workloads.flat_map(|workload| trace(PLAIN, &workload, &options(1, 1)).expect("the run")).collect();
    let done = |what: &str| {
        let ended = lines.iter().filter(|line| line.contains(&format!("end `{what}")));
        ended.filter(|line| line.ends_with('`')).count()
    };
    let (commits, groups, aborts) = (done("commit"), done("commit 0 1"), done("abort"));
    assert!(commits > 50 && groups > 10 && aborts > 5, "{commits} commits, {groups} of groups, {aborts} aborts");
    let is_refused = |line: &&String| line.contains("belongs to draft") && !line.contains("`draft");
    assert!(lines.iter().any(|line| is_refused(&line)), "no ordinary operation on a claimed file");
}
