//! Terms: what a row asks of its figure.
//!
//! | kind | asks |
//! |---|---|
//! | `exact` | the paper's figure itself |
//! | `near`, `calibration` | at most `within` away from it (calibration: a tenth, if the row says nothing) |
//! | `shape` of two sides | the paper's winner, by more than the dead band |
//! | `shape` in percent | the paper's sign, by more than the dead band |
//! | `shape` of a plain figure | at most [`PLAIN`] away from it, or nothing where the paper has nothing |
//! | `upto` | the paper's direction, by more than the dead band, and about its gain ([`Terms::Gain`]) |
//! | `upto` of a cost (`better = "lower"`) | at most the paper's worst case |
//!
//! A row whose unit fits none of these has no terms, and that is an error, not a pass. Which rows fail decides the exit
//! code of `onewrite paper`: those that differ. A direction is all that an `upto` row promises, so one whose gain is
//! another does not fail, but it is counted apart.

use super::scoreboard::{Kind, Row};
use super::verdict::{Even, PLAIN, Terms};
use crate::error::LabError;

/// Largest relative difference of a device figure, if the row gives none.
const CALIBRATED: f64 = 0.1;
/// Units of plain figures of kind `shape`.
const PLAIN_UNITS: [&str; 4] = ["ratio", "blocks", "ms", "segments cleaned"];

impl Row {
    /// What the row asks of its figure.
    ///
    /// # Errors
    /// If its unit does not fit its kind: then nothing could fail it.
    pub fn terms(&self) -> Result<Terms, LabError> {
        let paper = self.paper;
        match self.kind {
            Kind::Exact => Ok(Terms::Equal(paper)),
            Kind::Near => self.within.map(|share| Terms::Near { paper, share }).ok_or_else(|| self.refuse("`within`")),
            Kind::Calibration => Ok(Terms::Near { paper, share: self.within.unwrap_or(CALIBRATED) }),
            Kind::Shape => self.shape(),
            Kind::Upto if self.better.as_deref() == Some("lower") => Ok(Terms::AtMost(paper)),
            Kind::Upto => match self.even() {
                Some(even) => Ok(Terms::Gain { paper, even }),
                None => Err(self.refuse("two sides, or a unit in percent")),
            },
        }
    }

    fn shape(&self) -> Result<Terms, LabError> {
        match self.even() {
            Some(even) if even.gain(self.paper) > 0.0 || self.is_won_by_a() => Ok(Terms::Above(even)),
            Some(even) => Ok(Terms::Below(even)),
            None if self.a.is_some() || !PLAIN_UNITS.contains(&self.unit.as_str()) => {
                let plain = PLAIN_UNITS.join(", ");
                Err(self.refuse(&format!("two sides without a unit, or a unit of {plain}, or percent")))
            }
            None if self.paper == 0.0 => Ok(Terms::Equal(0.0)),
            None => Ok(Terms::Near { paper: self.paper, share: self.within.unwrap_or(PLAIN) }),
        }
    }

    /// Where neither side wins; `None` for a plain figure, and for two sides with a unit.
    fn even(&self) -> Option<Even> {
        match (&self.a, self.unit.as_str()) {
            (Some(_), "") => Some(Even::Ratio),
            (None, unit) if unit.starts_with("percent") => Some(Even::Percent),
            _ => None,
        }
    }

