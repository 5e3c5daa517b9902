//! Latencies: a histogram with three significant digits, and its summary. Its memory does not grow with its length.

use hdrhistogram::Histogram;
use onewrite_block::Nanos;
use serde::Serialize;

/// A histogram of spans.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// Summary of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Spans recorded.
    pub count: u64,
    /// Their mean.
    pub mean: u64,
    /// Half of the spans are at most this long.
    pub p50: u64,
    /// 99% of the spans are at most this long.
    pub p99: u64,
    /// 99.9% of the spans are at most this long.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
}

/// One non-empty bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyBucket {
    /// Upper bound of the bucket, ns. The bucket before gives its lower bound.
    pub up_to: u64,
    /// Spans in this bucket.
    pub count: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Latencies {
    /// Counts one span.
    pub fn record(&mut self, span: Nanos) {
        self.0.record(span.0).expect("the histogram grows as needed");
    }

    /// The summary.
    pub fn summary(&self) -> Latency {
        Latency {
            count: self.0.len(),
            mean: self.0.mean() as u64,
            p50: self.0.value_at_quantile(0.5),
            p99: self.0.value_at_quantile(0.99),
            p99_9: self.0.value_at_quantile(0.999),
            max: self.0.max(),
        }
    }

    /// The histogram in doublings from 1 µs on, without empty buckets.
    pub fn buckets(&self) -> Vec<LatencyBucket> {
        let buckets = self.0.iter_log(1000, 2.0);
        let all = buckets.map(|bucket| LatencyBucket {
            up_to: bucket.value_iterated_to(),
            count: bucket.count_since_last_iteration(),
        });
        all.filter(|bucket| bucket.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_close_to_the_truth_and_steps_add_up() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.record(Nanos::from_micros(micros)));
        let found = latencies.summary();
        assert!((500_000..501_000).contains(&found.p50), "{found:?}");
        assert!((990_000..991_000).contains(&found.p99), "{found:?}");
        assert_eq!(latencies.buckets().iter().map(|bucket| bucket.count).sum::<u64>(), 1000);
    }
}
