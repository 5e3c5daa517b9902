//! Probe: what a probe has found, as a picture. Upper panel: time of each read by bytes written before it (figure 2 of
//! `papers/003`). Lower panel: FLUSH beside eviction (its figure 3).

use std::fmt::Write;

use super::svg::escape;
use crate::probe::Probe;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
/// Room for the axes.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
/// Top and bottom of the two panels.
const READS: (f64, f64) = (48.0, 270.0);
const PERSIST: (f64, f64) = (336.0, 500.0);
const BUFFER: &str = "#2f6db3";
const FLASH: &str = "#8a8a8a";
const CERTAIN: &str = "#c23b3b";

/// Maps a value between 0 and `most` to a coordinate between `from` and `to`.
fn place(value: f64, most: f64, (from, to): (f64, f64)) -> f64 {
    from + (to - from) * (value / most.max(f64::MIN_POSITIVE)).min(1.0)
}

/// Draws the reads and the times of a probe as SVG.
pub fn probe(probe: &Probe) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    text(&mut svg, (LEFT, 24.0), "start", &format!("{}: a 4 KiB read after so many bytes written", probe.device));
    draw_reads(&mut svg, probe);
    text(
        &mut svg,
        (LEFT, PERSIST.0 - 24.0),
        "start",
        "FLUSH (left) and eviction by padding (right), by bytes written before",
    );
    draw_persist(&mut svg, probe);
    svg + "</svg>\n"
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escape(words);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = write!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// Draws the axes, and the largest value beside the upper end.
fn frame(svg: &mut String, (top, bottom): (f64, f64), most: &str) {
    line(svg, (LEFT, top), (LEFT, bottom), "#444");
    line(svg, (LEFT, bottom), (WIDTH - RIGHT, bottom), "#444");
    text(svg, (LEFT - 6.0, top + 4.0), "end", most);
    text(svg, (LEFT - 6.0, bottom + 4.0), "end", "0");
}

fn draw_reads(svg: &mut String, probe: &Probe) {
    let bytes_most = probe.sizes.last().map_or(1, |size| size.bytes) as f64;
    let all = probe.sizes.iter().flat_map(|size| &size.reads_ns).copied();
    // The scale ends at four times the mean flash read, because one slow read would flatten the rest.
    let most = all.max().unwrap_or(1).min(4 * probe.flash_read.mean_ns.max(1)) as f64;
    frame(svg, READS, &format!("{:.0} µs", most / 1e3));
    let across = (LEFT, WIDTH - RIGHT);
    let up = (READS.1, READS.0);
    let border = u64::midpoint(probe.buffer_read.mean_ns, probe.flash_read.mean_ns);
    for size in &probe.sizes {
        for &read in &size.reads_ns {
            let (x, y) = (place(size.bytes as f64, bytes_most, across), place(read as f64, most, up));
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
        line(svg, (x, READS.0), (x, READS.1), colour);
        text(svg, (x - 4.0, READS.0 - 2.0 + row), "end", &format!("{what}: {:.2} MB", bytes as f64 / 1e6));
    }
    text(svg, (WIDTH - RIGHT, READS.1 + 16.0), "end", &format!("{:.1} MB written", bytes_most / 1e6));
}

fn draw_persist(svg: &mut String, probe: &Probe) {
    let longest = probe.persist.iter().map(|one| one.flush.mean_ns.max(one.eviction.mean_ns)).max().unwrap_or(1) as f64;
    frame(svg, PERSIST, &format!("{:.1} ms", longest / 1e6));
    let slot = (WIDTH - RIGHT - LEFT) / probe.persist.len().max(1) as f64;
    for (number, one) in probe.persist.iter().enumerate() {
        let x = LEFT + slot * number as f64;
        for (at, (span, colour)) in [(one.flush, BUFFER), (one.eviction, FLASH)].into_iter().enumerate() {
            let y = place(span.mean_ns as f64, longest, (PERSIST.1, PERSIST.0));
            let (left, width, height) = (x + slot * (0.2 + 0.3 * at as f64), slot * 0.28, PERSIST.1 - y);
            let _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
                 <title>{} to {} ns</title></rect>",
                span.min_ns, span.max_ns
            );
        }
        let label = format!("{} KiB", one.dirty_bytes >> 10);
        text(svg, (x + slot / 2.0, PERSIST.1 + 16.0), "middle", &label);
    }
    if probe.persist.is_empty() {
        text(svg, (LEFT + 12.0, f64::midpoint(PERSIST.0, PERSIST.1)), "start", "no eviction spot was found");
    }
}
