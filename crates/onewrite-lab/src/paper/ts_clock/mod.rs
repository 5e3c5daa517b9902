//! TS-CLOCK: what figures 2-1 and 2-4 to 2-10 of the dissertation plot, measured here.
//!
//! ```text
//!   generated traces (table 2-2) ─► eight policies × cache sizes ─► five devices ─► grids ─► rows, tables, charts
//! ```
//!
//! The curves of the figures are lost; axes, devices and the figures in the text are known. A grid is one workload on one
//! device: elapsed time and hit ratio (2-4, 2-6), requests (2-7), erases (2-8, 2-9). Devices are translation layers
//! that estimate time, as large as the write ranges need; cards and the SSD are those of the profiles.
//!
//! At a scale below one, traces, caches and devices shrink alike, flash blocks do not: then a cache holds fewer blocks
//! than it should, and the figures show that everything runs, not what the paper found.

mod rows;
mod show;

use std::path::{Path, PathBuf};

use onewrite_block::{GIB, MIB};
use onewrite_cache::PolicyKind;
use onewrite_device::{Layer, Profile, waf};
use serde::Serialize;

use crate::cache::{CacheCell, CacheStudy, DevicePlan, HELD_MAX};
use crate::error::LabError;
use crate::generate::{Generation, LOAD_FILE, TraceKind, generate};
use crate::trace::{Drawing, Trace, TraceOptions, TraceWriter, draw};

/// The policies of the figures.
pub const POLICIES: [PolicyKind; 8] = [
    PolicyKind::Lru,
    PolicyKind::Clock,
    PolicyKind::Linux2q,
    PolicyKind::Cflru,
    PolicyKind::Fab,
    PolicyKind::LbClock,
    PolicyKind::SpClock,
    PolicyKind::TsClock,
];
/// Those of figure 2-10.
const DRAWN: [PolicyKind; 5] =
    [PolicyKind::Lru, PolicyKind::Cflru, PolicyKind::Fab, PolicyKind::SpClock, PolicyKind::TsClock];
/// Cache sizes on cards and on SSDs, in MiB.
const CARD_SIZES: [u64; 3] = [4, 16, 64];
const SSD_SIZES: [u64; 3] = [32, 128, 512];
const CARD_BLOCK: u64 = 4 * MIB;
const SSD_BLOCK: u64 = 24 * MIB;
const PAGE: u64 = 4096;
/// The device of the lifetime study, and all others in the figures: the server workloads' ranges fit.
const DEVICE_BYTES: u64 = 16 * GIB;
/// A mapping cache that holds the whole map: a page-level layer.
const WHOLE_MAP: Option<u64> = Some(GIB);

/// The least scale at which figure 2-1 is measured.
const AMPLIFICATION_SCALE: f64 = 0.1;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct TsClockStudy<'a> {
    /// The seed of the traces.
    pub seed: u64,
    /// Share of the traces, caches and devices, above 0.03 and at most 1.
    pub scale: f64,
    /// dbench's load file; by default where Debian's package has it. Without it the file server is left out.
    pub load_file: Option<&'a Path>,
    /// Measure the rows again with uncertain numbers of the profiles changed, one at a time: four times twelve grids more.
    pub sensitivity: bool,
}

/// A device of the figures.
#[derive(Clone, Debug)]
struct Subject {
    figure: &'static str,
    profile: Profile,
    layer: Layer,
    block_bytes: u64,
    sizes: [u64; 3],
    is_aged: bool,
}

/// One workload on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// The figure whose axes it has.
    pub figure: &'static str,
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the profile.
    pub device: String,
    /// Name of the translation layer.
    pub ftl: &'static str,
    /// Bytes of a flash block for the policies.
    pub flash_block_bytes: u64,
    /// Policies within sizes.
    pub cells: Vec<CacheCell>,
}

/// A point of figure 2-1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Amplification {
    /// `fast` or `page`.
    pub ftl: &'static str,
    /// Range of the writes in bytes.
    pub range_bytes: u64,
    /// Share of each block that is written, in percent.
    pub block_utilization: u32,
    /// Flash pages programmed for each host page.
    pub waf: f64,
}

