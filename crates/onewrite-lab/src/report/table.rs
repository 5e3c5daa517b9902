//! The table for a terminal: a line for each figure, a column for each run.

use super::compared::Comparison;
use super::setup::differing;
use super::units::capacity;
use super::{figures, jobs};
use crate::draw::rule;

/// A line of the table: a label and a cell for each run. An empty line is a rule.
type Line = (String, Vec<String>);

/// The whole table: a head that names the job, the figures, the jobs if there are several, and the notes.
pub(super) fn table(comparison: &Comparison) -> String {
    let notes = comparison.notes().into_iter().map(|note| format!("\nnote: {note}\n"));
    [figures_table(comparison), jobs_table(comparison), notes.collect()].concat()
}

/// The table with a row for each job of each run.
fn jobs_table(comparison: &Comparison) -> String {
    let rows = jobs::rows(&comparison.runs);
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = std::iter::once(jobs::HEADS.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
    let mut text = String::from("\n");
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match column < jobs::WORDS {
            true => format!("{cell}{}", " ".repeat(width(column) - length(cell))),
            false => right(cell, width(column)),
        });
        text += cells.collect::<Vec<_>>().join("   ").trim_end();
        text.push('\n');
    }
    text
}

fn figures_table(comparison: &Comparison) -> String {
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
            text += &rule(label + widths.iter().map(|width| width + 3).sum::<usize>());
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

/// Names the job, for example `varmail on sata-850pro (emulated, 1 GiB, new, not aged), seed 1`.
pub(super) fn subject(comparison: &Comparison) -> String {
    let Some(run) = comparison.runs.first() else { return String::new() };
    let figures = &run.result.onewrite;
    let kind = if figures.virtual_seconds.is_some() { "emulated" } else { "real disk" };
    let size = capacity(figures.settings.size_bytes);
    let policy = figures.settings.cache_policy.as_deref().filter(|policy| *policy != "lru");
    let cache = policy.map(|policy| format!(", cache policy {policy}")).unwrap_or_default();
    let setup = figures.settings.setup.words().map(|words| format!(", {words}")).unwrap_or_default();
    format!("{} on {} ({kind}, {size}{setup}){cache}, seed {}", figures.job, figures.settings.device, figures.seed)
}

fn head(comparison: &Comparison) -> String {
    subject(comparison) + "\n\n"
}

/// Names of the runs, differences in their set-ups, and the figures.
fn lines(comparison: &Comparison) -> Vec<Line> {
    let runs = &comparison.runs;
    let mut lines: Vec<Line> = vec![(String::new(), runs.iter().map(|run| run.label.clone()).collect())];
    lines.extend(differing(runs).into_iter().map(|fact| (fact.name.to_owned(), fact.values)));
    let figures = figures::figures(runs).into_iter().filter(|line| !line.is_detail);
    lines.extend(figures.map(|line| (line.label, line.cells)));
    lines
}
