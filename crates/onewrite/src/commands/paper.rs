//! `onewrite paper`

use std::process::ExitCode;

use anyhow::bail;
use onewrite_lab::LabError;
use onewrite_lab::paper::groups::select;
use onewrite_lab::paper::mechanisms::MechanismStudy;
use onewrite_lab::paper::results::ResultsStudy;
use onewrite_lab::paper::scores::{Outcome, Scores};
use onewrite_lab::paper::ts_clock::TsClockStudy;
use onewrite_lab::paper::{self, Duration, Row};

use crate::args::Paper;
use crate::output::{self, is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::Bar;

/// What stands alone: no row, a study of its own.
const STUDIES: [&str; 3] = ["ts-clock", "results", "mechanisms"];

/// Exit code if a row differs from its own terms, or could not be measured.
const ROW_DIFFERS: u8 = 1;

/// Head of the table of rows.
const HEAD: &str = "# Papers beside measurements\n\nMade by `onewrite paper --markdown FILE`; `make scoreboard` makes \
                    the one of all rows. What a verdict asks is in `papers.md`; why rows differ is in \
                    `results-notes.md` (journals, databases), `ts-clock.md` (caches) and `f2fs.md` (cleaning, \
                    staging).\n\n";

/// Runs rows of the scoreboard and prints the paper's value beside the measured one. Ends with 1 if a row differs from
/// its own terms or its experiment fails; a best case with the paper's direction alone, and a row without an
/// experiment, do not.
pub fn paper(args: &Paper) -> anyhow::Result<ExitCode> {
    refuse_unused(args)?;
    let outputs = Outputs {
        json: args.json.as_ref(),
        files: args.html.iter().chain(&args.markdown).collect(),
        ..Outputs::default()
    };
    outputs.check(&[])?;
    let rows = paper::scoreboard()?;
    if args.list {
        list(&named(&rows, &args.ids)?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.ids == ["ts-clock"] {
        return ts_clock(args).map(|()| ExitCode::SUCCESS);
    }
    if args.ids == ["results"] {
        return results(args).map(|()| ExitCode::SUCCESS);
    }
    if args.ids == ["mechanisms"] {
        return mechanisms(args).map(|()| ExitCode::SUCCESS);
    }
    let scores = scores(&chosen(&rows, &args.ids)?);
    if let Some(path) = &args.html {
        output::write(path, &scores.html())?;
    }
    if let Some(path) = &args.markdown {
        output::write(path, &(HEAD.to_owned() + &scores.markdown()))?;
    }
    let (tally, total) = (scores.tally(), scores.tally().total());
    outln!("\n{}\n{total}", tally.table());
    Ok(if total.differing + total.failed > 0 { ExitCode::from(ROW_DIFFERS) } else { ExitCode::SUCCESS })
}

/// Prints the rows by figure, and the figures by paper.
fn list(rows: &[&Row]) {
    let mut groups: Vec<String> = rows.iter().map(|row| row.group()).collect();
    groups.sort_by_key(|group| paper_and_place(group));
    groups.dedup();
    for group in groups {
        outln!("{group}");
        for row in rows.iter().filter(|row| row.group() == group) {
            outln!("  {:4} {:28} {}", if row.can_run() { "runs" } else { "" }, row.id, row.metric);
            if let Some(why) = row.why_not() {
                outln!("  {:33} cannot be run: {why}", "");
            }
        }
    }
}

/// Sort key: the paper, whether the place is a section, and its numbers, so that figure 10 comes after figure 9.
fn paper_and_place(group: &str) -> (String, bool, Vec<u32>, String) {
    let (paper, place) = group.split_once('-').unwrap_or((group, ""));
    let numbers = place.split('-').filter_map(|part| part.parse().ok()).collect();
    (paper.to_owned(), place.starts_with("sec"), numbers, place.to_owned())
}

/// The rows that `ids` name; without any, all.
fn named<'a>(rows: &'a [Row], ids: &[String]) -> anyhow::Result<Vec<&'a Row>> {
    if ids.is_empty() {
        return Ok(rows.iter().collect());
    }
    let mut named: Vec<&Row> = Vec::new();
    for id in ids {
        if STUDIES.contains(&id.as_str()) {
            bail!("`{id}` is no row: it stands alone, as `onewrite paper {id}`");
        }
        for row in select(rows, id)? {
            if !named.iter().any(|known| known.id == row.id) {
                named.push(row);
            }
        }
    }
    Ok(named)
}

/// [`named`]. A row that is named alone must be one that can be run.
fn chosen<'a>(rows: &'a [Row], ids: &[String]) -> anyhow::Result<Vec<&'a Row>> {
    let chosen = named(rows, ids)?;
    if let Some(row) = chosen.iter().find(|row| ids.contains(&row.id) && !row.can_run()) {
        bail!("row `{}` cannot be run: {}", row.id, row.why_not().unwrap_or_default());
    }
    Ok(chosen)
}

