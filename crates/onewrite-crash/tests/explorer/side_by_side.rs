//! Explorers side by side give the same report as one, to the byte.

use onewrite_block::{PAGE_SIZE, PowerCut};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Ext4Subject, Name, Report, Subject, Workload, WorkloadSpec, crash,
    replay,
};
use onewrite_device::Profile;
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::{FsResult, Ino, RenameManner};

const SOUND: Ext4Subject = Ext4Subject::new(Mode::Data);

fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions { e2fsck_every: 400, samples: 6, exhaustive_writes_max: 3, ..crate::support::options(states_max) }
}

fn explored<S: Subject + Clone + Send>(subject: &S, name: &str, plan: CrashPlan<'_>) -> Report {
    let spec: WorkloadSpec = name.parse().expect("workload");
    crash(subject.clone(), spec.workloads(subject, plan.options.seed), plan, |_| ()).expect("the run")
}

/// Asserts that one, two and three explorers give the same report; returns it.
fn assert_same<S: Subject + Clone + Send>(subject: &S, name: &str, plan: CrashPlan<'_>) -> Report {
    assert_same_by_jobs(name, |jobs| explored(subject, name, CrashPlan { jobs, ..plan }))
}

/// Asserts that `explored` gives the same report with one, two and three explorers; returns it.
fn assert_same_by_jobs(name: &str, explored: impl Fn(usize) -> Report) -> Report {
    let [one, two, three] = [1, 2, 3].map(explored);
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

/// Between two workloads that are judged at every place, many more are.
#[test]
fn glances_are_counted_the_same_and_reach_many_workloads() {
    let make = |pages: u64| -> Box<dyn PowerCut> {
        Profile::load("nvme-share").expect("profile").device(Some(pages * PAGE_SIZE as u64)).expect("device")
    };
    let options = ExploreOptions { thorough_every: 15, ..options(1_500).on(make(8192).geometry()) };
    let inside = CrashPlan { device: Some(&make), ..CrashPlan::new(&options) };
    for plan in [CrashPlan::new(&options), inside] {
        let report = assert_same(&Ext4Subject::new(Mode::Data), "random:40", plan);
        let Report { workloads, glances, mounted, .. } = report;
        assert!(report.is_sound() && glances >= 10 && mounted == workloads, "{report:?}");
        assert!(report.states >= 1_500 && (workloads - glances).abs_diff(workloads / 15) <= 1, "{report:?}");
        assert_eq!(report.states_by_kind.inside_device > 0, plan.device.is_some(), "{report:?}");
    }
}

#[test]
fn faults_of_several_stretches_are_counted_the_same() {
    let options = options(600);
    let plan = CrashPlan { faults: true, ..CrashPlan::new(&options) };
    let report = assert_same(&Ext4Subject::new(Mode::Ordered), "random:60", plan);
    assert!(report.is_sound() && report.judged >= 600, "{report:?}");
}

/// Writes and syncs that leave many states; `also` is one more action of each round.
fn rounds(count: u64, file: &str, also: impl Fn(u64) -> String) -> String {
    let round = |at: u64| format!("write {file} {} 9000 {at}; {}; fsync {file}", at * 5000, also(at));
    format!("create {file}; {}", (0..count).map(round).collect::<Vec<_>>().join("; "))
}

/// An explorer enters a short workload, which waited, in the middle of a long one.
#[test]
fn workloads_with_and_without_extended_attributes_mix() {
    let plain = |count, file: &str| rounds(count, file, |_| format!("chmod {file} 600"));
    let extended = |count, file: &str| rounds(count, file, |at| format!("setxattr {file} user.x 40 {at}"));
    let mut texts = vec![plain(12, "/first")];
    for at in 0..6 {
        texts.extend([plain(1, &format!("/plain-{at}")), extended(12, &format!("/extended-{at}"))]);
    }
    let workloads: Vec<Workload> = texts.iter().map(|text| text.parse().expect("a workload")).collect();
    let options = options(100_000);
    let report = assert_same_by_jobs("a mix", |jobs| {
        let plan = CrashPlan { jobs, ..CrashPlan::new(&options) };
        crash(Ext4Subject::new(Mode::Ordered), workloads.clone(), plan, |_| ()).expect("the run")
    });
    assert!(report.is_sound() && report.workloads == 13 && report.states > 1_000, "{report:?}");
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

/// A glance judges behind any event, and a walk past every place only where something new is there.
#[test]
fn what_is_found_at_a_glance_is_found_again_by_its_address() {
    let options = ExploreOptions { violations_max: 20, thorough_every: 1_000, seed: 3, ..options(100_000) };
    let subject = Altered { sound: SOUND, change: Forgetful };
    let plan = CrashPlan::new(&options);
    let thorough: Workload = "create /first; sync".parse().expect("a workload");
    let spec: WorkloadSpec = "random:30".parse().expect("workload");
    let workloads = std::iter::once(thorough).chain(spec.workloads(&subject, options.seed));
    let report = crash(subject, workloads, plan, |_| ()).expect("the run");
    let states: Vec<&str> = report.violations.iter().map(|it| it.state.as_str()).collect();
    assert!(report.glances > 1 && states.iter().any(|state| state.ends_with(':')), "{} {states:?}", report.glances);
    for violation in &report.violations {
        let workload: Workload = violation.workload.parse().expect("a workload's text is its own");
        let again = replay(subject, &workload, &violation.state, plan).expect(&violation.state);
        assert_eq!(again.violations[0].what, violation.what, "{}", violation.state);
    }
}

/// Ten places and the end, at most four states each, of which none counts as one of every subset.
#[test]
fn a_glance_adds_few_states_and_no_exhaustive_ones() {
    let thorough = ExploreOptions { e2fsck_every: 0, nested_every: 0, ..ExploreOptions::default() };
    let glancing = ExploreOptions { thorough_every: 1_000, ..thorough.clone() };
    let spec: WorkloadSpec = "random:40".parse().expect("workload");
    let of = |count, options| {
        let report = crash(SOUND, spec.workloads(&SOUND, 1).take(count), CrashPlan::new(options), |_| ());
        let report = report.expect("the run");
        (report.states, report.states_by_kind.subset)
    };
    let ((first, subset), both, (all, _)) = (of(1, &glancing), of(2, &glancing), of(2, &thorough));
    assert!((5..=44).contains(&(both.0 - first)) && both.1 == subset && all > both.0, "{first}, {both:?}, {all}");
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
