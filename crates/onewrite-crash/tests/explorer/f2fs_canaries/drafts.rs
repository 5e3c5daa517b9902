//! Canaries of drafts: groups that are committed in parts, aborts that are not, and chains of which a part counts.

use onewrite_block::Cause;
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, F2fsSubject, Promise, Subject, Workload, WorkloadSpec, crash,
};
use onewrite_fs::f2fs::{F2fs, FsyncMode};
use onewrite_fs::{DraftId, FsResult};

use super::twisted::twisted;
use super::twists::{MarksAll, NoFlushAfter};
use super::{Layer, SEEDS, options};

/// A commit of a file that reaches beyond its inode, so that its chain has several nodes.
const FAR: &str = "create /a; write /a 0 9000 1; write /a 3900000 9000 2; write /a 8100000 9000 3; sync; \
                   append /a 10 4; fsync /a; draft 0 write /a 0 9000 5; draft 0 write /a 3900000 9000 6; \
                   draft 0 write /a 8100000 9000 7; commit 0; draft 0 write /a 100 50 8; commit 0";

const SOUND: F2fsSubject = F2fsSubject::new(FsyncMode::Posix);

/// The first promise that a variant breaks, and the number of states up to there.
fn first_broken<S: Subject + Copy + Send + Sync>(subject: S, name: &str, options: &ExploreOptions) -> Option<Promise> {
    let spec: WorkloadSpec = name.parse().expect("workload");
    let workloads: Vec<Workload> = spec.workloads(&subject, options.seed).take(400).collect();
    let report = crash(subject, workloads, CrashPlan::new(options), |_| ()).expect("the run");
    println!("seed {}: {} states, {:?}", options.seed, report.states, report.violations.first());
    report.violations.first().map(|violation| violation.promise)
}

#[track_caller]
fn assert_caught<A: Alter<F2fsSubject> + Copy + Send + Sync>(change: A, name: &str, promises: &[Promise]) {
    for seed in SEEDS {
        let broken = first_broken(Altered { sound: SOUND, change }, name, &options(seed));
        assert!(broken.is_some_and(|broken| promises.contains(&broken)), "seed {seed}: {broken:?}");
    }
}

#[test]
fn the_sound_file_system_passes() {
    assert_eq!(first_broken(SOUND, &format!("script:{FAR}"), &options(1)), None);
    assert_eq!(first_broken(SOUND, "atomic:60", &options(2)), None);
}

#[test]
fn each_node_of_a_chain_marked() {
    let change = Layer(|disk| twisted(disk, MarksAll));
    assert_caught(change, &format!("script:{FAR}"), &[Promise::Durability, Promise::Content]);
}

#[test]
fn nodes_of_a_commit_before_its_pages() {
    let change = Layer(|disk| twisted(disk, NoFlushAfter::new(Cause::Data)));
    assert_caught(change, &format!("script:{FAR}"), &[Promise::Durability, Promise::Content]);
}

/// The drafts of a group are committed one by one.
#[derive(Clone, Copy)]
struct SplitGroup;

impl Alter<F2fsSubject> for SplitGroup {
    async fn commit_drafts(&self, fs: &F2fs, sound: &F2fsSubject, drafts: &[DraftId]) -> FsResult<()> {
        for draft in drafts {
            sound.commit_drafts(fs, &[*draft]).await?;
        }
        Ok(())
    }
}

#[test]
fn a_group_committed_one_by_one() {
    let group = "script:create /a; append /a 9000 1; create /b; append /b 9000 2; sync; append /b 10 3; fsync /b; \
                 draft 0 write /a 0 9000 4; draft 1 write /b 0 9000 5; commit 0 1; draft 0 append /a 9000 6; \
                 draft 1 truncate /b 5000; commit 0 1";
    assert_caught(SplitGroup, group, &[Promise::Steps, Promise::Durability, Promise::Content]);
}

/// Aborted changes are committed.
#[derive(Clone, Copy)]
struct WrittenAborts;

impl Alter<F2fsSubject> for WrittenAborts {
    async fn abort_drafts(&self, fs: &F2fs, sound: &F2fsSubject, drafts: &[DraftId]) -> FsResult<()> {
        sound.commit_drafts(fs, drafts).await
    }
}

#[test]
fn aborted_changes_that_are_committed() {
    assert_caught(WrittenAborts, "atomic:60", &[Promise::Steps, Promise::Durability, Promise::Content]);
}
