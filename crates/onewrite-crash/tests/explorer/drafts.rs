//! Atomic files: a commit of drafts is there as a whole or not at all, in every state.

use onewrite_crash::{CrashPlan, ExploreOptions, Ext4Subject, Report, Workload, WorkloadSpec, crash, explore, trace};
use onewrite_fs::ext4::{Mode, Scope};

use crate::support::options;

/// The modes that log content.
fn modes() -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter().filter(|mode| mode.scope() == Scope::Full)
}

fn random(mode: Mode, options: &ExploreOptions) -> Report {
    let (spec, subject): (WorkloadSpec, _) = ("atomic:60".parse().expect("workload"), Ext4Subject::new(mode));
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(options), |_| ()).expect("the run")
}

fn explored(text: &str, mode: Mode) -> Report {
    let workload: Workload = text.parse().expect("workload");
    explore(Ext4Subject::new(mode), &workload, &ExploreOptions::default()).expect("the run")
}

#[test]
fn commits_of_random_drafts_are_whole_or_absent_in_every_mode_that_logs_content() {
    for mode in modes() {
        let options = ExploreOptions { e2fsck_every: 200, ..options(400) };
        let report = random(mode, &options);
        assert!(report.is_sound() && report.states >= 400, "{mode}: {:#?}", report.violations);
        assert!(report.e2fsck_runs >= 2, "{mode}: {report:?}");
    }
}

/// One commit of two drafts: content of three files, a file created, one replaced, one unlinked; beside it drafts that
/// are aborted, or never committed, and another task's syncs.
pub(super) const GROUP: &str = "create /a; append /a 9000 1; create /b; append /b 20000 2; create /c; \
    append /c 5000 3 >> \
    draft 0 write /a 4096 12000 4; draft 0 truncate /b 100; draft 0 create /n; draft 0 append /n 7000 5; \
    draft 1 rename /c /d; draft 1 append /c 100 6; sync; commit 0 1; draft 0 write /a 0 4096 7; draft 0 create /x; \
    draft 1 unlink /d; sync; abort 0; draft 0 append /n 300 8; draft 0 punch /n 0 4096; commit 0; \
    draft 0 write /b 0 50000 9 | create /p; fsync /p; append /p 9000 10; fsync /p; append /p 30000 11; fsync /p";

#[test]
fn a_group_is_whole_or_absent_beside_the_syncs_of_another_task() {
    for mode in modes() {
        let report = explored(GROUP, mode);
        assert!(report.is_sound() && report.states > 60, "{mode}: {:#?}", report.violations);
    }
}

/// A name that is renamed to itself is a commit without a block. It must not return before the commit under way, for it
/// says that everything before it is durable.
#[test]
fn a_commit_without_a_block_waits_for_the_commit_under_way() {
    let again = "; draft 0 rename /a /a; commit 0".repeat(4);
    for mode in modes() {
        let report =
            explored(&format!("create /a; sync >> create /b; append /b 100000 1; fsync /b | sync{again}"), mode);
        assert!(report.is_sound() && report.states > 10, "{mode}: {:#?}", report.violations);
    }
}

/// The file that held spilled pages goes one transaction later: between the two it must name no block any more. Other
/// drafts and writes fill the first transaction.
#[test]
fn a_cut_between_a_commit_and_the_end_of_its_spill_file_leaves_a_sound_tree() {
    let script = "create /a; append /a 5000 1; create /q; append /q 1100000 2; sync >> draft 0 write /a 0 1500000 3; \
        sync; write /q 0 800000 4; commit 0; create /z; fsync /z";
    for mode in [Mode::Data, Mode::DataAsync] {
        let report = explored(script, mode);
        assert!(report.is_sound() && report.states > 10, "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn a_file_created_in_a_draft_leaves_nothing_without_a_commit() {
    for mode in [Mode::Data, Mode::Ldj, Mode::Sdj] {
        let options = ExploreOptions { e2fsck_every: 2, ..options(80) };
        let workload: Workload =
            "draft 0 create /n; draft 0 append /n 9000 1; sync; create /a; fsync /a; abort 0; sync"
                .parse()
                .expect("workload");
        let report = explore(Ext4Subject::new(mode), &workload, &options).expect("the run");
        assert!(report.is_sound() && report.states > 10, "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn a_mode_that_writes_content_in_place_refuses_drafts_and_nothing_of_them_appears() {
    let report = explored("create /a; sync >> draft 0 append /a 5000 1; commit 0; create /b; sync", Mode::Ordered);
    assert!(report.is_sound(), "{:#?}", report.violations);
}

/// A search that never commits a group has proved nothing about groups.
#[test]
fn random_drafts_are_committed_aborted_and_refused() {
    let (spec, subject): (WorkloadSpec, _) = ("atomic:80".parse().expect("workload"), Ext4Subject::new(Mode::Data));
    let workloads = spec.workloads(&subject, 1).take(4);
    let lines: Vec<String> =
        workloads.flat_map(|workload| trace(subject, &workload, &options(1)).expect("the run")).collect();
    let ended = |what: &str| lines.iter().filter(|line| line.contains(&format!("end `{what}"))).collect::<Vec<_>>();
    let done = |what: &str| ended(what).into_iter().filter(|line| line.ends_with('`')).count();
    for what in ["create", "write", "append", "truncate", "punch", "unlink", "rename"] {
        let draft = [0, 1].map(|slot| done(&format!("draft {slot} {what}")));
        assert!(draft.iter().sum::<usize>() > 0, "no `{what}` in a draft");
    }
    let (commits, groups, aborts) = (done("commit"), done("commit 0 1"), done("abort"));
    assert!(commits > 50 && groups > 10 && aborts > 5, "{commits} commits, {groups} of groups, {aborts} aborts");
    let is_refused = |line: &&String| line.contains("belongs to draft") && !line.contains("`draft");
    assert!(lines.iter().any(|line| is_refused(&line)), "no ordinary operation on a claimed file");
}
