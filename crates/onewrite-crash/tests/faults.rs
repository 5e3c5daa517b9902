//! Faults without a cut.

use onewrite_crash::{ExploreOptions, Explorer, Ext4Subject, Workload};
use onewrite_fs::ext4::{Mode, Scope};

#[test]
fn a_failing_or_full_disk_is_told_of_and_loses_nothing_acknowledged() {
    let text = "mkdir /d; create /old; write /old 0 30000 9 >> create /a; write /a 0 20000 1; fsync /a; \
                append /a 5000 2; rename /a /d/a; fsync /d/a; write /old 4096 9000 3; fsync /old; truncate /old 100; \
                sync; unlink /d/a; sync | create /p; write /p 0 70000 4; fsync /p; truncate /p 10; unlink /p; \
                create /q; append /q 9000 5; sync";
    let workload: Workload = text.parse().expect("workload");
    for mode in Mode::ALL {
        let options = ExploreOptions { violations_max: 4, ..ExploreOptions::default() };
        let mut explorer = Explorer::new(Ext4Subject::new(mode), &options);
        explorer.explore_faults(&workload, 1).expect("the run");
        let report = explorer.into_report();
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        // Each request fails alone, with all later ones, and on a full disk; then there are more and more free blocks,
        // until they are enough.
        assert!(report.judged >= 120, "{mode}: {report:?}");
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
            let options = ExploreOptions { violations_max: 4, ..ExploreOptions::default() };
            let mut explorer = Explorer::new(Ext4Subject::new(mode), &options);
            explorer.explore_faults(&workload, 1).expect("the run");
            let report = explorer.into_report();
            assert!(report.is_sound(), "{mode}: {text}: {:#?}", report.violations);
            assert!(report.judged >= 20, "{mode}: {text}: {report:?}");
        }
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
        let options = ExploreOptions { violations_max: 4, ..ExploreOptions::default() };
        let mut explorer = Explorer::new(Ext4Subject::new(mode), &options);
        explorer.explore_faults(&workload, 1).expect("the run");
        let report = explorer.into_report();
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        assert!(report.judged >= 100, "{mode}: {report:?}");
    }
}
