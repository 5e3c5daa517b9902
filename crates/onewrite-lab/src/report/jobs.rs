//! Jobs: a row for each run, each job or `group_reporting` group, and each kind of operation.

use super::compared::{Compared, SHOWN};
use super::figures::{bandwidth, mean};
use super::units::{latency, plain};
use crate::results::{Distribution, JobResult, Transfers};

/// Heads of the columns.
pub(crate) const HEADS: [&str; 9] = ["job", "mode", "kind", "operations/s", "bandwidth", "mean", "p50", "p99", "p99.9"];
/// Number of columns with words; the others have numbers.
pub(super) const WORDS: usize = 3;

/// The rows; none if every run has only one job, whose figures are those of the run.
pub(super) fn rows(runs: &[Compared]) -> Vec<[String; HEADS.len()]> {
    let most = runs.iter().map(|run| run.result.jobs.len()).max().unwrap_or(0);
    if most < 2 {
        return Vec::new();
    }
    let of_job = |place: usize| {
        let in_run = move |run: &Compared| run.result.jobs.get(place).map_or(Vec::new(), |job| of(job, &run.label));
        runs.iter().flat_map(in_run).collect::<Vec<_>>()
    };
    (0..most).flat_map(of_job).collect()
}

/// The rows of a job, one for each kind of operation that it did.
fn of(job: &JobResult, mode: &str) -> Vec<[String; HEADS.len()]> {
    let row = |kind: &str, rate: String, bandwidth: String, latencies: &Distribution| {
        let [median, high, highest] = SHOWN.map(|percent| latency(latencies.percentile.at(percent)));
        let words = [job.jobname.clone(), mode.to_owned(), kind.to_owned()];
        let [job, mode, kind] = words;
        [job, mode, kind, rate, bandwidth, mean(latencies), median, high, highest]
    };
    let moved = |kind: &str, transfers: &Transfers| {
        (transfers.total_ios > 0).then(|| row(kind, plain(transfers.iops), bandwidth(transfers), &transfers.clat_ns))
    };
    let kinds = [("read", &job.read), ("write", &job.write), ("trim", &job.trim)];
    let mut rows: Vec<_> = kinds.into_iter().filter_map(|(kind, transfers)| moved(kind, transfers)).collect();
    if job.sync.total_ios > 0 {
        rows.push(row("fsync", "–".to_owned(), "–".to_owned(), &job.sync.lat_ns));
    }
    rows
}
