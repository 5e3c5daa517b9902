//! Compared: the runs that a report compares, and what is said of them in words.

use crate::results::{Distribution, JobResult, LatencyGoal, RunResult, SteadyState};

/// Runs of one job that differ in their mode.
pub struct Comparison {
    /// The command that repeats this comparison.
    pub command: String,
    /// The runs, in the requested order.
    pub runs: Vec<Compared>,
}

/// One run of a comparison.
pub struct Compared {
    /// Name of its column.
    pub label: String,
    /// Its result.
    pub result: RunResult,
    /// Result of power cuts; `None` if none were tried.
    pub crash: Option<CrashVerdict>,
}

/// Result of power cuts in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashVerdict {
    /// Power cuts tried.
    pub cuts: u64,
    /// Power cuts after which something promised was missing.
    pub losses: u64,
    /// The first of these losses, with the command that replays it.
    pub first_loss: Option<String>,
}

impl CrashVerdict {
    /// Text for tables.
    pub fn words(&self) -> String {
        match self.losses {
            0 => format!("all {} cuts kept", self.cuts),
            losses => format!("{losses} of {} cuts lost", self.cuts),
        }
    }
}

/// A run with a smaller share of direct reads from memory counts as having read its device.
const CACHED_SHARE_MAX: f64 = 0.01;

impl Compared {
    /// Whether its direct reads came from memory, so that its rate says little about the device.
    pub(crate) fn reads_from_memory(&self) -> bool {
        let share = self.result.onewrite.fs.as_ref().and_then(crate::results::FsFigures::cached_share);
        share.is_some_and(|share| share >= CACHED_SHARE_MAX)
    }
}

impl Comparison {
    /// Notes to read before comparing the runs; each has a sentence or two.
    pub fn notes(&self) -> Vec<String> {
        let of = |run: &Compared| run.result.onewrite.fs.as_ref().map_or(Vec::new(), |fs| fs.notes.clone());
        let goals = self.runs.iter().flat_map(|run| run.result.jobs.iter().flat_map(move |job| goals(&run.label, job)));
        self.runs.iter().flat_map(of).chain(goals).collect()
    }
}

/// Results of a job's goals.
fn goals(label: &str, job: &JobResult) -> Vec<String> {
    let latency = job.latency.iter().map(LatencyGoal::words);
    let steady = job.steadystate.iter().map(SteadyState::words);
    latency.chain(steady).map(|words| format!("{label}, {}: {words}", job.jobname)).collect()
}

/// The latency percentiles that reports show.
pub(super) const SHOWN: [f64; 3] = [50.0, 99.0, 99.9];

pub(super) fn reads(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.read.clat_ns
}

pub(super) fn writes(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.write.clat_ns
}

pub(super) fn syncs(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.sync.lat_ns
}
