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
pub mod scores;
pub mod ts_clock;

use std::fmt;

use serde::Deserialize;

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

/// Measures a row's figure, in the row's unit.
type Experiment = fn() -> Result<f64, LabError>;

const EXPERIMENTS: &[(&str, Experiment)] = &[
    ("afs-blocks-oj", blocks::ordered),
    ("afs-blocks-dj", blocks::data),
    ("afs-blocks-sdj", blocks::shared_data),
    ("ts-waf-full-blocks", amplification::full_blocks),
    ("ts-waf-fast-25-16g", amplification::fast_quarter_of_blocks_16g),
    ("ts-waf-fast-25-1g", amplification::fast_quarter_of_blocks_1g),
    ("ts-waf-page-25-16g", amplification::quarter_of_blocks_16g),
    ("ts-waf-page-25-1g", amplification::quarter_of_blocks_1g),
    ("ts-mixed-storage-a", || ts_clock::measure("ts-mixed-storage-a")),
    ("ts-mixed-storage-b", || ts_clock::measure("ts-mixed-storage-b")),
    ("ts-video-storage-a", || ts_clock::measure("ts-video-storage-a")),
    ("ts-video-storage-b", || ts_clock::measure("ts-video-storage-b")),
    ("ts-fileserver-microsd", || ts_clock::measure("ts-fileserver-microsd")),
    ("ts-tpcc-microsd", || ts_clock::measure("ts-tpcc-microsd")),
    ("ts-spclock-ssd", || ts_clock::measure("ts-spclock-ssd")),
    ("ts-fileserver-ssd", || ts_clock::measure("ts-fileserver-ssd")),
    ("ts-tpcc-ssd", || ts_clock::measure("ts-tpcc-ssd")),
    ("ts-fab-microsd", || ts_clock::measure("ts-fab-microsd")),
    ("ts-spclock-all", || ts_clock::measure("ts-spclock-all")),
    ("ts-erase-fast", || ts_clock::measure("ts-erase-fast")),
    ("ts-erase-page", || ts_clock::measure("ts-erase-page")),
    ("zp-fio", padding::fio),
    ("zp-fio-notrim-oj", padding::fio_no_trim_ordered),
    ("zp-fio-notrim-dj", padding::fio_no_trim_data),
    ("zp-varmail", padding::varmail),
    ("zp-varmail-notrim-oj", padding::varmail_no_trim_ordered),
    ("zp-varmail-notrim-zp", padding::varmail_no_trim),
    ("zp-varmail-notrim-dj", padding::varmail_no_trim_data),
    ("zp-evict-flush", padding::eviction_over_flush),
    ("zp-blocks-varmail-oj", padding::blocks_ordered),
    ("zp-blocks-rest", padding::blocks_data),
    ("zp-flushes", padding::flushes),
    ("afs-fio-sdj-oj-1g", journals::share_large_log),
    ("afs-fio-1g-single", journals::share_single_file),
    ("afs-fio-oj-drop", journals::ordered_over_data),
    ("afs-fio-small-journal", journals::share_small_log),
    ("afs-soj-oj", journals::share_ordered),
    ("afs-filebench", journals::share_filebench),
    ("ldj-false-recovery", false_recovery::with_self_trimming),
    ("ldj-flushes-per-commit", journals::ldj_flushes),
    ("ldj-varmail-oj", journals::ldj_varmail_ordered),
    ("ldj-varmail-dj", journals::ldj_varmail_data),
    ("ldj-fileserver-mf", journals::ldj_fileserver_many_files),
    ("ldj-fileserver-nvme", journals::ldj_fileserver_nvme),
    ("ldj-fileserver-ssd", journals::ldj_fileserver_ssd),
    ("ldj-750-varmail", journals::ldj_varmail_fast_disk),
    ("ldj-hdd", journals::ldj_hard_disk),
    ("ldj-copy", journals::ldj_copy_data),
    ("ldj-copy-oj", journals::ldj_copy_ordered),
    ("ldj-recovery-oj", recovery::over_ordered),
    ("ldj-recovery-dj", recovery::over_data),
    ("ldj-ratio-varmail", journals::ldj_ratio_varmail),
    ("ldj-writes-copy", journals::ldj_copy_bytes),
    ("ldj-writes-postmark", journals::ldj_postmark_bytes),
    ("ldj-ratio-rest", journals::ldj_ratio_postmark),
    ("ldj-ratio-jpeg", photographs::compressed_size),
    ("cal-zp-buffer-read", calibration::buffer_read_ms),
    ("cal-zp-flash-read", calibration::flash_read_ms),
    ("cal-zp-eviction-begins", calibration::eviction_begins_mb),
    ("cal-zp-eviction-certain", calibration::eviction_certain_mb),
    ("cal-fsync-drop-nvme", calibration::sync_drop_nvme),
    ("cal-fsync-drop-ssd", calibration::sync_drop_ssd),
    ("cal-fsync-drop-hdd", calibration::sync_drop_hdd),
    ("cal-share-ssd", calibration::share_write_kiops),
    ("cal-share-read", calibration::share_read_kiops),
];

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
        EXPERIMENTS.iter().find(|(id, _)| *id == self.id).map(|(_, experiment)| *experiment)
    }

    /// Whether the row has an experiment.
    pub fn can_run(&self) -> bool {
        self.experiment().is_some()
    }
}

/// Largest relative difference of a device figure, if the row gives none.
const CALIBRATED: f64 = 0.1;

/// Rows that say that `a` is larger, but not by how much.
const WINNERS: [&str; 3] = ["afs-soj-oj", "afs-filebench", "ldj-journal-size"];

impl Row {
    /// The value at which neither side wins; `None` for a plain figure without sides.
    fn even(&self) -> Option<f64> {
        match (&self.a, self.unit.starts_with("percent")) {
            (Some(_), _) => Some(1.0),
            (None, true) => Some(0.0),
            (None, false) => None,
        }
    }

    /// Whether the paper's ratio is above one. A row without a number means that `b` is larger, except for [`WINNERS`].
    fn is_above_one(&self) -> bool {
        self.paper > 1.0 || WINNERS.contains(&self.id.as_str())
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
        assert!(EXPERIMENTS.iter().all(|(id, _)| rows.iter().any(|row| row.id == *id)));
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
