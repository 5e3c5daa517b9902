//! Workloads of every kind of operation: collapse and insert range, attributes, extended attributes, and files that all
//! tasks append to and write past the page cache.

use onewrite_block::MIB;
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, Promise, Report, Subject, Workload,
    WorkloadSpec, crash, explore,
};
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::f2fs::FsyncMode;
use onewrite_fs::{FileSystem, FsResult, Ino};

use crate::support::options;

fn random<S: Subject + Clone + Send>(subject: S, options: &ExploreOptions) -> Report {
    let spec: WorkloadSpec = "random-all:60".parse().expect("workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(options), |_| ()).expect("the run")
}

#[test]
fn every_operation_keeps_every_promise_in_every_mode() {
    for mode in Mode::ALL {
        let options = ExploreOptions { e2fsck_every: 250, ..options(1_500) };
        let report = random(Ext4Subject::new(mode), &options);
        assert!(report.is_sound() && report.states >= 1_500, "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn every_operation_keeps_every_promise_where_blocks_are_allocated_at_once() {
    for mode in Mode::ALL.into_iter().filter(|mode| Ext4Subject::new(*mode).promises().delays) {
        let subject = Ext4Subject { delayed_allocation: false, ..Ext4Subject::new(mode) };
        let report = random(subject, &options(1_500));
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn every_operation_keeps_every_promise_where_writeback_is_prompt() {
    for mode in [Mode::Writeback, Mode::Ordered, Mode::Data, Mode::DataAsync, Mode::Sdj] {
        let options = ExploreOptions { prompt_writeback: true, ..options(1_000) };
        let report = random(Ext4Subject::new(mode), &options);
        assert!(report.is_sound() && report.states >= 1_000, "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn what_is_written_behind_a_shift_never_shows_where_the_blocks_lay_before() {
    let shifts = ["collapse /a 8192 8192", "insert /a 8192 8192"];
    let changes = ["write /a 24576 4096 2", "write /a 24576 4096 2 direct", "truncate /a 25364", "punch /a 24576 100"];
    for mode in Mode::ALL.into_iter().filter(|mode| mode.padding().is_none()) {
        for (shift, change) in shifts.iter().flat_map(|shift| changes.map(|change| (shift, change))) {
            let text = format!("create /a; append /a 65536 1; fsync /a; {shift}; {change}; pause 100");
            let workload: Workload = text.parse().expect("workload");
            let report = explore(Ext4Subject::new(mode), &workload, &options(200)).expect("the run");
            assert!(report.is_sound(), "{mode}, {shift}, {change}: {:#?}", report.violations);
        }
    }
}

/// An fsync that only does the work of fdatasync.
#[derive(Clone, Copy)]
struct ContentOnly;

impl Alter<Ext4Subject> for ContentOnly {
    async fn fsync(&self, fs: &Ext4, _: &Ext4Subject, ino: Ino) -> FsResult<()> {
        fs.fdatasync(ino).await
    }
}

#[test]
fn attributes_that_an_fsync_leaves_behind_are_missed_and_those_of_an_fdatasync_are_not() {
    let changes = ["chmod /a 600", "chown /a 7 100000", "utimes /a 86400", "setxattr /a user.x 2000 5"];
    for mode in Mode::ALL.into_iter().filter(|mode| mode.padding().is_none()) {
        let sound = Ext4Subject::new(mode);
        for change in changes {
            let judged = |sync: &str, is_altered: bool| {
                let text = format!("create /a; write /a 0 5000 1; sync; {change}; {sync} /a; pause 1");
                let workload: Workload = text.parse().expect("workload");
                let report = match is_altered {
                    true => explore(Altered { sound, change: ContentOnly }, &workload, &ExploreOptions::default()),
                    false => explore(sound, &workload, &ExploreOptions::default()),
                };
                report.expect("the run").violations.first().map(|violation| violation.promise)
            };
            assert_eq!(judged("fsync", true), Some(Promise::Durability), "{mode}: {change}");
            assert_eq!((judged("fsync", false), judged("fdatasync", false)), (None, None), "{mode}: {change}");
        }
    }
}

#[test]
fn what_was_moved_inside_a_file_is_there_as_a_whole() {
    let text = "create /a; write /a 0 40000 1; sync; collapse /a 4096 8192; fsync /a; insert /a 8192 4096; fsync /a; \
                write /a 4096 9000 2; insert /a 0 8192; fdatasync /a; collapse /a 0 4096; append /a 5000 3; sync";
    for mode in Mode::ALL {
        let workload: Workload = text.parse().expect("workload");
        let report = explore(Ext4Subject::new(mode), &workload, &ExploreOptions::default()).expect("the run");
        assert!(report.is_sound() && report.states > 30, "{mode}: {:#?}", report.violations);
    }
}

#[test]
fn attributes_of_directories_and_links_are_kept_like_those_of_files() {
    let changes = ["chmod /a 375", "chown /a 7 100000", "utimes /a 86400", "setxattr /a user.x 2000 5"];
    for (make, change) in ["mkdir /a", "symlink target /a"].iter().flat_map(|make| changes.map(|change| (make, change)))
    {
        let workload: Workload = format!("{make}; sync; {change}; fsync /a; pause 1").parse().expect("workload");
        for mode in [Mode::Ordered, Mode::Data] {
            let report = explore(Ext4Subject::new(mode), &workload, &options(1_500)).expect("the run");
            assert!(report.is_sound(), "{mode}: {make}; {change}: {:#?}", report.violations);
        }
        let report = explore(F2fsSubject::new(FsyncMode::Posix), &workload, &options(1_500).with_size(64 * MIB))
            .expect("the run");
        assert!(report.is_sound(), "{make}; {change}: {:#?}", report.violations);
        let forgetful = Altered { sound: Ext4Subject::new(Mode::Data), change: ContentOnly };
        let report = explore(forgetful, &workload, &options(1_500)).expect("the run");
        assert_eq!(report.violations.first().map(|violation| violation.promise), Some(Promise::Durability), "{change}");
    }
}

/// A path may be a link where the task that chose it wanted a file: its creation failed, and the link kept the name.
#[test]
fn no_workload_of_every_operation_changes_what_the_model_cannot_follow() {
    for seed in [5, 12] {
        let report = random(Ext4Subject::new(Mode::Data), &ExploreOptions { seed, e2fsck_every: 0, ..options(1_500) });
        assert!(report.is_sound(), "seed {seed}: {:#?}", report.violations);
    }
}
