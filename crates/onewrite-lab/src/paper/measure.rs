//! Measure: runs the experiment of a row, and holds its figure and its cases to the row's terms.

use std::fmt;

use super::entry::Experiment;
use super::found::{Asked, Case, Found};
use super::scoreboard::Row;
use super::verdict::{Terms, Verdict};
use super::{
    amplification, blocks, calibration, cleaning, databases, false_recovery, git, journals, padding, photographs,
    recovery, staging, ts_clock,
};
use crate::error::LabError;

/// A row with its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The row.
    pub row: Row,
    /// The measured figure, in the row's unit.
    pub measured: f64,
    /// The cases behind it, one for each sub-claim of the row.
    pub cases: Vec<Case>,
    /// What the row asks of its figure.
    terms: Terms,
}

/// Measures `row`.
///
/// # Errors
/// If the row has no experiment or no terms, or the experiment fails.
pub fn run(row: &Row) -> Result<Measured, LabError> {
    let Some(experiment) = row.experiment() else {
        let why = row.why_not().unwrap_or_default();
        return Err(LabError::Option(format!("row `{}` has no experiment: {why}", row.id)));
    };
    let terms = row.terms()?;
    Ok(Measured::new(row, terms, measure(&row.id, experiment)?))
}

/// Runs an experiment; the figure is in the unit of the row `id`.
fn measure(id: &str, experiment: Experiment) -> Result<Found, LabError> {
    let plain = |figure: Result<f64, LabError>| figure.map(Found::from);
    match experiment {
        Experiment::Blocks(mode) => plain(blocks::count(mode)),
        Experiment::Amplification(amplified) => Ok(amplification::largest(amplified)),
        Experiment::TsClock(claim) => ts_clock::measure(id, &claim),
        Experiment::PaddedWrites(modes) => padding::best_fio(modes),
        Experiment::PaddedVarmail(modes) => plain(padding::varmail_ratio(modes)),
        Experiment::PaddedBlocks(mode) => plain(padding::blocks_per_transaction(mode)),
        Experiment::EvictionOverFlush(device) => padding::eviction_over_flush(device),
        Experiment::PaddedFlushes(modes) => padding::flushes(modes),
        Experiment::Writes(sweep) => journals::writes(sweep),
        Experiment::WritesAnd(sweep, work) => journals::writes_and(sweep, work),
        Experiment::OverBest(over) => journals::over_best(over),
        Experiment::Ldj(rivalry) => journals::best_over(rivalry),
        Experiment::LdjAndBytes(rivalry, bytes) => journals::best_over_and_bytes(rivalry, bytes),
        Experiment::LdjRecovery(rivalry) => recovery::worst_over(rivalry),
        Experiment::LdjBytes(modes, work) => plain(journals::bytes_over(modes, work)),
        Experiment::LdjPacked(work) => plain(journals::packed(work)),
        Experiment::LdjFlushes(modes) => journals::flushes_over(modes),
        Experiment::FalseRecovery => plain(false_recovery::with_self_trimming()),
        Experiment::Databases(cost, a, b) => databases::ratio(cost, a, b),
        Experiment::Innodb(cost, a, b) => databases::innodb(cost, a, b),
        Experiment::Oltp(cost, versus, devices) => databases::oltp(cost, versus, devices),
        Experiment::OltpPacked => plain(databases::oltp_packed()),
        Experiment::Git(devices) => git::speed_up(devices),
        Experiment::GitBytes(versus) => plain(git::bytes_over("sata-850pro", versus)),
        Experiment::GitPacked => plain(git::packed("sata-850pro")),
        Experiment::GitLogs(device) => git::by_log_size(device),
        Experiment::Cleaned(what) => cleaning::measure(what),
        Experiment::Staged(all) => staging::over_others(all),
        Experiment::OpenChannel(of) => staging::on_open_channel(&of),
        Experiment::Garbage(what) => staging::garbage::measure(what),
        Experiment::Remount => staging::remount::milliseconds(),
        Experiment::Varied(what) => staging::sensitivity::measure(what),
        Experiment::Photographs => plain(photographs::compressed_size()),
        Experiment::Device(profile, figure) => calibration::figure(profile, figure),
    }
}

impl Measured {
    pub(super) fn new(row: &Row, terms: Terms, found: Found) -> Measured {
        Measured { row: row.clone(), measured: found.figure, cases: found.cases, terms }
    }

    /// Ratio of the measured figure to the paper's.
    pub fn ratio(&self) -> f64 {
        self.measured / self.row.paper
    }

