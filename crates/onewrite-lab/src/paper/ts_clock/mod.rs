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

mod cases;
mod figures;
mod rows;
mod sensitivity;
mod show;
mod study;
mod subjects;

use std::path::Path;

use onewrite_block::GIB;
use onewrite_cache::PolicyKind;
use onewrite_device::waf;

use crate::cache::CacheStudy;
use crate::error::LabError;
use crate::generate::TraceKind;
use crate::trace::{Drawing, Trace, TraceOptions, draw};
pub use figures::{Amplification, Changed, Figure, Grid, RowFigure, TsClockFigures};
pub(super) use rows::measure;
use study::Scratch;
pub use study::{POLICIES, TsClockStudy};
use subjects::{CARD_BLOCK, CARD_SIZES, PAGE, subjects};

/// The policies of figure 2-10.
const DRAWN: [PolicyKind; 5] =
    [PolicyKind::Lru, PolicyKind::Cflru, PolicyKind::Fab, PolicyKind::SpClock, PolicyKind::TsClock];
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

impl TsClockStudy<'_> {
    /// Runs everything; calls `watch` with the name of the current part.
    ///
    /// # Errors
    /// The first error.
    pub fn run(&self, watch: &dyn Fn(&str)) -> Result<TsClockFigures, LabError> {
        let TsClockStudy { seed, scale, .. } = *self;
        let least = TraceKind::ALL.map(TraceKind::scale_min).into_iter().fold(0.0, f64::max);
        if !(least..=1.0).contains(&scale) {
            return Err(LabError::Option(format!("--scale {scale}: these traces take {least} to 1")));
        }
        let scratch = Scratch::new()?;
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
