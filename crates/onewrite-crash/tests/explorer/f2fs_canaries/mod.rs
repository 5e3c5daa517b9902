//! Canaries: known-bad variants of F2FS. The explorer catches each within 5,000 states, from each of three seeds, by
//! the promise that is named. The sound file system passes as many states of the same series: from each of the seeds
//! where nothing but the disk or an operation differs, from one around cleaning and on zones, whose runs are long.
//!
//! They need no change of F2FS: a device between file system and disk disobeys (`twists`), an operation does less than
//! it must, or recovery believes more than it may.

mod cleaning;
mod drafts;
mod stage;
mod twisted;
mod twists;
mod zones;

use onewrite_block::{Cause, Device, DevicePort, MIB, Nanos, PageBytes, Request};
use onewrite_crash::{
    Alter, Altered, CrashPlan, ExploreOptions, F2fsSubject, Mounting, Promise, Subject, Workload, crash,
};
use onewrite_fs::f2fs::format::inode::{CHECKSUM, checksum};
use onewrite_fs::f2fs::format::node::{footer, put_footer};
use onewrite_fs::f2fs::format::sit::LogKind;
use onewrite_fs::f2fs::format::superblock::RawSuperblock;
use onewrite_fs::f2fs::format::{Checkpoint, Layout};
use onewrite_fs::f2fs::{F2fs, FsyncMode};
use onewrite_fs::{BlockNo, FsResult};

use twisted::twisted;
use twists::{ForgetsNatJournal, LosesInodes, NoFlushAfter, NoMark, PACKS, ReusesEarly, SpoilsSummaries};

use crate::support::returns_early::ReturnsEarly;

const SEEDS: [u64; 3] = [1, 2, 3];

/// Files that are there at a checkpoint, then fsyncs behind it, of new files and of old ones.
const SYNCING: &str = "create /a; write /a 0 30000 1; create /b; write /b 0 9000 2; sync; \
                       write /a 4096 9000 3; fsync /a; create /n; append /n 5000 4; fsync /n; \
                       mkdir /d; create /d/c; write /d/c 0 20000 5; sync; write /b 0 5000 6; fdatasync /b; \
                       write /a 0 9000 7; fsync /a; unlink /n; sync";

fn options(seed: u64) -> ExploreOptions {
    let plain = ExploreOptions::default();
    let (commit_interval, states_max) = (Nanos::from_millis(50), 5_000);
    ExploreOptions { cache_pages: 256, commit_interval, states_max, seed, reads_mounted: false, ..plain }
        .with_size(64 * MIB)
}

fn first_broken<S: Subject + Copy + Send + Sync>(subject: S, options: &ExploreOptions) -> Option<Promise> {
    first_broken_by(SYNCING, subject, options)
}

/// The first promise that the states of one workload break.
fn first_broken_by<S: Subject + Copy + Send + Sync>(
    workload: &str,
    subject: S,
    options: &ExploreOptions,
) -> Option<Promise> {
    let workload: Workload = workload.parse().expect("workload");
    let report = crash(subject, std::iter::once(workload), CrashPlan::new(options), |_| ()).expect("the run");
    report.violations.first().map(|violation| violation.promise)
}

#[test]
fn the_sound_file_system_passes_the_same_states() {
    for (seed, mode) in SEEDS.into_iter().zip(FsyncMode::ALL.into_iter().cycle()) {
        assert_eq!(first_broken(F2fsSubject::new(mode), &options(seed)), None, "seed {seed}, {mode}");
    }
}

/// Asserts that a variant breaks one of `promises` from each seed.
#[track_caller]
fn assert_caught<A: Alter<F2fsSubject> + Copy + Send + Sync>(change: A, promises: &[Promise]) {
    for (seed, mode) in SEEDS.into_iter().zip(FsyncMode::ALL.into_iter().cycle()) {
        let (sound, options) = (F2fsSubject::new(mode), options(seed));
        let broken = first_broken(Altered { sound, change }, &options);
        assert!(broken.is_some_and(|broken| promises.contains(&broken)), "seed {seed}, {mode}: {broken:?}");
    }
}

/// A device that disobeys.
#[derive(Clone, Copy)]
struct Layer(fn(Box<dyn Device>) -> Box<dyn Device>);

impl Alter<F2fsSubject> for Layer {
    fn layer(&self, disk: Box<dyn Device>) -> Box<dyn Device> {
        (self.0)(disk)
    }
}

