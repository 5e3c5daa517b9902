//! Lines: a chart of several series over one logarithmic axis.

use std::fmt::Write;

use super::svg::escape;

const WIDTH: f64 = 640.0;
const HEIGHT_MIN: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Height of a label at the end of a line.
const LABEL_HEIGHT: f64 = 12.0;
/// Number of colours of lines, classes of the page. Labels stand at the ends, for readers who cannot tell the colours.
const SERIES: usize = 9;

/// A series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// Its name.
    pub label: String,
    /// Places on the axis, above zero, and values.
    pub points: Vec<(f64, f64)>,
}

/// The chart as SVG; empty without points.
pub(crate) fn lines(title: &str, across: &str, up: &str, series: &[Line]) -> String {
    let points = || series.iter().flat_map(|line| &line.points);
    let bounds = points().fold(None, |bounds: Option<(f64, f64, f64)>, (x, y)| {
        Some(bounds.map_or((*x, *x, *y), |(first, last, top)| (first.min(*x), last.max(*x), top.max(*y))))
    });
    let Some((first, last, top)) = bounds else { return String::new() };
    let height = HEIGHT_MIN.max(TOP + BOTTOM + LABEL_HEIGHT * series.len() as f64);
    let decades = (last / first).ln().max(f64::MIN_POSITIVE);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (value / first).ln() / decades;
    let y = |value: f64| height - BOTTOM - (height - TOP - BOTTOM) * value / top.max(f64::MIN_POSITIVE);
    let mut svg = format!(
        "<div class=\"chart\"><svg class=\"lines\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{}</title>\n",
        escape(title)
    );
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"16\">{}</text>", escape(up));
    let (bottom, right) = (height - BOTTOM, WIDTH - RIGHT);
    let _ = writeln!(svg, "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" class=\"axis\"/>");
    for share in [0.0, 0.5, 1.0] {
        let (value, place) = (top * share, y(top * share));
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{place:.1}\" text-anchor=\"end\">{value:.1}</text>", LEFT - 6.0);
    }
    let mut ticks: Vec<f64> = points().map(|(place, _)| *place).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for tick in ticks {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(tick),
            bottom + 16.0,
            (tick * 100.0).round() / 100.0
        );
    }
    let _ = writeln!(svg, "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>", bottom + 34.0, escape(across));
    let ends: Vec<f64> = series.iter().map(|line| line.points.last().map_or(bottom, |(_, end)| y(*end))).collect();
    let labelled = spread(&ends, LABEL_HEIGHT, bottom);
    for ((line, place), colour) in series.iter().zip(labelled).zip((0..SERIES).cycle()) {
        let path: Vec<String> = line.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        let _ = writeln!(svg, "<polyline points=\"{}\" class=\"series-{colour}\"/>", path.join(" "));
        if let Some((a, _)) = line.points.last() {
            let (a, b, label) = (x(*a) + 6.0, place + 4.0, escape(&line.label));
            let _ = writeln!(svg, "<text x=\"{a:.1}\" y=\"{b:.1}\" class=\"series-{colour}\">{label}</text>");
        }
    }
    svg + "</svg></div>\n"
}

/// Places as near as possible to the wanted ones, in the same order, at least `gap` apart and none below `bottom`.
fn spread(wanted: &[f64], gap: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let mut places = wanted.to_vec();
    let mut least = f64::NEG_INFINITY;
    for line in &order {
        places[*line] = wanted[*line].max(least);
        least = places[*line] + gap;
    }
    let mut most = bottom;
    for line in order.iter().rev() {
        places[*line] = places[*line].min(most);
        most = places[*line] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_its_line_and_its_label() {
        let line = |label: &str, y| Line { label: label.to_owned(), points: vec![(4.0, y), (64.0, 2.0 * y)] };
        let svg = lines("t<", "cache", "seconds", &[line("lru", 1.0), line("ts-clock", 2.0)]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("t&lt;") && svg.contains(">lru<") && svg.contains(">ts-clock<"));
        assert_eq!(lines("t", "a", "b", &[]), "");
    }

    #[test]
    fn labels_stand_apart_and_inside() {
        let places = spread(&[50.0, 51.0, 99.0, 100.0, 10.0], 12.0, 100.0);
        assert_eq!(places, [50.0, 62.0, 88.0, 100.0, 10.0]);
    }
}
