//! Rows: the scoreboard's claims about TS-CLOCK, computed from the grids.
//!
//! The speed-up of TS-CLOCK over another policy at one cache size is the other's time divided by TS-CLOCK's, less one,
//! in percent.

use onewrite_cache::PolicyKind;

use super::figures::{Figure, Grid, RowFigure};
use super::study::{Scratch, TsClockStudy};
use super::subjects::subjects;
use crate::error::LabError;
use crate::paper::claim::{Claim, ClaimTold};
use crate::paper::found::Found;
use crate::paper::rows::claims;
use crate::paper::scoreboard::scoreboard;

/// Translation layer of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cards {
    Fast,
    Bast,
}

impl Claim {
    fn is_about(&self, grid: &Grid, cards: Cards) -> bool {
        let is_card = grid.figure != "2-4" || (grid.ftl == "bast") == (cards == Cards::Bast);
        let is_workload = self.workloads.iter().any(|kind| kind.name() == grid.workload);
        is_card && is_workload && self.figures.contains(&grid.figure) && self.devices.contains(&grid.device.as_str())
    }

    /// The others' figures divided by that of `own`, for every size at which `own` wrote and the quotient is finite.
    fn quotients(&self, grids: &[Grid], cards: Cards, own: &str) -> Vec<f64> {
        let mut found = Vec::new();
        for grid in grids.iter().filter(|grid| self.is_about(grid, cards)) {
            for cell in grid.cells.iter().filter(|cell| cell.policy == own && cell.after_writes > 0) {
                let rivals = grid.cells.iter().filter(|rival| rival.size_bytes == cell.size_bytes);
                let rivals = rivals.filter(|rival| self.rivals.iter().any(|kind| kind.name() == rival.policy));
                found.extend(
                    rivals.map(|rival| self.counted.of(rival) / self.counted.of(cell)).filter(|it| it.is_finite()),
                );
            }
        }
        found
    }

    pub(super) fn figure(&self, grids: &[Grid], cards: Cards, own: &str) -> Option<Figure> {
        let quotients = self.quotients(grids, cards, own);
        let tell = |of: fn(f64) -> f64| {
            let values = quotients.iter().map(|quotient| of(*quotient));
            match self.told {
                ClaimTold::Best => values.fold(f64::NEG_INFINITY, f64::max),
                ClaimTold::Mean | ClaimTold::Quotient => values.sum::<f64>() / quotients.len() as f64,
            }
        };
        let speed_up = |quotient: f64| (quotient - 1.0) * 100.0;
        let saved = |quotient: f64| (1.0 - 1.0 / quotient) * 100.0;
        (!quotients.is_empty()).then(|| match self.told {
            ClaimTold::Quotient => Figure { speed_up: tell(|quotient| quotient), saved: tell(saved) },
            _ => Figure { speed_up: tell(speed_up), saved: tell(saved) },
        })
    }

    fn has_cards(&self) -> bool {
        self.devices.iter().any(|device| device.starts_with("microsd-"))
    }
}

/// All rows.
pub(super) fn rows(grids: &[Grid]) -> Vec<RowFigure> {
    let known = scoreboard().unwrap_or_default();
    let row = |(id, claim): (&'static str, &Claim)| {
        let row = known.iter().find(|row| row.id == id)?;
        let fast = |own| claim.figure(grids, Cards::Fast, own);
        let bast = |own| claim.has_cards().then(|| claim.figure(grids, Cards::Bast, own)).flatten();
        Some(RowFigure {
            id,
            paper: row.paper,
            metric: row.metric.clone(),
            measured: fast("ts-clock"),
            bast: bast("ts-clock"),
            scan: fast("ts-clock-scan"),
            scan_bast: bast("ts-clock-scan"),
        })
    };
    claims().filter_map(row).collect()
}

/// The rows for which the grids have data.
pub(super) fn found(grids: &[Grid], cards: Cards, own: &str) -> Vec<(&'static str, Figure)> {
    claims().filter_map(|(id, claim)| Some((id, claim.figure(grids, cards, own)?))).collect()
}

/// Measures the claim of the row `id` in its unit, at full scale, with cards as FAST.
///
/// # Errors
/// If its grids are missing.
pub(in crate::paper) fn measure(id: &str, claim: &Claim) -> Result<Found, LabError> {
    let study = TsClockStudy { seed: 1, scale: 1.0, load_file: None, sensitivity: false };
    let scratch = Scratch::new()?;
    let policies = [claim.all_rivals(), &[PolicyKind::TsClock]].concat();
    let mut grids = Vec::new();
    for kind in claim.workloads {
        let trace = study.trace(*kind, &scratch.0, None)?;
        let is_wanted = |figure: &str, device: &str| claim.figures.contains(&figure) && claim.devices.contains(&device);
        for subject in subjects().iter().filter(|subject| is_wanted(subject.figure, &subject.profile.name)) {
            if subject.ftl() != "bast" {
                grids.push(study.grid_of(*kind, &trace, subject, &policies)?);
            }
        }
    }
    let nothing = || LabError::Option(format!("row `{id}`: nothing to compare"));
    let figure = claim.speed_up(&grids).ok_or_else(nothing)?;
    Ok(Found { figure, cases: claim.cases(&grids) })
}
