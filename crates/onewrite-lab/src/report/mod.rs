//! Report: several runs of one job side by side, as a table for a terminal and as one HTML file.
//!
//! Both show the same figures, taken from [`RunResult`] and never computed twice. What a mode promises stands beside
//! what it costs: a faster mode that promises less has not won.

mod chart;
mod figures;
mod html;
mod jobs;
mod lines;
mod markdown;
mod page;
mod setup;
mod table;
mod units;

use crate::results::{Distribution, JobResult, LatencyGoal, RunResult, SteadyState};
pub(crate) use chart::escape;
pub(crate) use lines::{Line, lines};
pub(crate) use markdown::html as markdown_html;
pub(crate) use page::{page, standalone};

/// Runs of one job that differ in their mode.
pub struct Comparison {
    /// The command that gives this comparison again.
    pub command: String,
    /// The runs, in the order asked for.
    pub runs: Vec<Compared>,
}

/// One run of a comparison.
pub struct Compared {
    /// The name of its column.
    pub label: String,
    /// What it gave.
    pub result: RunResult,
    /// What became of it in power cuts; `None` if none were tried.
    pub crash: Option<CrashVerdict>,
}

/// What became of a mode in power cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashVerdict {
    /// Power cuts tried.
    pub cuts: u64,
    /// Those after which something promised was missing.
    pub losses: u64,
    /// The first of them, with the command that replays it.
    pub first_loss: Option<String>,
}

impl CrashVerdict {
    /// The words in tables.
    pub fn words(&self) -> String {
        match self.losses {
            0 => format!("all {} cuts kept", self.cuts),
            losses => format!("{losses} of {} cuts lost", self.cuts),
        }
    }
}

/// Share of direct reads from memory below which a run counts as having read its device.
const CACHED_SHARE_MAX: f64 = 0.01;

impl Compared {
    /// Whether what it served as direct reads came from memory, so that its rate says little of the device.
    pub fn reads_from_memory(&self) -> bool {
        let share = self.result.onewrite.fs.as_ref().and_then(crate::results::FsFigures::cached_share);
        share.is_some_and(|share| share >= CACHED_SHARE_MAX)
    }
}

impl Comparison {
    /// What has to be known before the runs are set side by side, each a sentence or two.
    pub fn notes(&self) -> Vec<String> {
        let of = |run: &Compared| run.result.onewrite.fs.as_ref().map_or(Vec::new(), |fs| fs.notes.clone());
        let goals = self.runs.iter().flat_map(|run| run.result.jobs.iter().flat_map(move |job| goals(&run.label, job)));
        self.runs.iter().flat_map(of).chain(goals).collect()
    }

    /// The table for a terminal.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// The HTML file: self-contained, light and dark, readable without scripts.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

/// What the goals of a job came to.
fn goals(label: &str, job: &JobResult) -> Vec<String> {
    let latency = job.latency.iter().map(LatencyGoal::words);
    let steady = job.steadystate.iter().map(SteadyState::words);
    latency.chain(steady).map(|words| format!("{label}, {}: {words}", job.jobname)).collect()
}

/// The latency percentiles that reports show.
const SHOWN: [f64; 3] = [50.0, 99.0, 99.9];

/// Where the set-ups of the runs differ.
fn differing(runs: &[Compared]) -> Vec<setup::Fact> {
    if runs.is_empty() { Vec::new() } else { setup::facts(runs).into_iter().filter(setup::Fact::differs).collect() }
}

fn reads(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.read.clat_ns
}

fn writes(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.write.clat_ns
}

fn syncs(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.sync.lat_ns
}
