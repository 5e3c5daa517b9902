//! Journals: compares the journal modes (`papers/000` ch. 3 and 4, `001` §6, `004`): the rows `afs-*` and `ldj-*`.
//!
//! Runs are shorter than the papers': files have 1 GB instead of 10, and a run ends after a number of operations. LDJ
//! has the log of 5 GB that it needs; its rivals have ext4's default of 128 MB. As in the LDJ papers, there is no
//! delayed allocation. The compressibility of filebench's content comes from their table 2, the only source for it.

use onewrite_block::{GIB, MIB};
use onewrite_fs::ext4::Mode;

use super::cell::{Cell, Work};
use super::flushes::{Syncs, flushes_of};
use crate::error::LabError;
use crate::results::RunResult;
use crate::workload::filebench::Personality;

/// Fsync intervals of the dissertation (§3.6.1).
const SYNC_INTERVALS: [u32; 3] = [8, 16, 32];
pub(super) const LDJ_DEVICES: [&str; 3] = ["hdd-barracuda", "sata-850pro", "nvme-960pro"];
const LDJ_LOG: u64 = 5 * GIB;

/// fio's random writes of 8 KiB on `nvme-share`.
fn random_writes(mode: Mode, threads: u32, log_bytes: u64, interval: u32) -> Cell {
    let work = Work::RandomWrites { block_bytes: 8192, threads, file_bytes: GIB, io_bytes: GIB, interval };
    Cell { log_bytes, ..Cell::new("nvme-share", mode, work) }
}

fn ratio(a: &Cell, b: &Cell) -> Result<f64, LabError> {
    Ok(a.speed(&a.result()?) / b.speed(&b.result()?))
}

/// Ratios of two modes, one for each interval.
fn sweep(a: Mode, b: Mode, threads: u32, log_bytes: u64) -> Result<Vec<f64>, LabError> {
    let one = |interval| {
        let cell = |mode| random_writes(mode, threads, log_bytes, interval);
        ratio(&cell(a), &cell(b))
    };
    SYNC_INTERVALS.into_iter().map(one).collect()
}

