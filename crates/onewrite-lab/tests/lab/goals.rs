//! Goals of a job, latencies and steadiness, through the driver.

use onewrite_block::Nanos;
use onewrite_lab::LabError;
use onewrite_lab::driver::{JobMeasure, RunOptions};
use onewrite_lab::results::JobResult;

use crate::memory::MemoryFs;
use crate::support::{planned, run_job, run_on};

/// Runs a job on a file system that serves one access after the other: of N accesses under way each takes N times 10
/// µs.
fn in_line(settings: &str) -> Result<Vec<JobMeasure>, LabError> {
    let text = format!("[a]\nrw=randread\nsize=16m\nioengine=libaio\n{settings}\n");
    run_on(planned(&text), RunOptions::default(), |fs: &MemoryFs| fs.is_serial.set(true)).0
}

#[test]
fn the_largest_depth_that_keeps_the_latency_is_found() {
    let jobs = in_line("iodepth=32\nlatency_target=55us\nlatency_window=2ms").unwrap();
    let found = jobs[0].findings.depth.unwrap();
    assert_eq!((found.depth, found.is_kept), (5, true));
    let reads = &jobs[0].read;
    assert!((190..=200).contains(&reads.count()), "only the last window is measured: {}", reads.count());
    assert_eq!(reads.latencies.most(), Nanos::from_micros(50));
}

#[test]
fn the_depth_is_told_as_fio_tells_it() {
    let jobs = in_line("iodepth=8\nlatency_target=1s\nlatency_window=2ms\nlatency_percentile=99.5").unwrap();
    let json = serde_json::to_value(JobResult::from(&jobs[0])).unwrap();
    assert_eq!((&json["latency_depth"], &json["latency_target"]), (&8.into(), &1_000_000_000.into()));
    assert_eq!((&json["latency_percentile"], &json["latency_window"]), (&99.5.into(), &2000.into()));
    let plain = serde_json::to_value(JobResult::from(&run_job("[a]\nsize=4k\n").0.unwrap()[0])).unwrap();
    assert!(plain.get("latency_depth").is_none() && plain.get("steadystate").is_none());
}

#[test]
fn a_latency_that_no_depth_keeps_fails_the_run_if_all_must_keep_it() {
    let failed = in_line("iodepth=8\nlatency_target=9us\nlatency_window=2ms").unwrap_err().to_string();
    assert!(failed.starts_with("a: latency_target was not kept: a read"), "{failed}");
    let jobs = in_line("iodepth=8\nlatency_target=9us\nlatency_window=2ms\nlatency_percentile=90").unwrap();
    let found = jobs[0].findings.depth.unwrap();
    assert_eq!((found.depth, found.is_kept), (1, false), "fio goes on at one, too");
    assert_eq!(jobs[0].read.bytes, 16 << 20);
}

#[test]
fn latency_run_goes_on_to_the_end() {
    let jobs = in_line("iodepth=32\nlatency_target=55us\nlatency_window=2ms\nlatency_run=1").unwrap();
    assert_eq!(jobs[0].read.bytes, 16 << 20);
    assert!((4..=6).contains(&jobs[0].findings.depth.unwrap().depth));
}

#[test]
fn clones_that_report_together_search_for_themselves() {
    let jobs = in_line("iodepth=16\nnumjobs=2\ngroup_reporting\nlatency_target=1s\nlatency_window=2ms").unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].findings.depth.unwrap().depth, 16);
    // Both last windows are measured: 200 accesses of 10 µs in 2 ms, which the two jobs share.
    assert!((180..=420).contains(&jobs[0].read.count()), "{}", jobs[0].read.count());
}

#[test]
fn an_access_that_takes_too_long_fails_the_run() {
    let text = |most: &str| format!("[a]\nrw=write\nsize=64k\nmax_latency={most}\n");
    let outcome = |most: &str| run_job(&text(most)).0.map(|jobs| jobs[0].write.count());
    assert_eq!(outcome("10us").unwrap(), 16);
    assert_eq!(outcome("5us,10us").unwrap(), 16, "only reads must be faster");
    let failed = outcome("9us").unwrap_err();
    assert!(matches!(&failed, LabError::Missed(told) if told.starts_with("a: max_latency was not kept: a write")));
}

