//! Verdict: whether a figure meets its terms. Every kind of terms can fail; none depends on what was measured. What a
//! row asks is in `terms.rs`.

/// Share of a ratio around 1 that is a draw, and percentage points around 0. Neither side wins there.
const DEAD_BAND: f64 = 0.02;
/// Largest relative difference of a plain figure of kind `shape`, if the row gives none. The papers themselves are this
/// far apart where two of them measured one workload (varmail's compressed size: 0.09 and 0.12).
pub(super) const PLAIN: f64 = 0.25;
/// How many times larger or smaller a best case's gain may be than the paper's.
const GAIN_FACTOR: f64 = 2.0;

/// The value at which neither side wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Even {
    /// 1: a ratio of two sides.
    Ratio,
    /// 0: a speed-up in percent.
    Percent,
}

/// What a claim asks of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Terms {
    /// This figure.
    Equal(f64),
    /// This figure, `share` more or less.
    Near {
        /// The figure.
        paper: f64,
        /// Largest relative difference.
        share: f64,
    },
    /// More than a draw.
    Above(Even),
    /// Less than a draw.
    Below(Even),
    /// A draw or more.
    NotBelow(Even),
    /// The paper's worst case, or less.
    AtMost(f64),
    /// The direction of the paper's best case, and about its gain.
    Gain {
        /// The paper's best case.
        paper: f64,
        /// Where there is no gain.
        even: Even,
    },
}

/// Whether a figure meets its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does.
    Agrees,
    /// A best case has the paper's direction, but another size.
    DirectionOnly,
    /// The figure was given to the experiment, so it says nothing about the model.
    Input,
    /// It does not.
    Differs,
}

impl Even {
    fn value(self) -> f64 {
        match self {
            Even::Ratio => 1.0,
            Even::Percent => 0.0,
        }
    }

    fn band(self) -> f64 {
        match self {
            Even::Ratio => DEAD_BAND,
            Even::Percent => 100.0 * DEAD_BAND,
        }
    }

    /// Signed distance from a draw.
    pub(super) fn gain(self, figure: f64) -> f64 {
        figure - self.value()
    }
}

impl Terms {
    /// Whether `figure` meets them; what is no number, or none that ends, does not.
    pub fn judge(self, figure: f64) -> Verdict {
        let met = |is_met: bool| if is_met { Verdict::Agrees } else { Verdict::Differs };
        match self {
            _ if !figure.is_finite() => Verdict::Differs,
            Terms::AtMost(paper) => met(figure > 0.0 && figure <= paper),
            Terms::Equal(paper) => met(figure == paper),
            Terms::Near { paper, share } => met((figure / paper - 1.0).abs() <= share),
            Terms::Above(even) => met(even.gain(figure) > even.band()),
            Terms::Below(even) => met(even.gain(figure) < -even.band()),
            Terms::NotBelow(even) => met(even.gain(figure) >= -even.band()),
            Terms::Gain { paper, even } => judge_gain(even.gain(paper), even.gain(figure), even.band()),
        }
    }

    /// Whether only the winner counts, not the size.
    pub(super) fn is_about_the_winner(self) -> bool {
        matches!(self, Terms::Above(_) | Terms::Below(_))
    }

    /// Whether `figure` is a draw, where there could be a winner.
    pub(super) fn is_draw(self, figure: f64) -> bool {
        match self {
            Terms::Above(even) | Terms::Below(even) | Terms::Gain { even, .. } => {
                even.gain(figure).abs() <= even.band()
            }
            Terms::Equal(_) | Terms::Near { .. } | Terms::NotBelow(_) | Terms::AtMost(_) => false,
        }
    }
}

fn judge_gain(paper: f64, found: f64, band: f64) -> Verdict {
    let size = found / paper;
    match () {
        () if found.abs() <= band || size < 0.0 => Verdict::Differs,
        () if (1.0 / GAIN_FACTOR..=GAIN_FACTOR).contains(&size) => Verdict::Agrees,
        () => Verdict::DirectionOnly,
    }
}
