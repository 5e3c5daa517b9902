//! The driver on a file system in memory and on a RAM disk.

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;

use onewrite_block::{Choices, Executor, Nanos, RamDisk};
use onewrite_lab::LabError;
use onewrite_lab::driver::{self, JobMeasure, Progress, Raw, RunOptions};
use onewrite_lab::job::JobFile;
use onewrite_lab::workload::filebench::Personality;
use onewrite_lab::workload::fio::{self, Target};
use onewrite_testing::skipped;

use crate::memory::MemoryFs;
use crate::support::{planned, run_job, run_on, run_personality};

fn measured(text: &str) -> Vec<JobMeasure> {
    run_job(text).0.unwrap()
}

fn latencies(measures: &[JobMeasure]) -> Vec<(u64, u64, u64, f64)> {
    let all = measures.iter().flat_map(|job| [&job.read, &job.write, &job.sync]);
    all.map(|series| (series.count(), series.bytes, series.duration().0, series.latencies.mean_ns())).collect()
}

#[test]
fn a_job_is_measured() {
    let jobs = measured("[a]\nrw=write\nsize=64k\nfsync=4\n");
    assert_eq!((jobs[0].write.count(), jobs[0].write.bytes, jobs[0].sync.count()), (16, 65536, 3));
    assert_eq!(jobs[0].write.latencies.percentile(50.0), Nanos::from_micros(10));
    assert_eq!(jobs[0].write_duration(), Nanos::from_micros(16 * 10 + 3 * 100));
}

#[test]
fn depth_overlaps_and_a_blocking_engine_does_not() {
    let duration =
        |engine| measured(&format!("[a]\nrw=randread\nsize=64k\niodepth=4\nioengine={engine}\n"))[0].read.duration();
    assert_eq!(duration("io_uring"), Nanos::from_micros(40));
    assert_eq!(duration("psync"), Nanos::from_micros(160));
}

#[test]
fn libaio_waits_for_a_sync_and_io_uring_does_not() {
    let duration = |engine| {
        let text = format!("[a]\nrw=write\nsize=64k\niodepth=16\nfsync=8\nioengine={engine}\n");
        measured(&text)[0].duration()
    };
    assert!(duration("io_uring") < duration("libaio"));
}

#[test]
fn groups_run_one_after_the_other() {
    let jobs = measured("[global]\nrw=write\nsize=16k\n[a]\n[b]\n[c]\nstonewall\n");
    let first_end = jobs[0].write.span.unwrap().end;
    let second_begin = jobs[1].write.span.unwrap().begin;
    let third_begin = jobs[2].write.span.unwrap().begin;
    assert!(second_begin < first_end && third_begin >= first_end);
}

#[test]
fn the_ramp_is_not_measured() {
    let jobs = measured("[a]\nrw=randread\nsize=64k\ntime_based\nruntime=1ms\nramp_time=1ms\n");
    assert_eq!(jobs[0].read.count(), 100);
}

#[test]
fn a_verified_job_ends_well_on_a_good_file_system() {
    let jobs = measured("[a]\nrw=randwrite\nbsrange=1k-8k\nsize=256k\nverify=crc32c\n");
    assert_eq!(jobs[0].read.bytes, jobs[0].write.bytes);
}

#[test]
fn verify_finds_a_spoiled_byte() {
    let spoilt = |fs: &MemoryFs| fs.spoils_writes.set(true);
    let (result, _) = run_on(planned("[a]\nrw=write\nsize=64k\nverify=crc32c\n"), RunOptions::default(), spoilt);
    assert!(matches!(result, Err(LabError::Verify { offset: 0, .. })), "{:?}", result.err());
}

#[test]
fn files_end_with_their_size() {
    let (_, fs) = run_job("[a]\nrw=randwrite\nsize=100k\nnrfiles=2\ndirectory=d\n");
    assert_eq!(fs.files(), [("/d/a.0.0".to_owned(), 51200), ("/d/a.0.1".to_owned(), 51200)]);
}