    fn refuse(&self, needs: &str) -> LabError {
        let (Row { id, unit, .. }, kind) = (self, self.kind.name());
        LabError::Option(format!("scoreboard.toml: row `{id}` of kind {kind} needs {needs}; its unit is `{unit}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::scoreboard;
    use crate::paper::verdict::Verdict::{self, Agrees, Differs, DirectionOnly};

    fn row(id: &str) -> Row {
        scoreboard().unwrap().into_iter().find(|row| row.id == id).unwrap()
    }

    fn judged<const N: usize>(id: &str, figures: [f64; N]) -> [Verdict; N] {
        let terms = row(id).terms().unwrap();
        figures.map(|figure| terms.judge(figure))
    }

    #[test]
    fn a_device_figure_passes_within_a_tenth_and_an_exact_one_alone() {
        assert_eq!(judged("cal-zp-buffer-read", [0.031, 0.033, f64::NAN]), [Agrees, Differs, Differs]);
        assert_eq!(judged("afs-blocks-oj", [6.0, 6.1]), [Agrees, Differs]);
        assert_eq!(judged("ts-waf-page-25-1g", [1.05, 1.06]), [Agrees, Differs]);
    }

    #[test]
    fn a_best_case_has_a_direction_and_a_size() {
        // Paper: 2.16, a gain of 1.16.
        let found = judged("afs-fio-sdj-oj-1g", [2.0, 1.6, 3.3, 1.5, 3.6, 1.1, 1.01, 0.98, f64::NAN]);
        let (agrees, direction, differs) = ([Agrees; 3], [DirectionOnly; 3], [Differs; 3]);
        assert_eq!(found.to_vec(), [agrees, direction, differs].concat());
        // Paper: 11.8 percent.
        assert_eq!(judged("ts-spclock-ssd", [7.0, 3.0, 1.9, -11.8]), [Agrees, DirectionOnly, Differs, Differs]);
    }

    #[test]
    fn the_worst_case_of_a_cost_is_not_exceeded() {
        assert_eq!(judged("ldj-recovery-dj", [47.0, 1.0, 47.5, 0.0]), [Agrees, Agrees, Differs, Differs]);
    }

    #[test]
    fn what_has_no_end_wins_nothing() {
        assert_eq!(judged("afs-mysql-flushes", [16.0, f64::INFINITY]), [Agrees, Differs]);
        assert_eq!(judged("ldj-recovery-dj", [f64::NEG_INFINITY]), [Differs]);
    }

    #[test]
    fn a_winner_wins_by_more_than_the_dead_band() {
        // `a` wins, by the entry of the row alone.
        assert_eq!(judged("afs-soj-oj", [1.03, 1.01, 0.9]), [Agrees, Differs, Differs]);
        // `b` wins.
        assert_eq!(judged("afs-fio-oj-drop", [0.97, 0.99, 1.01, 1.2]), [Agrees, Differs, Differs, Differs]);
        // Percent are compared with zero, not with one.
        assert_eq!(judged("ts-video-storage-a", [3.0, 1.5, -3.0]), [Agrees, Differs, Differs]);
    }

    #[test]
    fn a_plain_figure_is_compared_with_the_papers() {
        // Ratios below one would all have passed as "below one".
        assert_eq!(judged("ldj-ratio-rest", [0.59, 0.72, 0.975, 0.1]), [Agrees, Agrees, Differs, Differs]);
        assert_eq!(judged("zp-blocks-varmail-oj", [13.6, 2.0, 30.0]), [Agrees, Differs, Differs]);
        assert_eq!(judged("ssc-ipu", [0.0, 1.0]), [Agrees, Differs]);
    }

    #[test]
    fn a_shape_row_with_a_wrong_unit_has_no_terms() {
        let with = |id: &str, unit: &str| Row { unit: unit.to_owned(), ..row(id) }.terms();
        for unit in ["", "bananas", "times"] {
            assert!(with("zp-blocks-rest", unit).unwrap_err().to_string().contains("zp-blocks-rest"), "{unit}");
        }
        assert!(with("afs-soj-oj", "ratio").is_err(), "a ratio of two sides has no unit");
        // The sign is asked for, so the ratio's own figure no longer meets it in percent.
        assert_eq!(with("ldj-ratio-jpeg", "percent").unwrap(), Terms::Above(Even::Percent));
        assert_eq!(with("ldj-ratio-jpeg", "percent").unwrap().judge(0.94), Differs);
        assert!(Row { within: None, ..row("ldj-writes-copy") }.terms().is_err());
        assert!(Row { a: None, ..row("zp-fio") }.terms().is_err());
    }

    #[test]
    fn every_row_has_terms() {
        let without = scoreboard().unwrap().into_iter().filter(|row| row.terms().is_err()).map(|row| row.id);
        assert_eq!(without.collect::<Vec<_>>(), Vec::<String>::new());
    }
}
