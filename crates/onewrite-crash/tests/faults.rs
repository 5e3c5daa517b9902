//! Faults without a cut.

use onewrite_crash::{ExploreOptions, Explorer, Ext4Subject, Workload};
use onewrite_fs::ext4::Mode;

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
