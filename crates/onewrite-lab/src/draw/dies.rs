//! Dies: the operations of every die over time, and the channels and dies of a device.
//!
//! The timeline has a row for each die, rows of a channel next to each other, and a colour for each kind of operation.
//! So garbage collection is visible between the work of the host.

use std::fmt::Write as _;

use onewrite_block::Nanos;
use onewrite_device::{DieOperation, OperationKind, Shape};

const ROW_HEIGHT: u64 = 14;
const LABEL_WIDTH: u64 = 90;
const CHART_WIDTH: u64 = 1200;
const LEGEND_HEIGHT: u64 = 34;

/// Draws operations as SVG: a row for each die, time from left to right from the first operation to the last.
pub fn timeline(shape: &Shape, operations: &[DieOperation]) -> String {
    let start = operations.iter().map(|operation| operation.start.0).min().unwrap_or(0);
    let end = operations.iter().map(|operation| operation.end.0).max().unwrap_or(1).max(start + 1);
    let x = |moment: u64| LABEL_WIDTH as f64 + (moment - start) as f64 * CHART_WIDTH as f64 / (end - start) as f64;
    let (width, height) = (LABEL_WIDTH + CHART_WIDTH + 10, LEGEND_HEIGHT + u64::from(shape.dies) * ROW_HEIGHT + 24);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    draw_legend(&mut svg);
    let rows = rows_by_channel(shape);
    for (row, &Row { channel, die }) in rows.iter().enumerate() {
        let y = LEGEND_HEIGHT + row as u64 * ROW_HEIGHT;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">ch {channel} die {die}</text>", y + ROW_HEIGHT - 4);
        for operation in operations.iter().filter(|operation| operation.die == die) {
            draw(&mut svg, operation, x(operation.start.0), x(operation.end.0), y);
        }
    }
    let y = height - 8;
    let _ = writeln!(svg, "<text x=\"{LABEL_WIDTH}\" y=\"{y}\">{}</text>", Nanos(start));
    let right = LABEL_WIDTH + CHART_WIDTH;
    let _ = writeln!(svg, "<text x=\"{right}\" y=\"{y}\" text-anchor=\"end\">{}</text>", Nanos(end));
    svg.push_str("</svg>\n");
    svg
}

/// A row of the picture. Rows of a channel are next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    channel: u32,
    die: u32,
}

fn rows_by_channel(shape: &Shape) -> Vec<Row> {
    let row = |die| Row { channel: shape.channel_of(die as usize) as u32, die };
    let mut rows: Vec<Row> = (0..shape.dies).map(row).collect();
    rows.sort_unstable();
    rows
}

const fn colour(kind: OperationKind) -> &'static str {
    ["#4e9fd1", "#2f6db3", "#f2b661", "#e07b39", "#7a5ea8", "#c23b3b"][kind as usize]
}

fn draw_legend(svg: &mut String) {
    for (index, kind) in OperationKind::ALL.into_iter().enumerate() {
        let x = LABEL_WIDTH + index as u64 * 130;
        let colour = colour(kind);
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"18\">{}</text>", x + 16, kind.name());
    }
}

fn draw(svg: &mut String, operation: &DieOperation, left: f64, right: f64, y: u64) {
    let (width, height) = ((right - left).max(0.3), ROW_HEIGHT - 2);
    let span = operation.end.saturating_sub(operation.start);
    let (colour, name, pages) = (colour(operation.kind), operation.kind.name(), operation.pages);
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{colour}\"><title>{name}, \
         {pages} pages, {span}</title></rect>"
    );
}

/// The geometry as a text drawing: channels, their dies, and the blocks of each die.
pub fn geometry(shape: &Shape) -> String {
    let mut text = String::new();
    let data_per_die = shape.data_blocks / shape.dies;
    let log_per_die = f64::from(shape.log_blocks) / f64::from(shape.dies);
    let _ = writeln!(
        text,
        "{} channels, {} dies, {} pages of 4 KiB programmed at once, blocks of {} pages ({} KiB)",
        shape.channels,
        shape.dies,
        shape.planes,
        shape.pages_per_block,
        shape.pages_per_block * 4
    );
    let _ = writeln!(text, "each die: {data_per_die} blocks for content, {log_per_die:.1} for the map log");
    let spare = f64::from(shape.data_blocks) * f64::from(shape.pages_per_block) / f64::from(shape.logical_pages) - 1.0;
    let _ = writeln!(text, "{} pages for the host, {:.1}% more in flash\n", shape.logical_pages, spare * 100.0);
    for channel in 0..shape.channels {
        let joint = if channel + 1 == shape.channels { "└" } else { "├" };
        let _ = write!(text, "{joint}─ channel {channel:<2} ");
        for die in (channel..shape.dies).step_by(shape.channels as usize) {
            let _ = write!(text, "──[die {die:>2}]");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use onewrite_device::Profile;

    use super::*;

    fn shape() -> Shape {
        Profile::load("nvme-share").unwrap().shape(None).unwrap()
    }

    #[test]
    fn the_geometry_has_a_picture_with_every_die() {
        let picture = geometry(&shape());
        assert!(picture.contains("channel 7") && picture.contains("[die 31]"), "{picture}");
    }

    #[test]
    fn the_timeline_has_a_row_for_each_die_and_a_mark_for_each_operation() {
        let shape = shape();
        let operation = |die: u32, kind: OperationKind| DieOperation {
            die,
            channel: shape.channel_of(die as usize) as u32,
            kind,
            start: Nanos(1000 * u64::from(die)),
            end: Nanos(1000 * u64::from(die) + 500),
            channel_until: Nanos(0),
            pages: 3,
        };
        let svg = timeline(&shape, &[operation(0, OperationKind::HostRead), operation(31, OperationKind::MoveProgram)]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("ch ").count(), shape.dies as usize);
        assert_eq!(svg.matches("<title>").count(), 2);
        assert!(svg.contains("<title>move: program, 3 pages, 500 ns</title>"), "{svg}");
    }
}