#[test]
fn sixteen_threads_of_varmail_interleave_identically() {
    let run = |seed| latencies(&run_personality(Personality::Varmail, 200, 5000, seed));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn every_personality_runs() {
    for personality in Personality::ALL {
        let jobs = run_personality(personality, 400, 3000, 1);
        assert!((3000..3300).contains(&jobs[0].operation_count()), "{}", personality.name());
    }
}

#[test]
fn a_device_is_driven_without_a_file_system() {
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(Box::new(RamDisk::volatile(1024)));
    let text = "[w]\nrw=randwrite\nbs=8k\nsize=1m\nfsync=16\nverify=crc32c\n[t]\nrw=trim\nsize=1m\nbs=64k\nstonewall\n";
    let file = JobFile::parse("test.fio", text).unwrap();
    let workload = fio::plan(&file, Target::Device { bytes: 4 << 20 }, &Choices::new(1)).unwrap();
    let target = Rc::new(Raw::new(port.clone()));
    let jobs = executor
        .block_on(async move { driver::run(&runtime, target, workload, driver::RunOptions::default()).await })
        .unwrap()
        .unwrap();
    assert_eq!((jobs[0].write.count(), jobs[0].read.count(), jobs[1].trim.count()), (128, 128, 16));
    let counters = port.device().counters();
    assert_eq!((counters.host_write_bytes(), counters.flushes, counters.trims), (1 << 20, 7, 16));
}

/// All progress reports of a run of the job file `text`.
fn watched(text: &str) -> Vec<Progress> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let watcher = Rc::clone(&seen);
    let watch: driver::Watcher = Rc::new(move |progress| {
        watcher.borrow_mut().push(progress);
        Ok(())
    });
    run_on(planned(text), RunOptions { watcher: Some(watch), ..RunOptions::default() }, |_| ()).0.unwrap();
    seen.take()
}

fn shares(text: &str) -> Vec<f64> {
    let seen = watched(text);
    let jobs = seen.iter().filter(|progress| progress.operations > 0);
    jobs.map(|progress| progress.share.expect("the share is known")).collect()
}

#[test]
fn a_watcher_sees_the_run_go_on() {
    assert_eq!(watched("[a]\nrw=write\nsize=16m\n").last().unwrap().operations, 4096);
}

#[test]
fn a_watcher_is_told_the_share_that_is_done() {
    // 4096 writes, one open and one close; the watcher is called every 1024 operations.
    let shares = shares("[a]\nrw=write\nsize=16m\n");
    assert_eq!(shares.len(), 4);
    assert!(shares.iter().zip([0.25, 0.5, 0.75, 1.0]).all(|(share, due)| (share - due).abs() < 0.01), "{shares:?}");
}

#[test]
fn jobs_side_by_side_are_as_far_as_the_slowest_and_never_go_back() {
    let shares = shares("[global]\nrw=write\n[a]\nsize=4m\n[b]\nsize=32m\n[c]\nstonewall\nsize=8m\n");
    assert!(shares[0] < 0.04 && shares[1] < 0.08, "half of 512 of 8192 and 512 of 1024: {shares:?}");
    assert!(shares.is_sorted() && *shares.last().unwrap() > 0.95, "{shares:?}");
    let middle = shares.iter().filter(|share| **share < 0.5).count();
    assert!((8..=9).contains(&middle), "the first group ends after 9216 writes: {shares:?}");
}

#[test]
fn the_share_of_a_job_with_a_time_is_that_of_its_time() {
    // 4096 accesses of 10 µs take 40.96 ms, after a ramp of the same length.
    let text = "[a]\nrw=randread\nsize=1m\ntime_based\nruntime=40960us\nramp_time=40960us\n";
    let shares = shares(text);
    assert_eq!(shares.len(), 8);
    assert!((shares[3] - 0.5).abs() < 0.01, "{shares:?}");
}

