//! Markdown: renders the parts of it that our own tables use as HTML: headings, lists, tables, `code`, paragraphs.

use super::page::table;
use crate::draw::escape;

/// Renders `text` as HTML.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let more = |start: &'static str| move |next: &&str| next.starts_with(start);
        if let Some(heading) = line.strip_prefix("## ") {
            out += &format!("<h2>{}</h2>\n", inline(heading));
        } else if let Some(heading) = line.strip_prefix("# ") {
            out += &format!("<h1>{}</h1>\n", inline(heading));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            rows.extend(std::iter::from_fn(|| lines.next_if(more("|"))).map(cells));
            out += &of_table(rows);
        } else if let Some(item) = line.strip_prefix("- ") {
            let mut item = item.to_owned();
            while let Some(rest) = lines.next_if(more("  ")) {
                item += " ";
                item += rest.trim();
            }
            out += &format!("<p class=\"item\">{}</p>\n", inline(&item));
        } else if !line.trim().is_empty() {
            let mut paragraph = line.to_owned();
            while let Some(rest) = lines.next_if(|next| !next.is_empty() && !next.starts_with(['|', '#', '-'])) {
                paragraph += " ";
                paragraph += rest;
            }
            out += &format!("<p>{}</p>\n", inline(&paragraph));
        }
    }
    out
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    inner.strip_suffix('|').unwrap_or(inner).split('|').map(|cell| inline(cell.trim())).collect()
}

/// The second row is the rule under the heads.
fn of_table(mut rows: Vec<Vec<String>>) -> String {
    let heads = rows.remove(0);
    if rows.first().is_some_and(|row| row.iter().all(|cell| cell.bytes().all(|byte| b"-:".contains(&byte)))) {
        rows.remove(0);
    }
    table(&heads, &rows)
}

/// Text between two backticks is code.
fn inline(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(place, part)| match place % 2 {
        1 => format!("<code>{}</code>", escape(part)),
        _ => escape(part),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_lists_and_tables_become_html() {
        let text =
            "# All\n\nOne\ntwo.\n\n## A `b` <c>\n\n- item,\n  more\n- next\n\n| x | y |\n|---|---:|\n| `p` | 1 |\n";
        let page = html(text);
        assert!(page.contains("<h1>All</h1>\n<p>One two.</p>\n<h2>A <code>b</code> &lt;c&gt;</h2>"), "{page}");
        assert!(page.contains("<p class=\"item\">item, more</p>\n<p class=\"item\">next</p>"), "{page}");
        assert!(page.contains("<th scope=\"col\">x</th><th scope=\"col\">y</th>"), "{page}");
        assert!(page.contains("<tr><th scope=\"row\"><code>p</code></th><td>1</td></tr>") && !page.contains("---"));
    }
}
