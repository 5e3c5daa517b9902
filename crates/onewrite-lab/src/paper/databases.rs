//! Databases: what they cost on the modes of the journal (`papers/000` §3.6.2 and §3.6.3): the rows `afs-mysql-*`
//! and `afs-sqlite-*`.
//!
//! A side of a row is a mode with the workloads that go with it: SQLite without a journal on atomic files, or with its
//! own on `ordered`; InnoDB's shape with doublewrite or without. Each workload runs on `nvme-share`; the figure is the
//! mean over all of them.

use super::cell::Cell;
use super::entry::{Cost, Side};
use super::journals::mean;
use crate::error::LabError;

const PROFILE: &str = "nvme-share";

/// Ratio of `cost` of two sides; the geometric mean of the workloads.
pub(super) fn ratio(cost: Cost, a: Side, b: Side) -> Result<f64, LabError> {
    let pairs = figures(cost, a)?.into_iter().zip(figures(cost, b)?);
    Ok(mean(&pairs.map(|(a, b)| a / b).collect::<Vec<_>>()))
}

fn figures(cost: Cost, Side { mode, works }: Side) -> Result<Vec<f64>, LabError> {
    works.iter().map(|work| figure(cost, &Cell::new(PROFILE, mode, *work))).collect()
}

fn figure(cost: Cost, cell: &Cell) -> Result<f64, LabError> {
    let result = cell.result()?;
    Ok(match cost {
        Cost::Speed => cell.speed(&result),
        Cost::Bytes => result.onewrite.device.host_write_bytes as f64,
        Cost::Flushes => result.onewrite.device.flushes as f64,
    })
}
