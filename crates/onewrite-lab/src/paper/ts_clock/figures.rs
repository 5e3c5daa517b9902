//! Figures: what a study finds, as data.

use serde::Serialize;

use crate::cache::CacheCell;

/// One workload on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// The figure with the same axes.
    pub figure: &'static str,
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the profile.
    pub device: String,
    /// Name of the translation layer.
    pub ftl: &'static str,
    /// Bytes of a flash block for the policies.
    pub flash_block_bytes: u64,
    /// Cells: for each size, every policy.
    pub cells: Vec<CacheCell>,
}

/// A point of figure 2-1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Amplification {
    /// `fast`, `page`, or a hybrid layer with the log blocks of a card.
    pub ftl: &'static str,
    /// Range of the writes in bytes.
    pub range_bytes: u64,
    /// Percent of each block that is written.
    pub block_utilization: u32,
    /// Flash pages programmed for each host page.
    pub waf: f64,
}

/// A row of the scoreboard, measured by the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowFigure {
    /// The row.
    pub id: &'static str,
    /// The paper's figure.
    pub paper: f64,
    /// The compared quantity.
    pub metric: String,
    /// Our figure with cards as FAST, in the same unit; none if its grids are missing.
    pub measured: Option<Figure>,
    /// Our figure with cards as BAST; none for rows without cards.
    pub bast: Option<Figure>,
    /// As `measured`, with `ts-clock-scan` for `ts-clock`.
    pub scan: Option<Figure>,
    /// As `bast`, with `ts-clock-scan` for `ts-clock`.
    pub scan_bast: Option<Figure>,
}

/// A figure in both possible meanings of "outperforms by N percent".
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The other policy's time (or erases) divided by TS-CLOCK's, less one, in percent: the unit of the scoreboard. For
    /// `ts-fab-microsd`, only the quotient.
    pub speed_up: f64,
    /// Percent of the other policy's time that TS-CLOCK saves.
    pub saved: f64,
}

/// Rows of one device with one value changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The device and its translation layer.
    pub device: String,
    /// The changed value; empty if none.
    pub what: String,
    /// The rows to which the device contributes, with `ts-clock`.
    pub rows: Vec<(&'static str, Figure)>,
}

/// All results of the study: the figures, or the sensitivity.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TsClockFigures {
    /// The seed.
    pub seed: u64,
    /// The scale.
    pub scale: f64,
    /// Figure 2-1.
    pub amplification: Vec<Amplification>,
    /// Figures 2-4 to 2-9.
    pub grids: Vec<Grid>,
    /// Rows of the scoreboard.
    pub rows: Vec<RowFigure>,
    /// Rows again, each time with one uncertain value changed.
    pub sensitivity: Vec<Changed>,
    /// Parts that could not be run, with the reasons.
    pub missing: Vec<String>,
    /// Figure 2-10: titles and pictures as SVG.
    #[serde(skip)]
    pub pictures: Vec<(String, String)>,
}
