//! Databases: what they cost on the modes of the journal (`papers/000` §3.6.2 and §3.6.3): the rows `afs-mysql-*`
//! and `afs-sqlite-*`.
//!
//! A side of a row is a mode with the workloads that go with it: SQLite without a journal on atomic files, or with its
//! own on `ordered`; InnoDB's shape with doublewrite or without. Each workload runs on `nvme-share`; the figure is the
//! mean over all of them.

use super::cell::{Cell, Work};
use super::entry::{Cost, Side};
use super::found::{Case, Found};
use super::journals::mean;
use crate::error::LabError;

const PROFILE: &str = "nvme-share";

/// Ratio of `cost` of two sides; the geometric mean of the workloads, which are shown.
pub(super) fn ratio(cost: Cost, a: Side, b: Side) -> Result<Found, LabError> {
    let one = |(of_a, of_b): (&Work, &Work)| {
        let figure = |mode, work: &Work| figure(cost, &Cell::new(PROFILE, mode, *work));
        Ok(Case::shown(of_a.name(), figure(a.mode, of_a)? / figure(b.mode, of_b)?))
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
