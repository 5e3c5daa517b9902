//! What a run owes without a power cut: its reads, its errors, its unmount; on images of others, too.

use std::sync::Arc;

use onewrite_block::{Cause, Completion, Device, DeviceError, Lpn, MIB, Nanos, Operation, Page, Request, Token};
use onewrite_crash::{
    Alter, Altered, BaseImage, CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, Promise, Report, Subject,
    Violation, Workload, WorkloadSpec, crash, replay,
};
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::altered_disk::{Alteration, altered_disk};

const SOUND: Ext4Subject = Ext4Subject::new(Mode::Ordered);

/// What goes wrong at the disk.
#[derive(Clone, Copy)]
enum Wrong {
    /// Reads of content give zeros.
    Reads,
    /// Reads of content fail.
    Fails,
    /// The superblock is not written where it says that no log waits for its replay.
    Superblock,
}

/// How it goes.
struct Going {
    wrong: Wrong,
    reads: Vec<Token>,
}

impl Alteration for Going {
    fn submitted(&mut self, token: Token, request: &mut Request) {
        match (self.wrong, &request.operation) {
            (Wrong::Reads | Wrong::Fails, Operation::Read { .. }) if request.cause == Cause::Data => {
                self.reads.push(token);
            }
            (Wrong::Superblock, Operation::Write { start: Lpn(0), pages, .. }) if !says_recover(&pages[0]) => {
                *request = Request::read(Lpn(0), 1, Cause::Metadata);
            }
            _ => (),
        }
    }

    fn completed(&mut self, completion: &mut Completion) {
        let read = self.reads.iter().position(|token| *token == completion.token);
        match (read.map(|read| self.reads.swap_remove(read)), self.wrong, &mut completion.outcome) {
            (Some(_), Wrong::Reads, Ok(pages)) => pages.fill(Page::ZEROS),
            (Some(_), Wrong::Fails, outcome) => *outcome = Err(DeviceError::PowerLost),
            _ => (),
        }
    }
}

/// Whether a superblock has the flag `RECOVER` among its incompatible features.
fn says_recover(page: &Page) -> bool {
    page.bytes()[1024 + 0x60] & 4 != 0
}

impl<S: Subject> Alter<S> for Wrong {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        altered_disk(disk, Going { wrong: *self, reads: Vec::new() })
    }
}

fn options() -> ExploreOptions {
    ExploreOptions { cache_pages: 256, states_max: 300, e2fsck_every: 0, ..ExploreOptions::default() }
}

fn explored<S: Subject + Clone + Send + Sync>(subject: S, text: &str, options: &ExploreOptions) -> Report {
    let workload: Workload = text.parse().expect("a script");
    crash(subject, [workload], CrashPlan::new(options), |_| ()).expect("the run")
}

/// The file is gone when the mounted tree is looked at: only the read shows it.
const READ: &str = "create /a; write /a 0 4194304 1; fsync /a; read /a; unlink /a | pause 3; read /a; append /a 9000 2";

#[track_caller]
fn assert_caught(wrong: Wrong, text: &str, promise: Promise, said: &str) -> Violation {
    let caught = explored(Altered { sound: SOUND, change: wrong }, text, &options());
    let violation = caught.violations.first().expect("a run without a cut shows it").clone();
    assert_eq!((violation.promise, violation.state.as_str()), (promise, "mounted"), "{violation:?}");
    assert!(violation.what.contains(said), "{violation:?}");
    let (again, workload) = (Altered { sound: SOUND, change: wrong }, text.parse().expect("a script"));
    let again = replay(again, &workload, &violation.state, CrashPlan::new(&options())).expect("the same state");
    assert_eq!(again.violations[0].what, violation.what);
    assert_eq!(explored(SOUND, text, &options()).violations, []);
    violation
}

#[test]
fn a_read_that_returns_what_was_not_written_is_caught() {
    assert_caught(Wrong::Reads, READ, Promise::Reading, "`read /a` returned what was not there: page");
}

#[test]
fn an_operation_that_fails_on_a_healthy_disk_is_caught() {
    assert_caught(Wrong::Fails, READ, Promise::Service, "`read /a` failed on a healthy disk");
}

#[test]
fn an_unmount_that_leaves_the_log_is_caught() {
    assert_caught(Wrong::Superblock, "create /a; fsync /a", Promise::Service, "a log to replay (behind the unmount)");
}

