//! Stats: live statistics of a mount since it began.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use onewrite_block::{Counters, Nanos};
use onewrite_fs::FsCounters;
use serde::{Deserialize, Serialize};

/// Bytes of statistics as JSON, at most.
pub(super) const STATS_BYTES_MAX: usize = 64 * 1024;

/// The statistics of a mount; [`STATS_ATTRIBUTE`](super::STATS_ATTRIBUTE) has them as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stats {
    /// The mounted image or device.
    pub source: String,
    /// Consistency mode.
    pub mode: String,
    /// Process id of the mount.
    pub pid: u32,
    /// Seconds since the mount began to serve.
    pub seconds: f64,
    /// Latencies of the kernel's requests, by kind.
    pub requests: BTreeMap<String, Latency>,
    /// Requests that are not answered yet, without the one that asks for statistics.
    pub in_flight: u64,
    /// Counters of the file system.
    pub fs: FsCounters,
    /// Counters of the device.
    pub device: Counters,
}

/// Latencies of requests of one kind, from the moment at which the kernel's request was read to the reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of requests.
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, in microseconds.
    pub p999_us: f64,
    /// Longest, in microseconds.
    pub max_us: f64,
}

/// Latencies by kind of request, with three significant digits. Takes about 100 KiB for each kind.
#[derive(Default)]
pub(super) struct Latencies(RefCell<BTreeMap<&'static str, Histogram<u64>>>);

impl Latencies {
    pub(super) fn note(&self, kind: &'static str, span: Nanos) {
        let mut kinds = self.0.borrow_mut();
        let histogram = kinds.entry(kind).or_insert_with(|| Histogram::new(3).expect("three digits are possible"));
        histogram.record(span.0.max(1)).expect("a histogram without bounds takes every span");
    }

    pub(super) fn by_kind(&self) -> BTreeMap<String, Latency> {
        let latency = |histogram: &Histogram<u64>| {
            let micros = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            let max_us = histogram.max() as f64 / 1e3;
            let (p50_us, p99_us, p999_us) = (micros(0.5), micros(0.99), micros(0.999));
            Latency { count: histogram.len(), p50_us, p99_us, p999_us, max_us }
        };
        self.0.borrow().iter().map(|(kind, histogram)| ((*kind).to_owned(), latency(histogram))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_noted() {
        let latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.note("read", Nanos(micros * 1000)));
        let read = &latencies.by_kind()["read"];
        assert_eq!(read.count, 1000);
        let near = |found: f64, expected: f64| (found - expected).abs() <= expected / 500.0;
        assert!(near(read.p50_us, 500.0) && near(read.p99_us, 990.0) && near(read.max_us, 1000.0), "{read:?}");
    }
}
