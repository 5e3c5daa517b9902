//! Marks: a short, fixed set of workloads has to reach named rare situations. A search that no longer reaches them
//! proves less than it did; then a workload has changed, or a mark has moved to where nothing comes.

use onewrite_block::{PAGE_SIZE, PowerCut};
use onewrite_crash::{
    CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, MarkCount, Report, Subject, WorkloadSpec, crash,
};
use onewrite_device::Profile;
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

/// A few states at each place, so that much of a run is explored.
fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions { samples: 3, exhaustive_writes_max: 2, e2fsck_every: 0, ..crate::support::options(states_max) }
}

fn explored<S: Subject + Clone + Send>(subject: S, name: &str, plan: CrashPlan<'_>) -> Report {
    let spec: WorkloadSpec = name.parse().expect("workload");
    let report = crash(subject.clone(), spec.workloads(&subject, plan.options.seed), plan, |_| ()).expect("the run");
    assert!(report.is_sound(), "{name}: {:#?}", report.violations);
    report
}

/// Asserts that states reached each of these marks, by `count`.
#[track_caller]
fn assert_seen(report: &Report, names: &[&str], count: impl Fn(MarkCount) -> u64) {
    let is_missing = |name: &&&str| count(report.marks.get(name).expect("there is such a mark")) == 0;
    let missing: Vec<_> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[test]
fn random_operations_reach_what_a_journal_fears() {
    let options = ExploreOptions { seed: 2, ..options(2_500) };
    let report = explored(Ext4Subject::new(Mode::Data), "random-all:60", CrashPlan::new(&options));
    let cuts = [
        "forced checkpoint",
        "checkpoint while a transaction commits",
        "operation waits for room in the log",
        "block freed before it is home",
        "block freed in the transaction that changed it",
        "freed block revoked",
        "truncation over several transactions",
        "extent cut in its middle",
        "xattr block freed",
    ];
    assert_seen(&report, &cuts, |count| count.at_cut);
    let recoveries = [
        "torn transaction without its commit block",
        "older transaction behind the end of the log",
        "revoked copies not replayed",
        "block in several transactions of the log",
    ];
    assert_seen(&report, &recoveries, |count| count.in_recovery);
}

#[test]
fn random_drafts_spill() {
    let options = ExploreOptions { seed: 1, ..options(2_500) };
    let report = explored(Ext4Subject::new(Mode::Data), "atomic:80", CrashPlan::new(&options));
    let cuts = ["draft spilled", "commit moves spilled pages", "spilled pages dropped with their draft"];
    assert_seen(&report, &cuts, |count| count.at_cut);
}

#[test]
fn open_files_leave_orphans_to_the_mount() {
    let lose = |at| format!("open /f{at} {at}; unlink /f{at}; create /g{at}; fsync /g{at}");
    let lost: Vec<String> = (0..4).map(lose).collect();
    let made: Vec<String> = (0..4).map(|at| format!("create /f{at}; write /f{at} 0 20000 {at}")).collect();
    let script = format!("script:{}; sync >> {}; close 1; fsync /g0", made.join("; "), lost.join("; "));
    let options = options(2_000);
    let report = explored(Ext4Subject::new(Mode::Ordered), &script, CrashPlan::new(&options));
    let cuts = ["orphan chain of two", "orphan chain of three", "orphan leaves the middle of its chain"];
    assert_seen(&report, &cuts, |count| count.at_cut);
    assert_seen(&report, &["mount finds several orphans", "mount deletes an orphan"], |count| count.in_recovery);
    let report = explored(F2fsSubject::new(FsyncMode::Posix), &script, CrashPlan::new(&f2fs(1_000)));
    assert_seen(&report, &["nameless file of F2FS stays open"], |count| count.at_cut);
    assert_seen(&report, &["files rolled forward", "new file rolled forward"], |count| count.in_recovery);
}

fn f2fs(states_max: u64) -> ExploreOptions {
    options(states_max).with_size(F2fsSubject::SIZE_MIN)
}

#[test]
fn cuts_inside_a_device_meet_its_map_log_and_its_collection() {
    let make = |pages: u64| -> Box<dyn PowerCut> {
        Profile::load("nvme-share").expect("profile").device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let options = options(1_200).on(make(8192).geometry());
    let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    let report = explored(Ext4Subject::new(Mode::Sdj), "random:60", plan);
    let cuts = [
        "blocks shared home",
        "recovery shares blocks home",
        "erase waits for the map log",
        "shared page moved by collection",
        "SHARE of a page in the write buffer",
        "shared page loses an owner",
    ];
    assert_seen(&report, &cuts, |count| count.at_cut);
    let recoveries = [
        "cut inside an erase",
        "cut inside a program of the map log",
        "program torn",
        "pages found by out-of-band hints",
        "block emptied and not erased",
    ];
    assert_seen(&report, &recoveries, |count| count.in_recovery);
}