/// A row of the scoreboard that the study measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowFigure {
    /// The row.
    pub id: &'static str,
    /// The paper's figure.
    pub paper: f64,
    /// Ours, in the same unit; none if what it needs is missing.
    pub measured: Option<f64>,
    /// What is compared.
    pub metric: String,
}

/// Everything that the study found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TsClockFigures {
    /// The seed.
    pub seed: u64,
    /// The scale.
    pub scale: f64,
    /// Figure 2-1.
    pub amplification: Vec<Amplification>,
    /// Figures 2-4 to 2-9.
    pub grids: Vec<Grid>,
    /// The scoreboard's rows.
    pub rows: Vec<RowFigure>,
    /// Rows again, with one uncertain number of a profile changed: what was changed, and the rows.
    pub sensitivity: Vec<(String, Vec<RowFigure>)>,
    /// What could not be run, and why.
    pub missing: Vec<String>,
    /// Figure 2-10: titles and pictures as SVG.
    #[serde(skip)]
    pub pictures: Vec<(String, String)>,
}

/// A directory for traces, removed at the end.
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
    /// Runs everything; `watch` is told what is under way.
    ///
    /// # Errors
    /// The first.
    pub fn run(&self, watch: &dyn Fn(&str)) -> Result<TsClockFigures, LabError> {
        let scratch = Scratch::new()?;
        let (mut grids, mut missing, mut sensitivity) = (Vec::new(), Vec::new(), Vec::new());
        let amplification = match self.scale >= AMPLIFICATION_SCALE {
            true => {
                watch("figure 2-1");
                self.amplification()
            }
            false => {
                missing.push(format!(
                    "figure 2-1, whose device does not shrink: run at a scale from {AMPLIFICATION_SCALE} on"
                ));
                Vec::new()
            }
        };
        let traces = self.traces(&scratch.0, &mut missing)?;
        let subjects = subjects(&mut missing);
        for (kind, trace) in &traces {
            for subject in &subjects {
                watch(&format!("figure {}: {kind} on {}", subject.figure, subject.profile.name));
                grids.push(self.grid(*kind, trace, subject)?);
            }
        }
        let varied = subjects.iter().filter(|_| self.sensitivity);
        for (what, changed) in varied.flat_map(variants) {
            watch(&format!("sensitivity: {what}"));
            let all = traces.iter().map(|(kind, trace)| self.grid(*kind, trace, &changed));
            sensitivity.push((what, rows::rows(&all.collect::<Result<Vec<_>, _>>()?)));
        }
        watch("figure 2-10");
        let mixed = traces.iter().find(|(kind, _)| *kind == TraceKind::Mixed);
        let pictures = mixed.map(|(_, trace)| self.pictures(trace, &scratch.0)).transpose()?.unwrap_or_default();
        let rows = rows::rows(&grids);
        let TsClockStudy { seed, scale, .. } = *self;
        Ok(TsClockFigures { seed, scale, amplification, grids, rows, sensitivity, missing, pictures })
    }

    fn amplification(&self) -> Vec<Amplification> {
        let ranges: &[u64] = if self.scale < 1.0 { &[GIB] } else { &[GIB, 4 * GIB, 16 * GIB] };
        let mut points = Vec::new();
        for ftl in ["fast", "page"] {
            for range_bytes in ranges.iter().copied() {
                for block_utilization in [25, 50, 75, 100] {
                    let found = match ftl {
                        "fast" => waf::run_fast(block_utilization, range_bytes, self.seed, None),
                        _ => waf::run(block_utilization, range_bytes, self.seed),
                    };
                    points.push(Amplification { ftl, range_bytes, block_utilization, waf: found.waf });
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
            let what = Generation { kind, seed: self.seed, scale: self.scale, load_file: self.load_file };
            let path = directory.join(format!("{kind}.csv"));
            let mut writer = TraceWriter::create(&path)?;
            generate(what)?.into_iter().try_for_each(|request| writer.page(request))?;
            writer.finish()?;
            traces.push((kind, path));
        }
        Ok(traces)
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
        }
    }

    fn grid(&self, kind: TraceKind, trace: &Path, subject: &Subject) -> Result<Grid, LabError> {
        let size = self.scaled(DEVICE_BYTES).next_power_of_two();
        let plan = DevicePlan {
            profile: subject.profile.clone(),
            layer: Some(subject.layer),
            size_bytes: Some(size),
            is_blank: false,
            age_bytes: if subject.is_aged { size } else { 0 },
        };
        let study =
            CacheStudy { device: Some(plan), ..self.study(trace, &POLICIES, &subject.sizes, subject.block_bytes) };
        Ok(Grid {
            figure: subject.figure,
            workload: kind.name(),
            device: subject.profile.name.clone(),
            ftl: if matches!(subject.layer, Layer::Fast { .. }) { "fast" } else { "page" },
            flash_block_bytes: subject.block_bytes,
            cells: study.run(&|_, _| ())?.cells,
        })
    }

    /// The write patterns of figure 2-10, with a cache of 4 MiB.
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
            CacheStudy { after: Some(after.clone()), ..study }.run(&|_, _| ())?;
            pictures.push(picture(policy.name(), &after)?);
        }
        Ok(pictures)
    }
}