fn best(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(f64::NAN, f64::max)
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

pub(super) fn share_large_log() -> Result<f64, LabError> {
    Ok(best(&sweep(Mode::Sdj, Mode::Ordered, 10, GIB)?))
}

pub(super) fn share_single_file() -> Result<f64, LabError> {
    Ok(mean(&sweep(Mode::Sdj, Mode::Ordered, 1, GIB)?))
}

pub(super) fn ordered_over_data() -> Result<f64, LabError> {
    Ok(mean(&sweep(Mode::Ordered, Mode::Data, 10, GIB)?))
}

pub(super) fn share_small_log() -> Result<f64, LabError> {
    Ok(mean(&sweep(Mode::Sdj, Mode::Ordered, 10, 128 * MIB)?))
}

pub(super) fn share_ordered() -> Result<f64, LabError> {
    let fio = mean(&sweep(Mode::Soj, Mode::Ordered, 10, 128 * MIB)?);
    let varmail = |mode| Cell::new("nvme-share", mode, personality(Personality::Varmail, 20_000, 0));
    Ok(mean(&[fio, ratio(&varmail(Mode::Soj), &varmail(Mode::Ordered))?]))
}

/// Ratio of SDJ to the better of its rivals; the mean of two personalities.
pub(super) fn share_filebench() -> Result<f64, LabError> {
    let over_best = |work| {
        let cell = |mode| Cell::new("nvme-share", mode, work);
        let over = |rival| ratio(&cell(Mode::Sdj), &cell(rival));
        Ok(over(Mode::Ordered)?.min(over(Mode::Data)?))
    };
    let works = [personality(Personality::Varmail, 20_000, 0), personality(Personality::Webserver, 20_000, 0)];
    Ok(mean(&works.into_iter().map(over_best).collect::<Result<Vec<_>, LabError>>()?))
}

fn personality(personality: Personality, operations: u64, compressible_percent: u8) -> Work {
    Work::Personality { personality, files: None, operations, compressible_percent }
}

/// A cell of the LDJ papers.
pub(super) fn ldj_cell(device: &'static str, mode: Mode, work: Work) -> Cell {
    let log_bytes = if mode == Mode::Ldj { LDJ_LOG } else { 128 * MIB };
    Cell { log_bytes, delayed_allocation: false, ..Cell::new(device, mode, work) }
}

/// Varmail. Table 2 of `papers/001` gives a ratio of 0.12: this share of the content is left after compression.
pub(super) const VARMAIL: Work =
    Work::Personality { personality: Personality::Varmail, files: None, operations: 20_000, compressible_percent: 88 };
/// Fileserver, with a ratio of 0.007 in table 2.
const FILESERVER: Work = Work::Personality {
    personality: Personality::Fileserver,
    files: None,
    operations: 20_000,
    compressible_percent: 99,
};
/// Fileserver with 50,000 files.
pub(super) const FILESERVER_MF: Work = Work::Personality {
    personality: Personality::Fileserver,
    files: Some(50_000),
    operations: 20_000,
    compressible_percent: 99,
};
const COPY: Work = Work::Copy { bytes: GIB };

fn ldj_over(device: &'static str, rival: Mode, work: Work) -> Result<f64, LabError> {
    ratio(&ldj_cell(device, Mode::Ldj, work), &ldj_cell(device, rival, work))
}

fn best_device(rival: Mode, work: Work) -> Result<f64, LabError> {
    let ratios: Result<Vec<f64>, LabError> =
        LDJ_DEVICES.into_iter().map(|device| ldj_over(device, rival, work)).collect();
    Ok(best(&ratios?))
}

pub(super) fn ldj_varmail_ordered() -> Result<f64, LabError> {
    best_device(Mode::Ordered, VARMAIL)
}

pub(super) fn ldj_varmail_data() -> Result<f64, LabError> {
    best_device(Mode::Data, VARMAIL)
}

pub(super) fn ldj_fileserver_many_files() -> Result<f64, LabError> {
    ldj_over("sata-850pro", Mode::Ordered, FILESERVER_MF)
}

pub(super) fn ldj_fileserver_nvme() -> Result<f64, LabError> {
    ldj_over("nvme-960pro", Mode::Ordered, FILESERVER)
}

pub(super) fn ldj_fileserver_ssd() -> Result<f64, LabError> {
    ldj_over("sata-850pro", Mode::Ordered, FILESERVER)
}

pub(super) fn ldj_varmail_fast_disk() -> Result<f64, LabError> {
    ldj_over("nvme-750", Mode::Ordered, VARMAIL)
}

pub(super) fn ldj_hard_disk() -> Result<f64, LabError> {
    let over = |work| ldj_over("hdd-barracuda", Mode::Ordered, work);
    Ok(best(&[over(VARMAIL)?, over(FILESERVER)?, over(FILESERVER_MF)?]))
}

pub(super) fn ldj_copy_data() -> Result<f64, LabError> {
    let devices = ["nvme-750", "nvme-p3600", "sata-850pro"];
    let ratios: Result<Vec<f64>, LabError> =
        devices.into_iter().map(|device| ldj_over(device, Mode::Data, COPY)).collect();
    Ok(best(&ratios?))
}

pub(super) fn ldj_copy_ordered() -> Result<f64, LabError> {
    best_device(Mode::Ordered, COPY)
}

pub(super) fn ldj_copy_bytes() -> Result<f64, LabError> {
    bytes_over(Mode::Ldj, Mode::Ordered, COPY)
}

/// Ratio of the bytes that two modes write to the device.
fn bytes_over(a: Mode, b: Mode, work: Work) -> Result<f64, LabError> {
    let bytes =
        |mode| Ok::<_, LabError>(ldj_cell("sata-850pro", mode, work).result()?.onewrite.device.host_write_bytes);
    Ok(bytes(a)? as f64 / bytes(b)? as f64)
}

const POSTMARK: Work = Work::PostMark { part: 10 };

pub(super) fn ldj_postmark_bytes() -> Result<f64, LabError> {
    bytes_over(Mode::Data, Mode::Ordered, POSTMARK)
}

pub(super) fn ldj_ratio_postmark() -> Result<f64, LabError> {
    packed(&ldj_cell("sata-850pro", Mode::Ldj, POSTMARK).result()?)
}

pub(super) fn ldj_ratio_varmail() -> Result<f64, LabError> {
    packed(&ldj_cell("sata-850pro", Mode::Ldj, VARMAIL).result()?)
}

fn packed(result: &RunResult) -> Result<f64, LabError> {
    let fs = result.onewrite.fs.as_ref().ok_or_else(|| LabError::Option("no file system ran".to_owned()))?;
    Ok(fs.packed_bytes as f64 / fs.packed_raw_bytes as f64)
}

/// Ratio of the FLUSHes of LDJ to those of data journaling, for the same number of commits.
pub(super) fn ldj_flushes() -> Result<f64, LabError> {
    let flushes = |mode| flushes_of("sata-850pro", mode, Syncs { commits: 50, idle: false });
    Ok(flushes(Mode::Ldj)? as f64 / flushes(Mode::Data)? as f64)
}
