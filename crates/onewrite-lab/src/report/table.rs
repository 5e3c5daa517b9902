//! The table for a terminal: a line for each figure, a column for each run.

use super::units::{bytes, capacity, grouped, latency, plain, ratio};
use super::{Compared, Comparison, SHOWN, syncs, writes};
use crate::results::Distribution;

/// A line of the table: a label and a cell for each run. An empty one is a rule.
type Line = (String, Vec<String>);

/// The whole table, with a head that says what was run.
pub fn table(comparison: &Comparison) -> String {
    let lines = lines(comparison);
    let width = |column: usize| lines.iter().map(|(_, cells)| length(&cells[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..comparison.runs.len()).map(width).collect();
    let label = lines.iter().map(|(label, _)| length(label)).max().unwrap_or(0);
    let mut text = head(comparison);
    for (index, (name, cells)) in lines.iter().enumerate() {
        let cells: String =
            cells.iter().zip(&widths).map(|(cell, width)| format!("   {}", right(cell, *width))).collect();
        text += format!("{name}{}{cells}", " ".repeat(label - length(name))).trim_end();
        text.push('\n');
        if index == 0 {
            text += &"─".repeat(label + widths.iter().map(|width| width + 3).sum::<usize>());
            text.push('\n');
        }
    }
    text
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn right(text: &str, width: usize) -> String {
    " ".repeat(width - length(text)) + text
}

/// `varmail on sata-850pro (emulated, 1 GiB), seed 1`.
pub fn subject(comparison: &Comparison) -> String {
    let Some(run) = comparison.runs.first() else { return String::new() };
    let figures = &run.result.onewrite;
    let kind = if figures.virtual_seconds.is_some() { "emulated" } else { "real disk" };
    let size = capacity(figures.settings.size_bytes);
    let policy = figures.settings.cache_policy.as_deref().filter(|policy| *policy != "lru");
    let cache = policy.map(|policy| format!(", cache policy {policy}")).unwrap_or_default();
    format!("{} on {} ({kind}, {size}){cache}, seed {}", figures.job, figures.settings.device, figures.seed)
}

fn head(comparison: &Comparison) -> String {
    subject(comparison) + "\n\n"
}

fn lines(comparison: &Comparison) -> Vec<Line> {
    let runs = &comparison.runs;
    let line = |label: &str, cell: &dyn Fn(&Compared) -> String| (label.to_owned(), runs.iter().map(cell).collect());
    let mut lines = vec![
        line("", &|run| run.label.clone()),
        line("operations/s", &|run| plain(run.result.operations_per_second())),
    ];
    lines.extend(latencies(runs, "write", writes));
    lines.extend(latencies(runs, "fsync", syncs));
    let device = |run: &Compared| run.result.onewrite.device.clone();
    lines.push(line("bytes written", &|run| bytes(device(run).host_write_bytes)));
    lines.push(line("  for each byte asked", &|run| ratio(run.result.written_per_byte())));
    lines.push(line("flushes", &|run| grouped(device(run).flushes)));
    lines.push(line("  for each fsync", &|run| ratio(run.result.flushes_per_sync())));
    lines.push(line("WAF", &|run| ratio(device(run).waf)));
    lines.push(line("erases", &|run| grouped(device(run).erases)));
    lines.push(line("promise", &promise));
    lines
        .push(line("power cuts", &|run| run.crash.as_ref().map_or("not tried".to_owned(), super::CrashVerdict::words)));
    lines
}

fn latencies(runs: &[Compared], name: &str, of: fn(&Compared) -> &Distribution) -> Vec<Line> {
    let line = |percent: f64| {
        let cells = runs.iter().map(|run| latency(of(run).percentile.at(percent))).collect();
        (format!("{name} p{percent}"), cells)
    };
    SHOWN.map(line).to_vec()
}

/// What the run's file system promises, in a word.
pub fn promise(run: &Compared) -> String {
    run.result.onewrite.fs.as_ref().map_or_else(|| "–".to_owned(), |fs| fs.promise.clone())
}