/// A thousand accesses a second for a minute.
const A_MINUTE: &str = "rw=randread\nsize=1m\ntime_based\nruntime=60\nrate_iops=1000";

#[test]
fn a_steady_job_ends() {
    let text = format!("[a]\n{A_MINUTE}\nss=iops:2%\nss_dur=3\nss_ramp=1\n");
    let jobs = run_job(&text).0.unwrap();
    assert!((3999..=4001).contains(&jobs[0].read.count()), "a ramp and three seconds: {}", jobs[0].read.count());
    let json = serde_json::to_value(JobResult::from(&jobs[0])).unwrap();
    let steady = &json["steadystate"];
    assert_eq!((&steady["ss"], &steady["duration"]), (&"iops:2.000000%".into(), &3.into()));
    assert_eq!((&steady["attained"], &steady["data"]["iops_mean"]), (&1.into(), &1000.into()));
    assert_eq!(steady["data"]["bw"][2], 4_096_000);
    assert!(steady["criterion"].as_str().unwrap().ends_with('%'), "{steady}");
}

#[test]
fn a_job_that_is_not_steady_goes_on() {
    let text = format!("[a]\n{A_MINUTE}\nruntime=8\nthinktime=600ms\nthinktime_blocks=1000\nrate_ignore_thinktime=1\n");
    let jobs = run_job(&(text + "ss=bw:1%\nss_dur=2\n")).0.unwrap();
    let steady = jobs[0].findings.steady.clone().unwrap();
    assert!(!steady.is_attained && steady.criterion > 1.0, "{steady:?}");
    assert!(jobs[0].read.duration() > Nanos::from_millis(7000));
}

#[test]
fn jobs_that_report_together_are_steady_together() {
    // Neither job is steady alone, because one begins when the other ends. Together they are.
    let text = "[global]\nrw=randread\nsize=1m\ntime_based\nrate_iops=1000\ngroup_reporting\nss=iops:2%\nss_dur=4\n\
                [a]\nruntime=2\n[b]\nruntime=60\nstartdelay=2\n";
    let jobs = run_job(text).0.unwrap();
    assert!((3990..=4010).contains(&jobs[0].read.count()), "{}", jobs[0].read.count());
    let alone = run_job(&text.replace("group_reporting\n", "")).0.unwrap();
    assert!(!alone[0].findings.steady.as_ref().unwrap().is_attained);
}

#[test]
fn jobs_that_report_together_must_ask_for_the_same() {
    let text = "[global]\nsize=1m\ngroup_reporting\nss_dur=2\n[a]\nss=iops:1%\n[b]\nss=iops:2%\n";
    let file = onewrite_lab::job::JobFile::parse("t", text).unwrap();
    let target = onewrite_lab::workload::fio::Target::Files;
    let refused = onewrite_lab::workload::fio::plan(&file, target, &onewrite_block::Choices::new(1)).err().unwrap();
    assert!(refused.to_string().contains("steadystate must be the same"), "{refused}");
}

#[test]
fn what_is_read_before_is_not_measured_and_takes_its_time_before_the_job() {
    let (jobs, fs) = run_job("[a]\nrw=randread\nsize=64k\nbs=4k\npre_read=1\n");
    let jobs = jobs.unwrap();
    assert_eq!((jobs[0].read.count(), fs.accesses().iter().filter(|access| !access.writes).count()), (16, 32));
    let offsets: Vec<u64> = fs.accesses().iter().filter(|access| !access.writes).map(|access| access.offset).collect();
    assert_eq!(offsets[..16], (0..16).map(|block| block * 4096).collect::<Vec<_>>());
    assert_eq!(jobs[0].read.span.unwrap().begin, fs.accesses()[32].at + Nanos::ZERO);
}
