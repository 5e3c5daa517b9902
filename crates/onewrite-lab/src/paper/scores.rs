//! Scores: measured rows by group, how many of each kind agree, and an HTML page of all.

use std::fmt;

use super::measure::{Measured, rounded};
use super::scoreboard::{Kind, Row};
use super::verdict::Verdict;
use crate::draw::escape;
use crate::report::{markdown_html, page};

/// Outcome of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Measured),
    /// Its experiment failed, for this reason.
    Failed(Row, String),
    /// It has no experiment, for this reason.
    NotRun(Row, String),
}

/// Outcomes of several rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores(pub Vec<Outcome>);

/// Number of rows for each kind of outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows whose figure agrees with the paper's.
    pub agreeing: usize,
    /// Rows with the paper's winner, which ask for no more.
    pub winners: usize,
    /// Best cases with the paper's direction and another size.
    pub direction_only: usize,
    /// Rows whose figure the experiment was given.
    pub inputs: usize,
    /// Rows that differ from their own terms.
    pub differing: usize,
    /// Rows whose experiment failed.
    pub failed: usize,
    /// Rows without an experiment.
    pub not_run: usize,
}

/// The same for each kind of row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally(pub Vec<(Kind, Counts)>);

impl Counts {
    fn count(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::NotRun(..) => &mut self.not_run,
            Outcome::Failed(..) => &mut self.failed,
            Outcome::Measured(measured) => match measured.verdict() {
                Verdict::Agrees if measured.is_about_the_winner() => &mut self.winners,
                Verdict::Agrees => &mut self.agreeing,
                Verdict::DirectionOnly => &mut self.direction_only,
                Verdict::Input => &mut self.inputs,
                Verdict::Differs => &mut self.differing,
            },
        };
        *count += 1;
    }

    fn all(&self) -> [usize; 7] {
        let Counts { agreeing, winners, direction_only, inputs, differing, failed, not_run } = *self;
        [agreeing, winners, direction_only, inputs, differing, failed, not_run]
    }
}

impl Tally {
    /// Rows of all kinds.
    pub fn total(&self) -> Counts {
        let sum = |of: fn(&Counts) -> usize| self.0.iter().map(|(_, counts)| of(counts)).sum();
        Counts {
            agreeing: sum(|counts| counts.agreeing),
            winners: sum(|counts| counts.winners),
            direction_only: sum(|counts| counts.direction_only),
            inputs: sum(|counts| counts.inputs),
            differing: sum(|counts| counts.differing),
            failed: sum(|counts| counts.failed),
            not_run: sum(|counts| counts.not_run),
        }
    }

    /// A table with a line for each kind that has rows.
    pub fn table(&self) -> String {
        let mut text = format!("{:12}", "kind");
        COLUMNS.iter().for_each(|column| text += &format!("{column:>16}"));
        for (kind, counts) in &self.0 {
            text += &format!("\n{:12}", kind.name());
            counts.all().iter().for_each(|count| text += &format!("{count:>16}"));
        }
        text
    }
}

/// Outcomes, in the order of [`Counts::all`].
const COLUMNS: [&str; 7] = ["agree", "winner alone", "direction only", "inputs", "differ", "failed", "not run"];

impl Scores {
    /// Counts the rows for each kind of row and of outcome.
    pub fn tally(&self) -> Tally {
        let of_kind = |kind: Kind| {
            let mut counts = Counts::default();
            self.0.iter().filter(|outcome| outcome.row().kind == kind).for_each(|outcome| counts.count(outcome));
            (kind, counts)
        };
        let tallies = Kind::ALL.into_iter().map(of_kind);
        Tally(tallies.filter(|(_, counts)| counts != &Counts::default()).collect())
    }

    /// The counts, and all rows as one Markdown table.
    pub fn markdown(&self) -> String {
        let head = "| row | paper | measured | verdict | where | cases |\n|---|---|---|---|---|---|\n";
        let rows: String = self.0.iter().map(Outcome::markdown).collect();
        format!("{}.\n\n{head}{rows}", self.tally().total())
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
                "## {group}\n\n| row | kind | paper | measured | unit | verdict | where | cases | what \
                 |\n|---|---|---|---|---|---|---|---|---|\n"
            );
            let of_group = self.0.iter().filter(|outcome| outcome.row().group() == group);
            of_group.for_each(|outcome| text += &outcome.line());
            text.push('\n');
        }
        let head = format!(
            "<p class=\"over\">Papers beside measurements</p>\n<h1>{}</h1>\n",
            escape(&self.tally().total().to_string())
        );
        page("Papers beside measurements", &(head + &markdown_html(&text)))
    }
}

impl Outcome {
    /// The row.
    pub fn row(&self) -> &Row {
        match self {
            Outcome::Measured(measured) => &measured.row,
            Outcome::Failed(row, _) | Outcome::NotRun(row, _) => row,
        }
    }

