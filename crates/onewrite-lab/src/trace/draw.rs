//! Draw: a trace as a picture, as in the dissertation's figure 2-10. The number of the request goes from left to right,
//! the page from bottom to top.
//!
//! A trace of any length becomes a grid of fixed size. The more requests a cell has, compared with the fullest one, the
//! darker it is.

use std::fmt::Write;

use onewrite_cache::PageRequest;

use super::Trace;
use crate::error::LabError;
use crate::report::escape;

const COLUMNS: usize = 300;
const ROWS: usize = 150;
/// Width and height of a cell.
const CELL: f64 = 2.4;
const MARGIN_LEFT: f64 = 76.0;
const MARGIN_TOP: f64 = 30.0;
const MARGIN_BOTTOM: f64 = 44.0;
/// Style of text: the colour of the surrounding page.
const INK: &str = "fill: var(--ink, #000)";
const CHUNK: usize = 1 << 16;

/// Options of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Only writes, as in figure 2-10.
    pub only_writes: bool,
}

/// Extent of a picture.
#[derive(Default)]
struct Bounds {
    requests: u64,
    pages: Option<(u64, u64)>,
}

/// Draws the trace that `open` opens. Opens it twice: first to find the bounds, then to count the cells.
///
/// # Errors
/// As [`Trace::next_record`], or if there is nothing to draw.
pub fn draw(
    title: &str,
    drawing: Drawing,
    mut open: impl FnMut() -> Result<Trace, LabError>,
) -> Result<String, LabError> {
    let mut bounds = Bounds::default();
    each(&mut open()?, drawing, |_, page| {
        bounds.requests += 1;
        let (first, last) = bounds.pages.unwrap_or((page, page));
        bounds.pages = Some((first.min(page), last.max(page)));
    })?;
    let Some((first, last)) = bounds.pages else {
        return Err(LabError::Option(format!("{title}: there is nothing to draw")));
    };
    let mut cells = vec![0_u64; COLUMNS * ROWS];
    each(&mut open()?, drawing, |number, page| {
        let column = (u128::from(number) * COLUMNS as u128 / u128::from(bounds.requests)) as usize;
        let row = (u128::from(page - first) * ROWS as u128 / (u128::from(last - first) + 1)) as usize;
        cells[row * COLUMNS + column] += 1;
    })?;
    Ok(picture(title, drawing, &bounds, (first, last), &cells))
}

fn each(trace: &mut Trace, drawing: Drawing, mut take: impl FnMut(u64, u64)) -> Result<(), LabError> {
    let mut pages: Vec<PageRequest> = Vec::new();
    let (mut number, mut goes_on) = (0, true);
    while goes_on {
        pages.clear();
        goes_on = trace.next_pages(drawing.page_bytes, CHUNK, &mut pages)?;
        for request in pages.iter().filter(|request| request.is_write() || !drawing.only_writes) {
            take(number, request.page());
            number += 1;
        }
    }
    Ok(())
}

fn picture(title: &str, drawing: Drawing, bounds: &Bounds, (first, last): (u64, u64), cells: &[u64]) -> String {
    let (width, height) = (COLUMNS as f64 * CELL, ROWS as f64 * CELL);
    let (right, bottom) = (MARGIN_LEFT + width, MARGIN_TOP + height);
    let (all_width, all_height) = (right + 16.0, bottom + MARGIN_BOTTOM);
    let mebibytes = |page: u64| page as f64 * drawing.page_bytes as f64 / f64::from(1 << 20);
    let what = if drawing.only_writes { "writes" } else { "requests" };
    let title = escape(title);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {all_width:.0} {all_height:.0}" font-family="sans-serif" font-size="12"><title>{title}</title><rect width="100%" height="100%" fill="#fff" style="fill: var(--page, #fff)"/><text x="{MARGIN_LEFT}" y="18" font-size="14" style="{INK}">{title}</text><g fill="#0b5394" style="fill: var(--accent, #0b5394)">"##
    );
    let most = cells.iter().copied().max().unwrap_or(1).max(1) as f64;
    for (place, count) in cells.iter().enumerate().filter(|(_, count)| **count > 0) {
        let x = MARGIN_LEFT + (place % COLUMNS) as f64 * CELL;
        let y = bottom - ((place / COLUMNS) as f64 + 1.0) * CELL;
        // The shade follows the square root and is at least a fifth, so that single requests are visible.
        let shade = 0.2 + 0.8 * (*count as f64 / most).sqrt();
        write_to(
            &mut svg,
            &format!(r#"<rect x="{x:.1}" y="{y:.1}" width="{CELL}" height="{CELL}" opacity="{shade:.2}"/>"#),
        );
    }
    write_to(
        &mut svg,
        &format!(
            r##"</g><path d="M{MARGIN_LEFT} {MARGIN_TOP}V{bottom}H{right}" fill="none" stroke="#333" style="stroke: var(--soft, #333)"/>"##
        ),
    );
    let labels = [
        (MARGIN_LEFT - 6.0, MARGIN_TOP + 10.0, "end", format!("{:.1} MiB", mebibytes(last + 1))),
        (MARGIN_LEFT - 6.0, bottom, "end", format!("{:.1} MiB", mebibytes(first))),
        (MARGIN_LEFT, bottom + 18.0, "start", "0".to_owned()),
        (right, bottom + 18.0, "end", format!("{} {what}", bounds.requests)),
    ];
    for (x, y, anchor, text) in labels {
        write_to(
            &mut svg,
            &format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" style="{INK}">{text}</text>"#),
        );
    }
    svg + "</svg>\n"
}

fn write_to(svg: &mut String, element: &str) {
    svg.write_str(element).expect("a string takes everything");
}