/// Jobs whose accesses fio and this driver must count alike.
const COUNTED: &[&str] = &[
    "rw=write\nsize=1m\nfsync=8",
    "rw=randwrite\nsize=1m\nfsync=1\nend_fsync=1",
    "rw=randread\nsize=1m\nbs=8k",
    "rw=write\nsize=100k\nnrfiles=3",
    "rw=randwrite\nsize=1m\nio_size=3m\nnorandommap",
    "rw=write\nsize=1m\nio_size=3m",
    "rw=write\nsize=1m\nio_size=512k",
    "rw=randwrite\nsize=1m\nnumjobs=3\ngroup_reporting\nfsync=4",
    "rw=read\nfilesize=300k\nnrfiles=2\nbs=64k",
    "rw=randrw\nrwmixread=100\nsize=1m",
    "rw=write:8k\nsize=1m",
    "rw=randwrite:4\nsize=1m\nnorandommap",
    // Percentages.
    "rw=write\nsize=50%\nfilesize=10m",
    "rw=write\nsize=30%\nfilesize=10m\nnrfiles=3",
    "rw=write\nsize=50%\nfilesize=10m\nio_size=50%",
    "rw=write\nsize=1m\nio_size=50%",
    "rw=write\nsize=1m\nio_size=25%\nfilesize=4m",
    "rw=read\nsize=50%\nfilesize=1m",
    "rw=randread\nsize=50%\nfilesize=1m",
    "rw=randwrite\nsize=50%\nfilesize=1m\nio_size=2m",
    "rw=write\nsize=100%\nfilesize=1m",
    "rw=write\nsize=50%\nnrfiles=2\nfilesize=256k\nio_size=1m",
    "rw=randwrite\nsize=1m\nnrfiles=2\nfilesize=256k\nio_size=1m",
    // Offsets.
    "rw=write\nsize=1m\noffset=256k",
    "rw=write\nfilesize=1m\noffset=256k",
    "rw=write\nsize=1m\nfilesize=1m\noffset=256k",
    "rw=write\nsize=50%\nfilesize=1m\noffset=256k",
    "rw=write\nsize=50%\nfilesize=1m\noffset=768k",
    "rw=write\nfilesize=1m\noffset=25%",
    "rw=write\nsize=1m\noffset=25%",
    "rw=randwrite\nsize=1m\noffset=1m",
    "rw=randread\nsize=1m\noffset=1m\nnumjobs=2\noffset_increment=1m\nfilename=f",
    "rw=write\nsize=1m\nnumjobs=2\noffset_increment=1m\nfilename=f",
    "rw=write\nsize=1m\nbs=64k\noffset=100k",
    "rw=write\nsize=1m\nbs=64k\noffset=100k\noffset_align=64k",
    "rw=write:8k\nsize=1m\noffset=128k",
    "rw=read:-8k\nsize=1m\noffset=128k",
    "rw=read:-8k\nsize=1m",
    // Sizes that are no multiples of each other.
    "rw=write\nsize=100k\nnrfiles=3\nbs=8k",
    "rw=write\nsize=1m\nfilesize=300k\nnrfiles=2",
    "rw=write\nsize=200k\nfilesize=300k\nnrfiles=2",
    "rw=write\nsize=1000k\nbs=64k",
    "rw=read\nsize=1000k\nbs=64k",
    "rw=randwrite\nsize=1000k\nbs=64k",
    "rw=write\nsize=1000k\nio_size=1000k\nbs=64k",
    "rw=randread\nsize=1m\nio_size=2m",
    // Passes and counts.
    "rw=write\nsize=2m\nloops=3",
    "rw=randwrite\nsize=1m\nloops=3",
    "rw=write\nsize=1m\nio_size=512k\nloops=2",
    "rw=write\nsize=1m\nio_size=3m\nloops=2",
    "rw=write\nsize=1m\nnumber_ios=10",
    "rw=write\nsize=1m\nnumber_ios=1000",
    "rw=write\nsize=1m\nnumber_ios=10\nloops=3",
    "rw=write\nsize=1m\nnumber_ios=300\nloops=3",
    // Order of files, zones and places.
    "rw=write\nsize=1m\nfile_service_type=sequential\nnrfiles=4",
    "rw=write\nsize=1m\nfile_service_type=random\nnrfiles=4",
    "rw=write\nsize=1m\nfile_service_type=roundrobin:8\nnrfiles=4",
    "rw=write\nsize=1m\nzonemode=strided\nzonesize=64k\nzoneskip=64k",
    "rw=write\nsize=1m\nzonemode=strided\nzonesize=64k\nzonerange=128k\nzoneskip=64k",
    "rw=randwrite\nsize=1m\nzonemode=strided\nzonesize=64k\nzoneskip=64k",
    "rw=randwrite\nsize=1m\nzonemode=strided\nzonesize=64k\nzonerange=128k\nio_size=512k",
    "rw=write\nsize=1m\npercentage_random=50",
    "rw=write:2\nsize=1m\nrw_sequencer=identical",
    "rw=randwrite:4\nsize=1m\nrw_sequencer=identical",
    "rw=randwrite\nsize=1m\nrandom_distribution=zoned:50/5:30/15:20/",
    "rw=randwrite\nsize=1m\nrandom_distribution=normal:20",
    "rw=randwrite\nsize=1m\nba=8k",
    "rw=randread\nsize=1m\npre_read=1",
    // Verify.
    "rw=write\nsize=1m\nverify=md5",
    "rw=write\nsize=1m\nverify=md5\nloops=2",
    "rw=randwrite\nsize=1m\nverify=crc32c\nverify_backlog=16",
    "rw=write\nsize=1m\nverify=crc32c\ndo_verify=0",
    // Engines and endings.
    "ioengine=falloc\nrw=write\nsize=1m",
    "ioengine=ftruncate\nrw=write\nsize=1m",
    "rw=write\nsize=256k\nunlink=1",
    "rw=write\nsize=256k\nrate=100m\nthinktime=10\nthinktime_blocks=16",
];