/// Measures the rows one after the other; a failure does not stop the others.
fn scores(rows: &[&Row]) -> Scores {
    let mut outcomes = Vec::new();
    for row in rows {
        outcomes.push(outcome(row));
    }
    Scores(outcomes)
}

fn outcome(row: &Row) -> Outcome {
    if let Some(why) = row.why_not() {
        outln!("{:26} not run: {why}", row.id);
        return Outcome::NotRun(row.clone(), why.to_owned());
    }
    note!("{} …{}", row.id, remark(row));
    match paper::run(row) {
        Ok(measured) => {
            outln!("{measured}");
            Outcome::Measured(measured)
        }
        Err(error) => {
            outln!("{:26} failed: {error}", row.id);
            Outcome::Failed(row.clone(), error.to_string())
        }
    }
}

/// Refuses options that would have no effect.
fn refuse_unused(args: &Paper) -> anyhow::Result<()> {
    let for_ts_clock = [
        ("--scale", args.scale.is_some()),
        ("--sensitivity", args.sensitivity),
        ("--seed", args.seed.is_some()),
        ("--json", args.json.is_some()),
        ("--load-file", args.load_file.is_some()),
    ];
    let given = for_ts_clock.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
    match given {
        Some(name) if args.ids != ["ts-clock"] => bail!("{name} is for `onewrite paper ts-clock`, alone"),
        _ if args.short && args.ids != ["results"] && args.ids != ["mechanisms"] => {
            bail!("--short is for `onewrite paper results` and `onewrite paper mechanisms`, alone")
        }
        _ if args.list && args.html.is_some() => bail!("--html is for rows that are run; leave --list out"),
        _ if args.list && args.markdown.is_some() => bail!("--markdown is for rows that are run; leave --list out"),
        _ if args.markdown.is_some() && STUDIES.iter().any(|id| args.ids == [*id]) => {
            bail!("--markdown is for rows; {} print Markdown by themselves", STUDIES.join(", "))
        }
        _ => Ok(()),
    }
}

/// A remark on a row before it is measured.
fn remark(row: &Row) -> &'static str {
    match row.duration() {
        Duration::MinutesOnCards => {
            " at full scale, up to two minutes; cards as FAST, `onewrite paper ts-clock --scale 1` has them as BAST, \
             too"
        }
        Duration::Minutes => " at full scale, up to two minutes",
        Duration::MinutesOfFiles => " minutes, because of its 50,000 files",
        Duration::Short => "",
    }
}

/// Runs the figures of the dissertation's chapter 2.
fn ts_clock(args: &Paper) -> anyhow::Result<()> {
    let study = TsClockStudy {
        seed: args.seed.unwrap_or(1),
        scale: args.scale.unwrap_or(0.05),
        load_file: args.load_file.as_deref(),
        sensitivity: args.sensitivity,
    };
    let figures = study.run(&|what| note!("{what} …"))?;
    if let Some(path) = &args.html {
        output::write(path, &figures.html())?;
    }
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        out!("{}", figures.markdown());
    }
    Ok(())
}

/// Runs every journal mode on several devices.
fn results(args: &Paper) -> anyhow::Result<()> {
    let study = if args.short { ResultsStudy::short() } else { ResultsStudy::full() };
    tables(args, "results", |watch| study.run(watch).map(|found| (found.markdown(), found.html())))
}

/// Runs every mechanism on several devices.
fn mechanisms(args: &Paper) -> anyhow::Result<()> {
    let study = if args.short { MechanismStudy::short() } else { MechanismStudy::full() };
    tables(args, "mechanisms", |watch| study.run(watch).map(|found| (found.markdown(), found.html())))
}

/// Runs the cells of a study, whose tables are Markdown and a page, and tells how far it is.
fn tables(
    args: &Paper,
    name: &str,
    run: impl FnOnce(&(dyn Fn(usize) + Sync)) -> Result<(String, String), LabError>,
) -> anyhow::Result<()> {
    let bar = Bar::new(name, "cells");
    let found = run(&|all| bar.advance(1, all as u64));
    bar.finish(name);
    let (markdown, html) = found?;
    if let Some(path) = &args.html {
        output::write(path, &html)?;
    }
    out!("{markdown}");
    Ok(())
}
