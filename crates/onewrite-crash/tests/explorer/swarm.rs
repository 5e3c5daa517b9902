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

/// Fails if a swarm of workloads breaks a promise of `mode` within so many states.
fn assert_swarm_is_sound(mode: Mode, states: u64) {
    let report = swarm(Ext4Subject::new(mode), states, 32 * MIB);
    assert!(report.is_sound() && report.workloads >= 2, "{mode}: {:#?}", report.violations);
}

// Several tests, for they run side by side.

#[test]
fn swarm_workloads_keep_every_promise_of_writeback() {
    assert_swarm_is_sound(Mode::Writeback, 3_000);
}

#[test]
fn swarm_workloads_keep_every_promise_of_ordered() {
    assert_swarm_is_sound(Mode::Ordered, 3_000);
}

#[test]
fn swarm_workloads_keep_every_promise_of_data() {
    assert_swarm_is_sound(Mode::Data, 6_000);
}

#[test]
fn swarm_workloads_keep_every_promise_of_data_async() {
    assert_swarm_is_sound(Mode::DataAsync, 6_000);
}

#[test]
fn swarm_workloads_keep_every_promise_of_ldj() {
    assert_swarm_is_sound(Mode::Ldj, 6_000);
}

#[test]
fn swarm_workloads_keep_every_promise_of_f2fs() {
    let report = swarm(F2fsSubject::new(FsyncMode::Posix), 2_000, 64 * MIB);
    assert!(report.is_sound(), "{:#?}", report.violations);
}

/// What no workload of `random` reached: content that a log has to escape.
#[test]
fn swarm_workloads_write_what_a_log_has_to_escape() {
    let report = swarm(Ext4Subject::new(Mode::Data), 8_000, 32 * MIB);
    for mark in ["escaped block logged", "escaped block found in the log"] {
        assert!(report.marks.get(mark).is_some_and(|count| count.is_seen()), "{mark}: {report:?}");
    }
}
