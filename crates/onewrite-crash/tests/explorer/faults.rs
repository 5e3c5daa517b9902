//! Faults, without a power cut and with one behind them.

use onewrite_block::Nanos;
use onewrite_crash::{
    Altered, CrashPlan, ExploreOptions, Explorer, Ext4Subject, Promise, Report, Stage, Subject, Violation, Workload,
    WorkloadSpec, crash, replay,
};
use onewrite_fs::ext4::{Mode, Scope};

use crate::support::returns_early::ReturnsEarly;

/// Requests fail in turn, and then there are more and more free blocks. At least so many states are judged.
fn assert_faults_break_nothing(mode: Mode, workload: &Workload, judged_min: u64) {
    let options = ExploreOptions { violations_max: 4, ..ExploreOptions::default() };
    let mut explorer = Explorer::new(Ext4Subject::new(mode), &options);
    explorer.explore_faults(workload, 1).expect("the run");
    let report = explorer.into_report();
    assert!(report.is_sound(), "{mode}: {workload}: {:#?}", report.violations);
    assert!(report.judged >= judged_min, "{mode}: {workload}: {report:?}");
}

#[test]
fn a_failing_or_full_disk_is_told_of_and_loses_nothing_acknowledged() {
    let text = "mkdir /d; create /old; write /old 0 30000 9 >> create /a; write /a 0 20000 1; fsync /a; \
                append /a 5000 2; rename /a /d/a; fsync /d/a; write /old 4096 9000 3; fsync /old; truncate /old 100; \
                sync; unlink /d/a; sync | create /p; write /p 0 70000 4; fsync /p; truncate /p 10; unlink /p; \
                create /q; append /q 9000 5; sync";
    let workload: Workload = text.parse().expect("workload");
    for mode in Mode::ALL {
        // Each request fails alone, with all later ones, and on a full disk; then there are more and more free blocks,
        // until they are enough.
        assert_faults_break_nothing(mode, &workload, 120);
    }
}

/// Names and content that change in the first transaction after a mount, so that nothing they need is in memory.
const COLD: [&str; 10] = [
    "create /foo >> unlink /foo",
    "create /foo; write /foo 0 12288 1 >> unlink /foo",
    "create /foo; write /foo 0 40000 1 >> truncate /foo 5000",
    "create /foo; write /foo 0 9000 9 >> append /foo 5000 5000",
    "mkdir /d >> rmdir /d",
    "create /a; write /a 0 9000 1; create /b; write /b 0 12288 2 >> rename /a /b",
    "mkdir /d; mkdir /e; mkdir /d/f >> rename /d/f /e/f",
    "mkdir /d; mkdir /e; create /d/f; mkdir /e/g >> exchange /d/f /e/g",
    "create /foo; setxattr /foo user.x 2000 1 >> unlink /foo",
    "create /foo; setxattr /foo user.x 2000 1 >> removexattr /foo user.x",
];

#[test]
fn the_first_change_after_a_mount_is_whole_or_absent_when_the_device_fails() {
    for mode in Mode::ALL {
        for text in COLD {
            let workload: Workload = text.parse().expect("workload");
            assert_faults_break_nothing(mode, &workload, 20);
        }
    }
}

/// A write is told that there is room for it. Then its place in the extent tree is there, too, once it is written out.
const NEARLY_FULL: [&str; 2] = [
    "create /f >> write /f 40960 4096 1 direct; write /f 20480 4096 1 direct; extend /f 12288 8192; \
     write /f 12288 4096 2; write /f 28672 9 3; write /f 0 9 3",
    "create /f; extend /f 0 400000; fsync /f >> write /f 4096 4096 2; write /f 20480 4096 3; write /f 36864 4096 4; \
     write /f 53248 4096 5; create /g; append /g 400000 6; sync",
];

#[test]
fn content_over_unwritten_blocks_finds_room_for_its_extents() {
    for (mode, text) in Mode::ALL.into_iter().flat_map(|mode| NEARLY_FULL.map(|text| (mode, text))) {
        let workload: Workload = text.parse().expect("workload");
        assert_faults_break_nothing(mode, &workload, 100);
    }
}

/// An append that waits for another write of its file begins where that one ended, and may fail.
#[test]
fn an_append_beside_another_write_may_find_no_room() {
    let text = "create /f >> create /a; link /a /b; unlink /b; append /f 8018 1 | \
                create /c; link /c /d; write /f 12288 8192 2 direct";
    let workload: Workload = text.parse().expect("workload");
    for mode in Mode::ALL {
        assert_faults_break_nothing(mode, &workload, 100);
    }
}

/// Two tasks with drafts. Each commits again what an earlier commit may have left, so a commit that failed is judged.
const DRAFTS: &str = "create /a; append /a 20000 1; create /b; append /b 9000 2 >> \
    draft 0 write /a 4096 9000 3; draft 0 create /n; draft 0 append /n 5000 4; commit 0; commit 0; \
    draft 0 truncate /a 100; commit 0; sync; commit 0; append /a 300 5 | \
    draft 0 append /b 30000 6; draft 1 create /m; commit 0 1; commit 0 1; abort 0 1; draft 1 write /b 0 50 7; \
    commit 1; commit 0 1; fsync /b";

