//! Goals: the depth that kept to a latency, and whether a job became steady, in fio's shape and as text.

use onewrite_block::Nanos;

use crate::workload::{DepthFound, Findings, SteadyFound};

/// Result of `latency_target`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct LatencyGoal {
    /// Most operations under way at once: the last depth tried.
    pub latency_depth: u32,
    /// `latency_target` in nanoseconds.
    pub latency_target: u64,
    /// `latency_percentile`
    pub latency_percentile: f64,
    /// `latency_window` in microseconds.
    pub latency_window: u64,
    /// Whether that depth kept to the latency for a whole window.
    #[serde(skip)]
    pub is_kept: bool,
}

/// Result of `steadystate`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SteadyState {
    /// The criterion: `iops:10.000000%`.
    pub ss: String,
    /// Seconds of the rolling window.
    pub duration: u64,
    /// 1 if the job became steady, else 0.
    pub attained: u8,
    /// Last value compared with the limit, with `%` if the limit has it.
    pub criterion: String,
    /// Largest distance of a second of the window from the mean; 0 if the criterion is the slope.
    pub max_deviation: f64,
    /// Slope of the regression line for each second; 0 if the criterion is the distance.
    pub slope: f64,
    /// The last window.
    pub data: SteadyData,
}

/// The seconds of the last window.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SteadyData {
    /// Bytes a second.
    pub bw_mean: u64,
    /// Accesses a second.
    pub iops_mean: u64,
    /// Accesses of each second.
    pub iops: Vec<u64>,
    /// Bytes of each second.
    pub bw: Vec<u64>,
}

impl From<&DepthFound> for LatencyGoal {
    fn from(found: &DepthFound) -> LatencyGoal {
        LatencyGoal {
            latency_depth: found.depth,
            latency_target: found.target.0,
            latency_percentile: found.percentile,
            latency_window: found.window.0 / 1000,
            is_kept: found.is_kept,
        }
    }
}

impl From<&SteadyFound> for SteadyState {
    fn from(found: &SteadyFound) -> SteadyState {
        let mean = |values: &[u64]| values.iter().sum::<u64>().checked_div(values.len() as u64).unwrap_or(0);
        // The value is not finite if the window was never full, or if nothing was done.
        let criterion = if found.criterion.is_finite() { found.criterion } else { 0.0 };
        SteadyState {
            ss: found.asked.clone(),
            duration: found.seconds,
            attained: found.is_attained.into(),
            criterion: format!("{criterion:.6}{}", if found.is_percent { "%" } else { "" }),
            max_deviation: found.deviation,
            slope: found.slope,
            data: SteadyData {
                bw_mean: mean(&found.bytes),
                iops_mean: mean(&found.accesses),
                iops: found.accesses.clone(),
                bw: found.bytes.clone(),
            },
        }
    }
}

/// The goals of a job; none for those that it does not have.
pub(super) fn goals(findings: &Findings) -> (Option<LatencyGoal>, Option<SteadyState>) {
    (findings.depth.as_ref().map(LatencyGoal::from), findings.steady.as_ref().map(SteadyState::from))
}

impl LatencyGoal {
    /// Text for a table.
    pub fn words(&self) -> String {
        let kept = if self.is_kept { "keeps" } else { "does not keep" };
        let (percent, depth) = (self.latency_percentile, self.latency_depth);
        let (target, window) = (Nanos(self.latency_target), Nanos(self.latency_window.saturating_mul(1000)));
        format!(
            "latency_target: depth {depth} {kept} {percent} % of the accesses within {target}, in windows of {window}"
        )
    }
}

impl SteadyState {
    /// Text for a table.
    pub fn words(&self) -> String {
        let attained = if self.attained == 1 { "steady" } else { "not steady" };
        let SteadyState { ss, duration, criterion, data, .. } = self;
        let mean = data.iops_mean;
        format!("steadystate={ss}: {attained}, {criterion} over the last {duration} s, which had {mean} operations/s")
    }
}
