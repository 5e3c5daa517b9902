//! Rows: the scoreboard's claims about TS-CLOCK, computed from the grids.
//!
//! The speed-up of TS-CLOCK over another policy at one cache size is the other's time divided by TS-CLOCK's, less one,
//! in percent.

use onewrite_cache::PolicyKind;

use super::subjects::subjects;
use super::{Figure, Grid, RowFigure, Scratch, TsClockStudy};
use crate::cache::CacheCell;
use crate::error::LabError;
use crate::generate::TraceKind;
use crate::paper::scoreboard;

/// Translation layer of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cards {
    Fast,
    Bast,
}

/// How the comparisons at all sizes become one figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Best,
    Mean,
    /// The mean of the quotient, without "less one".
    Quotient,
}

/// A claim of the scoreboard.
struct Claim {
    id: &'static str,
    figures: &'static [&'static str],
    devices: &'static [&'static str],
    workloads: &'static [TraceKind],
    rivals: &'static [PolicyKind],
    of: fn(&CacheCell) -> f64,
    told: Told,
}

const PATRIOT: &[&str] = &["microsd-patriot"];
const ADATA: &[&str] = &["microsd-adata"];
const CARDS: &[&str] = &["microsd-patriot", "microsd-adata"];
const SSD: &[&str] = &["ssd-tlc-120g"];
const ALL: &[&str] = &["microsd-patriot", "microsd-adata", "ssd-tlc-120g"];
const FTL: &[&str] = &["ftl-16g"];
/// The other policies of the figures, without those that evict blocks.
const BY_PAGE: &[PolicyKind] =
    &[PolicyKind::Lru, PolicyKind::Clock, PolicyKind::Linux2q, PolicyKind::Cflru, PolicyKind::SpClock];
const OTHERS: &[PolicyKind] = &[
    PolicyKind::Lru,
    PolicyKind::Clock,
    PolicyKind::Linux2q,
    PolicyKind::Cflru,
    PolicyKind::Fab,
    PolicyKind::LbClock,
    PolicyKind::SpClock,
];

/// A claim about elapsed time on cards or the SSD.
const fn time(
    id: &'static str,
    devices: &'static [&'static str],
    workloads: &'static [TraceKind],
    rivals: &'static [PolicyKind],
    told: Told,
) -> Claim {
    Claim { id, figures: &["2-4", "2-6"], devices, workloads, rivals, of: seconds, told }
}

/// A claim about erases in the lifetime study.
const fn lifetime(
    id: &'static str,
    figures: &'static [&'static str],
    workloads: &'static [TraceKind],
    rivals: &'static [PolicyKind],
) -> Claim {
    Claim { id, figures, devices: FTL, workloads, rivals, of: erases, told: Told::Best }
}

const CLAIMS: [Claim; 13] = [
    time("ts-mixed-storage-a", PATRIOT, &[TraceKind::Mixed], OTHERS, Told::Best),
    time("ts-mixed-storage-b", ADATA, &[TraceKind::Mixed], OTHERS, Told::Best),
    time("ts-video-storage-a", PATRIOT, &[TraceKind::Video], OTHERS, Told::Mean),
    time("ts-video-storage-b", ADATA, &[TraceKind::Video], OTHERS, Told::Mean),
    time("ts-fileserver-microsd", CARDS, &[TraceKind::FileServer], BY_PAGE, Told::Best),
    time("ts-tpcc-microsd", CARDS, &[TraceKind::TpcC], BY_PAGE, Told::Best),
    time("ts-spclock-ssd", SSD, &[TraceKind::Video], &[PolicyKind::SpClock], Told::Best),
    time("ts-fileserver-ssd", SSD, &[TraceKind::FileServer], OTHERS, Told::Mean),
    time("ts-tpcc-ssd", SSD, &[TraceKind::TpcC], OTHERS, Told::Mean),
    time("ts-fab-microsd", CARDS, &[TraceKind::FileServer, TraceKind::TpcC], &[PolicyKind::Fab], Told::Quotient),
    time("ts-spclock-all", ALL, &TraceKind::ALL, &[PolicyKind::SpClock], Told::Mean),
    lifetime("ts-erase-fast", &["2-8"], &[TraceKind::Mixed], &[PolicyKind::Cflru]),
    lifetime("ts-erase-page", &["2-9"], &[TraceKind::TpcC], &[PolicyKind::Fab]),
];

