//! The sound file system keeps its promises in every state of small workloads, in every mode.

use std::cell::RefCell;

use onewrite_block::{Geometry, Image, Nanos, Page};
use onewrite_crash::{
    Alter, Altered, CrashError, CrashPlan, ExploreOptions, Explorer, Ext4Subject, Promise, Report, Shrunk, Stage,
    Workload, WorkloadSpec, crash, explore, minimise, record, replay,
};
use onewrite_fs::ext4::{Mode, PolicyKind};
use onewrite_fs::journal::CheckpointBy;

use crate::support::returns_early::ReturnsEarly;

fn explored(text: &str, mode: Mode, options: &ExploreOptions) -> Report {
    let workload: Workload = text.parse().expect("workload");
    explore(Ext4Subject::new(mode), &workload, options).expect("the run")
}

fn named(name: &str, mode: Mode, seed: u64) -> impl Iterator<Item = Workload> {
    name.parse::<WorkloadSpec>().expect("workload").workloads(&Ext4Subject::new(mode), seed)
}

/// The report of `onewrite crash` for the workload `name`.
fn crashed(name: &str, mode: Mode, options: &ExploreOptions) -> Report {
    let workloads = named(name, mode, options.seed);
    crash(Ext4Subject::new(mode), workloads, CrashPlan::new(options), |_| ()).expect("the run")
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
        let options = ExploreOptions { e2fsck_every: 100, nested_every: 8, ..ExploreOptions::default() };
        let report = explored(text, mode, &options);
        assert_sound(&report);
        let kinds = report.states_by_kind;
        assert!(report.states > 200 && report.replaying_percent() >= 30.0, "{mode}: {report:?}");
        assert!(kinds.torn_commit > 0 && kinds.inside_recovery > 0 && kinds.revoke > 0, "{mode}: {report:?}");
        // A recovery by SHARE is a single request, so few states inside it are new.
        let shares = mode.checkpoint() == CheckpointBy::Share;
        assert!(kinds.inside_nested_recovery > 0 || shares, "{mode}: {report:?}");
        assert!(report.e2fsck_runs >= 2, "{mode}: {report:?}");
    }
}

/// `/y` begins with what no file had: the pages of `/x` are not its own, even if nothing has a name behind the setup.
#[test]
fn a_new_file_has_nothing_of_one_that_the_setup_removed() {
    let text = "create /x; append /x 4498 7; unlink /x >> create /y; write /y 20480 4617 9";
    assert_sound(&explored(text, Mode::Writeback, &ExploreOptions::default()));
}

#[test]
fn fdatasync_of_a_directory_makes_its_names_durable() {
    for mode in Mode::ALL {
        let text = "mkdir /A; create /foo; write /foo 0 9000 9 >> unlink /foo; fdatasync /; create /bar; fdatasync /";
        assert_sound(&explored(text, mode, &ExploreOptions::default()));
    }
}

/// The transaction commits by age just when the task ends: no task runs then, but a commit does. A punch has pages of
/// its file under way. Then the writer of another file, who has to help, finds none of them dirty.
/// A rename of a file to its own name, or to another of its names, is no change that a sync has to make durable.
#[test]
fn a_rename_that_changes_nothing_is_not_judged() {
    let text = "mkdir /t; create /t/a; link /t/a /t/b >> setxattr /t/a user.0 51 9; rename /t/a /t/a; fsync /t; \
                append /t/a 5000 2; exchange /t/a /t/b; fsync /t; rename /t/b /t/a; fsync /t";
    for mode in [Mode::Ordered, Mode::Data, Mode::Ldj] {
        assert_sound(&explored(text, mode, &ExploreOptions::default()));
    }
}

