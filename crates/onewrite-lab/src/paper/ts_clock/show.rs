//! Show: the figures as Markdown tables and as one HTML page with charts.

use std::fmt::Write;

use super::figures::{Amplification, Changed, Figure, Grid, RowFigure, TsClockFigures};
use super::study::POLICIES;
use crate::cache::CacheCell;
use crate::draw::{Line, escape, lines};
use crate::report::{markdown_html, page};

/// A quantity of a cell, for a chart or a table.
type Shown = (&'static str, fn(&CacheCell) -> f64);

const SECONDS: Shown = ("elapsed seconds", |cell| cell.device.as_ref().map_or(0.0, |device| device.elapsed_seconds));
const HITS: Shown = ("hit ratio, percent", |cell| 100.0 * cell.hits as f64 / cell.requests.max(1) as f64);
const WRITES: Shown = ("pages written after the cache, thousands", |cell| cell.after_writes as f64 / 1e3);
const ERASES: Shown = ("erases", |cell| cell.device.as_ref().map_or(0.0, |device| device.erases as f64));

/// The quantities on the axes of a figure.
fn shown(figure: &str) -> &'static [Shown] {
    match figure {
        "2-8" | "2-9" => &[ERASES, WRITES],
        _ => &[SECONDS, HITS, WRITES],
    }
}

fn rounded(value: f64) -> String {
    let decimals = if value.abs() >= 100.0 { 0 } else { 1 };
    format!("{value:.decimals$}")
}

impl TsClockFigures {
    /// All tables as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("Seed {}, scale {}.\n", self.seed, self.scale);
        if !self.rows.is_empty() {
            text += &format!("\n## Rows of the scoreboard\n\n{}", rows(&self.rows));
        }
        if !self.amplification.is_empty() {
            text += "\n## Figure 2-1: write amplification by block utilization\n\n";
            text += &self.amplification_table();
        }
        self.grids.iter().for_each(|grid| text += &table_of(grid));
        if let Some(grid) = self.utilized() {
            text += "\n## Figure 2-5: runs of sorted writes by the share of their block\n\n";
            text += &utilization(grid);
        }
        text += &sensitivity(&self.sensitivity);
        if !self.missing.is_empty() {
            text += "\n## Missing\n\n";
            self.missing.iter().for_each(|what| text += &format!("- {what}\n"));
        }
        text
    }

    /// One HTML page with charts, tables and pictures.
    pub fn html(&self) -> String {
        let mut body = String::from("<h1>TS-CLOCK: figures 2-1 and 2-4 to 2-10</h1>\n");
        body += &self.amplification_charts();
        for grid in &self.grids {
            let title = title_of(grid);
            let _ = writeln!(body, "<h2>{}</h2>", escape(&title));
            for (name, of) in shown(grid.figure) {
                body += &lines(&format!("{title}: {name}"), "cache, MiB", name, &series(grid, *of));
            }
        }
        body += &self.utilization_chart();
        if !self.pictures.is_empty() {
            body += "<h2>Figure 2-10: pages written over the course of the trace</h2>\n";
        }
        self.pictures.iter().for_each(|(_, picture)| body += picture);
        body += "<h2>All tables</h2>\n";
        body += &markdown_html(&self.markdown());
        page("TS-CLOCK: figures 2-1 and 2-4 to 2-10", &body)
    }

    fn amplification_table(&self) -> String {
        let mut text = String::from("| FTL | range | 25% | 50% | 75% | 100% |\n|---|---|---|---|---|---|\n");
        for points in self.amplification.chunks(4) {
            let cells: Vec<String> = points.iter().map(|point| format!("{:.2}", point.waf)).collect();
            let range = points[0].range_bytes >> 30;
            let _ = writeln!(text, "| {} | {range} GiB | {} |", points[0].ftl, cells.join(" | "));
        }
        text
    }

    /// Draws figure 2-1, one chart for each layer.
    fn amplification_charts(&self) -> String {
        let mut layers: Vec<&str> = self.amplification.iter().map(|point| point.ftl).collect();
        layers.dedup();
        let chart = |layer: &&str| {
            let points: Vec<&Amplification> = self.amplification.iter().filter(|point| point.ftl == *layer).collect();
            let line = |points: &[&Amplification]| Line {
                label: format!("{} GiB", points[0].range_bytes >> 30),
                points: points.iter().map(|point| (f64::from(point.block_utilization), point.waf)).collect(),
            };
            let series: Vec<Line> = points.chunks(4).map(line).collect();
            let title = format!("Figure 2-1: write amplification by block utilization, {layer}");
            let chart = lines(&title, "share of each block that is written, percent", "write amplification", &series);
            format!("<h2>{}</h2>\n{chart}", escape(&title))
        };
        layers.iter().map(chart).collect()
    }

    /// The grid of figure 2-5: the mixed applications on the first card.
    fn utilized(&self) -> Option<&Grid> {
        self.grids.iter().find(|grid| grid.workload == "mixed-applications" && grid.ftl == "fast")
    }

    fn utilization_chart(&self) -> String {
        let Some(grid) = self.utilized() else { return String::new() };
        let own = grid.cells.iter().filter(|cell| cell.size_bytes == grid.cells[0].size_bytes);
        let line = |cell: &CacheCell| {
            let pages = (1..).zip(cell.utilization.pages).map(|(bin, pages)| (f64::from(10 * bin), pages as f64 / 1e3));
            Line { label: cell.policy.to_owned(), points: pages.collect() }
        };
        let series: Vec<Line> = own.map(line).collect();
        let up = "pages written in such runs, thousands";
        let title = "Figure 2-5: pages by the share of their block in a run, mixed applications, least cache";
        format!("<h2>{title}</h2>\n{}", lines(title, "share up to, percent", up, &series))
    }
}

