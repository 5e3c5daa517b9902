//! Journals: compares the journal modes (`papers/000` ch. 3 and 4, `001` §6, `004`): the rows `afs-*` and `ldj-*`.
//!
//! Runs are shorter than the papers': fio's files have 1 GB instead of 10. LDJ has the log of 5 GB that it needs; its
//! rivals have ext4's default of 128 MB. Where a part of the paper's bytes is written, logs have the same part of these
//! sizes. As in the LDJ papers, there is no delayed allocation, and memory holds everything. The compressibility of
//! filebench's content comes from their table 2, the only source for it.

use onewrite_block::{GIB, MIB};
use onewrite_fs::ext4::Mode;

use super::cell::{Cell, Work};
use super::entry::{Each, Rivalry, Rivals, Sweep, Told, Versus};
use super::flushes::{Syncs, flushes_of};
use super::found::{Case, Found, largest};
use super::spread::{self, Spread, ratio};
use super::verdict::{PLAIN, Terms};
use crate::error::LabError;
use crate::results::RunResult;

/// Fsync intervals of the dissertation (§3.6.1).
const SYNC_INTERVALS: [u32; 3] = [8, 16, 32];
const LDJ_LOG: u64 = 5 * GIB;
/// Holds all files of each work. The papers' machine had 128 GB.
const LDJ_CACHE: u64 = 8 * GIB;

/// fio's random writes of 8 KiB on `nvme-share`.
fn random_writes(mode: Mode, threads: u32, log_bytes: u64, interval: u32) -> Cell {
    let work = Work::RandomWrites { block_bytes: 8192, threads, file_bytes: GIB, io_bytes: GIB, interval };
    Cell { log_bytes, ..Cell::new("nvme-share", mode, work) }
}

/// Ratio of two modes in random writes. Each interval is a case; it counts where the row tells of all of them.
pub(super) fn writes(sweep: Sweep) -> Result<Found, LabError> {
    let Sweep { modes, threads, log_bytes, told } = sweep;
    let one = |interval| {
        let cell = |mode| random_writes(mode, threads, log_bytes, interval);
        ratio(&cell(modes.a), &cell(modes.b))
    };
    let spreads = SYNC_INTERVALS.into_iter().map(one).collect::<Result<Vec<Spread>, LabError>>()?;
    let ratios: Vec<f64> = spreads.iter().map(|spread| spread.median).collect();
    let (figure, each) = match told {
        Told::Best => (best(&ratios), Each::Shown),
        Told::Mean => (mean(&ratios), Each::AsRow),
    };
    let cases = SYNC_INTERVALS.into_iter().zip(&spreads);
    let case = |(interval, spread): (u32, &Spread)| {
        each.case(format!("fsync every {interval}"), spread.median).over(spread.range)
    };
    let cases = cases.map(case);
    Ok(Found { figure, cases: cases.collect() })
}

/// Mean of that ratio and of the one in another workload; both count.
pub(super) fn writes_and(sweep: Sweep, work: Work) -> Result<Found, LabError> {
    let Versus { a, b } = sweep.modes;
    let cell = |mode| Cell::new("nvme-share", mode, work);
    let (fio, other) = (writes(sweep)?, ratio(&cell(a), &cell(b))?);
    let cases = vec![Case::counts("fio", fio.figure), Case::counts(work.name(), other.median).over(other.range)];
    Ok(Found { figure: mean(&[fio.figure, other.median]), cases })
}

fn best(ratios: &[f64]) -> f64 {
    largest(ratios.iter().copied())
}

/// The geometric mean.
pub(super) fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Ratio of a mode to the better of its rivals; the mean of the workloads, each of which counts.
pub(super) fn over_best(Rivals { mode, rivals, works }: Rivals) -> Result<Found, LabError> {
    let one = |work: &Work| {
        let cell = |mode| Cell::new("nvme-share", mode, *work);
        let own = spread::speeds(&cell(mode))?;
        let over = |rival| Ok::<_, LabError>(Spread::of(&own, &spread::speeds(&cell(rival))?));
        let [first, second] = [over(rivals[0])?, over(rivals[1])?];
        let least = if first.median < second.median { first } else { second };
        Ok(Case::counts(work.name(), least.median).over(least.range))
    };
    let cases = works.iter().map(one).collect::<Result<Vec<_>, LabError>>()?;
    Ok(Found { figure: mean(&cases.iter().map(|case| case.figure).collect::<Vec<_>>()), cases })
}

