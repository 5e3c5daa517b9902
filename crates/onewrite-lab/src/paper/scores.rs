//! Scores: measured rows by group, the number that agrees, and an HTML page of all.

use std::fmt;

use super::measure::{Measured, rounded};
use super::scoreboard::Row;
use crate::draw::escape;
use crate::report::{markdown_html, page};

/// Outcome of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Measured),
    /// It could not be run, for this reason.
    NotRun(Row, String),
}

/// Outcomes of several rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores(pub Vec<Outcome>);

/// Number of rows for each kind of outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows that agree with the paper.
    pub passed: usize,
    /// Rows that differ.
    pub differing: usize,
    /// Rows that only report a figure.
    pub reported: usize,
    /// Rows that could not be run.
    pub not_run: usize,
}

impl Scores {
    /// Counts the rows for each kind of outcome.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for outcome in &self.0 {
            let count = match outcome {
                Outcome::NotRun(..) => &mut tally.not_run,
                Outcome::Measured(measured) => match measured.agrees() {
                    Some(true) => &mut tally.passed,
                    Some(false) => &mut tally.differing,
                    None => &mut tally.reported,
                },
            };
            *count += 1;
        }
        tally
    }

    /// All rows as one HTML page, with a table for each figure.
    pub fn html(&self) -> String {
        let mut groups: Vec<String> = Vec::new();
        for group in self.0.iter().map(|outcome| outcome.row().group()) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let mut text = String::new();
        for group in groups {
            text += &format!(
                "## {group}\n\n| row | paper | measured | unit | verdict | device | what \
                 |\n|---|---|---|---|---|---|---|\n"
            );
            let of_group = self.0.iter().filter(|outcome| outcome.row().group() == group);
            of_group.for_each(|outcome| text += &outcome.line());
            text.push('\n');
        }
        let head = format!(
            "<p class=\"over\">Papers beside measurements</p>\n<h1>{}</h1>\n",
            escape(&self.tally().to_string())
        );
        page("Papers beside measurements", &(head + &markdown_html(&text)))
    }
}

impl Outcome {
    /// The row.
    pub fn row(&self) -> &Row {
        match self {
            Outcome::Measured(measured) => &measured.row,
            Outcome::NotRun(row, _) => row,
        }
    }

    /// A line of the page's table.
    fn line(&self) -> String {
        let Row { id, paper, unit, device, metric, .. } = self.row();
        let (measured, verdict) = match self {
            Outcome::Measured(measured) => (rounded(measured.measured), measured.verdict()),
            Outcome::NotRun(_, why) => ("–".to_owned(), format!("not run: {why}")),
        };
        let cells = [&format!("`{id}`"), &paper.to_string(), &measured, unit, &verdict, device, metric];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "/").replace('\n', " ")).join(" | "))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { passed, differing, reported, not_run } = self;
        write!(f, "{passed} pass, {differing} differ, {reported} reported, {not_run} not run")
    }
}
