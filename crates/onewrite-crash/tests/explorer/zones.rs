//! F2FS on the zones of an open-channel SSD under the explorer: the run itself goes over the device, which refuses
//! what is out of order, and recoveries begin on zones that were written to a point nobody knows.

use onewrite_block::{MIB, Nanos, PAGE_SIZE};
use onewrite_crash::{
    CrashPlan, ExploreOptions, F2fsSubject, MakeDevice, Report, Subject, WorkloadSpec, crash, device_pages,
};
use onewrite_device::Profile;
use onewrite_fs::f2fs::FsyncMode;

const SIZE_BYTES: u64 = 128 * MIB;

/// Explores `workload` over a staging area of `stage_bytes`, on what `alter` makes of F2FS.
pub fn explored<S: Subject + Copy + Send + Sync>(
    alter: impl FnOnce(F2fsSubject) -> S,
    workload: &str,
    stage_bytes: u64,
    (states_max, seed): (u64, u64),
) -> Report {
    let pages = device_pages(SIZE_BYTES / PAGE_SIZE as u64);
    let tail_bytes = pages * PAGE_SIZE as u64 - SIZE_BYTES + stage_bytes;
    let profile = Profile::load("ocssd-huawei").expect("a profile").with_tail(tail_bytes);
    let make = |pages: u64| profile.device(Some(pages * PAGE_SIZE as u64)).expect("a device");
    let geometry = make(pages).geometry().clone();
    let sound = F2fsSubject::new(FsyncMode::Posix).with_stage(stage_bytes);
    let subject = alter(F2fsSubject { zones: geometry.zones, ..sound });
    let options = ExploreOptions {
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        states_max,
        seed,
        size_bytes: SIZE_BYTES,
        ..ExploreOptions::default()
    }
    .on(&geometry);
    let plan = CrashPlan { device: Some(&make as &MakeDevice<'_>), ..CrashPlan::new(&options) };
    let spec: WorkloadSpec = workload.parse().expect("workload");
    crash(subject, spec.workloads(&subject, seed), plan, |_| ()).expect("the run")
}

#[test]
fn random_operations_over_zones_break_no_promise() {
    for (workload, stage_bytes, seed) in [("random:60", 0, 1), ("random-all:60", 0, 2), ("random:60", MIB, 3)] {
        let report = explored(|sound| sound, workload, stage_bytes, (800, seed));
        assert!(report.is_sound(), "{workload}: {:#?}", report.violations);
        let kinds = &report.states_by_kind;
        assert!(kinds.inside_device > 30 && kinds.inside_recovery > 50, "{workload}: {report:?}");
        assert!(kinds.log_not_empty > 100, "{workload}: {report:?}");
    }
}