/// For each job: reads, bytes read, writes, bytes written and syncs, as fio counts them in an empty directory.
fn counts_of_fio(text: &str) -> Option<Vec<[u64; 5]>> {
    let directory = std::env::temp_dir().join(format!("onewrite-fio-counts-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("job.fio"), text).unwrap();
    let mut fio = Command::new("fio");
    let output = fio.args(["--output-format=json", "job.fio"]).current_dir(&directory).output();
    std::fs::remove_dir_all(directory).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.ok()?.stdout).ok()?;
    let count =
        |job: &serde_json::Value, path: &str| job.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let paths = ["/read/total_ios", "/read/io_bytes", "/write/total_ios", "/write/io_bytes", "/sync/total_ios"];
    Some(json["jobs"].as_array()?.iter().map(|job| paths.map(|path| count(job, path))).collect())
}

fn counts_of_ours(text: &str) -> Vec<[u64; 5]> {
    // fio does not count the sync of `end_fsync`.
    let end_syncs = u64::from(text.contains("end_fsync"));
    let count = |job: &JobMeasure| {
        let syncs = job.sync.count() - end_syncs;
        [job.read.count(), job.read.bytes, job.write.count(), job.write.bytes, syncs]
    };
    measured(text).iter().map(count).collect()
}

#[test]
fn fio_counts_the_same() {
    let mut wrong = Vec::new();
    for settings in COUNTED {
        let text = format!("[a]\nioengine=psync\n{settings}\n");
        let Some(expected) = counts_of_fio(&text) else {
            skipped!("fio is not installed, so it cannot judge the driver");
            return;
        };
        let ours = counts_of_ours(&text);
        if ours != expected {
            wrong.push(format!("{settings:?}: {ours:?}, fio {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn half_of_a_file_is_half_of_it() {
    let jobs = measured("[a]\nrw=write\nsize=50%\nfilesize=10m\n");
    assert_eq!(jobs[0].write.bytes, 5 << 20, "not a quarter");
}