/// The blocks of one file are more than the log has, and more than two of its blocks can revoke.
#[test]
fn a_compressed_log_holds_more_blocks_than_it_has() {
    let (sparse, more) = (0x7e_u64 << 56 | 1, 0x7e_u64 << 56 | 2);
    let text = format!(
        "create /a; create /b >> write /a 0 6963200 {sparse}; fsync /a; unlink /a; write /b 0 4505600 {more}; \
         fsync /b; truncate /b 8192; sync"
    );
    for mode in [Mode::DataCmp, Mode::Ldj] {
        let report = explored(&text, mode, &ExploreOptions { e2fsck_every: 50, ..ExploreOptions::default() });
        assert_sound(&report);
        assert!(report.states > 30 && report.states_by_kind.revoke > 0, "{mode}: {report:?}");
    }
}

#[test]
fn a_sync_waits_for_content_that_somebody_else_has_under_way() {
    let text = "mkdir /shared; mkdir /t1; mkdir /t2; mkdir /t3 >> \
                create /shared/0-3; truncate /shared/0-3 20480; append /shared/0-3 150000 34359738369; \
                extend /shared/0-3 0 7059; sync | create /shared/1-4; append /shared/1-4 65536 34376515585; \
                unlink /shared/1-0; rename /shared/1-4 /t1/1-5 | create /shared/2-1; truncate /shared/2-1 0; \
                write /shared/2-1 4268 11314 34393292801; create /t2/2-4 | create /t3/3-3; \
                append /t3/3-3 16384 34410070017; punch /t3/3-3 15532 4810";
    for mode in [Mode::Writeback, Mode::Ordered] {
        let (commit_interval, checkpoint_age) = (Nanos::from_millis(50), Nanos::from_millis(200));
        let options = ExploreOptions {
            cache_pages: 256,
            commit_interval,
            checkpoint_age,
            seed: 105,
            ..ExploreOptions::default()
        };
        assert_sound(&explored(text, mode, &options));
    }
}

/// An open file without a name is on the orphan list for its deletion; the end of a truncation must leave it there.
#[test]
fn a_truncated_file_without_a_name_stays_on_the_orphan_list() {
    let text = "create /d >> create /a; append /a 9000 1; open /a 0; unlink /a; truncate #0 8357; create /b; fsync /b; \
                truncate #0 100; append #0 5000 2; truncate #0 0; create /c; fsync /c";
    for mode in Mode::ALL {
        assert_sound(&explored(text, mode, &ExploreOptions::default()));
    }
}

#[test]
fn unmounting_waits_for_a_transaction_that_is_committing() {
    for mode in Mode::ALL {
        for seed in 1..=8 {
            let options = ExploreOptions { seed, commit_interval: Nanos::from_millis(50), ..ExploreOptions::default() };
            assert_sound(&explored("create /a; pause 50", mode, &options));
            let text = "create /a; append /a 30000 1; open /a 0; unlink /a; create /b; open /b 1; unlink /b; pause 20";
            assert_sound(&explored(text, mode, &options));
            let text = "create /a; sync >> open /a 0; unlink /a; pause 20; close 0; pause 50";
            assert_sound(&explored(text, mode, &options));
        }
    }
}

#[test]
fn a_write_log_read_back_gives_the_same_verdicts() {
    let workload: Workload =
        "create /a; write /a 0 9000 1; fsync /a; append /a 9000 2; rename /a /b; sync; unlink /b; sync"
            .parse()
            .expect("workload");
    for mode in Mode::ALL {
        let options = ExploreOptions { nested_every: 0, ..ExploreOptions::default() };
        let log = record(Ext4Subject::new(mode), &workload, &options).expect("recorded");
        let mut explorer = Explorer::new(Ext4Subject::new(mode), &options);
        explorer.explore_log(&workload, &log).expect("read back");
        let report = explorer.into_report();
        assert_sound(&report);
        assert!(report.states > 10, "{mode}: {report:?}");
    }
}

