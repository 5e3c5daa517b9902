//! Grid: the density of requests over time and place, as shades.

use std::ops::Range;

use super::svg::{escape, write};

/// Width and height of a cell.
const CELL: f64 = 2.4;
const MARGIN_LEFT: f64 = 76.0;
const MARGIN_TOP: f64 = 30.0;
const MARGIN_BOTTOM: f64 = 44.0;
/// Style of text: the colour of the surrounding page.
const INK: &str = "fill: var(--ink, #000)";

/// Requests, counted in cells.
pub(crate) struct Grid<'a> {
    /// The title.
    pub(crate) title: &'a str,
    /// The name of what is counted, in the plural.
    pub(crate) what: &'a str,
    /// How many were counted.
    pub(crate) requests: u64,
    /// Where the lowest row begins and the highest one ends, in MiB.
    pub(crate) extent: Range<f64>,
    /// Counts, row by row from below.
    pub(crate) cells: &'a [u64],
}

impl Grid<'_> {
    /// Cells of a row.
    pub(crate) const COLUMNS: usize = 300;
    /// Rows.
    pub(crate) const ROWS: usize = 150;
}

/// Draws a grid as SVG: the requests go from left to right, the bytes from bottom to top. The more requests a cell has,
/// compared with the fullest one, the darker it is.
pub(crate) fn grid(grid: &Grid<'_>) -> String {
    let (width, height) = (Grid::COLUMNS as f64 * CELL, Grid::ROWS as f64 * CELL);
    let (right, bottom) = (MARGIN_LEFT + width, MARGIN_TOP + height);
    let (all_width, all_height) = (right + 16.0, bottom + MARGIN_BOTTOM);
    let title = escape(grid.title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width:.0} {all_height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\"><title>{title}</title><rect width=\"100%\" height=\"100%\" \
         fill=\"#fff\" style=\"fill: var(--page, #fff)\"/><text x=\"{MARGIN_LEFT}\" y=\"18\" font-size=\"14\" \
         style=\"{INK}\">{title}</text><g fill=\"#0b5394\" style=\"fill: var(--accent, #0b5394)\">"
    );
    let most = grid.cells.iter().copied().max().unwrap_or(1).max(1) as f64;
    for (place, count) in grid.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
        let x = MARGIN_LEFT + (place % Grid::COLUMNS) as f64 * CELL;
        let y = bottom - ((place / Grid::COLUMNS) as f64 + 1.0) * CELL;
        // The shade follows the square root and is at least a fifth, so that single requests are visible.
        let shade = 0.2 + 0.8 * (*count as f64 / most).sqrt();
        write(
            &mut svg,
            &format!(r#"<rect x="{x:.1}" y="{y:.1}" width="{CELL}" height="{CELL}" opacity="{shade:.2}"/>"#),
        );
    }
    write(
        &mut svg,
        &format!(
            "</g><path d=\"M{MARGIN_LEFT} {MARGIN_TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#333\" \
             style=\"stroke: var(--soft, #333)\"/>"
        ),
    );
    let labels = [
        (MARGIN_LEFT - 6.0, MARGIN_TOP + 10.0, "end", format!("{:.1} MiB", grid.extent.end)),
        (MARGIN_LEFT - 6.0, bottom, "end", format!("{:.1} MiB", grid.extent.start)),
        (MARGIN_LEFT, bottom + 18.0, "start", "0".to_owned()),
        (right, bottom + 18.0, "end", format!("{} {}", grid.requests, grid.what)),
    ];
    for (x, y, anchor, text) in labels {
        write(&mut svg, &format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" style="{INK}">{text}</text>"#));
    }
    svg + "</svg>\n"
}
