//! TS-CLOCK: measures the figures 2-1 and 2-4 to 2-10 of the dissertation.
//!
//! ```text
//!   generated traces (table 2-2) ─► nine policies × cache sizes ─► five devices ─► grids ─► rows, tables, charts
//! ```
//!
//! The curves of the figures are lost; axes, devices and the numbers in the text are known. A grid is one workload on
//! one device: elapsed time and hit ratio (2-4, 2-6), requests (2-7), erases (2-8, 2-9). Devices are translation layers
//! that estimate time, as large as the write ranges need; cards and the SSD have their profiles. Nobody has published
//! what is inside a card. So each card is measured twice: as FAST, whose log blocks all blocks share, and as BAST,
//! whose log blocks belong to one block each. TS-CLOCK is measured twice too, because the text can be read in two ways
//! about when a page gets its count.
//!
//! At a scale below one, traces, caches and devices shrink alike, but flash blocks do not. Then a cache holds too few
//! blocks, and the figures only show that everything runs.

mod claim;
mod rows;
mod sensitivity;
mod show;
mod subjects;

use std::path::{Path, PathBuf};

use onewrite_block::{GIB, MIB};
use onewrite_cache::PolicyKind;
use onewrite_device::waf;
use serde::Serialize;

use crate::cache::{CacheCell, CacheStudy, DevicePlan, HELD_MAX};
use crate::error::LabError;
use crate::generate::{Generation, LOAD_FILE, TraceKind, generate};
use crate::trace::{Drawing, Trace, TraceOptions, TraceWriter, draw};
pub(super) use claim::{Claim, ClaimTold, Counted};
pub(super) use rows::measure;
pub use sensitivity::Changed;
use subjects::{CARD_BLOCK, CARD_SIZES, PAGE, Subject, subjects};

/// The policies of the figures, and the other reading of TS-CLOCK.
pub const POLICIES: [PolicyKind; 9] = [
    PolicyKind::Lru,
    PolicyKind::Clock,
    PolicyKind::Linux2q,
    PolicyKind::Cflru,
    PolicyKind::Fab,
    PolicyKind::LbClock,
    PolicyKind::SpClock,
    PolicyKind::TsClock,
    PolicyKind::TsClockScan,
];
/// The policies of figure 2-10.
const DRAWN: [PolicyKind; 5] =
    [PolicyKind::Lru, PolicyKind::Cflru, PolicyKind::Fab, PolicyKind::SpClock, PolicyKind::TsClock];
/// Bytes of the devices of the figures; the ranges of the server workloads fit.
const DEVICE_BYTES: u64 = 16 * GIB;
/// Least scale at which figure 2-1 is measured.
const AMPLIFICATION_SCALE: f64 = 0.1;
/// Utilization in percent, range, seed.
type Amplify = fn(u32, u64, u64) -> waf::Waf;
/// The layers of figure 2-1, then the cards' layers with the log blocks of their profiles.
const AMPLIFIED: [(&str, Amplify); 4] = [
    ("fast", |percent, range, seed| waf::run_fast(percent, range, seed, None)),
    ("page", waf::run),
    ("fast, 5 log blocks", |percent, range, seed| waf::run_fast(percent, range, seed, Some(5))),
    ("bast, 5 log blocks", |percent, range, seed| waf::run_bast(percent, range, seed, Some(5))),
];

/// Options of a study.
#[derive(Clone, Copy, Debug)]
pub struct TsClockStudy<'a> {
    /// The seed of the traces.
    pub seed: u64,
    /// Scale of the traces, caches and devices, above 0.03 and at most 1.
    pub scale: f64,
    /// dbench's load file; by default the one of Debian's package. Without it the file server is left out.
    pub load_file: Option<&'a Path>,
    /// Whether to measure how the rows depend on each uncertain value, not the figures.
    pub sensitivity: bool,
}

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

