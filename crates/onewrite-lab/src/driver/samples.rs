//! Samples: operations and bytes in each half second, as fio samples a job; the base of `iops_mean` and `bw_mean`.
//!
//! Half seconds are counted from the beginning of the job, after the ramp. Only whole ones count: a partial last one
//! would give too low a rate. Tasks that begin together share their samples; other tasks have samples of their own.

use std::collections::BTreeMap;

use onewrite_block::Nanos;

/// Length of an interval: fio's `bwavgtime` and `iopsavgtime`.
pub const SAMPLE: Nanos = Nanos::from_millis(500);
/// Intervals in a second.
const A_SECOND: u64 = 1_000_000_000 / SAMPLE.0;

/// Counts of each half second; the module's head says which ones count.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Operations and bytes, by beginning of the job and number of the interval. Empty intervals have no entry.
    intervals: BTreeMap<(Nanos, u64), Counts>,
    /// End of the last operation, by beginning of the job.
    ends: BTreeMap<Nanos, Nanos>,
}

/// What was done in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    operations: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.operations += more.operations;
        self.bytes += more.bytes;
    }
}

/// Least, largest, mean and standard deviation of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Lowest.
    pub least: u64,
    /// Highest.
    pub most: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub deviation: f64,
    /// Number of samples.
    pub count: u64,
}

impl Samples {
    /// Counts an operation of `bytes` that ended at `end`, in a job that began at `origin`.
    pub(super) fn record(&mut self, origin: Nanos, end: Nanos, bytes: u64) {
        let interval = (end - origin).0.saturating_sub(1) / SAMPLE.0;
        let counts = self.intervals.entry((origin, interval)).or_default();
        counts.add(Counts { operations: 1, bytes });
        let last = self.ends.entry(origin).or_default();
        *last = end.max(*last);
    }

    pub(super) fn add(&mut self, other: &Samples) {
        for (place, more) in &other.intervals {
            self.intervals.entry(*place).or_default().add(*more);
        }
        for (origin, end) in &other.ends {
            let last = self.ends.entry(*origin).or_default();
            *last = (*end).max(*last);
        }
    }

    /// Operations a second.
    pub fn operations(&self) -> Rates {
        self.rates(|counts| counts.operations * A_SECOND)
    }

    /// KiB a second.
    pub(crate) fn kibibytes(&self) -> Rates {
        self.rates(|counts| counts.bytes * A_SECOND / 1024)
    }

    fn rates(&self, rate: impl Fn(Counts) -> u64) -> Rates {
        let whole = |origin: &Nanos| (self.ends[origin] - *origin).0 / SAMPLE.0;
        let count: u64 = self.ends.keys().map(whole).sum();
        let counted = self.intervals.iter().filter(|((origin, interval), _)| *interval < whole(origin));
        let rates: Vec<u64> = counted.map(|(_, counts)| rate(*counts)).collect();
        let idle = count - rates.len() as u64;
        if count == 0 {
            return Rates::default();
        }
        let sum: u128 = rates.iter().map(|rate| u128::from(*rate)).sum();
        let mean = sum as f64 / count as f64;
        let spread: f64 = rates.iter().map(|rate| (*rate as f64 - mean) * (*rate as f64 - mean)).sum::<f64>();
        let spread = spread + idle as f64 * mean * mean;
        Rates {
            least: if idle > 0 { 0 } else { rates.iter().copied().min().unwrap_or(0) },
            most: rates.iter().copied().max().unwrap_or(0),
            mean,
            deviation: if count < 2 { 0.0 } else { (spread / (count - 1) as f64).sqrt() },
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_intervals_are_samples_and_idle_ones_count() {
        let mut samples = Samples::default();
        let origin = Nanos::from_millis(100);
        for (milliseconds, operations) in [(10, 3), (500, 1), (1200, 2), (1700, 9)] {
            (0..operations).for_each(|_| samples.record(origin, origin + Nanos::from_millis(milliseconds), 1024));
        }
        // Half seconds with 4, 0 and 2 operations; the nine at the end fill no whole half second.
        let rates = samples.operations();
        assert_eq!((rates.least, rates.most, rates.mean, rates.count), (0, 8, 4.0, 3));
        assert!((rates.deviation - 4.0).abs() < 1e-9);
        assert_eq!(samples.kibibytes(), rates, "a KiB each");
    }

    #[test]
    fn jobs_that_begin_together_add_up() {
        let at = |origin: u64| {
            let mut samples = Samples::default();
            (1..=1000).for_each(|ms| samples.record(Nanos(origin), Nanos(origin) + Nanos::from_millis(ms), 0));
            samples
        };
        let (mut together, mut apart) = (at(0), at(0));
        together.add(&at(0));
        apart.add(&at(7));
        assert_eq!((together.operations().mean, together.operations().count), (2000.0, 2));
        assert_eq!((apart.operations().mean, apart.operations().count), (1000.0, 4));
        assert_eq!(Samples::default().operations(), Rates::default());
    }
}
