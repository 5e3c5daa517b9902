//! Workloads that begin with what a power cut left of an earlier life.

use onewrite_block::{Cause, DevicePort, KIB, Lpn, MIB, Nanos, Page, Request};
use onewrite_crash::{
    Alter, Altered, CrashError, CrashPlan, ExploreOptions, Ext4Subject, F2fsSubject, Mounting, Report, Subject,
    WorkloadSpec, crash,
};
use onewrite_fs::FsResult;
use onewrite_fs::ext4::Ext4;
use onewrite_fs::f2fs::FsyncMode;

const STAGED: F2fsSubject = F2fsSubject::new(FsyncMode::Posix).with_stage(256 * KIB);

fn explored<S: Subject + Clone + Send>(subject: S, workload: &str, options: &ExploreOptions) -> Report {
    outcome(subject, workload, options).expect("the run")
}

fn outcome<S: Subject + Clone + Send>(
    subject: S,
    workload: &str,
    options: &ExploreOptions,
) -> Result<Report, CrashError> {
    let spec: WorkloadSpec = workload.parse().expect("workload");
    let workloads = spec.workloads(&subject, options.seed);
    crash(subject, workloads, CrashPlan::new(options), |_| ())
}

fn options(states_max: u64, seed: u64) -> ExploreOptions {
    ExploreOptions { states_max, seed, thorough_every: 15, ..ExploreOptions::default() }
}

fn of_f2fs(states_max: u64, seed: u64) -> ExploreOptions {
    let commit_interval = Nanos::from_secs(5);
    ExploreOptions { cache_pages: 256, commit_interval, ..options(states_max, seed) }.with_size(65 * MIB)
}

#[test]
fn ext4_keeps_its_promises_behind_a_cut() {
    for (mode, seed) in ["ordered", "data", "data+async", "ldj"].into_iter().zip(1..) {
        let subject = Ext4Subject::new(mode.parse().expect("a mode"));
        let report = explored(subject, "lives:40", &options(2_500, seed));
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
        assert!(report.workloads > 5 && report.mounted > 5, "{mode}: {report:?}");
    }
}

#[test]
fn f2fs_keeps_its_promises_behind_a_cut() {
    for (subject, seed) in [F2fsSubject::new(FsyncMode::Posix), STAGED].into_iter().zip(1..) {
        let report = explored(subject, "lives:40", &of_f2fs(1_200, seed));
        assert!(report.is_sound(), "{:#?}", report.violations);
    }
}

/// Found by `lives:60 --mode ordered`: a collapse, an insertion, a share or a direct read took what the flusher was
/// writing for all of a page, and what came in since was dropped, or not seen.
#[test]
fn what_came_in_while_a_page_was_written_is_not_dropped() {
    let script = "script:mkdir /shared; mkdir /t0; mkdir /t2; mkdir /t3; create /shared/0-1; mkdir /t0/d2; \
                  create /t2/2-2; create /shared/3-2; link /shared/3-2 /t3/3-4 >> rename /shared/0-1 /t0/d2/0-4 | \
                  append /t2/2-2 150000 133177540612; truncate /shared/all-1 32058; append /t2/2-2 5122 133177540613; \
                  collapse /t2/2-2 12288 8192 | append /t3/3-4 150000 133194317829";
    for mode in ["ordered", "writeback"] {
        for script in [script.to_owned(), script.replace("collapse", "insert")] {
            let subject = Ext4Subject::new(mode.parse().expect("a mode"));
            let report = explored(subject, &script, &options(2_000, 1));
            assert!(report.is_sound() && report.mounted == 1, "{mode}: {:#?}", report.violations);
        }
    }
}

/// Of an append that a cut took, `writeback` may show the bytes once the file grows: they reached the disk, and its
/// size did not. Where data are ordered, the zeros over them come before the new size.
#[test]
fn what_a_lost_append_left_behind_the_end_is_no_breach() {
    for (mode, cut) in [("ordered", 0), ("ordered", 2), ("writeback", 0), ("writeback", 2), ("writeback", 3)] {
        let script = format!(
            "script:create /a; create /b; write /a 0 51 1; fsync /a; sync; append /a 1450 2; fsync /a; cut {cut} >> \
             write /a 20480 16384 3 direct | append /b 12288 4; fsync /b; append /b 10 5; fsync /b"
        );
        let report = explored(Ext4Subject::new(mode.parse().expect("a mode")), &script, &options(1_000, 1));
        assert!(report.is_sound(), "{mode}: {:#?}", report.violations);
    }
}

/// A mount that wipes the log instead of replaying it. On an image that was unmounted the log is empty.
#[derive(Clone, Copy)]
struct WipesLog;

/// First bytes of a block of a jbd2 log, and the kind of its superblock.
const MAGIC: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();
const SUPERBLOCK: [u8; 4] = 4_u32.to_be_bytes();

impl Alter<Ext4Subject> for WipesLog {
    async fn mount(&self, sound: &Ext4Subject, port: DevicePort, mounting: Mounting) -> FsResult<Ext4> {
        for lpn in (0..port.geometry().pages).map(Lpn) {
            let pages = port.request(Request::read(lpn, 1, Cause::Metadata)).await?;
            let head = &pages[0].bytes()[..8];
            if head.starts_with(&MAGIC) && head[4..] != SUPERBLOCK {
                port.request(Request::write(lpn, vec![Page::ZEROS], Cause::Metadata)).await?;
            }
        }
        sound.mount(port, mounting).await
    }
}

#[test]
fn a_mount_that_forgets_the_older_life_is_caught_with_lives_alone() {
    let broken = Altered { sound: Ext4Subject::new("data".parse().expect("a mode")), change: WipesLog };
    let report = explored(broken, "random-all:40", &options(1_500, 3));
    assert!(report.is_sound(), "{:#?}", report.violations);
    // Files that the run is to begin with are not there.
    let error = outcome(broken, "lives:40", &options(1_500, 3)).unwrap_err();
    assert!(error.to_string().contains("reading the tree"), "{error}");
}

/// The cut falls behind the sync; what the fsync made durable behind it is there, whichever cut it is.
#[test]
fn a_life_ends_behind_its_sync() {
    for number in 0..12 {
        let script = format!(
            "script:create /a; append /a 5000 1; sync; create /b; append /b 9000 2; fsync /b; append /a 100 3; \
             cut {number} >> append /a 10 4; fsync /a; unlink /b; sync"
        );
        for mode in ["ordered", "data", "ldj"] {
            let subject = Ext4Subject::new(mode.parse().expect("a mode"));
            let report = explored(subject, &script, &options(2_000, 1));
            assert!(report.is_sound() && report.states > 10, "{mode}: {:#?}", report.violations);
        }
    }
}
