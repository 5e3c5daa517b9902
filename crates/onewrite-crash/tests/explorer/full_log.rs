//! `full-log:N`: workloads whose log has a few blocks left when their tasks begin.

use onewrite_block::Nanos;
use onewrite_crash::{CrashPlan, ExploreOptions, Ext4Subject, Report, WorkloadSpec, crash};
use onewrite_fs::ext4::Mode;

fn explored(mode: Mode) -> Report {
    let subject = Ext4Subject::new(mode);
    let (commit_interval, checkpoint_age) = (Nanos::from_millis(50), Nanos::from_secs(60));
    let plain = ExploreOptions { states_max: 3_000, thorough_every: 15, ..ExploreOptions::default() };
    let options = ExploreOptions { commit_interval, checkpoint_age, ..plain };
    let spec: WorkloadSpec = "full-log:12".parse().expect("a workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(&options), |_| ()).expect("the run")
}

#[test]
fn operations_that_wait_for_room_in_the_log_break_no_promise() {
    for mode in [Mode::Ordered, Mode::Data] {
        let report = explored(mode);
        let forced = report.states_by_kind.forced_checkpoint;
        assert!(report.is_sound() && forced > 300, "{mode}: {forced} of {report:?}");
    }
}

#[test]
fn a_compressed_log_wraps_and_breaks_no_promise() {
    let report = explored(Mode::Ldj);
    let wrapped = report.states_by_kind.log_wrapped;
    assert!(report.is_sound() && wrapped > 300, "{wrapped} of {report:?}");
}
