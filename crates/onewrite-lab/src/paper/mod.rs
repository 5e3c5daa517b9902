//! Paper: compares the results of the papers, row by row, with measurements of this program.
//!
//! `scoreboard.toml` has the rows, one claim each. A row's id selects its experiment; a row without an experiment is
//! listed but cannot be run. Experiments run the same sessions, devices and file systems as everything else.

mod amplification;
mod blocks;
mod calibration;
pub mod cell;
pub mod false_recovery;
mod flushes;
pub mod groups;
mod journals;
mod padding;
mod photographs;
mod recovery;
pub mod results;
mod rows;
pub mod scores;
pub mod ts_clock;

use std::fmt;

use serde::Deserialize;

pub use rows::Duration;
use rows::{Experiment, Winner};

use crate::error::LabError;

const SCOREBOARD: &str = include_str!("../../scoreboard.toml");

/// How paper and measurement are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A device figure to which a profile may be fitted; must be within [`Row::within`], by default a tenth.
    Calibration,
    /// Depends only on the algorithm; must be equal.
    Exact,
    /// Depends on the model; must be within [`Row::within`].
    Near,
    /// The winner must agree.
    Shape,
    /// The paper's best case of a sweep; ours must agree in direction, if the row has one.
    Upto,
}

/// One claim of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Stable name.
    pub id: String,
    /// Paper and place in it.
    pub source: String,
    /// Device profile.
    #[serde(default)]
    pub device: String,
    /// Workload of the experiment.
    #[serde(default)]
    pub workload: String,
    /// The compared quantity.
    pub metric: String,
    /// Numerator of a ratio; none for a plain figure.
    pub a: Option<String>,
    /// Denominator of a ratio.
    pub b: Option<String>,
    /// The paper's figure.
    pub paper: f64,
    /// Unit of a plain figure.
    #[serde(default)]
    pub unit: String,
    /// Direction of an improvement.
    pub better: Option<String>,
    /// How paper and measurement are compared.
    pub kind: Kind,
    /// Largest relative difference, for [`Kind::Near`] and [`Kind::Calibration`].
    pub within: Option<f64>,
    /// The variable of a sweep.
    pub over: Option<String>,
    /// Other figures for the same claim in the paper.
    pub also: Option<String>,
}

#[derive(Deserialize)]
struct Scoreboard {
    row: Vec<Row>,
}

/// All rows, in the order of the file.
///
/// # Errors
/// If the built-in file is malformed.
pub fn scoreboard() -> Result<Vec<Row>, LabError> {
    let scoreboard: Result<Scoreboard, _> = toml::from_str(SCOREBOARD);
    Ok(scoreboard.map_err(|error| LabError::Option(format!("scoreboard.toml: {error}")))?.row)
}

impl Row {
    fn experiment(&self) -> Option<Experiment> {
        rows::entry(&self.id).and_then(|(_, experiment, ..)| *experiment)
    }

    /// How long its experiment takes.
    pub fn duration(&self) -> Duration {
        rows::entry(&self.id).map_or(Duration::Short, |(.., duration)| *duration)
    }

    /// Whether the row has an experiment.
    pub fn can_run(&self) -> bool {
        self.experiment().is_some()
    }
}

/// Largest relative difference of a device figure, if the row gives none.
const CALIBRATED: f64 = 0.1;

impl Row {
    /// The value at which neither side wins; `None` for a plain figure without sides.
    fn even(&self) -> Option<f64> {
        match (&self.a, self.unit.starts_with("percent")) {
            (Some(_), _) => Some(1.0),
            (None, true) => Some(0.0),
            (None, false) => None,
        }
    }

    /// Whether the paper's ratio is above one. A row without a number says that `b` is larger, unless its entry says
    /// [`Winner::A`].
    fn is_above_one(&self) -> bool {
        self.paper > 1.0 || rows::entry(&self.id).is_some_and(|(_, _, winner, _)| *winner == Winner::A)
    }
}

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
    Ok(Measured { row: row.clone(), measured: experiment()? })
}

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

    fn verdict(&self) -> String {
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
fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 1000.0 || value.fract() == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        value if value >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> Row {
        scoreboard().unwrap().into_iter().find(|row| row.id == id).unwrap()
    }

    #[test]
    fn every_experiment_has_its_row() {
        let rows = scoreboard().unwrap();
        assert_eq!(rows.len(), 112);
        assert!(rows::ROWS.iter().all(|(id, ..)| rows.iter().any(|row| row.id == *id)));
    }

    #[test]
    fn both_translation_layers_amplify_as_in_the_paper() {
        let fast = ["ts-waf-fast-25-16g", "ts-waf-fast-25-1g"];
        for id in ["ts-waf-full-blocks", "ts-waf-page-25-16g", "ts-waf-page-25-1g"].into_iter().chain(fast) {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn each_mode_writes_the_blocks_of_the_paper() {
        for id in ["afs-blocks-oj", "afs-blocks-dj", "afs-blocks-sdj"] {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn a_commit_that_pads_sends_no_flush_and_pushing_out_is_faster_than_one() {
        for id in ["zp-flushes", "zp-evict-flush"] {
            let measured = run(&row(id)).unwrap();
            assert_eq!(measured.agrees(), Some(true), "{measured}");
        }
    }

    #[test]
    fn a_row_without_an_experiment_says_so() {
        assert!(run(&row("ldj-git")).unwrap_err().to_string().contains("ldj-git"));
    }

    #[test]
    fn a_device_figure_passes_within_a_tenth_and_a_best_case_by_its_direction() {
        let agrees = |id: &str, measured| Measured { measured, row: row(id) }.agrees();
        assert_eq!([0.031, 0.033].map(|found| agrees("cal-zp-buffer-read", found)), [Some(true), Some(false)]);
        assert_eq!([1.1, 0.98].map(|found| agrees("afs-fio-sdj-oj-1g", found)), [Some(true), Some(false)]);
        assert_eq!([3.0, -3.0].map(|found| agrees("ts-spclock-ssd", found)), [Some(true), Some(false)]);
    }

    #[test]
    fn what_differs_is_called_different() {
        let measured = Measured { measured: 7.0, row: row("afs-blocks-oj") };
        assert!(measured.to_string().contains("DIFFERS by +16.7 %"), "{measured}");
    }
}
