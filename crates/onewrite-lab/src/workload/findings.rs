//! Findings: results of a task besides its measures: the depth that keeps to a latency, and whether it became steady.

use onewrite_block::Nanos;

/// Findings of the tasks of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Result of the depth search, if there was one.
    pub depth: Option<DepthFound>,
    /// Result of the check for a steady state, if there was one.
    pub steady: Option<SteadyFound>,
}

impl Findings {
    /// Adds the findings of another task. If both have one, the later one counts, as in fio.
    pub fn join(&mut self, other: Findings) {
        self.depth = other.depth.or(self.depth.take());
        self.steady = other.steady.or(self.steady.take());
    }
}

/// The depth at which a job kept to a latency (`latency_target`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthFound {
    /// Most operations under way at once: the last depth tried.
    pub depth: u32,
    /// Whether that depth kept to the latency for a whole window.
    pub is_kept: bool,
    /// The latency limit.
    pub target: Nanos,
    /// Percent of the accesses that must keep to it.
    pub percentile: f64,
    /// Length of the window.
    pub window: Nanos,
}

/// Whether a job became steady (`steadystate`), and its last values.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyFound {
    /// The criterion as fio writes it: `iops:10.000000%`.
    pub asked: String,
    /// Seconds of the rolling window.
    pub seconds: u64,
    /// Whether it became steady.
    pub is_attained: bool,
    /// The value compared with the limit.
    pub criterion: f64,
    /// Whether `criterion` is in percent of the mean.
    pub is_percent: bool,
    /// Largest distance of a second from the mean.
    pub deviation: f64,
    /// Slope of the regression line for each second.
    pub slope: f64,
    /// Bytes of each second of the window.
    pub bytes: Vec<u64>,
    /// Accesses of each second of the window.
    pub accesses: Vec<u64>,
}