/// The devices of the figures; those whose profiles are not there are missing.
fn subjects(missing: &mut Vec<String>) -> Vec<Subject> {
    let (fast, page) = (Layer::Fast { random_blocks: None }, Layer::Dftl { cache_bytes: WHOLE_MAP });
    let card = |figure, profile| Subject {
        figure,
        profile,
        layer: fast,
        block_bytes: CARD_BLOCK,
        sizes: CARD_SIZES,
        is_aged: figure == "2-8",
    };
    let ssd = |figure, profile| Subject {
        figure,
        profile,
        layer: page,
        block_bytes: SSD_BLOCK,
        sizes: SSD_SIZES,
        is_aged: figure == "2-9",
    };
    let mut subjects = Vec::new();
    for (figure, name) in [("2-4", "microsd-patriot"), ("2-4", "microsd-adata"), ("2-6", "ssd-tlc-120g")] {
        match Profile::named(name) {
            Ok(profile) if figure == "2-4" => subjects.push(card(figure, profile)),
            Ok(profile) => subjects.push(ssd(figure, profile)),
            Err(_) => missing.push(format!("figure {figure} on {name}: there is no such profile yet")),
        }
    }
    subjects.push(card("2-8", over_dies(1)));
    subjects.push(ssd("2-9", over_dies(6)));
    subjects
}

/// `ftl-16g` with so many dies, over which its blocks of 4 MiB lie.
fn over_dies(dies: u32) -> Profile {
    let mut profile = Profile::named("ftl-16g").expect("a built-in profile");
    if let Some(flash) = &mut profile.flash {
        (flash.channels, flash.dies, flash.planes) = (dies, dies, 1);
    }
    profile
}

/// A device of figures 2-4 and 2-6 with one uncertain number halved or doubled.
fn variants(subject: &Subject) -> Vec<(String, Subject)> {
    let change = |what: &str, change: &dyn Fn(&mut Profile)| {
        let mut changed = subject.clone();
        change(&mut changed.profile);
        (format!("{} with {what}", subject.profile.name), changed)
    };
    if subject.is_aged {
        return Vec::new();
    }
    let flash = |factor: f64| {
        move |profile: &mut Profile| {
            if let Some(flash) = &mut profile.flash {
                flash.program_us.iter_mut().for_each(|program| *program *= factor);
            }
        }
    };
    let spare = |factor: f64| {
        move |profile: &mut Profile| {
            if let Some(flash) = &mut profile.flash {
                flash.spare_percent *= factor;
            }
        }
    };
    vec![
        change("programs of half the time", &flash(0.5)),
        change("programs of twice the time", &flash(2.0)),
        change("half the spare blocks", &spare(0.5)),
        change("twice the spare blocks", &spare(2.0)),
    ]
}
