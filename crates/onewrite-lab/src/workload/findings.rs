//! Findings: what a task found out besides what is measured: the depth that keeps a latency, and whether it became
//! steady.

use onewrite_block::Nanos;

/// What the tasks of a job found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Where a depth was searched.
    pub depth: Option<DepthFound>,
    /// Where steadiness was looked for.
    pub steady: Option<SteadyFound>,
}

impl Findings {
    /// Adds those of another task; where both have one, the later counts, as in fio.
    pub fn join(&mut self, other: Findings) {
        self.depth = other.depth.or(self.depth.take());
        self.steady = other.steady.or(self.steady.take());
    }
}

/// The depth at which a job kept a latency (`latency_target`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthFound {
    /// Operations under way at once: the last depth tried.
    pub depth: u32,
    /// Whether that depth kept the latency for a whole window.
    pub is_kept: bool,
    /// The latency.
    pub target: Nanos,
    /// Share of the accesses in percent that must keep it.
    pub percentile: f64,
    /// Over what span they are counted.
    pub window: Nanos,
}

/// Whether a job became steady (`steadystate`), and what was seen of it last.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyFound {
    /// What was asked for, as fio writes it: `iops:10.000000%`.
    pub asked: String,
    /// Seconds of the rolling window.
    pub seconds: u64,
    /// Whether it became steady.
    pub is_attained: bool,
    /// What was compared with the limit.
    pub criterion: f64,
    /// Whether `criterion` is in percent of the mean.
    pub is_percent: bool,
    /// Largest distance of a second from the mean.
    pub deviation: f64,
    /// Slope of the regression line, a second.
    pub slope: f64,
    /// Bytes of each second of the window.
    pub bytes: Vec<u64>,
    /// Accesses of each second of the window.
    pub accesses: Vec<u64>,
}
