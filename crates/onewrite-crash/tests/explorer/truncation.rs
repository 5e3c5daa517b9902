//! What a truncation or a removal meets: writes and allocations of the same file that are under way.

use onewrite_crash::{CrashPlan, ExploreOptions, Ext4Subject, Report, WorkloadSpec, crash};

fn explored(script: &str, mode: &str) -> Report {
    let subject = Ext4Subject::new(mode.parse().expect("a mode"));
    let options = ExploreOptions { states_max: 5_000, ..ExploreOptions::default() };
    let spec: WorkloadSpec = script.parse().expect("a workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(&options), |_| ()).expect("the run")
}

/// A write that ends while a truncation waits for it. What it wrote behind the new end has not arrived, so a file that
/// grows again has no size before its content.
#[test]
fn what_a_truncation_cut_off_does_not_arrive() {
    let script = "script:create /a; append /a 20000 7; create /b >> write /a 0 20000 1; sync | truncate /a 100; \
                  write /a 0 8192 2; fsync /a; write /a 4096 4096 3; append /a 20000 4; punch /a 4096 4096; fsync /b; \
                  chmod /b 600; fsync /b";
    for mode in ["ordered", "writeback"] {
        let report = explored(script, mode);
        assert!(report.is_sound() && report.states > 20, "{mode}: {:#?}", report.violations);
    }
}

/// Pages whose file is removed while they get their blocks: none of them waits for a conversion. The count of those
/// that do is held to the files, in debug builds.
#[test]
fn what_was_removed_during_its_allocation_waits_for_no_conversion() {
    let script = "script:create /r; append /r 4096 1; sync >> create /q; append /q 14501 3 >> sync | unlink /q; \
                  create /b2; fsync /b2";
    let report = explored(script, "ordered");
    assert!(report.is_sound() && report.states > 20, "{:#?}", report.violations);
}

/// A page that ends in zeros, over a block that does not, is cut off among its zeros: they are written with the size.
/// Otherwise a later growth shows what the block held.
#[test]
fn zeros_behind_a_truncation_are_durable_with_its_size() {
    let script = "script:create /a; write /a 0 4096 5; fsync /a; write /a 0 4096 6; truncate /a 2048; \
                  truncate /a 3000; create /b; fsync /b";
    for mode in ["ordered", "data"] {
        let report = explored(script, mode);
        assert!(report.is_sound() && report.states > 20, "{mode}: {:#?}", report.violations);
    }
}
