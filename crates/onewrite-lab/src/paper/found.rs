//! Found: what an experiment found: the figure of its row, and its cases, one for each sub-claim of the row.
//!
//! A row often says more than its figure: "everywhere", "in all cases", both workloads, bytes beside time. Each of
//! these is a case. A case that the row speaks of counts like the figure itself; others are shown beside it.

use super::verdict::{Terms, Verdict};

/// A row's figure with its cases.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// In the row's unit.
    pub(super) figure: f64,
    pub(super) cases: Vec<Case>,
}

/// One case of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The device profile; empty where the row has one device only.
    pub device: &'static str,
    /// What it is, in words.
    pub name: String,
    /// Its figure.
    pub figure: f64,
    /// What the row asks of it.
    pub asked: Asked,
    /// Least and most over seeds and neighbouring numbers of threads, of which the figure is the median.
    pub range: Option<(f64, f64)>,
}

/// What a row asks of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// Nothing: it is shown.
    Nothing,
    /// The same as of the row's figure.
    AsRow,
    /// Something else.
    Own(Terms),
}

/// The largest of some figures; no number if one of them is none.
pub(super) fn largest(figures: impl Iterator<Item = f64>) -> f64 {
    figures.fold(
        f64::NEG_INFINITY,
        |most, figure| if most.is_nan() || figure.is_nan() { f64::NAN } else { most.max(figure) },
    )
}

impl Found {
    /// Cases with the largest of them as the row's figure.
    pub(super) fn largest_of(cases: Vec<Case>) -> Found {
        Found { figure: largest(cases.iter().map(|case| case.figure)), cases }
    }
}

impl From<f64> for Found {
    fn from(figure: f64) -> Found {
        Found { figure, cases: Vec::new() }
    }
}

impl Case {
    /// A case that is only shown.
    pub(super) fn shown(name: impl Into<String>, figure: f64) -> Case {
        Case { device: "", name: name.into(), figure, asked: Asked::Nothing, range: None }
    }

    /// A case of which the row says the same as of its figure.
    pub(super) fn counts(name: impl Into<String>, figure: f64) -> Case {
        Case { asked: Asked::AsRow, ..Case::shown(name, figure) }
    }

    /// A case of which the row says something else.
    pub(super) fn own(name: impl Into<String>, figure: f64, terms: Terms) -> Case {
        Case { asked: Asked::Own(terms), ..Case::shown(name, figure) }
    }

    /// The same over several runs.
    pub(super) fn over(self, range: Option<(f64, f64)>) -> Case {
        Case { range, ..self }
    }

    /// The same on `device`.
    pub(super) fn on(self, device: &'static str) -> Case {
        Case { device, ..self }
    }

    /// Its terms in a row that asks `row` of its figure; `None` if it is only shown.
    pub(super) fn terms(&self, row: Terms) -> Option<Terms> {
        match self.asked {
            Asked::Nothing => None,
            Asked::AsRow => Some(row),
            Asked::Own(terms) => Some(terms),
        }
    }

    /// Its verdict in such a row; `None` if it is only shown.
    pub(super) fn verdict(&self, row: Terms) -> Option<Verdict> {
        self.terms(row).map(|terms| terms.judge(self.figure))
    }

    /// Device and name.
    pub(super) fn label(&self) -> String {
        [self.device, &self.name].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
