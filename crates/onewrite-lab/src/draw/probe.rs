//! Probe: what a probe has found, as a picture. Upper panel: time of each read by bytes written before it (figure 2 of
//! `papers/003`). Lower panel: FLUSH beside eviction (its figure 3).

use std::fmt::Write;

use super::point::{Point, at};
use super::svg::escape;
use crate::probe::Probe;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
/// Room for the axes.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
/// The two panels.
const READS: Panel = Panel { top: 48.0, bottom: 270.0 };
const PERSIST: Panel = Panel { top: 336.0, bottom: 500.0 };
const BUFFER: &str = "#2f6db3";
const FLASH: &str = "#8a8a8a";
const CERTAIN: &str = "#c23b3b";

/// A part of the picture, over its whole width.
#[derive(Clone, Copy)]
struct Panel {
    top: f64,
    bottom: f64,
}

impl Panel {
    /// The height at which a value between 0 and `most` stands.
    fn height_of(self, value: f64, most: f64) -> f64 {
        place(value, most, Scale { from: self.bottom, to: self.top })
    }
}

/// Where an axis begins and ends.
#[derive(Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
}

/// Maps a value between 0 and `most` to a coordinate of the axis.
fn place(value: f64, most: f64, Scale { from, to }: Scale) -> f64 {
    from + (to - from) * (value / most.max(f64::MIN_POSITIVE)).min(1.0)
}

/// Draws the reads and the times of a probe as SVG.
pub fn probe(probe: &Probe) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    text(&mut svg, at(LEFT, 24.0), "start", &format!("{}: a 4 KiB read after so many bytes written", probe.device));
    draw_reads(&mut svg, probe);
    text(
        &mut svg,
        at(LEFT, PERSIST.top - 24.0),
        "start",
        "FLUSH (left) and eviction by padding (right), by bytes written before",
    );
    draw_persist(&mut svg, probe);
    svg + "</svg>\n"
}

fn text(svg: &mut String, Point { x, y }: Point, anchor: &str, words: &str) {
    let words = escape(words);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn line(svg: &mut String, from: Point, to: Point, colour: &str) {
    let _ = write!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.x, from.y, to.x, to.y
    );
}

/// Draws the axes, and the largest value beside the upper end.
fn frame(svg: &mut String, Panel { top, bottom }: Panel, most: &str) {
    line(svg, at(LEFT, top), at(LEFT, bottom), "#444");
    line(svg, at(LEFT, bottom), at(WIDTH - RIGHT, bottom), "#444");
    text(svg, at(LEFT - 6.0, top + 4.0), "end", most);
    text(svg, at(LEFT - 6.0, bottom + 4.0), "end", "0");
}

fn draw_reads(svg: &mut String, probe: &Probe) {
    let bytes_most = probe.sizes.last().map_or(1, |size| size.bytes) as f64;
    let all = probe.sizes.iter().flat_map(|size| &size.reads_ns).copied();
    // The scale ends at four times the mean flash read, because one slow read would flatten the rest.
    let most = all.max().unwrap_or(1).min(4 * probe.flash_read.mean_ns.max(1)) as f64;
    frame(svg, READS, &format!("{:.0} µs", most / 1e3));
    let across = Scale { from: LEFT, to: WIDTH - RIGHT };
    let border = u64::midpoint(probe.buffer_read.mean_ns, probe.flash_read.mean_ns);
    for size in &probe.sizes {
        for &read in &size.reads_ns {
            let (x, y) = (place(size.bytes as f64, bytes_most, across), READS.height_of(read as f64, most));
            let colour = if read > border { FLASH } else { BUFFER };
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"><title>{} bytes: {read} \
                 ns</title></circle>",
                size.bytes
            );
        }
    }
    for (bytes, what, colour, row) in [
        (probe.eviction_begins_bytes, "eviction begins", FLASH, 0.0),
        (probe.eviction_certain_bytes, "certain", CERTAIN, 14.0),
    ] {
        let Some(bytes) = bytes else { continue };
        let x = place(bytes as f64, bytes_most, across);
        line(svg, at(x, READS.top), at(x, READS.bottom), colour);
        text(svg, at(x - 4.0, READS.top - 2.0 + row), "end", &format!("{what}: {:.2} MB", bytes as f64 / 1e6));
    }
    text(svg, at(WIDTH - RIGHT, READS.bottom + 16.0), "end", &format!("{:.1} MB written", bytes_most / 1e6));
}

fn draw_persist(svg: &mut String, probe: &Probe) {
    let longest = probe.persist.iter().map(|one| one.flush.mean_ns.max(one.eviction.mean_ns)).max().unwrap_or(1) as f64;
    frame(svg, PERSIST, &format!("{:.1} ms", longest / 1e6));
    let slot = (WIDTH - RIGHT - LEFT) / probe.persist.len().max(1) as f64;
    for (number, one) in probe.persist.iter().enumerate() {
        let x = LEFT + slot * number as f64;
        for (column, (span, colour)) in [(one.flush, BUFFER), (one.eviction, FLASH)].into_iter().enumerate() {
            let y = PERSIST.height_of(span.mean_ns as f64, longest);
            let (left, width, height) = (x + slot * (0.2 + 0.3 * column as f64), slot * 0.28, PERSIST.bottom - y);
            let _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
                 <title>{} to {} ns</title></rect>",
                span.min_ns, span.max_ns
            );
        }
        let label = format!("{} KiB", one.dirty_bytes >> 10);
        text(svg, at(x + slot / 2.0, PERSIST.bottom + 16.0), "middle", &label);
    }
    if probe.persist.is_empty() {
        text(svg, at(LEFT + 12.0, f64::midpoint(PERSIST.top, PERSIST.bottom)), "start", "no eviction spot was found");
    }
}
