//! Arguments of `onewrite paper`.

use std::path::PathBuf;

use clap::Args;

/// `onewrite paper`
#[derive(Debug, Args)]
pub struct Paper {
    /// Rows of the scoreboard, or figures, tables and sections of the papers as `--list` names them (`fig-3-3`,
    /// `003-table-3`). Without any, all of them: half an hour of processor time. Exits 1 if a row differs from its own
    /// terms, or fails; a best case of the paper's direction and another size, and a row without an experiment, do
    /// not. Or `ts-clock`: the figures 2-1 and 2-4 to 2-10 of the dissertation. Or `results`: every journal mode on
    /// four devices, as tables in Markdown beside the papers' rows; takes 25 minutes of processor time. Or
    /// `mechanisms`: what the same work costs with every mechanism on four devices, and which costs least.
    pub ids: Vec<String>,
    /// With `ts-clock`: scale of the traces, caches and devices, from 0.0301 to 1 [default: 0.05].
    #[arg(long, value_name = "SHARE")]
    pub scale: Option<f64>,
    /// With `ts-clock`: show how the rows change with each uncertain number of the profiles and of the traces, not the
    /// figures.
    #[arg(long)]
    pub sensitivity: bool,
    /// With `ts-clock`: seed of the traces [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write a page to this file: the rows by figure; with `results` the tables; with `ts-clock` and
    /// `mechanisms` the charts, too.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the rows to this file as a table in Markdown, with their counts.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// With `ts-clock`: write all measurements as JSON to this file, or to standard output (-).
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// With `ts-clock`: dbench's load file [default: the one of Debian's package dbench].
    #[arg(long, value_name = "FILE")]
    pub load_file: Option<PathBuf>,
    /// With `results` or `mechanisms`: a small part of it, in seconds.
    #[arg(long)]
    pub short: bool,
    /// List the rows, or those that are named, by paper and figure, and say which can be run, and why the others
    /// cannot; run nothing.
    #[arg(long)]
    pub list: bool,
}
