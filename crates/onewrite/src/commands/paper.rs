//! `onewrite paper`

use anyhow::bail;
use onewrite_lab::paper::results::ResultsStudy;
use onewrite_lab::paper::ts_clock::TsClockStudy;
use onewrite_lab::paper::{self, Row};

use crate::output::{self, is_stdout, write_json};

use crate::args::Paper;
use crate::progress::Bar;

/// Runs rows of the scoreboard and prints paper beside measured.
pub fn paper(args: &Paper) -> anyhow::Result<()> {
    refuse_unused(args)?;
    output::check(&[args.html.as_ref(), args.json.as_ref()])?;
    if args.ids == ["ts-clock"] {
        return ts_clock(args);
    }
    if args.ids == ["results"] {
        return results(args.short);
    }
    let rows = paper::scoreboard()?;
    if args.list {
        rows.iter()
            .for_each(|row| outln!("{:4} {:28} {}", if row.can_run() { "runs" } else { "" }, row.id, row.metric));
        return Ok(());
    }
    let chosen: Vec<&Row> = match args.ids.is_empty() {
        true => rows.iter().filter(|row| row.can_run()).collect(),
        false => args.ids.iter().map(|id| find(&rows, id)).collect::<anyhow::Result<_>>()?,
    };
    let mut missing = 0;
    for row in chosen {
        eprintln!("{} …{}", row.id, remark(row));
        match paper::run(row) {
            Ok(measured) => outln!("{measured}"),
            // One row that misses something does not keep the others from running.
            Err(error) if args.ids.is_empty() => {
                missing += 1;
                outln!("{:26} not run: {error}", row.id);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if missing > 0 {
        bail!("{missing} rows could not be run");
    }
    Ok(())
}

/// Options that would be passed over in silence.
fn refuse_unused(args: &Paper) -> anyhow::Result<()> {
    let for_ts_clock = [
        ("--scale", args.scale.is_some()),
        ("--sensitivity", args.sensitivity),
        ("--seed", args.seed.is_some()),
        ("--html", args.html.is_some()),
        ("--json", args.json.is_some()),
        ("--load-file", args.load_file.is_some()),
    ];
    let given = for_ts_clock.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
    match given {
        Some(name) if args.ids != ["ts-clock"] => bail!("{name} is for `onewrite paper ts-clock`, alone"),
        _ if args.short && args.ids != ["results"] => bail!("--short is for `onewrite paper results`, alone"),
        _ => Ok(()),
    }
}

/// What is to be known of a row before it is measured.
fn remark(row: &Row) -> &'static str {
    let is_chapter_two = row.id.starts_with("ts-") && !row.id.starts_with("ts-waf");
    match row.device.contains("microsd") || row.device == "all" {
        true if is_chapter_two => {
            " at full scale, up to two minutes; cards as FAST, `onewrite paper ts-clock --scale 1` has them as BAST, too"
        }
        false if is_chapter_two => " at full scale, up to two minutes",
        _ => "",
    }
}

/// The figures of the dissertation's chapter 2.
fn ts_clock(args: &Paper) -> anyhow::Result<()> {
    let study = TsClockStudy {
        seed: args.seed.unwrap_or(1),
        scale: args.scale.unwrap_or(0.05),
        load_file: args.load_file.as_deref(),
        sensitivity: args.sensitivity,
    };
    let figures = study.run(&|what| eprintln!("{what} …"))?;
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

/// Every journal mode on several devices.
fn results(is_short: bool) -> anyhow::Result<()> {
    let study = if is_short { ResultsStudy::short() } else { ResultsStudy::full() };
    let bar = Bar::new("results", "cells");
    let found = study.run(&|all| bar.advance(1, all as u64));
    bar.finish("results");
    out!("{}", found?.markdown());
    Ok(())
}

fn find<'a>(rows: &'a [Row], id: &str) -> anyhow::Result<&'a Row> {
    match rows.iter().find(|row| row.id == id) {
        None => bail!("the scoreboard has no row `{id}`; `onewrite paper --list` shows them"),
        Some(row) if !row.can_run() => bail!("row `{id}` cannot be run yet: {}", row.metric),
        Some(row) => Ok(row),
    }
}