/// A torn page can only break the superblock, which mount and unmount write in place, as Linux does; see
/// `docs/crash-model.md`.
#[test]
fn a_disk_that_tears_pages_breaks_nothing_that_went_through_the_log() {
    for mode in Mode::ALL {
        let options = ExploreOptions { violations_max: 1_000, ..ExploreOptions::default() };
        let geometry = Geometry { atomic_write_pages: 0, ..options.geometry.clone() };
        let text = "create /a; write /a 0 9000 1; fsync /a; append /a 5000 2; mkdir /d; rename /a /d/a; sync; \
             write /d/a 1000 2000 3; fsync /d/a; write /d/a 700 900 4; pause 31000";
        let report = explored(text, mode, &options.on(&geometry));
        let in_place = |what: &str| what.contains("superblock: checksum");
        let others: Vec<_> = report.violations.iter().filter(|violation| !in_place(&violation.what)).collect();
        assert!(others.is_empty(), "{mode}: {others:#?}");
        assert!(report.states_by_kind.torn_page > 10, "{mode}: {report:?}");
    }
}

/// A canary whose fsync does nothing.
const FORGETFUL: Altered<Ext4Subject, ReturnsEarly> =
    Altered { sound: Ext4Subject::new(Mode::Data), change: ReturnsEarly };

#[test]
fn a_violation_is_minimised_and_replayed() {
    let options = ExploreOptions::default();
    let stages = RefCell::new(Vec::new());
    let told = |stage| stages.borrow_mut().push(stage);
    let plan = CrashPlan::new(&options);
    let mut report = crash(FORGETFUL, named("random:60", Mode::Data, options.seed), plan, told).expect("the run");
    minimise(&FORGETFUL, &mut report, (plan, 60_000), told).expect("smaller workloads");
    let stages = stages.take();
    assert!(stages.iter().any(|stage| matches!(stage, Stage::Judging { .. })), "{stages:?}");
    let told = stages.iter().position(|stage| matches!(stage, Stage::Broken(_))).expect("told at once");
    assert!(stages[..told].iter().all(|stage| !matches!(stage, Stage::Shrinking { .. })), "{stages:?}");
    let count = report.violations.len();
    assert!(matches!(stages.last(), Some(Stage::Shrinking { number, .. }) if *number == count), "{stages:?}");
    let violation = &report.violations[0];
    assert_eq!(violation.promise, Promise::Durability);
    let workload: Workload = violation.workload.parse().expect("workload");
    assert!(workload.action_count() <= 4, "{violation:#?}");
    assert!(violation.replay.contains(&violation.workload) && !violation.difference.is_empty(), "{violation:#?}");
    let again = replay(FORGETFUL, &workload, &violation.state, plan).expect("replayed");
    assert_eq!(again.violations[0].promise, Promise::Durability);
    assert!(replay(FORGETFUL.sound, &workload, &violation.state, plan).is_ok_and(|report| report.is_sound()));
}

/// A foreign checker that does not like a name.
#[derive(Clone, Copy)]
struct Finicky;

impl Alter<Ext4Subject> for Finicky {
    fn stranger_finding(&self, _: &Ext4Subject, image: &Image) -> Result<Option<String>, CrashError> {
        let is_named = |page: &Page| page.bytes().windows(6).any(|bytes| bytes == b"needle");
        Ok(image.written().any(|(_, page)| is_named(page)).then(|| "e2fsck: there is a needle".to_owned()))
    }
}

#[test]
fn what_a_foreign_checker_found_is_minimised_and_replayed() {
    const FINICKY: Altered<Ext4Subject, Finicky> = Altered { sound: Ext4Subject::new(Mode::Data), change: Finicky };
    let text = "create /a; append /a 5000 1; fsync /a; mkdir /d; create /d/needle; fsync /d; append /a 300 2; fsync /a \
                | create /b; append /b 9000 3; fsync /b; rename /b /c";
    let options = ExploreOptions { e2fsck_every: 20, reads_mounted: false, ..ExploreOptions::default() };
    let plan = CrashPlan::new(&options);
    let workload = std::iter::once(text.parse::<Workload>().expect("workload"));
    let mut report = crash(FINICKY, workload, plan, |_| ()).expect("the run");
    minimise(&FINICKY, &mut report, (plan, 60_000), |_| ()).expect("smaller workloads");
    let violation = &report.violations[0];
    assert_eq!((violation.promise, violation.shrunk), (Promise::Structure, Shrunk::Fully));
    let workload: Workload = violation.workload.parse().expect("workload");
    assert!(workload.action_count() <= 3 && violation.workload.contains("needle"), "{violation:#?}");
    let again = replay(FINICKY, &workload, &violation.state, plan).expect("replayed");
    assert_eq!(again.violations[0].what, "e2fsck: there is a needle");
}