    /// Whether the row meets its terms: its figure, and every case that it speaks of.
    pub fn verdict(&self) -> Verdict {
        let cases = self.cases.iter().filter_map(|case| case.verdict(self.terms));
        let all = cases.chain([self.terms.judge(self.measured)]).max();
        match all.unwrap_or(Verdict::Differs) {
            _ if self.row.is_input() && self.measured.is_finite() => Verdict::Input,
            verdict => verdict,
        }
    }

    /// Whether its terms ask who wins and no more.
    pub(super) fn is_about_the_winner(&self) -> bool {
        self.terms.is_about_the_winner()
    }

    /// The verdict in words, with the difference in percent.
    pub(super) fn words(&self) -> String {
        let difference = self.difference();
        match self.verdict() {
            Verdict::Agrees if self.is_about_the_winner() => format!("the winner agrees{difference}"),
            Verdict::Agrees => format!("agrees{difference}"),
            Verdict::DirectionOnly => format!("direction only{difference}"),
            Verdict::Input => format!("an input, not judged{difference}"),
            Verdict::Differs if self.terms.judge(self.measured) != Verdict::Differs => {
                format!("DIFFERS in {} of {} cases", self.failing().count(), self.claimed().count())
            }
            Verdict::Differs if self.terms.is_draw(self.measured) => format!("DIFFERS: a draw{difference}"),
            Verdict::Differs => format!("DIFFERS{difference}"),
        }
    }

    /// How far the figure is from the paper's; empty where it is the same or the paper has 0.
    fn difference(&self) -> String {
        let percent = (self.ratio() - 1.0) * 100.0;
        if percent.is_finite() && percent != 0.0 { format!(", {percent:+.1} %") } else { String::new() }
    }

    fn claimed(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.asked != Asked::Nothing)
    }

    fn failing(&self) -> impl Iterator<Item = &Case> {
        self.claimed().filter(|case| case.verdict(self.terms) == Some(Verdict::Differs))
    }

    /// The devices on which the row was measured, and those on which it holds.
    pub(super) fn places(&self) -> String {
        let devices = self.row.experiment().map(|experiment| experiment.devices()).unwrap_or_default();
        if self.verdict() == Verdict::Input {
            return format!("on {}", devices.join(", "));
        }
        let (yes, no): (Vec<&str>, Vec<&str>) = devices.into_iter().partition(|device| self.holds_on(device));
        match (yes.is_empty(), no.is_empty()) {
            (false, true) => format!("holds on {}", yes.join(", ")),
            (true, _) => format!("not on {}", no.join(", ")),
            (false, false) => format!("holds on {}; not on {}", yes.join(", "), no.join(", ")),
        }
    }

    /// Whether the row holds on `device`, by the cases there; where it has none, by the row as a whole.
    fn holds_on(&self, device: &str) -> bool {
        let there: Vec<&Case> = self.cases.iter().filter(|case| case.device == device).collect();
        if there.is_empty() {
            return self.verdict() != Verdict::Differs;
        }
        let judge = |case: &&Case| case.terms(self.terms).unwrap_or(self.terms).judge(case.figure);
        there.iter().all(|case| judge(case) != Verdict::Differs)
    }

    /// The cases with their figures; of many, those that do not hold. Empty without cases.
    pub(super) fn cases_in_words(&self) -> String {
        let told = |case: &Case| {
            let mark = if case.verdict(self.terms) == Some(Verdict::Differs) { " DIFFERS" } else { "" };
            let range = |(least, most)| format!(" [{}, {}]", rounded(least), rounded(most));
            let range = case.range.map(range).unwrap_or_default();
            format!("{} {}{range}{mark}", case.label(), rounded(case.figure))
        };
        if self.cases.len() <= CASES_SHOWN {
            return self.cases.iter().map(told).collect::<Vec<_>>().join("; ");
        }
        let (failing, all) = (self.failing().map(told).collect::<Vec<_>>(), self.claimed().count());
        let held = format!("{} of {all} cases hold", all - failing.len());
        [vec![held], failing].concat().join("; ")
    }
}

/// The most cases that are all shown.
const CASES_SHOWN: usize = 12;

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { id, source, metric, unit, paper, .. } = &self.row;
        let measured = rounded(self.measured);
        write!(f, "{id:26} paper {paper:>8}   measured {measured:>8} {unit}   {}; {}", self.words(), self.places())?;
        write!(f, "\n{:26} {metric} ({source})", "")?;
        if self.cases.is_empty() { Ok(()) } else { write!(f, "\n{:26} {}", "", self.cases_in_words()) }
    }
}

/// Formats with four significant digits.
pub(super) fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 1000.0 || value.fract() == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        value if value >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}
