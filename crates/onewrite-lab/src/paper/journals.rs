//! Journals: compares the journal modes (`papers/000` ch. 3 and 4, `001` §6, `004`): the rows `afs-*` and `ldj-*`.
//!
//! Runs are shorter than the papers': files have 1 GB instead of 10, and a run ends after a number of operations. LDJ
//! has the log of 5 GB that it needs; its rivals have ext4's default of 128 MB. As in the LDJ papers, there is no
//! delayed allocation. The compressibility of filebench's content comes from their table 2, the only source for it.

use onewrite_block::{GIB, MIB};
use onewrite_fs::ext4::Mode;

use super::cell::{Cell, Work};
use super::entry::{Rivalry, Rivals, Sweep, Told, Versus};
use super::flushes::{Syncs, flushes_of};
use crate::error::LabError;

/// Fsync intervals of the dissertation (§3.6.1).
const SYNC_INTERVALS: [u32; 3] = [8, 16, 32];
const LDJ_LOG: u64 = 5 * GIB;

/// fio's random writes of 8 KiB on `nvme-share`.
fn random_writes(mode: Mode, threads: u32, log_bytes: u64, interval: u32) -> Cell {
    let work = Work::RandomWrites { block_bytes: 8192, threads, file_bytes: GIB, io_bytes: GIB, interval };
    Cell { log_bytes, ..Cell::new("nvme-share", mode, work) }
}

fn ratio(a: &Cell, b: &Cell) -> Result<f64, LabError> {
    Ok(a.speed(&a.result()?) / b.speed(&b.result()?))
}

/// Ratio of two modes in random writes.
pub(super) fn writes(sweep: Sweep) -> Result<f64, LabError> {
    let Sweep { modes, threads, log_bytes, told } = sweep;
    let one = |interval| {
        let cell = |mode| random_writes(mode, threads, log_bytes, interval);
        ratio(&cell(modes.a), &cell(modes.b))
    };
    let ratios = SYNC_INTERVALS.into_iter().map(one).collect::<Result<Vec<f64>, LabError>>()?;
    Ok(match told {
        Told::Best => best(&ratios),
        Told::Mean => mean(&ratios),
    })
}

/// Mean of that ratio and of the one in another workload.
pub(super) fn writes_and(sweep: Sweep, work: Work) -> Result<f64, LabError> {
    let Versus { a, b } = sweep.modes;
    let cell = |mode| Cell::new("nvme-share", mode, work);
    Ok(mean(&[writes(sweep)?, ratio(&cell(a), &cell(b))?]))
}

fn best(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(f64::NAN, f64::max)
}

/// The geometric mean.
pub(super) fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Ratio of a mode to the better of its rivals; the mean of the workloads.
pub(super) fn over_best(Rivals { mode, rivals, works }: Rivals) -> Result<f64, LabError> {
    let one = |work: &Work| {
        let cell = |mode| Cell::new("nvme-share", mode, *work);
        let over = |rival| ratio(&cell(mode), &cell(rival));
        let [first, second] = rivals;
        Ok(over(first)?.min(over(second)?))
    };
    Ok(mean(&works.iter().map(one).collect::<Result<Vec<_>, LabError>>()?))
}

/// A cell of the LDJ papers.
pub(super) fn ldj_cell(device: &'static str, mode: Mode, work: Work) -> Cell {
    let log_bytes = if mode == Mode::Ldj { LDJ_LOG } else { 128 * MIB };
    Cell { log_bytes, delayed_allocation: false, ..Cell::new(device, mode, work) }
}

/// Ratio of LDJ to its rival; the best of devices and workloads.
pub(super) fn best_over(Rivalry { rival, devices, works }: Rivalry) -> Result<f64, LabError> {
    let cells = devices.iter().flat_map(|device| works.iter().map(move |work| (*device, *work)));
    let over = |(device, work)| ratio(&ldj_cell(device, Mode::Ldj, work), &ldj_cell(device, rival, work));
    Ok(best(&cells.map(over).collect::<Result<Vec<f64>, LabError>>()?))
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

/// Ratio of the FLUSHes of two modes, for the same number of commits.
pub(super) fn flushes_over(Versus { a, b }: Versus) -> Result<f64, LabError> {
    let flushes = |mode| flushes_of("sata-850pro", mode, Syncs { commits: 50, idle: false });
    Ok(flushes(a)? as f64 / flushes(b)? as f64)
}
