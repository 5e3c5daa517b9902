//! Canaries of cleaning by SHARE: an old block that goes too early, and a SHARE that comes too late.

use onewrite_block::{Cause, Lpn, MIB, Nanos, Operation, Request};
use onewrite_crash::{Alter, Altered, CrashPlan, ExploreOptions, F2fsSubject, Promise, Subject, crash};
use onewrite_fs::f2fs::{Clean, FsyncMode};

use super::twisted::{Fate, Twist, twisted};
use super::{Layer, SEEDS};

fn first_broken<S: Subject + Copy + Send + Sync>(subject: S, seed: u64) -> Option<Promise> {
    let plain = ExploreOptions::default();
    let (commit_interval, states_max) = (Nanos::from_secs(5), 1_500);
    let options =
        ExploreOptions { cache_pages: 1024, commit_interval, states_max, seed, reads_mounted: false, ..plain }
            .with_size(64 * MIB);
    let report = crash(subject, std::iter::once(crate::f2fs_cleaning::scarce()), CrashPlan::new(&options), |_| ())
        .expect("the run");
    report.violations.first().map(|violation| violation.promise)
}

const SOUND: F2fsSubject = F2fsSubject { clean: Clean::Share, ..F2fsSubject::new(FsyncMode::Posix) };

#[track_caller]
fn assert_caught<A: Alter<F2fsSubject> + Copy + Send + Sync>(change: A) {
    for seed in SEEDS {
        let broken = first_broken(Altered { sound: SOUND, change }, seed);
        assert!(matches!(broken, Some(Promise::Content | Promise::Durability)), "seed {seed}: {broken:?}");
    }
}

/// Trims the old blocks as soon as the new ones are there: before the checkpoint that names those.
#[derive(Default)]
struct TrimsEarly(Vec<Lpn>);

impl Twist for TrimsEarly {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match &request.operation {
            Operation::Share(pairs) => {
                self.0.extend(pairs.iter().map(|pair| pair.source));
                Fate::Passes
            }
            _ => Fate::IsFollowedBy(self.0.drain(..).map(|source| Request::trim(source, 1, Cause::Cleaning)).collect()),
        }
    }
}

/// Carries a SHARE out only behind the end of the checkpoint that names its new blocks.
#[derive(Default)]
struct SharesLate(Vec<Request>);

impl Twist for SharesLate {
    fn fate(&mut self, request: &mut Request) -> Fate {
        match &request.operation {
            Operation::Share(_) => {
                self.0.push(request.clone());
                Fate::IsLost
            }
            Operation::Write { durable, .. } if durable.is_fua() && request.cause == Cause::Checkpoint => {
                Fate::IsFollowedBy(std::mem::take(&mut self.0))
            }
            _ => Fate::Passes,
        }
    }
}

#[test]
fn the_sound_file_system_passes() {
    assert_eq!(first_broken(SOUND, SEEDS[0]), None);
}

#[test]
fn old_blocks_trimmed_before_the_checkpoint() {
    assert_caught(Layer(|disk| twisted(disk, TrimsEarly::default())));
}

#[test]
fn a_share_that_comes_behind_the_checkpoint() {
    assert_caught(Layer(|disk| twisted(disk, SharesLate::default())));
}
