//! Measures: operations, bytes and latencies of one job.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use onewrite_block::Nanos;

use super::samples::Samples;
use crate::job::Direction;
use crate::workload::{Findings, JobPlan, Operation};

/// Latencies of one kind of operation: a histogram with three significant digits, and exact moments.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    sum_of_squares: u128,
    least: u64,
    most: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new(3).expect("three digits are possible");
        Latencies { histogram, sum: 0, sum_of_squares: 0, least: u64::MAX, most: 0 }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, span: Nanos) {
        self.histogram.record(span.0).expect("the histogram grows");
        self.sum += u128::from(span.0);
        self.sum_of_squares += u128::from(span.0) * u128::from(span.0);
        self.least = self.least.min(span.0);
        self.most = self.most.max(span.0);
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest latency; zero if there is none.
    pub fn least(&self) -> Nanos {
        Nanos(if self.count() == 0 { 0 } else { self.least })
    }

    /// The longest latency; zero if there is none.
    pub fn most(&self) -> Nanos {
        Nanos(self.most)
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The standard deviation of the sample in nanoseconds.
    pub(crate) fn deviation_ns(&self) -> f64 {
        let count = u128::from(self.count());
        if count < 2 {
            return 0.0;
        }
        // Computes n·Σx² − (Σx)² in integers, so that no digits cancel.
        let spread = match count.checked_mul(self.sum_of_squares).zip(self.sum.checked_mul(self.sum)) {
            Some((squares, square)) => (squares - square) as f64,
            None => count as f64 * self.sum_of_squares as f64 - self.sum as f64 * self.sum as f64,
        };
        (spread.max(0.0) / (count as f64 * (count - 1) as f64)).sqrt()
    }

    /// The latency that `percent` of the operations do not exceed, to three digits.
    pub fn percentile(&self, percent: f64) -> Nanos {
        Nanos(self.histogram.value_at_percentile(percent).min(self.most))
    }

    fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("the histogram grows");
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }
}

/// The operations of one kind in one job.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Bytes read or written.
    pub bytes: u64,
    /// Latency of each operation.
    pub latencies: Latencies,
    /// Beginning of the first one and end of the last one.
    pub span: Option<Span>,
    /// Operations and bytes of each half second.
    pub samples: Samples,
}

impl Series {
    fn record(&mut self, bytes: u64, Moment { origin, begin, end }: Moment) {
        self.bytes += bytes;
        self.samples.record(origin, end, bytes);
        self.latencies.record(end - begin);
        self.span = joined(self.span, Some(Span { begin, end }));
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.latencies.count()
    }

    /// Time from the beginning of the first operation to the end of the last.
    pub fn duration(&self) -> Nanos {
        duration(self.span)
    }

    /// Adds `other`, as if one job had done both.
    pub fn add(&mut self, other: &Series) {
        self.bytes += other.bytes;
        self.latencies.add(&other.latencies);
        self.span = joined(self.span, other.span);
        self.samples.add(&other.samples);
    }
}

/// When an operation was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// When its job began to be measured.
    pub(crate) origin: Nanos,
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
}

/// A time with its ends.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its beginning.
    pub begin: Nanos,
    /// Its end.
    pub end: Nanos,
}

fn duration(span: Option<Span>) -> Nanos {
    span.map_or(Nanos::ZERO, |span| span.end - span.begin)
}

fn joined(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Span { begin: one.begin.min(other.begin), end: one.end.max(other.end) }),
        (one, other) => one.or(other),
    }
}

/// All measures of one job.
#[derive(Clone, Debug)]
pub struct JobMeasure {
    /// The job.
    pub plan: JobPlan,
    /// Reads.
    pub read: Series,
    /// Writes. They end when the last sync after them ends, as fio counts.
    pub write: Series,
    /// Trims.
    pub trim: Series,
    /// Fsyncs and fdatasyncs.
    pub sync: Series,
    /// Every kind of operation by name, if [`JobPlan::operations_count`] is set.
    pub operations: BTreeMap<&'static str, Series>,
    /// Findings of its tasks.
    pub findings: Findings,
}

impl JobMeasure {
    /// Empty measures of `plan`.
    pub fn new(plan: JobPlan) -> JobMeasure {
        let [read, write, trim, sync] = std::array::from_fn(|_| Series::default());
        JobMeasure { plan, read, write, trim, sync, operations: BTreeMap::new(), findings: Findings::default() }
    }

    /// Counts an operation that is neither read, write, trim nor sync, for a job that counts operations.
    pub(crate) fn count(&mut self, kind: &'static str, moment: Moment) {
        self.operations.entry(kind).or_default().record(0, moment);
    }

