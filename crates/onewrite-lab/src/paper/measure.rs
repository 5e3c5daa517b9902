//! Measure: runs the experiment of a row, and compares its figure with the paper's.

use std::fmt;

use super::entry::Experiment;
use super::scoreboard::{Kind, Row};
use super::{
    amplification, blocks, calibration, databases, false_recovery, journals, padding, photographs, recovery, ts_clock,
};
use crate::error::LabError;

/// A row with its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The row.
    pub row: Row,
    /// The measured figure, in the row's unit.
    pub measured: f64,
}

/// Measures `row`.
///
/// # Errors
/// If the row has no experiment, or the experiment fails.
pub fn run(row: &Row) -> Result<Measured, LabError> {
    let Some(experiment) = row.experiment() else {
        return Err(LabError::Option(format!("row `{}` has no experiment yet", row.id)));
    };
    Ok(Measured { row: row.clone(), measured: measure(&row.id, experiment)? })
}

/// Runs an experiment; the figure is in the unit of the row `id`.
fn measure(id: &str, experiment: Experiment) -> Result<f64, LabError> {
    match experiment {
        Experiment::Blocks(mode) => blocks::count(mode),
        Experiment::Amplification(amplified) => Ok(amplification::largest(amplified)),
        Experiment::TsClock(claim) => ts_clock::measure(id, &claim),
        Experiment::PaddedWrites(modes) => padding::best_fio(modes),
        Experiment::PaddedVarmail(modes) => padding::varmail_ratio(modes),
        Experiment::PaddedBlocks(mode) => padding::blocks_per_transaction(mode),
        Experiment::EvictionOverFlush(device) => padding::eviction_over_flush(device),
        Experiment::PaddedFlushes(modes) => padding::flushes(modes),
        Experiment::Writes(sweep) => journals::writes(sweep),
        Experiment::WritesAnd(sweep, work) => journals::writes_and(sweep, work),
        Experiment::OverBest(over) => journals::over_best(over),
        Experiment::Ldj(rivalry) => journals::best_over(rivalry),
        Experiment::LdjRecovery(rivalry) => recovery::worst_over(rivalry),
        Experiment::LdjBytes(modes, work) => journals::bytes_over(modes, work),
        Experiment::LdjPacked(work) => journals::packed(work),
        Experiment::LdjFlushes(modes) => journals::flushes_over(modes),
        Experiment::FalseRecovery => false_recovery::with_self_trimming(),
        Experiment::Databases(cost, a, b) => databases::ratio(cost, a, b),
        Experiment::Photographs => photographs::compressed_size(),
        Experiment::Device(profile, figure) => calibration::figure(profile, figure),
    }
}

/// Largest relative difference of a device figure, if the row gives none.
const CALIBRATED: f64 = 0.1;

impl Measured {
    /// Ratio of the measured figure to the paper's.
    pub fn ratio(&self) -> f64 {
        self.measured / self.row.paper
    }

    /// Whether the row agrees by its kind; `None` if it only reports a figure.
    pub fn agrees(&self) -> Option<bool> {
        let is_within = |share: f64| Some((self.ratio() - 1.0).abs() <= self.row.within.unwrap_or(share));
        match self.row.kind {
            Kind::Exact => Some(self.measured == self.row.paper),
            Kind::Near => is_within(0.0),
            Kind::Calibration => is_within(CALIBRATED),
            Kind::Shape => Some((self.measured > 1.0) == self.row.is_above_one()),
            Kind::Upto => self.row.even().map(|even| (self.measured > even) == (self.row.paper > even)),
        }
    }

    /// The verdict in words, with the difference in percent.
    pub(super) fn verdict(&self) -> String {
        let percent = (self.ratio() - 1.0) * 100.0;
        match self.agrees() {
            Some(true) if matches!(self.row.kind, Kind::Calibration | Kind::Upto) => {
                format!("agrees, {percent:+.1} %")
            }
            Some(true) => "agrees".to_owned(),
            Some(false) if self.row.paper == 0.0 => "DIFFERS".to_owned(),
            Some(false) => format!("DIFFERS by {percent:+.1} %"),
            None => format!("reported, {percent:+.1} %"),
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { id, source, metric, unit, paper, .. } = &self.row;
        let measured = rounded(self.measured);
        write!(f, "{id:26} paper {paper:>8}   measured {measured:>8} {unit}   {}", self.verdict())?;
        write!(f, "\n{:26} {metric} ({source})", "")
    }
}

/// Formats with four significant digits.
pub(super) fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 1000.0 || value.fract() == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        value if value >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}
