//! Report: compares several runs of one job, in a table for a terminal and in one HTML file.
//!
//! Both show the same figures, which come from [`RunResult`](crate::results::RunResult) and are never computed twice.
//! The promise of a mode stands beside its costs: a faster mode with a weaker promise has not won.

mod compared;
mod figures;
mod html;
mod jobs;
mod markdown;
mod page;
mod setup;
mod table;
mod units;

pub use compared::{Compared, Comparison, CrashVerdict};
pub(crate) use markdown::html as markdown_html;
pub(crate) use page::page;

impl Comparison {
    /// The table for a terminal.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// The HTML file: self-contained, light and dark, readable without scripts.
    pub fn html(&self) -> String {
        html::page(self)
    }
}