    /// Records an fsync within an operation that [`JobMeasure::count`] counts.
    pub(crate) fn count_sync(&mut self, moment: Moment) {
        self.sync.record(0, moment);
    }

    pub(super) fn record(&mut self, operation: &Operation, bytes: u64, moment: Moment) {
        if self.plan.operations_count {
            self.operations.entry(operation.name()).or_default().record(bytes, moment);
        }
        let series = match operation.direction() {
            Some(Direction::Read) => &mut self.read,
            Some(Direction::Write) => &mut self.write,
            Some(Direction::Trim) => &mut self.trim,
            None if matches!(operation, Operation::Fsync { .. } | Operation::Fdatasync { .. }) => &mut self.sync,
            None => return,
        };
        series.record(bytes, moment);
    }

    /// Forgets all measures.
    pub(super) fn clear(&mut self) {
        *self = JobMeasure::new(self.plan.clone());
    }

    /// Adds `other`, as if one job had done both.
    pub(super) fn add(&mut self, other: &JobMeasure) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.trim.add(&other.trim);
        self.sync.add(&other.sync);
        for (kind, series) in &other.operations {
            self.operations.entry(kind).or_default().add(series);
        }
    }

    /// Adds up `measures`, as if one job had done all.
    pub fn total(measures: &[JobMeasure]) -> JobMeasure {
        let operations_count = measures.iter().any(|measure| measure.plan.operations_count);
        let mut total =
            JobMeasure::new(JobPlan { name: "all".to_owned(), group: 0, operations_count, options: Vec::new() });
        measures.iter().for_each(|measure| total.add(measure));
        total
    }

    /// Operations of all kinds if the job counts them; else reads, writes, trims and syncs.
    pub fn operation_count(&self) -> u64 {
        if self.plan.operations_count {
            return self.operations.values().map(Series::count).sum();
        }
        [&self.read, &self.write, &self.trim, &self.sync].map(Series::count).iter().sum()
    }

    /// Time from the beginning of the first operation to the end of the last.
    pub fn duration(&self) -> Nanos {
        let all = [&self.read, &self.write, &self.trim, &self.sync].map(|series| series.span);
        let others = self.operations.values().map(|series| series.span);
        duration(all.into_iter().chain(others).fold(None, joined))
    }

    /// Reads, writes and trims, or operations of all kinds if the job counts them: what throughput counts.
    fn transfer_count(&self) -> u64 {
        if self.plan.operations_count {
            return self.operation_count();
        }
        [&self.read, &self.write, &self.trim].map(Series::count).iter().sum()
    }

    /// When what [`JobMeasure::transfer_count`] counts happened: from the beginning of the first to the end of the
    /// last, or of a sync behind writes.
    fn transfer_span(&self) -> Option<Span> {
        let is_synced = self.plan.operations_count || self.write.span.is_some();
        let syncs = self.sync.span.filter(|_| is_synced);
        let others = self.operations.values().map(|series| series.span);
        [self.read.span, self.write.span, self.trim.span, syncs].into_iter().chain(others).fold(None, joined)
    }

    /// What throughput counts, a second: over the time of all groups, without what lies between them.
    pub(crate) fn throughput(measures: &[JobMeasure]) -> f64 {
        let mut spans: BTreeMap<usize, Option<Span>> = BTreeMap::new();
        for measure in measures {
            let span = spans.entry(measure.plan.group).or_default();
            *span = joined(*span, measure.transfer_span());
        }
        let seconds: f64 = spans.into_values().map(|span| duration(span).as_secs_f64()).sum();
        let count: u64 = measures.iter().map(JobMeasure::transfer_count).sum();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Time from the first write to the end of the last write or sync.
    pub fn write_duration(&self) -> Nanos {
        match (self.write.span, self.sync.span) {
            (Some(write), Some(sync)) => write.end.max(sync.end) - write.begin,
            _ => self.write.duration(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_percentiles_have_three_digits() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|micros| latencies.record(Nanos::from_micros(micros)));
        assert_eq!((latencies.least(), latencies.most()), (Nanos::from_micros(1), Nanos::from_millis(1)));
        assert!((latencies.mean_ns() - 500_500.0).abs() < 1e-6);
        assert!((latencies.deviation_ns() - 288_819.436).abs() < 0.001, "{}", latencies.deviation_ns());
        let p99 = latencies.percentile(99.0).0;
        assert!((990_000..=991_000).contains(&p99), "{p99}");
    }

    #[test]
    fn nothing_measured_is_zero() {
        let latencies = Latencies::default();
        assert_eq!((latencies.least(), latencies.most(), latencies.percentile(50.0)), (Nanos(0), Nanos(0), Nanos(0)));
    }
}