#[test]
fn a_search_for_something_smaller_ends_with_its_judgements() {
    let options = ExploreOptions::default();
    let plan = CrashPlan::new(&options);
    let found = crash(FORGETFUL, named("random:60", Mode::Data, options.seed), plan, |_| ()).expect("the run");
    let shrink = |judged_max| {
        let (tries, mut report) = (RefCell::new(0), found.clone());
        minimise(&FORGETFUL, &mut report, (plan, judged_max), |_| *tries.borrow_mut() += 1).expect("smaller workloads");
        (report.violations, tries.take())
    };
    let (bounded, few) = shrink(1);
    assert_eq!(few, found.violations.len(), "one try for each violation");
    assert!(bounded.iter().all(|violation| violation.shrunk == Shrunk::ToTheBound), "{bounded:#?}");
    let (smaller, many) = shrink(60_000);
    assert!(many > few && smaller[0].workload.len() < found.violations[0].workload.len());
    assert_eq!((smaller[0].shrunk, found.violations[0].shrunk), (Shrunk::Fully, Shrunk::Untried));
}

#[test]
fn a_state_loses_and_tears_no_more_than_breaks_the_promise() {
    let geometry = Geometry { atomic_write_pages: 0, ..ExploreOptions::default().geometry };
    let options = ExploreOptions { violations_max: 10_000, nested_every: 1, geometry, ..ExploreOptions::default() };
    let workload: Workload =
        "create /b; sync; create /a; write /a 0 9000 1; fsync /a; pause 1".parse().expect("workload");
    let all = explore(FORGETFUL, &workload, &options).expect("the run").violations;
    for kind in ['~', '>'] {
        let violation = all.iter().rfind(|violation| violation.state.contains(kind)).expect("torn, or in recovery");
        let mut report = Report { violations: vec![violation.clone()], ..Report::default() };
        minimise(&FORGETFUL, &mut report, (CrashPlan::new(&options), 60_000), |_| ()).expect("a smaller state");
        assert!(!report.violations[0].state.contains(['~', '>']), "{violation:#?} {report:#?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_json() {
    let options = ExploreOptions { states_max: 2_000, ..ExploreOptions::default() };
    let json = |seed| {
        let options = ExploreOptions { seed, ..options.clone() };
        let report = crashed("random:60", Mode::Ordered, &options);
        serde_json::to_string(&report).expect("JSON")
    };
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8));
}

#[test]
fn a_cut_that_waits_for_a_sealed_transaction_does_not_take_its_data() {
    // The truncation waits for its handle while the transaction that makes the blocks visible is being sealed. The data
    // of that transaction must still reach the blocks.
    let text = "mkdir /shared; mkdir /t0 >> create /t0/0-1; write /t0/0-1 4096 16384 244813135873; truncate /t0/0-1 0 \
                | create /shared/1-5; write /shared/1-5 11527 4544 244829913089 | truncate /shared/2-0 0; sync";
    let options = ExploreOptions {
        cache_pages: 256,
        commit_interval: Nanos::from_millis(50),
        checkpoint_age: Nanos::from_millis(200),
        seed: 7,
        ..ExploreOptions::default()
    };
    assert_sound(&explored(text, Mode::Ordered, &options));
}

#[test]
fn long_runs_wrap_the_log_and_wait_for_checkpoints() {
    let options = ExploreOptions {
        samples: 4,
        exhaustive_writes_max: 2,
        nested_every: 200,
        cache_pages: 256,
        e2fsck_every: 0,
        states_max: 2_000,
        ..ExploreOptions::default()
    };
    let report = crashed("random:2000", Mode::Data, &options);
    assert_sound(&report);
    let kinds = report.states_by_kind;
    assert!(kinds.log_wrapped > 300 && kinds.forced_checkpoint > 300, "{report:?}");
}

