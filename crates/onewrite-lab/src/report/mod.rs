//! Report: several runs of one job side by side, as a table for a terminal and as one HTML file.
//!
//! Both show the same figures, taken from [`RunResult`] and never computed twice. What a mode promises stands beside
//! what it costs: a faster mode that promises less has not won.

mod chart;
mod html;
mod lines;
mod table;
mod units;

use crate::results::{Distribution, RunResult};
pub(crate) use chart::escape;
pub(crate) use lines::{Line, lines};

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

impl Comparison {
    /// The table for a terminal.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// The HTML file: self-contained, light and dark, readable without scripts.
    pub fn html(&self) -> String {
        html::page(self)
    }
}

/// The latency percentiles that reports show.
const SHOWN: [f64; 3] = [50.0, 99.0, 99.9];

fn writes(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.write.clat_ns
}

fn syncs(run: &Compared) -> &Distribution {
    &run.result.onewrite.total.sync.lat_ns
}