fn seconds(cell: &CacheCell) -> f64 {
    cell.device.as_ref().map_or(0.0, |device| device.elapsed_seconds)
}

fn erases(cell: &CacheCell) -> f64 {
    cell.device.as_ref().map_or(0.0, |device| device.erases as f64)
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
                found.extend(rivals.map(|rival| (self.of)(rival) / (self.of)(cell)).filter(|it| it.is_finite()));
            }
        }
        found
    }

    fn figure(&self, grids: &[Grid], cards: Cards, own: &str) -> Option<Figure> {
        let quotients = self.quotients(grids, cards, own);
        let tell = |of: fn(f64) -> f64| {
            let values = quotients.iter().map(|quotient| of(*quotient));
            match self.told {
                Told::Best => values.fold(f64::NEG_INFINITY, f64::max),
                Told::Mean | Told::Quotient => values.sum::<f64>() / quotients.len() as f64,
            }
        };
        let speed_up = |quotient: f64| (quotient - 1.0) * 100.0;
        let saved = |quotient: f64| (1.0 - 1.0 / quotient) * 100.0;
        (!quotients.is_empty()).then(|| match self.told {
            Told::Quotient => Figure { speed_up: tell(|quotient| quotient), saved: tell(saved) },
            _ => Figure { speed_up: tell(speed_up), saved: tell(saved) },
        })
    }

    fn has_cards(&self) -> bool {
        self.devices.contains(&CARDS[0]) || self.devices.contains(&CARDS[1])
    }
}

/// All rows.
pub(super) fn rows(grids: &[Grid]) -> Vec<RowFigure> {
    let known = scoreboard().unwrap_or_default();
    let row = |claim: &Claim| {
        let row = known.iter().find(|row| row.id == claim.id)?;
        let fast = |own| claim.figure(grids, Cards::Fast, own);
        let bast = |own| claim.has_cards().then(|| claim.figure(grids, Cards::Bast, own)).flatten();
        Some(RowFigure {
            id: claim.id,
            paper: row.paper,
            metric: row.metric.clone(),
            measured: fast("ts-clock"),
            bast: bast("ts-clock"),
            scan: fast("ts-clock-scan"),
            scan_bast: bast("ts-clock-scan"),
        })
    };
    CLAIMS.iter().filter_map(row).collect()
}

/// The rows for which the grids have data.
pub(super) fn found(grids: &[Grid], cards: Cards, own: &str) -> Vec<(&'static str, Figure)> {
    CLAIMS.iter().filter_map(|claim| Some((claim.id, claim.figure(grids, cards, own)?))).collect()
}

/// Measures one row in its unit, at full scale, with cards as FAST.
///
/// # Errors
/// If there is no such row here, or its grids are missing.
pub fn measure(id: &str) -> Result<f64, LabError> {
    let Some(claim) = CLAIMS.iter().find(|claim| claim.id == id) else {
        return Err(LabError::Option(format!("row `{id}` is none of TS-CLOCK's")));
    };
    let study = TsClockStudy { seed: 1, scale: 1.0, load_file: None, sensitivity: false };
    let scratch = Scratch::new()?;
    let policies = [claim.rivals, &[PolicyKind::TsClock]].concat();
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
    let found = claim.figure(&grids, Cards::Fast, "ts-clock").map(|figure| figure.speed_up);
    found.ok_or_else(|| LabError::Option(format!("row `{id}`: nothing to compare")))
}
