//! Scoreboard: the claims of the papers, from `scoreboard.toml`.

use serde::Deserialize;

use super::entry::{Duration, Experiment, Winner};
use super::missing::reason;
use super::rows::entry;
use crate::error::LabError;

const SCOREBOARD: &str = include_str!("../../scoreboard.toml");

/// How paper and measurement are compared; [`Row::terms`] has the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A device figure to which a profile may be fitted.
    Calibration,
    /// Depends only on the algorithm.
    Exact,
    /// Depends on the model.
    Near,
    /// Who wins, or about how much.
    Shape,
    /// The paper's best case of a sweep.
    Upto,
}

impl Kind {
    /// All, in the order of tables.
    pub const ALL: [Kind; 5] = [Kind::Calibration, Kind::Exact, Kind::Near, Kind::Shape, Kind::Upto];

    /// The word of the scoreboard.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Calibration => "calibration",
            Kind::Exact => "exact",
            Kind::Near => "near",
            Kind::Shape => "shape",
            Kind::Upto => "upto",
        }
    }
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
    /// Its experiment, if it has one.
    pub(super) fn experiment(&self) -> Option<Experiment> {
        entry(&self.id).and_then(|entry| entry.experiment)
    }

    /// How long its experiment takes.
    pub fn duration(&self) -> Duration {
        entry(&self.id).map_or(Duration::Short, |entry| entry.duration)
    }

    /// Whether the row has an experiment.
    pub fn can_run(&self) -> bool {
        self.experiment().is_some()
    }

    /// Whether `a` wins although the row has no number that says so.
    pub(super) fn is_won_by_a(&self) -> bool {
        entry(&self.id).is_some_and(|entry| entry.winner == Winner::A)
    }

    /// Whether its figure was given to its experiment.
    pub fn is_input(&self) -> bool {
        entry(&self.id).is_some_and(|entry| entry.is_input)
    }

    /// Why it cannot be run; `None` if it can.
    pub fn why_not(&self) -> Option<&'static str> {
        (!self.can_run()).then(|| reason(&self.id))
    }
}
