//! The mounted file system is judged, too: what it reads as when all operations have ended.

use std::collections::BTreeMap;

use onewrite_block::{Cause, Completion, Device, Lpn, MIB, Operation, Page, Request, Token};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, Promise, Report, Shrunk, Subject, Workload,
    crash, minimise, replay,
};
use onewrite_fs::ext4::Mode;
use onewrite_fs::f2fs::FsyncMode;

use crate::support::altered_disk::{Alteration, altered_disk};

/// Content goes to the disk as it should; a read of content gives what was written first.
#[derive(Default)]
struct Stale {
    first: BTreeMap<Lpn, Page>,
    reads: BTreeMap<Token, Lpn>,
}

impl Alteration for Stale {
    fn submitted(&mut self, token: Token, request: &mut Request) {
        match (&request.operation, request.cause) {
            (Operation::Write { start, pages, .. }, Cause::Data) => {
                for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                    self.first.entry(lpn).or_insert_with(|| page.clone());
                }
            }
            (Operation::Read { start, .. }, Cause::Data) => drop(self.reads.insert(token, *start)),
            _ => (),
        }
    }

    fn completed(&mut self, completion: &mut Completion) {
        if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &mut completion.outcome) {
            for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                *page = self.first.get(&lpn).unwrap_or(page).clone();
            }
        }
    }
}

#[derive(Clone, Copy)]
struct StaleReads;

impl<S: Subject> Alter<S> for StaleReads {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        altered_disk(disk, Stale::default())
    }
}

/// More content than the page cache holds, written twice; and what has no part in it.
const TWICE: &str = "create /a; create /b; write /b 0 9000 3; write /a 0 4194304 1; fsync /a; write /a 0 4194304 2; \
                     fsync /a; rename /b /c";

fn options() -> ExploreOptions {
    ExploreOptions { cache_pages: 256, states_max: 50, e2fsck_every: 0, ..ExploreOptions::default() }
}

fn explored<S: Subject + Clone + Send + Sync>(subject: S, options: &ExploreOptions, jobs: usize) -> Report {
    let workload: Workload = TWICE.parse().expect("a script");
    crash(subject, [workload], CrashPlan { jobs, ..CrashPlan::new(options) }, |_| ()).expect("the run")
}

const SOUND: Ext4Subject = Ext4Subject::new(Mode::Ordered);
const STALE: Altered<Ext4Subject, StaleReads> = Altered { sound: SOUND, change: StaleReads };

#[test]
fn a_file_system_that_reads_wrong_while_mounted_is_caught_made_smaller_and_replayed() {
    let options = options();
    let mut caught = explored(STALE, &options, 1);
    let violation = caught.violations.first().expect("no state shows it, the mounted tree does");
    assert_eq!((violation.promise, violation.state.as_str()), (Promise::Reading, "mounted"), "{violation:?}");
    assert!(violation.difference.iter().any(|line| line.contains("/a")), "{violation:?}");
    assert_eq!(explored(STALE, &options, 2).violations, caught.violations);
    assert_eq!(explored(SOUND, &options, 1).violations, []);
    minimise(&STALE, &mut caught, (CrashPlan::new(&options), 1_000), |_| ()).expect("smaller runs");
    let smaller = &caught.violations[0];
    assert_eq!((smaller.promise, smaller.shrunk), (Promise::Reading, Shrunk::Fully), "{smaller:?}");
    assert!(!smaller.workload.contains("/b") && smaller.workload.contains("write /a 0 4194304 2"), "{smaller:?}");
    let workload: Workload = smaller.workload.parse().expect("a workload's text is its own");
    let again = replay(STALE, &workload, &smaller.state, CrashPlan::new(&options)).expect("the same state");
    assert_eq!((again.judged, &again.violations[0].what), (1, &smaller.what));
    let sound = replay(SOUND, &workload, &smaller.state, CrashPlan::new(&options)).expect("the same state");
    assert_eq!((sound.judged, sound.violations.len()), (1, 0));
}

/// It writes in place, so that the second content has the place of the first.
#[test]
fn f2fs_that_reads_wrong_while_mounted_is_caught() {
    let sound = F2fsSubject { in_place_below: 4_096, ..F2fsSubject::new(FsyncMode::default()) };
    let options = options().with_size(64 * MIB);
    assert_eq!(explored(sound, &options, 1).violations, []);
    let caught = explored(Altered { sound, change: StaleReads }, &options, 1);
    let violation = caught.violations.first().expect("the mounted tree shows it");
    assert_eq!((violation.promise, violation.state.as_str()), (Promise::Reading, "mounted"), "{violation:?}");
}

/// The broken workload is the second, so it is glanced at.
#[test]
fn a_workload_that_is_glanced_at_is_judged_at_its_end_and_replayed() {
    let options = ExploreOptions { thorough_every: 15, states_max: 500, ..options() };
    let workloads = ["create /b; sync", TWICE].map(|text| text.parse::<Workload>().expect("a script"));
    let caught = crash(STALE, workloads, CrashPlan::new(&options), |_| ()).expect("the run");
    assert_eq!((caught.workloads, caught.glances), (2, 1));
    let violation = &caught.violations[0];
    let workload: Workload = violation.workload.parse().expect("a workload's text is its own");
    let again = replay(STALE, &workload, &violation.state, CrashPlan::new(&options)).expect("the same state");
    assert_eq!(again.violations[0].what, violation.what);
}

#[test]
fn what_nobody_knows_is_not_judged_and_a_replay_says_so() {
    let workload: Workload = "create /a; write /a 0 200000000 1".parse().expect("a script");
    let refused = replay(SOUND, &workload, "mounted", CrashPlan::new(&options())).expect_err("no room, so no verdict");
    assert!(refused.to_string().contains("fails halfway"), "{refused}");
}