#[test]
fn checkpoint_before_its_blocks() {
    let change = Layer(|disk| twisted(disk, NoFlushAfter::new(Cause::Checkpoint)));
    assert_caught(change, &[Promise::Recovery, Promise::Structure, Promise::Content]);
}

#[test]
fn no_flush_before_the_nodes_of_an_fsync() {
    let change = Layer(|disk| twisted(disk, NoFlushAfter::new(Cause::Data)));
    assert_caught(change, &[Promise::Content]);
}

#[test]
fn nodes_without_the_mark_of_an_fsync() {
    assert_caught(Layer(|disk| twisted(disk, NoMark)), &[Promise::Durability]);
}

#[test]
fn blocks_reused_before_the_checkpoint_that_frees_them() {
    assert_caught(Layer(|disk| twisted(disk, ReusesEarly::default())), &[Promise::Content]);
}

#[test]
fn nat_journal_forgotten() {
    assert_caught(Layer(|disk| twisted(disk, ForgetsNatJournal)), &[Promise::Structure]);
}

/// Neither a mount nor a reader looks at them: states that differ in them alone are no repetitions.
#[test]
fn summaries_spoiled_behind_their_checkpoint() {
    let workload = "create /a; append /a 3000000 1; sync; append /a 3000000 2; sync";
    let change = Layer(|disk| twisted(disk, SpoilsSummaries::default()));
    let subject = Altered { sound: F2fsSubject::new(FsyncMode::Posix), change };
    assert_eq!(first_broken_by(workload, subject, &options(1)), Some(Promise::Structure));
}

#[test]
fn names_without_their_inodes() {
    assert_caught(Layer(|disk| twisted(disk, LosesInodes)), &[Promise::Structure]);
}

#[test]
fn an_fsync_that_returns_early() {
    assert_caught(ReturnsEarly, &[Promise::Durability]);
}

/// A `strict` file system that does what `posix` does.
#[derive(Clone, Copy)]
struct Loose;

impl Alter<F2fsSubject> for Loose {
    async fn mount(&self, _: &F2fsSubject, port: DevicePort, mounting: Mounting) -> FsResult<F2fs> {
        F2fsSubject::new(FsyncMode::Posix).mount(port, mounting).await
    }
}

#[test]
fn a_rename_that_does_not_survive_its_fsync() {
    let workload = "create /a; append /a 5000 1; sync; rename /a /b; append /b 100 2; fsync /b";
    for mode in FsyncMode::ALL {
        let subject = Altered { sound: F2fsSubject::new(mode), change: Loose };
        let broken = first_broken_by(workload, subject, &options(1));
        assert_eq!(broken, (mode == FsyncMode::Strict).then_some(Promise::Durability), "{mode}");
    }
}

/// A recovery that takes any node at the end of the log for one of this checkpoint.
#[derive(Clone, Copy)]
struct Versionless;

impl Alter<F2fsSubject> for Versionless {
    async fn mount_recovery(&self, sound: &F2fsSubject, port: DevicePort, mounting: Mounting) -> FsResult<F2fs> {
        let read = async |block: BlockNo| -> FsResult<PageBytes> {
            let pages = port.request(Request::read(block.page(), 1, Cause::Metadata)).await?;
            Ok(*pages[0].bytes())
        };
        let raw = RawSuperblock::in_block(&read(BlockNo(0)).await?, 0).expect("superblock");
        let layout = Layout::decode(&raw, 0).expect("layout");
        let mut packs = Vec::new();
        for (pack, start) in (0..).zip(PACKS) {
            packs.extend(Checkpoint::decode(&read(BlockNo(start)).await?, &layout, pack));
        }
        let checkpoint = packs.into_iter().max_by_key(Checkpoint::version).expect("a checkpoint");
        let log = checkpoint.log(LogKind::WarmNode);
        let mut block = layout.segment_start(log.segment) + u64::from(log.next);
        // A cycle is damage that the sound file system gets around.
        for _ in 0..1000 {
            if !layout.main.contains(block) {
                break;
            }
            let mut bytes = read(block).await?;
            let mut found = footer(&bytes);
            found.version = checkpoint.footer_version();
            put_footer(&mut bytes, &found);
            if found.nid == found.ino {
                let sum = checksum(&bytes, found.nid, &layout);
                bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
            }
            let page = onewrite_block::Page::new(bytes);
            port.request(Request::write(block.page(), vec![page], Cause::Recovery)).await?;
            block = found.next;
        }
        sound.mount(port, mounting).await
    }
}

#[test]
fn versions_in_footers_ignored() {
    assert_caught(Versionless, &[Promise::Recovery, Promise::Structure, Promise::Steps]);
}
