//! Chart: the operations of every die over time, as events and as a picture.
//!
//! [`Ssd::record_operations`] starts the recording; [`Ssd::take_operations`] returns it. [`timeline_svg`] draws it: a
//! row for each die, rows of a channel next to each other, a colour for each kind of operation. So garbage collection
//! is visible between the work of the host.

use std::fmt::Write as _;

use onewrite_block::{Nanos, Operation};

use super::Ssd;
use super::die::{Activity, Stream};
use super::host::Active;
use super::operation::{DieOperation, LATENCY_NAMES, OperationKind, OperationLatency};
use super::shape::Shape;

impl Ssd {
    /// Records every operation of every die, and the latency of every request, from now on.
    pub fn record_operations(&mut self) {
        self.recorded = Some(Vec::new());
        self.latencies = Some(Default::default());
    }

    /// The latencies recorded so far, by kind of request, without kinds that did not occur.
    pub fn latencies(&self) -> Vec<OperationLatency> {
        let all = LATENCY_NAMES.into_iter().zip(self.latencies.iter().flatten());
        let told = all.map(|(operation, latencies)| OperationLatency {
            operation,
            latency: latencies.summary(),
            steps: latencies.steps(),
        });
        told.filter(|one| one.latency.count > 0).collect()
    }

    /// Notes that a request has ended.
    pub(super) fn note_latency(&mut self, active: &Active) {
        let Some(latencies) = &mut self.latencies else { return };
        let kind = match active.request.operation {
            Operation::Read { .. } => 0,
            Operation::Write { fua: false, .. } => 1,
            Operation::Write { fua: true, .. } => 2,
            Operation::Flush => 3,
            Operation::Trim { .. } => 4,
            Operation::Share(_) => 5,
        };
        latencies[kind].record(Nanos(self.now - active.submitted));
    }

    /// Returns the recorded operations; recording continues.
    pub fn take_operations(&mut self) -> Vec<DieOperation> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes that a die starts an operation that ends at `end`.
    pub(super) fn note_operation(&mut self, die: usize, activity: Activity, end: u64) {
        let Some(kind) = self.kind_of(die, activity) else { return };
        let state = &self.dies[die];
        let is_program = matches!(activity, Activity::Program | Activity::MapProgram);
        let pages = match activity {
            Activity::Program => state.cargo.len() as u32,
            Activity::MapProgram => 1,
            Activity::ReadArray | Activity::ReadBus => state.reading.len() as u32 + state.sensing,
            _ => 0,
        };
        let operation = DieOperation {
            die: die as u32,
            channel: self.model.shape.channel_of(die) as u32,
            kind,
            start: Nanos(self.now),
            end: Nanos(end),
            channel_until: Nanos(if is_program { state.array_start } else { self.now }),
            pages,
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(operation);
        }
    }

    fn kind_of(&self, die: usize, activity: Activity) -> Option<OperationKind> {
        let state = &self.dies[die];
        Some(match activity {
            Activity::Idle => return None,
            Activity::ReadArray | Activity::ReadBus if state.reading.is_empty() => OperationKind::MoveRead,
            Activity::ReadArray | Activity::ReadBus => OperationKind::HostRead,
            Activity::Program if state.stream == Stream::Moved => OperationKind::MoveProgram,
            Activity::Program => OperationKind::HostProgram,
            Activity::MapProgram => OperationKind::MapProgram,
            Activity::Erase | Activity::LogErase => OperationKind::Erase,
        })
    }
}

const ROW_HEIGHT: u64 = 14;
const LABEL_WIDTH: u64 = 90;
const CHART_WIDTH: u64 = 1200;
const LEGEND_HEIGHT: u64 = 34;

/// Draws operations as SVG: a row for each die, time from left to right from the first operation to the last.
pub fn timeline_svg(shape: &Shape, operations: &[DieOperation]) -> String {
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

fn draw_legend(svg: &mut String) {
    for (index, kind) in OperationKind::ALL.into_iter().enumerate() {
        let x = LABEL_WIDTH + index as u64 * 130;
        let colour = kind.colour();
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"18\">{}</text>", x + 16, kind.name());
    }
}

fn draw(svg: &mut String, operation: &DieOperation, left: f64, right: f64, y: u64) {
    let (width, height) = ((right - left).max(0.3), ROW_HEIGHT - 2);
    let span = operation.end.saturating_sub(operation.start);
    let (colour, name, pages) = (operation.kind.colour(), operation.kind.name(), operation.pages);
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{colour}\"><title>{name}, \
         {pages} pages, {span}</title></rect>"
    );
}

impl Shape {
    /// The geometry as a text drawing: channels, their dies, and the blocks of each die.
    pub fn picture(&self) -> String {
        let mut text = String::new();
        let data_per_die = self.data_blocks / self.dies;
        let log_per_die = f64::from(self.log_blocks) / f64::from(self.dies);
        let _ = writeln!(
            text,
            "{} channels, {} dies, {} pages of 4 KiB programmed at once, blocks of {} pages ({} KiB)",
            self.channels,
            self.dies,
            self.planes,
            self.pages_per_block,
            self.pages_per_block * 4
        );
        let _ = writeln!(text, "each die: {data_per_die} blocks for content, {log_per_die:.1} for the map log");
        let spare = f64::from(self.data_blocks) * f64::from(self.pages_per_block) / f64::from(self.logical_pages) - 1.0;
        let _ = writeln!(text, "{} pages for the host, {:.1}% more in flash\n", self.logical_pages, spare * 100.0);
        for channel in 0..self.channels {
            let joint = if channel + 1 == self.channels { "└" } else { "├" };
            let _ = write!(text, "{joint}─ channel {channel:<2} ");
            for die in (channel..self.dies).step_by(self.channels as usize) {
                let _ = write!(text, "──[die {die:>2}]");
            }
            text.push('\n');
        }
        text
    }
}
