//! Swarm workloads: what each is made of is drawn.

use onewrite_block::MIB;
use onewrite_crash::{CrashPlan, Ext4Subject, F2fsSubject, Report, Subject, WorkloadSpec, crash};
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::options;

fn swarm<S: Subject + Clone + Send>(subject: S, states: u64, size_bytes: u64) -> Report {
    let options = options(states).with_size(size_bytes);
    let spec: WorkloadSpec = "swarm:60".parse().expect("workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(&options), |_| ()).expect("the run")
}

/// Fails if a swarm of workloads breaks a promise of one of `modes`.
fn assert_swarm_is_sound(modes: &[Mode]) {
    for &mode in modes {
        let report = swarm(Ext4Subject::new(mode), 6_000, 32 * MIB);
        assert!(report.is_sound() && report.workloads >= 2, "{mode}: {:#?}", report.violations);
    }
}

// Several tests, for they run side by side.

#[test]
fn swarm_workloads_keep_every_promise_without_logged_content() {
    assert_swarm_is_sound(&[Mode::Writeback, Mode::Ordered]);
}

#[test]
fn swarm_workloads_keep_every_promise_with_logged_content() {
    assert_swarm_is_sound(&[Mode::Data, Mode::DataAsync, Mode::Ldj]);
}

#[test]
fn swarm_workloads_keep_every_promise_of_f2fs() {
    let report = swarm(F2fsSubject::new(FsyncMode::Posix), 2_000, 64 * MIB);
    assert!(report.is_sound(), "{:#?}", report.violations);
}

/// What no workload of `random` reached: content that a log has to escape.
#[test]
fn swarm_workloads_write_what_a_log_has_to_escape() {
    let report = swarm(Ext4Subject::new(Mode::Data), 16_000, 32 * MIB);
    for mark in ["escaped block logged", "escaped block found in the log"] {
        assert!(report.marks.get(mark).is_some_and(|count| count.is_seen()), "{mark}: {report:?}");
    }
}