/// Two tasks change, commit and abort one draft: what is committed is whole, what is aborted is never seen.
#[test]
fn drafts_of_all_tasks_are_committed_whole() {
    let text = "create /a; append /a 30000 9; create /b >> draft 100 write /a 0 300000 1; draft 100 append /b 9000 2; \
                commit 100; draft 100 write /a 4096 200000 3 | pause 1; draft 100 append /a 70000 4; commit 100; \
                pause 1; draft 100 write /b 0 5000 5; abort 100; commit 100";
    let ext4 = explored(Ext4Subject::new(Mode::Data), text, &ExploreOptions { states_max: 3_000, ..options() });
    assert!(ext4.is_sound() && ext4.states > 100 && ext4.mounted == 1, "{ext4:?}");
    let options = ExploreOptions { states_max: 1_000, ..options() }.with_size(64 * MIB);
    let f2fs = explored(F2fsSubject::new(FsyncMode::default()), text, &options);
    assert!(f2fs.is_sound() && f2fs.states > 20 && f2fs.mounted == 1, "{f2fs:?}");
}

fn on_image_of<S: Subject + Clone + Send + Sync>(subject: S, command: &str, size_bytes: u64) -> Report {
    let options = ExploreOptions { states_max: 1_500, seed: 5, e2fsck_every: 100, ..options() }.with_size(size_bytes);
    let base = BaseImage::made_by(command, size_bytes).expect("an image");
    let options = ExploreOptions { base: Some(Arc::new(base)), ..options };
    let spec: WorkloadSpec = "random-all:60".parse().expect("a workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(&options), |_| ()).expect("the run")
}

#[test]
fn images_of_mke2fs_with_files_are_explored() {
    let command = "d=$(mktemp -d); mkdir -p $d/x/y; seq 9999 > $d/x/y/n; ln $d/x/y/n $d/l; \
                   ln -s x $d/s; mke2fs -q -F -t ext4 -b 4096 -d $d $IMAGE; rm -r $d";
    let report = on_image_of(SOUND, command, 32 * MIB);
    assert!(report.is_sound() && report.states >= 1_500, "{report:?}");
}

/// Directories of `mkfs.f2fs` keep their first names in the inode.
#[test]
fn images_of_mkfs_f2fs_are_explored() {
    let report = on_image_of(F2fsSubject::new(FsyncMode::default()), "mkfs.f2fs -q -f $IMAGE", 64 * MIB);
    assert!(report.is_sound() && report.states >= 1_500, "{report:?}");
}

/// Requests of milliseconds beside those of microseconds change the order of things, and no promise.
#[test]
fn slow_requests_break_no_promise() {
    let options = ExploreOptions { slow_one_in: 5, states_max: 2_000, ..options() };
    let spec: WorkloadSpec = "random:80".parse().expect("a workload");
    for seed in [1, 2] {
        let workloads = spec.workloads(&SOUND, seed);
        let report = crash(SOUND, workloads, CrashPlan::new(&options), |_| ()).expect("the run");
        assert!(report.is_sound() && report.states >= 2_000, "{report:?}");
    }
}

/// More operations at once than all combinations of their steps could be tried in advance: the tree that was found
/// tells which are done. A commit may have some of the shifts and removals and not the others.
#[test]
fn what_ten_tasks_do_at_once_is_there_one_by_one() {
    let files: Vec<String> = (0..10).map(|task| format!("create /{task}; write /{task} 0 30000 {task}")).collect();
    let shift = |task| format!("truncate /{task} 22880; insert /{task} 0 4096; append /{task} 100 1");
    let remove = |task| format!("truncate /{task} 100; unlink /{task}; create /{task}0");
    let options = ExploreOptions {
        slow_one_in: 3,
        commit_interval: Nanos::from_millis(1),
        states_max: 1_000,
        ..ExploreOptions::default()
    };
    for removing in [0, 3, 6] {
        let tasks: Vec<String> = (0..10).map(|task| if task < removing { remove(task) } else { shift(task) }).collect();
        let script = format!("script:{}; sync >> {}", files.join("; "), tasks.join(" | "));
        let spec: WorkloadSpec = script.parse().expect("a workload");
        let report = crash(SOUND, spec.workloads(&SOUND, 1), CrashPlan::new(&options), |_| ()).expect("the run");
        assert!(report.is_sound() && report.states > 300, "{removing}: {:#?}", report.violations);
    }
}
