//! Rows: the scoreboard's claims about TS-CLOCK, from the grids.
//!
//! A speed-up of TS-CLOCK over another policy is the other's time over TS-CLOCK's, less one, in percent, at one cache size.

use super::{Grid, RowFigure};
use crate::cache::CacheCell;
use crate::paper::scoreboard;

const CARDS: [&str; 2] = ["microsd-patriot", "microsd-adata"];
const SSD: [&str; 1] = ["ssd-tlc-120g"];
/// The others in the figures.
const OTHERS: [&str; 7] = ["lru", "clock", "linux-2q", "cflru", "fab", "lb-clock", "sp-clock"];
/// The others but those that evict blocks.
const BY_PAGE: [&str; 5] = ["lru", "clock", "linux-2q", "cflru", "sp-clock"];

/// Percent by which `other` exceeds TS-CLOCK in what `of` tells, at every size of the grids of a figure.
fn excess(
    grids: &[Grid],
    (devices, workloads): (&[&str], &[&str]),
    others: &[&str],
    of: impl Fn(&CacheCell) -> f64,
) -> Vec<f64> {
    let wanted =
        grids.iter().filter(|grid| devices.contains(&grid.device.as_str()) && workloads.contains(&grid.workload));
    let mut found = Vec::new();
    for grid in wanted {
        for own in grid.cells.iter().filter(|cell| cell.policy == "ts-clock") {
            let rivals = grid.cells.iter().filter(|cell| cell.size_bytes == own.size_bytes);
            let rivals = rivals.filter(|cell| others.contains(&cell.policy));
            found.extend(rivals.filter(|_| of(own) > 0.0).map(|cell| (of(cell) / of(own) - 1.0) * 100.0));
        }
    }
    found
}

fn seconds(cell: &CacheCell) -> f64 {
    cell.device.as_ref().map_or(0.0, |device| device.elapsed_seconds)
}

fn erases(cell: &CacheCell) -> f64 {
    cell.device.as_ref().map_or(0.0, |device| device.erases as f64)
}

fn most(values: Vec<f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}

fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The grids of the lifetime study, whose profile stands for two devices.
fn lifetime(grids: &[Grid], figure: &str, workload: &str, other: &str) -> Option<f64> {
    let chosen: Vec<Grid> = grids.iter().filter(|grid| grid.figure == figure).cloned().collect();
    most(excess(&chosen, (&["ftl-16g"], &[workload]), &[other], erases))
}

/// The rows.
pub(super) fn rows(grids: &[Grid]) -> Vec<RowFigure> {
    let time =
        |devices: &[&str], workloads: &[&str], others: &[&str]| excess(grids, (devices, workloads), others, seconds);
    let servers = ["file-server", "tpc-c"];
    let every = ["video-streaming", "mixed-applications", "file-server", "tpc-c"];
    let all_devices = [CARDS[0], CARDS[1], SSD[0]];
    let fab_over_ts = mean(time(&CARDS, &servers, &["fab"])).map(|percent| 1.0 + percent / 100.0);
    let measured = [
        ("ts-mixed-storage-a", most(time(&CARDS[..1], &["mixed-applications"], &OTHERS))),
        ("ts-mixed-storage-b", most(time(&CARDS[1..], &["mixed-applications"], &OTHERS))),
        ("ts-video-storage-a", mean(time(&CARDS[..1], &["video-streaming"], &OTHERS))),
        ("ts-video-storage-b", mean(time(&CARDS[1..], &["video-streaming"], &OTHERS))),
        ("ts-fileserver-microsd", most(time(&CARDS, &["file-server"], &BY_PAGE))),
        ("ts-tpcc-microsd", most(time(&CARDS, &["tpc-c"], &BY_PAGE))),
        ("ts-spclock-ssd", most(time(&SSD, &["video-streaming"], &["sp-clock"]))),
        ("ts-fileserver-ssd", mean(time(&SSD, &["file-server"], &OTHERS))),
        ("ts-tpcc-ssd", mean(time(&SSD, &["tpc-c"], &OTHERS))),
        ("ts-fab-microsd", fab_over_ts),
        ("ts-spclock-all", mean(time(&all_devices, &every, &["sp-clock"]))),
        ("ts-erase-fast", lifetime(grids, "2-8", "mixed-applications", "cflru")),
        ("ts-erase-page", lifetime(grids, "2-9", "tpc-c", "fab")),
    ];
    let known = scoreboard().unwrap_or_default();
    let row = |(id, measured)| {
        let row = known.iter().find(|row| row.id == id)?;
        Some(RowFigure { id, paper: row.paper, measured, metric: row.metric.clone() })
    };
    measured.into_iter().filter_map(row).collect()
}