#[test]
fn a_commit_of_drafts_that_fails_on_the_device_is_whole_or_absent() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.scope() == Scope::Full) {
        let workload: Workload = DRAFTS.parse().expect("workload");
        assert_faults_break_nothing(mode, &workload, 100);
    }
}

/// A canary whose fsync does nothing.
const FORGETFUL: Altered<Ext4Subject, ReturnsEarly> =
    Altered { sound: Ext4Subject::new(Mode::Data), change: ReturnsEarly };

fn failed<S: Subject + Clone + Send>(subject: S, text: &str, options: &ExploreOptions) -> (Report, Vec<Stage>) {
    let workload: Workload = text.parse().expect("workload");
    let (plan, stages) = (CrashPlan { faults: true, ..CrashPlan::new(options) }, std::cell::RefCell::default());
    let told = |stage| std::cell::RefCell::<Vec<Stage>>::borrow_mut(&stages).push(stage);
    let report = crash(subject, [workload], plan, told).expect("the run");
    (report, stages.into_inner())
}

fn assert_replayed(violation: &Violation, options: &ExploreOptions) {
    let workload: Workload = violation.workload.parse().expect("workload");
    let again = replay(FORGETFUL, &workload, &violation.state, CrashPlan::new(options)).expect("replayed");
    let first = again.violations.first().map(|again| (again.promise, &again.what));
    assert_eq!(first, Some((violation.promise, &violation.what)), "{violation:#?}");
}

#[test]
fn a_long_workload_fails_in_parts_whose_scripts_replay_what_breaks() {
    let many: String = (0..60).map(|number| format!("create /f{number}; ")).collect();
    let text = format!("{many} create /a; write /a 0 9000 1; fsync /a; pause 5");
    let options = ExploreOptions { violations_max: 1, ..ExploreOptions::default() };
    let (report, stages) = failed(FORGETFUL, &text, &options);
    let violation = &report.violations[0];
    assert_eq!(violation.promise, Promise::Durability);
    assert!(violation.workload.contains("create /f20; create /f21") && violation.workload.contains(">>"));
    let last = stages.iter().rfind(|stage| matches!(stage, Stage::Failing { .. }));
    assert!(matches!(last, Some(Stage::Failing { stretch: 2, stretches: 2, .. })), "{last:?}");
    assert_replayed(violation, &options);
}

#[test]
fn the_power_is_cut_after_a_failure_too() {
    let text = "create /b; sync; create /a; write /a 0 9000 1; fsync /a; pause 5; create /c; sync";
    let options = ExploreOptions { violations_max: 10_000, ..ExploreOptions::default() };
    let (report, _) = failed(FORGETFUL, text, &options);
    let cut = report.violations.iter().find(|violation| violation.state.contains('>')).expect("a cut after a failure");
    assert_eq!(cut.promise, Promise::Durability);
    assert_replayed(cut, &options);
    let (sound, _) = failed(FORGETFUL.sound, text, &options);
    assert!(sound.is_sound(), "{:#?}", sound.violations);
}

#[test]
fn faults_end_with_the_wanted_number_of_judgements() {
    let text = "create /a; write /a 0 9000 1; fsync /a; create /c; sync";
    let (all, _) = failed(FORGETFUL.sound, text, &ExploreOptions::default());
    let (some, _) = failed(FORGETFUL.sound, text, &ExploreOptions { states_max: 50, ..ExploreOptions::default() });
    assert!(some.judged >= 50 && some.judged < 150 && all.judged > 150, "{} {}", some.judged, all.judged);
}

/// An unlink may fail and the name be gone: whoever creates it anew shows that.
#[test]
fn what_was_done_in_spite_of_an_error_is_followed() {
    let options = ExploreOptions {
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        ..ExploreOptions::default()
    };
    let spec: WorkloadSpec = "random:40".parse().expect("workload");
    for mode in [Mode::Ordered, Mode::Data] {
        let subject = Ext4Subject::new(mode);
        let plan = CrashPlan { faults: true, ..CrashPlan::new(&options) };
        let report = crash(subject, spec.workloads(&subject, 1).take(1), plan, |_| ()).expect("the run");
        assert!(report.is_sound() && report.judged > 200, "{mode}: {report:#?}");
    }
}

/// Three tasks end for want of room, each after any page: the judge has to try 320 combinations of their steps.
#[test]
fn several_tasks_may_run_out_of_room_at_any_page() {
    let text = "mkdir /d >> mkdir /d/a | create /1-5; write /1-5 0 12288 1 direct | \
                create /2-1; append /2-1 8192 2; zero /2-1 0 8192; write /2-1 19887 29352 3 | \
                create /3-5; append /3-5 12288 4";
    for mode in [Mode::Ordered, Mode::Data] {
        let (report, _) = failed(Ext4Subject::new(mode), text, &ExploreOptions::default());
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
    }
}
