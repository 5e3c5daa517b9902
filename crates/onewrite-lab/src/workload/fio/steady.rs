//! Steady: whether a job or a group of jobs does the same amount in each second (`steadystate`).
//!
//! ```text
//!   begin ── ramp ──┬─ 1 s ─┬─ 1 s ─┬─ 1 s ─┬─ …    accesses and bytes of each second
//!                   └─── the window: the last N ───┘
//! ```
//!
//! After each second with a full window, the criterion is compared with the limit. It is the window's largest distance
//! from the mean, or the slope of its regression line. As in fio, seconds are counted from the beginning of the first
//! job.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use onewrite_block::Nanos;

use crate::job::{Criterion, Steadiness};
use crate::workload::SteadyFound;

const SECOND: u64 = 1_000_000_000;

/// Detects the steady state of a job or a group.
pub(crate) struct Detector {
    criterion: Criterion,
    length: usize,
    ramp: Nanos,
    begin: Option<Nanos>,
    /// Number of the current second, from the end of the ramp.
    second: u64,
    count: Second,
    window: VecDeque<Second>,
    look: Look,
    is_attained: bool,
}

/// A detector for all tasks that become steady together.
pub(crate) type SharedDetector = Rc<RefCell<Detector>>;

/// The accesses and bytes of a second.
#[derive(Clone, Copy, Default)]
struct Second {
    accesses: u64,
    bytes: u64,
}

/// Values of the last full window.
#[derive(Clone, Copy, Default)]
struct Look {
    deviation: f64,
    slope: f64,
    criterion: f64,
}

impl Detector {
    /// A detector of `wanted`; `None` if that asks for none. The time `ramp_time` does not count either.
    pub(super) fn new(wanted: &Steadiness, ramp_time: Nanos) -> Option<Detector> {
        let criterion = wanted.criterion.filter(|_| wanted.seconds > 0)?;
        let (length, ramp) = (wanted.seconds as usize, wanted.ramp.max(ramp_time));
        let (count, window, look) = (Second::default(), VecDeque::new(), Look::default());
        Some(Detector { criterion, length, ramp, begin: None, second: 0, count, window, look, is_attained: false })
    }

