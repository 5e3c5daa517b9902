//! Explorers side by side give the same report as one, to the byte.

use onewrite_block::{Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Ext4Subject, Name, Report, Subject, WorkloadSpec, crash,
};
use onewrite_device::Profile;
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::{FsResult, Ino, RenameManner};

fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions {
        states_max,
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        e2fsck_every: 400,
        samples: 6,
        exhaustive_writes_max: 3,
        ..ExploreOptions::default()
    }
}

fn explored<S: Subject + Clone + Send>(subject: &S, name: &str, plan: CrashPlan<'_>) -> Report {
    let spec: WorkloadSpec = name.parse().expect("workload");
    crash(subject.clone(), spec.workloads(subject, plan.options.seed), plan, |_| ()).expect("the run")
}

/// Asserts that one, two and three explorers give the same report; returns it.
fn assert_same<S: Subject + Clone + Send>(subject: &S, name: &str, plan: CrashPlan<'_>) -> Report {
    let [one, two, three] = [1, 2, 3].map(|jobs| explored(subject, name, CrashPlan { jobs, ..plan }));
    let json = |report: &Report| serde_json::to_string(report).expect("JSON");
    assert_eq!(json(&one), json(&two), "{name}: two explorers");
    assert_eq!(json(&one), json(&three), "{name}: three explorers");
    one
}

#[test]
fn the_report_is_the_same_for_any_number_of_explorers() {
    for (mode, name) in [(Mode::Ordered, "random:60"), (Mode::Data, "random-all:40"), (Mode::Writeback, "ace:1")] {
        let options = options(1_500);
        let report = assert_same(&Ext4Subject::new(mode), name, CrashPlan::new(&options));
        assert!(report.is_sound() && report.workloads >= 2, "{mode}: {report:?}");
        assert!(report.states >= 1_500 || name == "ace:1", "{mode}: {report:?}");
    }
}

#[test]
fn cuts_inside_a_device_and_faults_are_counted_the_same() {
    let make = |pages: u64| -> Box<dyn PowerCut> {
        Profile::load("nvme-share").expect("profile").device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let options = options(400).on(make(8192).geometry());
    let plan = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    let report = assert_same(&Ext4Subject::new(Mode::Ordered), "random:40", plan);
    assert!(report.is_sound() && report.states_by_kind.inside_device > 20, "{report:?}");
    let script = "script:create /a; write /a 0 9000 1; fsync /a";
    let report = assert_same(&Ext4Subject::new(Mode::Data), script, CrashPlan { faults: true, ..plan });
    assert!(report.is_sound() && report.judged > 20, "{report:?}");
}

/// An fsync that does nothing.
#[derive(Clone, Copy)]
struct Forgetful;

impl Alter<Ext4Subject> for Forgetful {
    async fn fsync(&self, _: &Ext4, _: &Ext4Subject, _: Ino) -> FsResult<()> {
        Ok(())
    }
}

#[test]
fn failures_are_the_same_and_in_the_same_order() {
    let options = ExploreOptions { violations_max: 7, ..options(100_000) };
    let subject = Altered { sound: Ext4Subject::new(Mode::Data), change: Forgetful };
    let report = assert_same(&subject, "random:30", CrashPlan::new(&options));
    assert_eq!(report.violations.len(), 7, "{report:?}");
}

/// A rename that panics: a bug in this program.
#[derive(Clone, Copy)]
struct Panicking;

impl Alter<Ext4Subject> for Panicking {
    async fn rename(&self, _: &Ext4, _: &Ext4Subject, _: Name<'_>, _: Name<'_>, _: RenameManner) -> FsResult<()> {
        panic!("rename is broken")
    }
}

#[test]
fn a_panic_ends_all_explorers_and_reaches_the_caller() {
    let options = options(100_000);
    let subject = Altered { sound: Ext4Subject::new(Mode::Data), change: Panicking };
    for jobs in [1, 2, 3] {
        let plan = CrashPlan { jobs, ..CrashPlan::new(&options) };
        let run = std::panic::AssertUnwindSafe(|| explored(&subject, "random:60", plan));
        let panic = std::panic::catch_unwind(run).expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"rename is broken"), "{jobs} explorers");
    }
}
