//! SVG: what every drawing needs. Colours of charts are classes of a style, so they follow light and dark mode.

use std::fmt::Write;

/// The style of charts, and of the pages that show them.
pub(crate) const STYLE: &str = include_str!("style.css");

/// Adds an element to a drawing.
pub(super) fn write(svg: &mut String, element: &str) {
    svg.write_str(element).expect("a string takes everything");
}

/// Escapes text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A chart as an SVG file of its own, with its style.
pub(crate) fn standalone(svg: &str) -> String {
    let opening = "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background: var(--page)\" ";
    let (_, rest) = svg.split_once("<svg ").unwrap_or(("", svg));
    let (attributes, content) = rest.split_once('>').unwrap_or((rest, ""));
    let content = content.replace("</svg></div>", "</svg>");
    format!("{opening}{attributes}><style>\n{STYLE}</style>{content}")
}

#[cfg(test)]
mod tests {
    use onewrite_block::Cause;

    use super::*;

    #[test]
    fn every_cause_has_a_colour_in_light_in_dark_and_in_the_legend() {
        for cause in Cause::ALL.map(Cause::name) {
            assert_eq!(STYLE.matches(&format!("--{cause}: #")).count(), 2, "{cause}");
            assert!(STYLE.contains(&format!("svg .{cause} {{ fill: var(--{cause}); }}")), "{cause}");
            assert!(STYLE.contains(&format!("i.{cause} {{ background: var(--{cause}); }}")), "{cause}");
        }
    }

    #[test]
    fn a_picture_alone_brings_its_style() {
        let svg = standalone("<div class=\"chart\"><svg viewBox=\"0 0 1 1\"><title>t</title></svg></div>\n");
        assert!(
            svg.starts_with("<svg xmlns=") && svg.contains("viewBox=\"0 0 1 1\"><style>") && svg.contains("--page")
        );
        assert!(svg.ends_with("</style><title>t</title></svg>\n"), "{svg}");
    }
}