/// Explores like `onewrite crash random:80`, with fewer states.
#[test]
fn random_workloads_reach_every_kind_of_state() {
    for mode in [Mode::Writeback, Mode::Ordered, Mode::Data, Mode::DataAsync] {
        let options = ExploreOptions {
            cache_pages: 256,
            commit_interval: Nanos::from_millis(50),
            checkpoint_age: Nanos::from_millis(200),
            states_max: 12_000,
            ..ExploreOptions::default()
        };
        let report = crashed("random:80", mode, &options);
        assert_sound(&report);
        let kinds = report.states_by_kind;
        let reached = [
            kinds.subset,
            kinds.sampled,
            kinds.inside_recovery,
            kinds.inside_nested_recovery,
            kinds.torn_commit,
            kinds.log_wrapped,
            kinds.forced_checkpoint,
            kinds.revoke,
        ];
        assert!(reached.iter().all(|count| *count >= 20), "{mode}: {kinds:?}");
        assert!(report.replaying_percent() >= 30.0 && report.e2fsck_runs >= 10, "{mode}: {report:?}");
    }
}

#[test]
fn a_write_log_of_the_broken_file_system_is_caught_as_the_run_itself() {
    let workload: Workload = "create /a; write /a 0 9000 1; fsync /a; pause 5".parse().expect("workload");
    let options = ExploreOptions::default();
    let direct = crash(FORGETFUL, [workload.clone()], CrashPlan::new(&options), |_| ()).expect("the run");
    let mut explorer = Explorer::new(FORGETFUL, &options);
    explorer.explore_log(&workload, &record(FORGETFUL, &workload, &options).expect("recorded")).expect("read back");
    let promise = |report: &Report| report.violations.first().map(|violation| violation.promise);
    assert_eq!(promise(&direct), Some(Promise::Durability));
    assert_eq!(promise(explorer.report()), promise(&direct));
}

#[test]
fn no_cache_policy_breaks_a_promise() {
    let usable = PolicyKind::ALL.into_iter().filter(|policy| !policy.needs_future());
    for (cache_policy, mode) in usable.zip([Mode::Ordered, Mode::Data].into_iter().cycle()) {
        let options = ExploreOptions {
            cache_pages: 256,
            cache_policy,
            commit_interval: Nanos::from_millis(50),
            checkpoint_age: Nanos::from_millis(200),
            states_max: 1_500,
            ..ExploreOptions::default()
        };
        let report = crashed("random:80", mode, &options);
        assert_sound(&report);
        assert_eq!(report.states, 1_500, "{cache_policy}");
    }
}

/// As on a file of XFS or Btrfs: all pairs are durable when the request has completed; before that, any of them may be.
#[test]
fn a_share_that_is_not_atomic_breaks_no_promise() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.checkpoint() == CheckpointBy::Share) {
        for (share_atomic, share_pairs_max) in [(false, 5), (false, 1024), (true, 1024)] {
            let options = ExploreOptions {
                cache_pages: 256,
                commit_interval: Nanos::from_millis(50),
                checkpoint_age: Nanos::from_millis(200),
                nested_every: 10,
                states_max: 1_500,
                ..ExploreOptions::default()
            };
            let geometry = Geometry { share_atomic, share_pairs_max, ..options.geometry.clone() };
            let options = ExploreOptions { geometry, ..options };
            let report = crashed("random:80", mode, &options);
            assert_sound(&report);
            let torn = report.states_by_kind.torn_share;
            assert_eq!(torn > 20, !share_atomic, "{mode}, {share_pairs_max} pairs: {report:?}");
            assert_eq!(torn > 0, !share_atomic, "{mode}, {share_pairs_max} pairs: {report:?}");
        }
    }
}