    /// Figure, verdict, places and cases.
    pub(super) fn cells(&self) -> [String; 4] {
        let nothing = |why: String| ["–".to_owned(), why, String::new(), String::new()];
        match self {
            Outcome::Measured(measured) => {
                [rounded(measured.measured), measured.words(), measured.places(), measured.cases_in_words()]
            }
            Outcome::Failed(_, why) => nothing(format!("failed: {why}")),
            Outcome::NotRun(_, why) => nothing(format!("not run: {why}")),
        }
    }

    fn markdown(&self) -> String {
        let Row { id, metric, source, paper, unit, .. } = self.row();
        let [figure, verdict, places, cases] = self.cells();
        let figure = format!("{figure} {unit}").trim_end().to_owned();
        let cells = [format!("`{id}`: {metric} ({source})"), paper.to_string(), figure, verdict, places, cases];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "/").replace('\n', " ")).join(" | "))
    }

    /// A line of the page's table.
    fn line(&self) -> String {
        let Row { id, kind, paper, unit, metric, source, .. } = self.row();
        let [figure, verdict, places, cases] = self.cells();
        let (id, kind, paper) = (format!("`{id}`"), kind.name().to_owned(), paper.to_string());
        let metric = format!("{metric} ({source})");
        let cells = [&id, &kind, &paper, &figure, unit, &verdict, &places, &cases, &metric];
        format!("| {} |\n", cells.map(|cell| cell.replace('|', "/").replace('\n', " ")).join(" | "))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            COLUMNS.iter().zip(self.all()).map(|(word, count)| format!("{count} {word}")).collect();
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::found::{Case, Found};
    use crate::paper::scoreboard;

    fn measured(id: &str, figure: f64, cases: Vec<Case>) -> Outcome {
        let row = scoreboard().unwrap().into_iter().find(|row| row.id == id).unwrap();
        let terms = row.terms().unwrap();
        Outcome::Measured(Measured::new(&row, terms, Found { figure, cases }))
    }

    #[test]
    fn rows_are_counted_by_kind_and_only_direction_or_input_is_no_agreement() {
        let scores = Scores(vec![
            measured("afs-blocks-oj", 6.0, Vec::new()),
            measured("afs-blocks-dj", 7.0, Vec::new()),
            measured("zp-fio", 1.015, Vec::new()),
            measured("zp-fio", 1.05, Vec::new()),
            measured("zp-fio", 1.2, Vec::new()),
            measured("ldj-ratio-varmail", 0.12, Vec::new()),
        ]);
        let tally = scores.tally();
        let kinds: Vec<(Kind, [usize; 7])> = tally.0.iter().map(|(kind, counts)| (*kind, counts.all())).collect();
        let (exact, shape, upto) = ([1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0]);
        assert_eq!(kinds, [(Kind::Exact, exact), (Kind::Shape, shape), (Kind::Upto, upto)]);
        assert_eq!(
            tally.total().to_string(),
            "2 agree, 0 winner alone, 1 direction only, 1 inputs, 2 differ, 0 failed, 0 not run"
        );
        assert!(tally.table().lines().count() == 4, "{}", tally.table());
    }

    #[test]
    fn a_case_of_which_the_row_speaks_fails_it_and_one_that_is_shown_does_not() {
        let verdict = |case: Case| match measured("afs-filebench", 1.2, vec![Case::counts("varmail", 1.3), case]) {
            Outcome::Measured(measured) => (measured.verdict(), measured.to_string()),
            other => panic!("{other:?}"),
        };
        let (differs, words) = verdict(Case::counts("webserver", 1.01));
        assert_eq!(differs, Verdict::Differs);
        assert!(words.contains("DIFFERS in 1 of 2 cases; not on nvme-share"), "{words}");
        assert!(words.contains("varmail 1.300; webserver 1.010 DIFFERS"), "{words}");
        assert_eq!(verdict(Case::shown("webserver", 1.01)).0, Verdict::Agrees);
        assert_eq!(verdict(Case::counts("webserver", f64::NAN)).0, Verdict::Differs);
    }

    #[test]
    fn a_row_of_several_devices_names_those_on_which_it_holds() {
        let cases = [("hdd-barracuda", 0.9), ("sata-850pro", 1.0), ("nvme-960pro", 1.3)];
        let cases = cases.map(|(device, figure)| Case::counts("copy", figure).on(device)).to_vec();
        let Outcome::Measured(measured) = measured("ldj-copy-oj", 1.3, cases) else { panic!("it was measured") };
        assert!(measured.words().starts_with("DIFFERS, "), "{}", measured.words());
        assert_eq!(measured.places(), "holds on hdd-barracuda; not on sata-850pro, nvme-960pro");
    }
}
