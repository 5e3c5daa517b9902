//! Bars: charts of runs, side by side. Every mark has a title.
//!
//! All share one frame: labels of runs on the left, marks on the right, a line for each run.

use super::point::{Point, at};
use super::svg::{escape, write};

/// Width of every chart, in its own units.
const WIDTH: f64 = 720.0;
/// Width of the labels of runs.
const LABELS: f64 = 132.0;
/// Width of the value after a bar.
const VALUES: f64 = 180.0;
/// Height of a line.
const LINE: f64 = 34.0;
/// Height of a bar.
const BAR: f64 = 18.0;

/// One bar.
pub(crate) struct Bar {
    /// Name of its run.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// Text after it.
    pub text: String,
}

/// A bar of several parts.
pub(crate) struct Stack {
    /// Name of its run.
    pub label: String,
    /// Parts: class of the colour, value, title.
    pub parts: Vec<(String, f64, String)>,
    /// Text after it.
    pub text: String,
}

/// Three points on a line.
pub(crate) struct Spread {
    /// Name of its run.
    pub label: String,
    /// Median, 99th and 99.9th percentile in nanoseconds; none if there is no value.
    pub points: Option<[u64; 3]>,
}

/// Draws bars from a common zero.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let stacks: Vec<Stack> = bars
        .iter()
        .map(|bar| Stack {
            label: bar.label.clone(),
            parts: vec![("accent".to_owned(), bar.value, format!("{}: {}", bar.label, bar.text))],
            text: bar.text.clone(),
        })
        .collect();
    stacked(title, &stacks)
}

/// Draws bars of several parts, from a common zero.
pub(crate) fn stacked(title: &str, stacks: &[Stack]) -> String {
    let total = |stack: &Stack| stack.parts.iter().map(|(_, value, _)| value).sum::<f64>();
    let most = stacks.iter().map(total).fold(0.0, f64::max);
    let scale = if most > 0.0 { (WIDTH - LABELS - VALUES) / most } else { 0.0 };
    let mut svg = begin(title, stacks.len() as f64 * LINE + 4.0);
    axis(&mut svg, stacks.len());
    for (index, stack) in stacks.iter().enumerate() {
        let middle = middle(index);
        label(&mut svg, &stack.label, middle);
        let mut x = LABELS;
        for (class, value, title) in stack.parts.iter().filter(|(_, value, _)| *value > 0.0) {
            part(&mut svg, class, at(x, middle), value * scale, title);
            x += value * scale;
        }
        write(
            &mut svg,
            &format!(
                r#"<text class="value" x="{:.1}" y="{:.1}">{}</text>"#,
                x + 8.0,
                middle + 5.0,
                escape(&stack.text)
            ),
        );
    }
    svg + "</svg></div>\n"
}

/// Draws a part of a bar; a gap in the background colour separates it from the next.
fn part(svg: &mut String, class: &str, Point { x, y: middle }: Point, width: f64, title: &str) {
    let (y, shown) = (middle - BAR / 2.0, (width - 1.5).max(0.75));
    let title = escape(title);
    write(
        svg,
        &format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{shown:.1}\" height=\"{BAR}\" \
             rx=\"2\"><title>{title}</title></rect>"
        ),
    );
}

/// Draws points on a logarithmic time axis: median, 99 % and 99.9 %.
pub(crate) fn spreads(title: &str, spreads: &[Spread]) -> String {
    let points = || spreads.iter().filter_map(|spread| spread.points).flatten().map(|point| point.max(1));
    let (Some(least), Some(most)) = (points().min(), points().max()) else { return String::new() };
    let (first, last) = (least.ilog10(), most.ilog10() + 1);
    let place = |value: u64| {
        let decades = libm::log10(value.max(1) as f64) - f64::from(first);
        LABELS + decades / f64::from(last - first) * (WIDTH - LABELS - 40.0)
    };
    let bottom = spreads.len() as f64 * LINE + 4.0;
    let mut svg = begin(title, bottom + 24.0);
    for decade in first..=last {
        let x = place(10_u64.pow(decade));
        write(&mut svg, &format!(r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="0" y2="{bottom:.1}"/>"#));
        write(
            &mut svg,
            &format!(r#"<text class="tick" x="{x:.1}" y="{:.1}">{}</text>"#, bottom + 18.0, decade_name(decade)),
        );
    }
    for (index, spread) in spreads.iter().enumerate() {
        label(&mut svg, &spread.label, middle(index));
        if let Some(points) = spread.points {
            spread_marks(&mut svg, &spread.label, points, points.map(place), middle(index));
        }
    }
    svg + "</svg></div>\n"
}

fn spread_marks(svg: &mut String, name: &str, values: [u64; 3], places: [f64; 3], y: f64) {
    let [median, high, highest] = places;
    let name = escape(name);
    let time = |value: u64| onewrite_block::Nanos(value).to_string();
    let [median_time, high_time, highest_time] = values.map(time);
    write(svg, &format!(r#"<line class="range" x1="{median:.1}" x2="{highest:.1}" y1="{y:.1}" y2="{y:.1}"/>"#));
    write(
        svg,
        &format!(
            "<circle class=\"accent\" cx=\"{median:.1}\" cy=\"{y:.1}\" r=\"6.5\"><title>{name} p50: \
             {median_time}</title></circle>"
        ),
    );
    write(
        svg,
        &format!(
            r#"<circle class="ring" cx="{high:.1}" cy="{y:.1}" r="5.5"><title>{name} p99: {high_time}</title></circle>"#
        ),
    );
    write(
        svg,
        &format!(
            "<rect class=\"accent\" x=\"{:.1}\" y=\"{:.1}\" width=\"4\" height=\"18\" rx=\"1\"><title>{name} p99.9: \
             {highest_time}</title></rect>",
            highest - 2.0,
            y - 9.0
        ),
    );
}

fn decade_name(decade: u32) -> String {
    let (exponent, unit) = match decade {
        0..=2 => (decade, "ns"),
        3..=5 => (decade - 3, "µs"),
        6..=8 => (decade - 6, "ms"),
        _ => (decade - 9, "s"),
    };
    format!("{} {unit}", 10_u64.pow(exponent))
}

fn middle(index: usize) -> f64 {
    index as f64 * LINE + LINE / 2.0 + 2.0
}

fn begin(title: &str, height: f64) -> String {
    let title = escape(title);
    format!(
        "<div class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title>"
    )
}

fn axis(svg: &mut String, lines: usize) {
    let bottom = lines as f64 * LINE + 4.0;
    write(svg, &format!(r#"<line class="zero" x1="{LABELS}" x2="{LABELS}" y1="0" y2="{bottom:.1}"/>"#));
}

fn label(svg: &mut String, text: &str, middle: f64) {
    let (x, y) = (LABELS - 12.0, middle + 5.0);
    write(svg, &format!(r#"<text class="label" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_takes_all_the_room() {
        let bar = |label: &str, value| Bar { label: label.into(), value, text: String::new() };
        let svg = bars("t", &[bar("a", 50.0), bar("b", 100.0)]);
        assert!(svg.contains(r#"width="406.5""#) && svg.contains(r#"width="202.5""#), "{svg}");
    }

    #[test]
    fn a_decade_is_named_by_its_unit() {
        assert_eq!([0, 4, 6, 9].map(decade_name), ["1 ns", "10 µs", "1 ms", "1 s"]);
    }

    #[test]
    fn names_cannot_break_the_page() {
        let svg = bars("<t>", &[Bar { label: "<script>".into(), value: 1.0, text: "&".into() }]);
        assert!(!svg.contains("<script>") && svg.contains("&amp;"));
    }
}
