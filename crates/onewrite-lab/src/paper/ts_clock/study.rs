//! Study: its options, its traces and its grids.

use std::path::{Path, PathBuf};

use onewrite_block::{GIB, MIB};
use onewrite_cache::PolicyKind;

use super::figures::Grid;
use super::subjects::{PAGE, Subject};
use crate::cache::{CacheStudy, DevicePlan, HELD_MAX};
use crate::error::LabError;
use crate::generate::{Generation, LOAD_FILE, TraceKind, generate};
use crate::size::SizeOrShare;
use crate::trace::{TraceOptions, TraceWriter};

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
/// Bytes of the devices of the figures; the ranges of the server workloads fit.
const DEVICE_BYTES: u64 = 16 * GIB;

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

/// A directory for traces, removed when dropped.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Scratch, LabError> {
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
    pub(super) fn traces(
        &self,
        directory: &Path,
        missing: &mut Vec<String>,
    ) -> Result<Vec<(TraceKind, PathBuf)>, LabError> {
        let mut traces = Vec::new();
        for kind in TraceKind::ALL {
            let lacks = self.load_file.is_none() && !Path::new(LOAD_FILE).exists();
            if kind == TraceKind::FileServer && lacks {
                missing.push(format!("file-server: {LOAD_FILE} is not there (Debian's package dbench)"));
                continue;
            }
            traces.push((kind, self.trace(kind, directory, None)?));
        }
        Ok(traces)
    }

    /// Writes a trace to a file and returns its path.
    pub(super) fn trace(&self, kind: TraceKind, directory: &Path, clients: Option<u32>) -> Result<PathBuf, LabError> {
        let what = Generation { kind, seed: self.seed, scale: self.scale, load_file: self.load_file, clients };
        let path = directory.join(format!("{kind}-{}-{}.csv", self.seed, clients.unwrap_or(0)));
        let mut writer = TraceWriter::create(&path)?;
        generate(what)?.into_iter().try_for_each(|request| writer.page(request))?;
        writer.finish()?;
        Ok(path)
    }

    pub(super) fn scaled(&self, bytes: u64) -> u64 {
        ((bytes as f64 * self.scale) as u64 / PAGE * PAGE).max(64 * PAGE)
    }

    pub(super) fn study(
        &self,
        trace: &Path,
        policies: &[PolicyKind],
        sizes: &[u64],
        flash_block_bytes: u64,
    ) -> CacheStudy {
        CacheStudy {
            trace: trace.to_owned(),
            options: TraceOptions::default(),
            policies: policies.to_vec(),
            sizes: sizes.iter().map(|mebibytes| SizeOrShare::Bytes(self.scaled(mebibytes * MIB))).collect(),
            page_bytes: PAGE,
            flash_block_bytes,
            after: None,
            device: None,
            threads: 0,
            held_max: HELD_MAX,
            is_timed: false,
        }
    }

    pub(super) fn grid(&self, kind: TraceKind, trace: &Path, subject: &Subject) -> Result<Grid, LabError> {
        self.grid_of(kind, trace, subject, &POLICIES)
    }

    pub(super) fn grid_of(
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
}
