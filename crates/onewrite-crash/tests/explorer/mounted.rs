//! The mounted file system is judged, too: what it reads as when all operations have ended.

use std::collections::BTreeMap;

use onewrite_block::{
    Cause, Completion, Counters, Device, Geometry, Lpn, Nanos, NextEvent, Operation, Page, Request, Token,
};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, Ext4Subject, Promise, Report, Subject, Workload, explore, replay,
};
use onewrite_fs::ext4::Mode;

/// Content goes to the disk as it should; a read of content gives what was written first.
struct Stale {
    inner: Box<dyn Device>,
    first: BTreeMap<Lpn, Page>,
    reads: BTreeMap<Token, Lpn>,
}

impl Device for Stale {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, token: Token, request: Request, now: Nanos) {
        match (&request.operation, request.cause) {
            (Operation::Write { start, pages, .. }, Cause::Data) => {
                for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                    self.first.entry(lpn).or_insert_with(|| page.clone());
                }
            }
            (Operation::Read { start, .. }, Cause::Data) => drop(self.reads.insert(token, *start)),
            _ => (),
        }
        self.inner.submit(token, request, now);
    }

    fn next_event(&self) -> NextEvent {
        self.inner.next_event()
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        let seen = completed.len();
        self.inner.advance(to, completed);
        for completion in &mut completed[seen..] {
            if let (Some(start), Ok(pages)) = (self.reads.remove(&completion.token), &mut completion.outcome) {
                for (lpn, page) in (start.0..).map(Lpn).zip(pages) {
                    *page = self.first.get(&lpn).unwrap_or(page).clone();
                }
            }
        }
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn reset_counters(&mut self) {
        self.inner.reset_counters();
    }
}

#[derive(Clone, Copy)]
struct StaleReads;

impl Alter<Ext4Subject> for StaleReads {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        Box::new(Stale { inner: disk, first: BTreeMap::new(), reads: BTreeMap::new() })
    }
}

/// More content than the page cache holds, written twice.
const TWICE: &str = "create /a; write /a 0 4194304 1; fsync /a; write /a 0 4194304 2; fsync /a";

fn explored<S: Subject>(subject: S, options: &ExploreOptions) -> Report {
    explore(subject, &TWICE.parse().expect("a script"), options).expect("the run")
}

#[test]
fn a_file_system_that_reads_wrong_while_mounted_is_caught_and_replayed() {
    let options = ExploreOptions { cache_pages: 256, states_max: 50, e2fsck_every: 0, ..ExploreOptions::default() };
    let sound = Ext4Subject::new(Mode::Ordered);
    let caught = explored(Altered { sound, change: StaleReads }, &options);
    let violation = caught.violations.first().expect("no state shows it, the mounted tree does");
    assert_eq!((violation.promise, violation.state.as_str()), (Promise::Reading, "mounted"), "{violation:?}");
    assert!(violation.difference.iter().any(|line| line.contains("/a")), "{violation:?}");
    assert_eq!(explored(sound, &options).violations, []);
    let again = |subject: Altered<Ext4Subject, StaleReads>| {
        let workload: Workload = violation.workload.parse().expect("a workload's text is its own");
        replay(subject, &workload, &violation.state, CrashPlan::new(&options)).expect("the same state")
    };
    assert_eq!(again(Altered { sound, change: StaleReads }).violations[0].what, violation.what);
}