/// A directory for traces, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, LabError> {
        let path = std::env::temp_dir().join(format!("onewrite-ts-clock-{}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| LabError::WriteFile { path: path.display().to_string(), message: error.to_string() })?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl TsClockStudy<'_> {
    /// Runs everything; calls `watch` with the name of the current part.
    ///
    /// # Errors
    /// The first error.
    pub fn run(&self, watch: &dyn Fn(&str)) -> Result<TsClockFigures, LabError> {
        let scratch = Scratch::new()?;
        let TsClockStudy { seed, scale, .. } = *self;
        let mut figures = TsClockFigures { seed, scale, ..TsClockFigures::default() };
        let traces = self.traces(&scratch.0, &mut figures.missing)?;
        if self.sensitivity {
            figures.sensitivity = self.sensitivity(&traces, &scratch.0, watch)?;
            return Ok(figures);
        }
        if self.scale >= AMPLIFICATION_SCALE {
            watch("figure 2-1");
            figures.amplification = self.amplification();
        } else {
            let cure = format!("run at a scale from {AMPLIFICATION_SCALE} on");
            figures.missing.push(format!("figure 2-1, whose device does not shrink: {cure}"));
        }
        for (kind, trace) in &traces {
            for subject in &subjects() {
                let (figure, device, ftl) = (subject.figure, &subject.profile.name, subject.ftl());
                watch(&format!("figure {figure}: {kind} on {device}, {ftl}"));
                figures.grids.push(self.grid(*kind, trace, subject)?);
            }
        }
        figures.rows = rows::rows(&figures.grids);
        watch("figure 2-10");
        if let Some((_, trace)) = traces.iter().find(|(kind, _)| *kind == TraceKind::Mixed) {
            figures.pictures = self.pictures(trace, &scratch.0)?;
        }
        Ok(figures)
    }

    fn amplification(&self) -> Vec<Amplification> {
        let ranges: &[u64] = if self.scale < 1.0 { &[GIB] } else { &[GIB, 4 * GIB, 16 * GIB] };
        let mut points = Vec::new();
        for (ftl, run) in AMPLIFIED {
            for range_bytes in ranges.iter().copied() {
                for block_utilization in [25, 50, 75, 100] {
                    let waf = run(block_utilization, range_bytes, self.seed).waf;
                    points.push(Amplification { ftl, range_bytes, block_utilization, waf });
                }
            }
        }
        points
    }

    fn traces(&self, directory: &Path, missing: &mut Vec<String>) -> Result<Vec<(TraceKind, PathBuf)>, LabError> {
        let mut traces = Vec::new();
        for kind in TraceKind::ALL {
            let load_file = self.load_file.unwrap_or(Path::new(LOAD_FILE));
            if kind == TraceKind::FileServer && !load_file.exists() {
                missing.push(format!("file-server: {} is not there (Debian's package dbench)", load_file.display()));
                continue;
            }
            traces.push((kind, self.trace(kind, directory, None)?));
        }
        Ok(traces)
    }

    /// Writes a trace to a file and returns its path.
    fn trace(&self, kind: TraceKind, directory: &Path, clients: Option<u32>) -> Result<PathBuf, LabError> {
        let what = Generation { kind, seed: self.seed, scale: self.scale, load_file: self.load_file, clients };
        let path = directory.join(format!("{kind}-{}-{}.csv", self.seed, clients.unwrap_or(0)));
        let mut writer = TraceWriter::create(&path)?;
        generate(what)?.into_iter().try_for_each(|request| writer.page(request))?;
        writer.finish()?;
        Ok(path)
    }

    fn scaled(&self, bytes: u64) -> u64 {
        ((bytes as f64 * self.scale) as u64 / PAGE * PAGE).max(64 * PAGE)
    }

    fn study(&self, trace: &Path, policies: &[PolicyKind], sizes: &[u64], flash_block_bytes: u64) -> CacheStudy {
        CacheStudy {
            trace: trace.to_owned(),
            options: TraceOptions::default(),
            policies: policies.to_vec(),
            sizes: sizes.iter().map(|mebibytes| self.scaled(mebibytes * MIB)).collect(),
            page_bytes: PAGE,
            flash_block_bytes,
            after: None,
            device: None,
            threads: 0,
            held_max: HELD_MAX,
            is_timed: false,
        }
    }

    fn grid(&self, kind: TraceKind, trace: &Path, subject: &Subject) -> Result<Grid, LabError> {
        self.grid_of(kind, trace, subject, &POLICIES)
    }

    fn grid_of(
        &self,
        kind: TraceKind,
        trace: &Path,
        subject: &Subject,
        policies: &[PolicyKind],
    ) -> Result<Grid, LabError> {
        let size = self.scaled(DEVICE_BYTES).next_power_of_two();
        let plan = DevicePlan {
            profile: subject.profile.clone(),
            layer: Some(subject.layer),
            size_bytes: Some(size),
            is_blank: false,
            age_bytes: if subject.is_aged { size } else { 0 },
        };
        let study =
            CacheStudy { device: Some(plan), ..self.study(trace, policies, &subject.sizes, subject.block_bytes) };
        Ok(Grid {
            figure: subject.figure,
            workload: kind.name(),
            device: subject.profile.name.clone(),
            ftl: subject.ftl(),
            flash_block_bytes: subject.block_bytes,
            cells: study.run(&|_| Ok(()))?.cells,
        })
    }

    /// Draws the write patterns of figure 2-10, with a cache of 4 MiB.
    fn pictures(&self, trace: &Path, directory: &Path) -> Result<Vec<(String, String)>, LabError> {
        let picture = |title: &str, path: &Path| -> Result<(String, String), LabError> {
            let drawing = Drawing { page_bytes: PAGE, only_writes: true };
            let open = || Trace::open(path, &TraceOptions::default());
            Ok((title.to_owned(), draw(title, drawing, open)?))
        };
        let mut pictures = vec![picture("before the cache", trace)?];
        for policy in DRAWN {
            let after = directory.join(format!("after-{policy}.csv"));
            let study = self.study(trace, &[policy], &CARD_SIZES[..1], CARD_BLOCK);
            CacheStudy { after: Some(after.clone()), ..study }.run(&|_| Ok(()))?;
            pictures.push(picture(policy.name(), &after)?);
        }
        Ok(pictures)
    }
}