/// The table of figure 2-5, at the smallest cache.
fn utilization(grid: &Grid) -> String {
    let heads: Vec<String> = (1..=10).map(|bin| format!("to {}%", bin * 10)).collect();
    let mut text = format!("| policy | {} | all |\n|---|{}---|\n", heads.join(" | "), "---|".repeat(10));
    for cell in grid.cells.iter().filter(|cell| cell.size_bytes == grid.cells[0].size_bytes) {
        let runs = cell.utilization.runs;
        let all: u64 = runs.iter().sum();
        let _ = writeln!(text, "| `{}` | {} | {all} |", cell.policy, runs.map(|count| count.to_string()).join(" | "));
    }
    text
}

fn shown_figure(figure: Option<Figure>) -> String {
    match figure {
        None => "–".to_owned(),
        Some(Figure { speed_up, saved }) => format!("{} ({})", rounded(speed_up), rounded(saved)),
    }
}

fn rows(rows: &[RowFigure]) -> String {
    let mut text = String::from(
        "| row | paper | cards as FAST | cards as BAST | `ts-clock-scan`, FAST | `ts-clock-scan`, BAST | \
         |\n|---|---|---|---|---|---|---|\n",
    );
    for RowFigure { id, paper, metric, measured, bast, scan, scan_bast } in rows {
        let [measured, bast, scan, scan_bast] = [measured, bast, scan, scan_bast].map(|figure| shown_figure(*figure));
        let _ = writeln!(text, "| `{id}` | {paper} | {measured} | {bast} | {scan} | {scan_bast} | {metric} |");
    }
    text
}

/// A table for each device.
fn sensitivity(changes: &[Changed]) -> String {
    let mut text = String::new();
    for of_device in changes.chunk_by(|one, other| one.device == other.device) {
        let ids: Vec<&str> = of_device[0].rows.iter().map(|(id, _)| *id).collect();
        let heads: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
        let _ = writeln!(text, "\n## Sensitivity, {}\n", of_device[0].device);
        let _ = writeln!(text, "| changed | {} |\n|---|{}", heads.join(" | "), "---|".repeat(ids.len()));
        for Changed { what, rows, .. } in of_device {
            let of = |id: &&str| rows.iter().find(|(known, _)| known == id).map(|(_, figure)| *figure);
            let cells: Vec<String> =
                ids.iter().map(|id| of(id).map_or(String::new(), |it| shown_figure(Some(it)))).collect();
            let what = if what.is_empty() { "nothing" } else { what };
            let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
        }
    }
    text
}

fn title_of(grid: &Grid) -> String {
    let Grid { figure, workload, device, ftl, flash_block_bytes, .. } = grid;
    format!("Figure {figure}: {workload} on {device}, FTL {ftl}, blocks of {} MiB", flash_block_bytes >> 20)
}

fn table_of(grid: &Grid) -> String {
    let mut text = format!("\n## {}\n\n", title_of(grid));
    let mut sizes: Vec<u64> = grid.cells.iter().map(|cell| cell.size_bytes).collect();
    sizes.dedup();
    let columns: Vec<(u64, &Shown)> =
        shown(grid.figure).iter().flat_map(|shown| sizes.iter().map(move |size| (*size, shown))).collect();
    let heads: Vec<String> = columns
        .iter()
        .map(|(size, (name, _))| format!("{name}, {:.1} MiB", *size as f64 / f64::from(1 << 20)))
        .collect();
    let _ = writeln!(text, "| policy | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for policy in POLICIES {
        let value = |(size, (name, of)): &(u64, &Shown)| {
            let cell = grid.cells.iter().find(|cell| cell.policy == policy.name() && cell.size_bytes == *size);
            cell.map_or("–".to_owned(), |cell| match *name {
                "erases" => format!("{:.0}", of(cell)),
                _ => rounded(of(cell)),
            })
        };
        let _ = writeln!(text, "| `{policy}` | {} |", columns.iter().map(value).collect::<Vec<_>>().join(" | "));
    }
    text
}

fn series(grid: &Grid, of: fn(&CacheCell) -> f64) -> Vec<Line> {
    let line = |policy: onewrite_cache::PolicyKind| {
        let own = grid.cells.iter().filter(|cell| cell.policy == policy.name());
        let points = own.map(|cell| (cell.size_bytes as f64 / f64::from(1 << 20), of(cell))).collect();
        Line { label: policy.name().to_owned(), points }
    };
    POLICIES.map(line).to_vec()
}
