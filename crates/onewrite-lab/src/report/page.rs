//! Page: the common frame of all our HTML files. Each is one self-contained file without scripts, light or dark by the
//! reader's setting. Wide tables scroll on a screen, and turn the sheet on paper.

use crate::draw::{STYLE, escape};

/// A page around `body`.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
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
        "<div class=\"scroll{wide}\" tabindex=\"0\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n\
         {rows}</tbody>\n</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