/// A cell of the LDJ papers, with the part of their logs that the work is of theirs.
pub(super) fn ldj_cell(device: &'static str, mode: Mode, work: Work) -> Cell {
    let log_bytes = if matches!(mode, Mode::Ldj | Mode::LdjPaper) { LDJ_LOG } else { 128 * MIB };
    let log_bytes = log_bytes / part_of(work) / MIB * MIB;
    Cell { log_bytes, cache_bytes: LDJ_CACHE, delayed_allocation: false, ..Cell::new(device, mode, work) }
}

/// How many times as much the LDJ papers wrote.
fn part_of(work: Work) -> u64 {
    match work {
        Work::Copy { bytes } => (20 * GIB / bytes).max(1),
        Work::PostMark { part } => u64::from(part),
        _ => 1,
    }
}

/// Ratio of LDJ to its rival; the best of devices and workloads, each of which is a case. What the papers describe
/// (`ldj-paper`: one stream for each transaction, compressed by the commit alone) is shown beside it.
pub(super) fn best_over(Rivalry { rival, devices, works, each }: Rivalry) -> Result<Found, LabError> {
    let cells = devices.iter().flat_map(|device| works.iter().map(move |work| (*device, *work)));
    let (mut figures, mut cases) = (Vec::new(), Vec::new());
    for (device, work) in cells {
        let rivals = spread::speeds(&ldj_cell(device, rival, work))?;
        let over = |mode| Ok::<_, LabError>(Spread::of(&spread::speeds(&ldj_cell(device, mode, work))?, &rivals));
        let (ours, papers) = (over(Mode::Ldj)?, over(Mode::LdjPaper)?);
        figures.push(ours.median);
        cases.push(each.case(work.name(), ours.median).over(ours.range).on(device));
        cases.push(Case::shown(format!("{} ldj-paper", work.name()), papers.median).over(papers.range).on(device));
    }
    Ok(Found { figure: best(&figures), cases })
}

/// The same on one device with one workload, and the ratio of the bytes that both write: `paper` in the paper.
pub(super) fn best_over_and_bytes(rivalry: Rivalry, paper: f64) -> Result<Found, LabError> {
    let Rivalry { rival, devices: &[device], works: &[work], .. } = rivalry else {
        return Err(LabError::Option("bytes are compared on one device, in one workload".to_owned()));
    };
    let [ldj, other] = [Mode::Ldj, rival].map(|mode| ldj_cell(device, mode, work));
    let (ldj_result, other_result) = (ldj.result()?, other.result()?);
    let written = |result: &RunResult| result.onewrite.device.host_write_bytes as f64;
    let bytes = written(&ldj_result) / written(&other_result);
    let cases = vec![Case::own("bytes", bytes, Terms::Near { paper, share: PLAIN })];
    Ok(Found { figure: ldj.speed(&ldj_result) / other.speed(&other_result), cases })
}

/// Ratio of the bytes that two modes write to the device.
pub(super) fn bytes_over(Versus { a, b }: Versus, work: Work) -> Result<f64, LabError> {
    let bytes =
        |mode| Ok::<_, LabError>(ldj_cell("sata-850pro", mode, work).result()?.onewrite.device.host_write_bytes);
    Ok(bytes(a)? as f64 / bytes(b)? as f64)
}

/// Size of LDJ's compressed frames by that of their content.
pub(super) fn packed(work: Work) -> Result<f64, LabError> {
    let result = ldj_cell("sata-850pro", Mode::Ldj, work).result()?;
    let fs = result.onewrite.fs.as_ref().ok_or_else(|| LabError::Option("no file system ran".to_owned()))?;
    Ok(fs.packed_bytes as f64 / fs.packed_raw_bytes as f64)
}

/// Ratio of the FLUSHes of a commit in two modes, one to two.
pub(super) fn flushes_over(Versus { a, b }: Versus) -> Result<Found, LabError> {
    let commits = 50;
    let flushes = |mode| flushes_of("sata-850pro", mode, Syncs { commits, idle: false });
    let (of_a, of_b) = (flushes(a)? as f64 / commits as f64, flushes(b)? as f64 / commits as f64);
    let case = |mode, flushes, expected| Case::own(format!("of a commit of {mode}"), flushes, Terms::Equal(expected));
    Ok(Found { figure: of_a / of_b, cases: vec![case(a, of_a, 1.0), case(b, of_b, 2.0)] })
}