    /// Notes that a job begins at `now`; the first one counts.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.begin.get_or_insert(now);
    }

    /// Counts an access of `bytes` that ended at `now`.
    pub(super) fn count(&mut self, now: Nanos, bytes: u64) {
        self.advance(now);
        if now >= self.start() {
            self.count.accesses += 1;
            self.count.bytes += bytes;
        }
    }

    /// Whether the jobs are steady at `now`; once steady, they stay so.
    pub(crate) fn is_steady(&mut self, now: Nanos) -> bool {
        self.advance(now);
        self.is_attained
    }

    /// When the first counted second begins.
    fn start(&self) -> Nanos {
        self.begin.unwrap_or(Nanos::ZERO) + self.ramp
    }

    /// Checks every second that is over.
    fn advance(&mut self, now: Nanos) {
        let seconds = now.saturating_sub(self.start()).0 / SECOND;
        while self.second < seconds && !self.is_attained {
            self.second += 1;
            if self.window.len() == self.length {
                self.window.pop_front();
            }
            self.window.push_back(std::mem::take(&mut self.count));
            if self.window.len() == self.length {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        let values: Vec<f64> = self.window.iter().map(|second| self.value(second)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        let slope = slope(&values, mean);
        let seen = if self.criterion.is_slope { slope } else { deviation };
        let criterion = match self.criterion.is_percent {
            // Without any access nothing is steady.
            true if mean == 0.0 => f64::INFINITY,
            true => 100.0 * seen / mean,
            false => seen,
        };
        self.look = Look { deviation, slope, criterion };
        self.is_attained = criterion.abs() < self.criterion.limit;
    }

    fn value(&self, second: &Second) -> f64 {
        if self.criterion.counts_bytes { second.bytes as f64 } else { second.accesses as f64 }
    }

    /// The results so far.
    pub(super) fn found(&self) -> SteadyFound {
        let Look { deviation, slope, criterion } = self.look;
        SteadyFound {
            asked: self.criterion.words(),
            seconds: self.length as u64,
            is_attained: self.is_attained,
            criterion,
            is_percent: self.criterion.is_percent,
            // As fio does, gives the value of the criterion, and zero for the other one.
            deviation: if self.criterion.is_slope { 0.0 } else { deviation },
            slope: if self.criterion.is_slope { slope } else { 0.0 },
            bytes: self.window.iter().map(|second| second.bytes).collect(),
            accesses: self.window.iter().map(|second| second.accesses).collect(),
        }
    }
}

/// Slope of the least-squares line through `values`, which are one apart.
fn slope(values: &[f64], mean: f64) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let distances = || (0..values.len()).map(|place| place as f64 - middle);
    let spread: f64 = distances().map(|distance| distance * distance).sum();
    let together: f64 = distances().zip(values).map(|(distance, value)| distance * (value - mean)).sum();
    if spread == 0.0 { 0.0 } else { together / spread }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobFile;

    /// The second after which a job with these accesses of a KiB in each second is steady; `None` if it never is.
    fn steady(settings: &str, counts: &[u64]) -> (Option<usize>, SteadyFound) {
        let job = JobFile::parse("t", &format!("[a]\nsize=1m\n{settings}\n")).unwrap().jobs.remove(0);
        let mut detector = Detector::new(&job.options.steadiness, Nanos::ZERO).unwrap();
        detector.begin(Nanos::from_millis(300));
        let mut attained = None;
        for (second, &count) in counts.iter().enumerate() {
            let begin = 300_000_000 + second as u64 * SECOND;
            (0..count).for_each(|access| detector.count(Nanos(begin + access * SECOND / count), 1024));
            if detector.is_steady(Nanos(begin + SECOND)) {
                attained = attained.or(Some(second + 1));
            }
        }
        (attained, detector.found())
    }

    #[test]
    fn the_largest_distance_from_the_mean_must_be_below_the_limit() {
        let counts = [50, 120, 100, 104, 96, 100, 100];
        assert_eq!(steady("ss=iops:5%\nss_dur=3", &counts).0, Some(5));
        assert_eq!(steady("ss=iops:5\nss_dur=3", &counts).0, Some(5));
        assert_eq!(steady("ss=iops:4\nss_dur=3", &counts).0, Some(7), "below, not at");
        assert_eq!(steady("ss=bw:5k\nss_dur=3", &counts).0, Some(5));
        assert_eq!(steady("ss=iops:5%\nss_dur=7", &counts).0, None);
    }

    #[test]
    fn a_slope_counts_up_and_down() {
        assert_eq!(steady("ss=iops_slope:1%\nss_dur=3", &[30, 20, 10, 20, 10, 20]).0, Some(4));
        let (attained, found) = steady("ss=bw_slope:1k\nss_dur=4", &[10, 20, 30, 40]);
        assert_eq!((attained, found.slope, found.criterion), (None, 10.0 * 1024.0, 10.0 * 1024.0));
        assert_eq!((found.asked.as_str(), found.bytes[3]), ("bw_slope:1024.000000", 40 * 1024));
    }

    #[test]
    fn the_ramp_is_not_looked_at() {
        let counts = [10, 10, 10, 90, 90, 90];
        assert_eq!(steady("ss=iops:1%\nss_dur=3", &counts).0, Some(3));
        assert_eq!(steady("ss=iops:1%\nss_dur=3\nss_ramp=1", &counts).0, Some(6));
    }

    #[test]
    fn doing_nothing_is_not_steady() {
        assert_eq!(steady("ss=iops:1%\nss_dur=2", &[0, 0, 0]).0, None);
    }

    #[test]
    fn without_a_window_nothing_is_looked_for() {
        let job = JobFile::parse("t", "[a]\nsize=1m\nss=iops:1%\n").unwrap().jobs.remove(0);
        assert!(Detector::new(&job.options.steadiness, Nanos::ZERO).is_none());
    }
}
