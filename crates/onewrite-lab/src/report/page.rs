//! Page: the common frame of all our HTML files. Each is one self-contained file without scripts, light or dark by the
//! reader's setting. Wide tables scroll on a screen, and turn the sheet on paper.

use super::chart::escape;

const STYLE: &str = include_str!("page.css");

/// A page around `body`.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A chart as an SVG file of its own, with its style.
pub(crate) fn standalone(svg: &str) -> String {
    let opening = "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background: var(--page)\" ";
    let (_, rest) = svg.split_once("<svg ").unwrap_or(("", svg));
    let (attributes, content) = rest.split_once('>').unwrap_or((rest, ""));
    let content = content.replace("</svg></div>", "</svg>");
    format!("{opening}{attributes}><style>\n{STYLE}</style>{content}")
}

/// A table with this many columns is wide: on paper it gets a sheet in landscape format.
const WIDE_FROM: usize = 7;

/// A table that scrolls if it is too wide. The first cell of each row is its head; cells are HTML.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let head: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let row = |cells: &Vec<String>| {
        let cells = cells.iter().enumerate().map(|(place, cell)| match place {
            0 => format!("<th scope=\"row\">{cell}</th>"),
            _ => format!("<td>{cell}</td>"),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = rows.iter().map(row).collect();
    let wide = if heads.len() >= WIDE_FROM { " wide" } else { "" };
    format!(
        "<div class=\"scroll{wide}\" tabindex=\"0\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
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
    fn paper_keeps_headings_with_what_follows_and_turns_wide_tables() {
        for rule in [
            "@media print",
            "break-after: avoid",
            "break-inside: avoid",
            "@page wide",
            "section:has(.wide), h2:has(+ .wide), .scroll.wide { page: wide; }",
        ] {
            assert!(STYLE.contains(rule), "{rule}");
        }
        let heads: Vec<String> = (0..WIDE_FROM).map(|head| head.to_string()).collect();
        assert!(table(&heads, &[]).contains("scroll wide") && !table(&heads[1..], &[]).contains("scroll wide"));
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
