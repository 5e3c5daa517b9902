//! Grid: counts of a trace for its picture, as in the dissertation's figure 2-10: the number of the request goes
//! across, the page up. A trace of any length becomes a grid of fixed size.

use onewrite_cache::PageRequest;

use super::Trace;
use crate::draw::{Grid, grid};
use crate::error::LabError;

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
    let mut cells = vec![0_u64; Grid::COLUMNS * Grid::ROWS];
    each(&mut open()?, drawing, |number, page| {
        let column = (u128::from(number) * Grid::COLUMNS as u128 / u128::from(bounds.requests)) as usize;
        let row = (u128::from(page - first) * Grid::ROWS as u128 / (u128::from(last - first) + 1)) as usize;
        cells[row * Grid::COLUMNS + column] += 1;
    })?;
    let what = if drawing.only_writes { "writes" } else { "requests" };
    let mebibytes = |page: u64| page as f64 * drawing.page_bytes as f64 / f64::from(1 << 20);
    let extent = mebibytes(first)..mebibytes(last + 1);
    Ok(grid(&Grid { title, what, requests: bounds.requests, extent, cells: &cells }))
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
