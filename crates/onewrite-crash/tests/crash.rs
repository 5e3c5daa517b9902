//! The sound file system keeps its promises in every state of small workloads, in every mode.

use onewrite_crash::{ExploreOptions, Report, Workload, explore};
use onewrite_fs::ext4::Mode;

fn explored(text: &str, options: &ExploreOptions) -> Report {
    let workload: Workload = text.parse().expect("workload");
    explore(&workload, options).expect("the run")
}

fn assert_sound(report: &Report) {
    assert!(report.is_sound(), "{:#?}", report.violations);
}

#[test]
fn a_minimal_workload_keeps_every_promise_in_every_mode() {
    let text = "mkdir /d; create /a; write /a 0 9000 1; fsync /a; append /a 5000 2; link /a /b; rename /a /d/a; \
                symlink target /s; fdatasync /b; truncate /b 3000; create /c; write /c 0 20000 3; fsync /c; \
                rename /c /b; unlink /s; sync; rename /d/a /x; rmdir /d; sync \
                | create /p; write /p 0 70000 4; fsync /p; truncate /p 10; write /p 8192 100 5; fsync /p; unlink /p; \
                create /q; append /q 300 6; fsync /q; append /q 9000 7; sync";
    for mode in Mode::ALL {
        let options = ExploreOptions { e2fsck_every: 100, nested_every: 8, ..ExploreOptions::new(mode) };
        let report = explored(text, &options);
        assert_sound(&report);
        let kinds = report.states_by_kind;
        assert!(report.states > 300 && report.replaying_percent() >= 30.0, "{mode}: {report:?}");
        assert!(kinds.torn_commit > 0 && kinds.inside_nested_recovery > 0 && kinds.revoke > 0, "{mode}: {report:?}");
        assert!(report.e2fsck_runs > 3, "{mode}: {report:?}");
    }
}

#[test]
fn fdatasync_of_a_directory_makes_its_names_durable() {
    for mode in Mode::ALL {
        let text = "mkdir /A; create /foo; write /foo 0 9000 9 >> unlink /foo; fdatasync /; create /bar; fdatasync /";
        assert_sound(&explored(text, &ExploreOptions::new(mode)));
    }
}
