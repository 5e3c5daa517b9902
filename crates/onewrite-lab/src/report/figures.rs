//! Figures: the lines that the table and the page share, with a cell for each run.

use onewrite_fs::CleaningCounters;

use super::compared::{Compared, SHOWN, reads, syncs, writes};
use super::units::{bytes, grouped, latency, plain, ratio};
use crate::results::{DeviceFigures, Distribution, FsFigures, Transfers};

/// A line: a label and a cell for each run.
pub(super) struct Line {
    /// Its label. A label that begins with blanks explains the line above.
    pub label: String,
    /// A cell for each run.
    pub cells: Vec<String>,
    /// Whether only the page shows it.
    pub is_detail: bool,
}

/// All lines.
pub(super) fn figures(runs: &[Compared]) -> Vec<Line> {
    let mut lines = vec![line(runs, "operations/s", |run| plain(run.result.onewrite.operations_per_second))];
    lines.extend(transfers(runs, "read", |run| &run.result.onewrite.total.read, reads));
    lines.extend(transfers(runs, "write", |run| &run.result.onewrite.total.write, writes));
    lines.extend(latencies(runs, "fsync", syncs));
    lines.push(line(runs, "direct reads from memory", |run| share(of_fs(run).and_then(FsFigures::cached_share))));
    lines.retain(|line| line.label != "direct reads from memory" || line.cells.iter().any(|cell| cell != "–"));
    lines.push(line(runs, "bytes written", |run| bytes(device(run).host_write_bytes)));
    lines.push(line(runs, "  for each byte asked", |run| ratio(run.result.written_per_byte())));
    lines.push(detail(runs, "bytes read", |run| bytes(device(run).host_read_bytes)));
    lines.push(line(runs, "flushes", |run| grouped(device(run).flushes)));
    lines.push(line(runs, "  for each fsync", |run| ratio(run.result.flushes_per_sync())));
    lines.push(detail(runs, "FUA writes", |run| grouped(device(run).fua_writes)));
    lines.push(detail(runs, "transactions", |run| counted(run, |fs| fs.commits)));
    lines.push(detail(runs, "checkpoints", |run| counted(run, |fs| fs.checkpoints)));
    lines.push(detail(runs, "  waited for", |run| counted(run, |fs| fs.forced_checkpoints)));
    lines.extend(cleaning(runs));
    lines
        .push(line(runs, "flash bytes for each byte asked", |run| ratio(device(run).flash_bytes_per_application_byte)));
    lines.push(line(runs, "  WAF of the device", |run| ratio(device(run).waf)));
    lines.push(line(runs, "erases", |run| device(run).waf.map_or("–".to_owned(), |_| grouped(device(run).erases))));
    lines.push(detail(runs, "device busy", |run| run.result.disk_util.first().map_or("–".to_owned(), busy)));
    lines.push(line(runs, "promise", promise));
    lines.push(line(runs, "power cuts", |run| match &run.crash {
        None => "not tried".to_owned(),
        Some(verdict) => verdict.words(),
    }));
    lines
}

/// What cleaning did; empty if no run cleaned.
fn cleaning(runs: &[Compared]) -> Vec<Line> {
    let of = |run: &Compared| of_fs(run).and_then(|fs| fs.cleaning);
    if runs.iter().all(|run| of(run).is_none_or(|cleaning| cleaning == CleaningCounters::default())) {
        return Vec::new();
    }
    let counted = |label: &str, count: fn(&CleaningCounters) -> u64| {
        line(runs, label, |run| of(run).map_or("–".to_owned(), |cleaning| grouped(count(&cleaning))))
    };
    vec![
        counted("segments cleaned", |cleaning| cleaning.segments),
        counted("  blocks copied", |cleaning| cleaning.copied_blocks),
        counted("  blocks shared", |cleaning| cleaning.shared_blocks),
        counted("  nodes moved", |cleaning| cleaning.moved_nodes),
    ]
}

fn line(runs: &[Compared], label: &str, cell: impl Fn(&Compared) -> String) -> Line {
    Line { label: label.to_owned(), cells: runs.iter().map(cell).collect(), is_detail: false }
}

fn detail(runs: &[Compared], label: &str, cell: impl Fn(&Compared) -> String) -> Line {
    Line { is_detail: true, ..line(runs, label, cell) }
}

/// Latencies and bandwidth of one direction; empty if no run used it.
fn transfers(
    runs: &[Compared],
    name: &str,
    all: fn(&Compared) -> &Transfers,
    of: fn(&Compared) -> &Distribution,
) -> Vec<Line> {
    if runs.iter().all(|run| all(run).total_ios == 0) {
        return Vec::new();
    }
    let mut lines = latencies(runs, name, of);
    lines.push(detail(runs, &format!("{name} mean"), |run| mean(of(run))));
    lines.push(line(runs, &format!("{name} bandwidth"), |run| bandwidth(all(run))));
    lines
}

fn latencies(runs: &[Compared], name: &str, of: fn(&Compared) -> &Distribution) -> Vec<Line> {
    SHOWN
        .map(|percent| line(runs, &format!("{name} p{percent}"), |run| latency(of(run).percentile.at(percent))))
        .into_iter()
        .collect()
}

/// Formats the mean of a distribution; a dash if it is empty.
pub(super) fn mean(distribution: &Distribution) -> String {
    let moments = &distribution.moments;
    latency((moments.count > 0).then_some(onewrite_block::Nanos(moments.mean.round() as u64)))
}

/// Formats bytes a second; a dash without transfers.
pub(super) fn bandwidth(transfers: &Transfers) -> String {
    if transfers.total_ios == 0 { "–".to_owned() } else { format!("{}/s", bytes(transfers.bw_bytes)) }
}

fn share(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn busy(disk: &crate::results::DiskUtil) -> String {
    format!("{:.1} %", disk.util)
}

fn of_fs(run: &Compared) -> Option<&FsFigures> {
    run.result.onewrite.fs.as_ref()
}

fn counted(run: &Compared, count: impl Fn(&FsFigures) -> u64) -> String {
    of_fs(run).map_or("–".to_owned(), |fs| grouped(count(fs)))
}

pub(super) fn device(run: &Compared) -> &DeviceFigures {
    &run.result.onewrite.device
}

/// The promise of the run's file system, in a word.
pub(super) fn promise(run: &Compared) -> String {
    of_fs(run).map_or_else(|| "–".to_owned(), |fs| fs.promise.clone())
}
