//! Databases: what they cost on the modes of the journal (`papers/000` §3.6.2 and §3.6.3): the rows `afs-mysql-*`
//! and `afs-sqlite-*`.
//!
//! A side of a row is a mode with the workloads that go with it: SQLite without a journal on atomic files, or with its
//! own on `ordered`; InnoDB's shape with doublewrite or without. Each workload runs on `nvme-share`; the figure is the
//! mean over all of them.
//!
//! OLTP of the other papers (`001` §6.1, `003` §5: rows `ldj-*oltp*`, `zp-sysbench`) is the same shape with 128 clients
//! and sysbench's own rows, and doublewrite where the mode does not log content: on `ordered` and `zp`. The pool holds
//! half of the data as in `papers/000`; neither paper names its own. The data are an 80th of the LDJ paper's 40 GB, and
//! so are its logs, but not below 4 MiB, the least that ext4 takes.

use onewrite_block::{GIB, MIB};
use onewrite_fs::ext4::Mode;

use super::cell::{Cell, Work};
use super::entry::{Cost, Each, InnodbSide, Side, Versus};
use super::found::{Case, Found};
use super::journals::mean;
use crate::error::LabError;
use crate::innodb::{Filling, InnodbJob, Load, LogSyncs};

const PROFILE: &str = "nvme-share";

/// Ratio of `cost` of two sides; the geometric mean of the workloads. The paper has each of them alike, so each counts.
pub(super) fn ratio(cost: Cost, a: Side, b: Side) -> Result<Found, LabError> {
    let one = |(of_a, of_b): (&Work, &Work)| {
        let figure = |mode, work: &Work| figure(cost, &Cell::new(PROFILE, mode, *work));
        Ok(Case::counts(of_a.name(), figure(a.mode, of_a)? / figure(b.mode, of_b)?))
    };
    let cases = a.works.iter().zip(b.works).map(one).collect::<Result<Vec<Case>, LabError>>()?;
    Ok(Found { figure: mean(&cases.iter().map(|case| case.figure).collect::<Vec<_>>()), cases })
}

fn figure(cost: Cost, cell: &Cell) -> Result<f64, LabError> {
    let result = cell.result()?;
    Ok(match cost {
        Cost::Speed => cell.speed(&result),
        Cost::Bytes => result.onewrite.device.host_write_bytes as f64,
        Cost::Flushes => result.onewrite.device.flushes as f64,
    })
}

/// Ratio of `cost` of two sides, with a redo log that is synced once a second; one that each commit syncs is shown
/// beside it. The paper does not say which it had (decision 102).
pub(super) fn innodb(cost: Cost, a: InnodbSide, b: InnodbSide) -> Result<Found, LabError> {
    let of = |side: InnodbSide, log_syncs| {
        let doublewrite = Some(side.doublewrite);
        let job = InnodbJob { doublewrite, log_syncs, ..InnodbJob::new(Load::Sysbench) };
        figure(cost, &Cell::new(PROFILE, side.mode, Work::Innodb(job)))
    };
    let ratio = |log_syncs| Ok::<_, LabError>(of(a, log_syncs)? / of(b, log_syncs)?);
    let (each_second, each_commit) = (ratio(LogSyncs::EachSecond)?, ratio(LogSyncs::EachCommit)?);
    let cases = vec![Case::shown("log synced each second", each_second), Case::shown("by each commit", each_commit)];
    Ok(Found { figure: each_second, cases })
}

const OLTP: InnodbJob =
    InnodbJob { clients: 128, filling: Filling::Rows, operations: Some(20_000), ..InnodbJob::new(Load::Sysbench) };

/// The LDJ paper has so many times as much data.
const OLTP_PART: u64 = 80;

/// OLTP in `mode`: 16 clients where the zero-padding paper says nothing, 128 in the LDJ paper.
fn oltp_cell(device: &'static str, mode: Mode, rival: Mode) -> Cell {
    let is_padded = [mode, rival].into_iter().any(|mode| matches!(mode, Mode::Zp(_) | Mode::ZpData(_)));
    let job = InnodbJob { clients: if is_padded { 16 } else { OLTP.clients }, ..OLTP };
    let paper_bytes = if mode == Mode::Ldj { 5 * GIB } else { 128 * MIB };
    let log_bytes = if is_padded { paper_bytes } else { (paper_bytes / OLTP_PART).max(4 * MIB) };
    Cell { log_bytes, delayed_allocation: is_padded, ..Cell::new(device, mode, Work::Innodb(job)) }
}

/// Ratio of `cost` of two modes; the best of the devices, on none of which the first may be slower.
pub(super) fn oltp(cost: Cost, Versus { a, b }: Versus, devices: &'static [&'static str]) -> Result<Found, LabError> {
    // "LDJ outperforms OJ on all devices": 001 §6.2.
    let each = if cost == Cost::Speed { Each::NotBehind } else { Each::Shown };
    let one = |device: &&'static str| {
        let figure = |mode, rival| figure(cost, &oltp_cell(device, mode, rival));
        Ok(each.case("oltp", figure(a, b)? / figure(b, a)?).on(device))
    };
    let cases = devices.iter().map(one).collect::<Result<Vec<Case>, LabError>>()?;
    Ok(Found::largest_of(cases))
}

/// Size of LDJ's compressed frames by that of their content.
pub(super) fn oltp_packed() -> Result<f64, LabError> {
    let result = oltp_cell("sata-850pro", Mode::Ldj, Mode::Ordered).result()?;
    let fs = result.onewrite.fs.as_ref().ok_or_else(|| LabError::Option("no file system ran".to_owned()))?;
    Ok(fs.packed_bytes as f64 / fs.packed_raw_bytes as f64)
}
