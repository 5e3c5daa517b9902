//! Curves: the miss ratio of each policy over the sizes of the cache.

use onewrite_block::MIB;

use super::CacheFigures;
use crate::draw::{Line, escape, lines, standalone};
use crate::error::LabError;
use crate::report::page;

impl CacheFigures {
    /// Draws the miss-ratio curves as SVG, titled `title`.
    ///
    /// # Errors
    /// If the study has only one size.
    pub fn svg(&self, title: &str) -> Result<String, LabError> {
        Ok(standalone(&self.curves(title)?))
    }

    /// Draws the same chart as an HTML page.
    ///
    /// # Errors
    /// As [`CacheFigures::svg`].
    pub fn html(&self, title: &str) -> Result<String, LabError> {
        let curves = self.curves(title)?;
        let escaped = escape(title);
        Ok(page(title, &format!("<p class=\"over\">Miss ratio by size of the cache</p>\n<h1>{escaped}</h1>\n{curves}")))
    }

    fn curves(&self, title: &str) -> Result<String, LabError> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.policy) {
                names.push(cell.policy);
            }
        }
        let line = |name: &&str| {
            let own = self.cells.iter().filter(|cell| cell.policy == *name);
            let ratio = |misses: u64, requests: u64| 100.0 * misses as f64 / requests.max(1) as f64;
            let mut points: Vec<(f64, f64)> =
                own.map(|cell| (cell.size_bytes as f64 / MIB as f64, ratio(cell.misses, cell.requests))).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points.dedup_by(|one, other| one.0 == other.0);
            Line { label: (*name).to_owned(), points }
        };
        let series: Vec<Line> = names.iter().map(line).collect();
        if series.iter().any(|line| line.points.len() < 2) {
            let problem = "a chart shows misses over sizes: give --size several that differ, as 1%,3%,10%,30%";
            return Err(LabError::Option(problem.into()));
        }
        Ok(lines(&format!("{title}: miss ratio"), "cache, MiB", "misses, percent of the requests", &series))
    }
}
