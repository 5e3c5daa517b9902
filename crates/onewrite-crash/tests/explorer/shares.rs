//! Shares: when a call has returned, its targets have the shared content in every state; before, all have it or none.

use onewrite_block::Geometry;
use onewrite_crash::{
    Action, CrashPlan, ExploreOptions, Ext4Subject, Report, Workload, WorkloadSpec, crash, explore, trace,
};
use onewrite_fs::ext4::{Mode, Scope};

fn options(states_max: u64) -> ExploreOptions {
    ExploreOptions { e2fsck_every: 200, ..crate::support::options(states_max) }
}

/// The same on a disk without SHARE.
fn without_share(options: ExploreOptions) -> ExploreOptions {
    let geometry = Geometry { share_pairs_max: 0, share_atomic: false, ..options.geometry.clone() };
    ExploreOptions { geometry, ..options }
}

/// The modes that share by logging where the device cannot.
fn logging_modes() -> impl Iterator<Item = Mode> {
    let needs_share = [Mode::Sdj, Mode::SdjAsync];
    Mode::ALL.into_iter().filter(move |mode| mode.scope() == Scope::Full && !needs_share.contains(mode))
}

fn random(subject: Ext4Subject, options: &ExploreOptions) -> Report {
    let spec: WorkloadSpec = "shares:60".parse().expect("workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(options), |_| ()).expect("the run")
}

fn assert_sound(report: &Report, what: &str) {
    assert!(report.is_sound() && report.states >= 400, "{what}: {:#?}", report.violations);
    assert!(report.e2fsck_runs >= 2 && report.states_by_kind.inside_recovery > 10, "{what}: {report:?}");
}

#[test]
fn random_shares_are_whole_or_absent_in_every_mode() {
    for mode in Mode::ALL {
        assert_sound(&random(Ext4Subject::new(mode), &options(400)), &mode.to_string());
    }
    for mode in [Mode::Ordered, Mode::Soj] {
        let subject = Ext4Subject { delayed_allocation: false, ..Ext4Subject::new(mode) };
        assert_sound(&random(subject, &options(400)), &format!("{mode} without delayed allocation"));
    }
}

#[test]
fn random_shares_are_whole_or_absent_on_a_device_without_share() {
    for mode in logging_modes() {
        assert_sound(&random(Ext4Subject::new(mode), &without_share(options(400))), &format!("{mode}, logging"));
    }
}

/// The first page of `/b` is durable, the others have their blocks in a transaction that has not committed.
#[test]
fn a_share_over_pages_that_were_just_appended_takes_all_of_them_or_none() {
    let text = "create /a; append /a 12288 1; create /b; append /b 4096 2; sync >> append /b 8192 3; \
                share /a 0 /b 0 12288";
    let workload: Workload = text.parse().expect("workload");
    for mode in Mode::ALL {
        for delayed_allocation in [true, false] {
            let subject = Ext4Subject { delayed_allocation, ..Ext4Subject::new(mode) };
            let report = explore(subject, &workload, &ExploreOptions::default()).expect("the run");
            assert!(report.is_sound() && report.states > 15, "{mode}: {report:#?}");
        }
    }
}

/// A search that never appends by a share has proved nothing about it.
#[test]
fn random_shares_replace_append_fill_holes_and_are_refused() {
    let (spec, subject): (WorkloadSpec, _) = ("shares:80".parse().expect("workload"), Ext4Subject::new(Mode::Ordered));
    let (mut shares, mut refused, mut lazily, mut several, mut within_a_file) = (0, 0, 0, 0, 0);
    for workload in spec.workloads(&subject, 1).take(4) {
        let lines = trace(subject, &workload, &options(1)).expect("the run");
        let ended = lines.iter().filter(|line| line.contains("end `share"));
        let (done, others): (Vec<&String>, Vec<&String>) = ended.partition(|line| line.ends_with('`'));
        (shares, refused) = (shares + done.len(), refused + others.len());
        for action in workload.tasks.iter().flatten() {
            let Action::Share { parts, lazily: is_lazy } = action else { continue };
            lazily += usize::from(*is_lazy);
            several += usize::from(parts.len() > 1);
            within_a_file += parts.iter().filter(|part| part.source == part.target).count();
        }
    }
    assert!(shares > 120 && shares > 10 * refused && refused > 0, "{shares} shares, {refused} refused");
    assert!(lazily > 20 && several > 40 && within_a_file > 20, "{lazily} lazily, {several}, {within_a_file}");
}
