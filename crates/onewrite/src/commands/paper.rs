//! `onewrite paper`

use anyhow::{Context, bail};
use onewrite_lab::paper::results::ResultsStudy;
use onewrite_lab::paper::ts_clock::TsClockStudy;
use onewrite_lab::paper::{self, Row};

use super::run::{is_stdout, write_json};

use crate::args::Paper;
use crate::progress::Bar;

/// Runs rows of the scoreboard and prints paper beside measured.
pub fn paper(args: &Paper) -> anyhow::Result<()> {
    if args.ids == ["ts-clock"] {
        return ts_clock(args);
    }
    if args.ids == ["results"] {
        return results(args.short);
    }
    let rows = paper::scoreboard()?;
    if args.list {
        rows.iter()
            .for_each(|row| println!("{:4} {:28} {}", if row.can_run() { "runs" } else { "" }, row.id, row.metric));
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
            Ok(measured) => println!("{measured}"),
            // One row that misses something does not keep the others from running.
            Err(error) if args.ids.is_empty() => {
                missing += 1;
                println!("{:26} not run: {error}", row.id);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if missing > 0 {
        bail!("{missing} rows could not be run");
    }
    Ok(())
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
        seed: args.seed,
        scale: args.scale,
        load_file: args.load_file.as_deref(),
        sensitivity: args.sensitivity,
    };
    let figures = study.run(&|what| eprintln!("{what} …"))?;
    if let Some(path) = &args.html {
        std::fs::write(path, figures.html()).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&figures)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        print!("{}", figures.markdown());
    }
    Ok(())
}

/// Every journal mode on several devices.
fn results(is_short: bool) -> anyhow::Result<()> {
    let study = if is_short { ResultsStudy::short() } else { ResultsStudy::full() };
    let bar = Bar::new("results", "cells");
    let found = study.run(&|all| bar.advance(1, all as u64));
    bar.finish("results");
    print!("{}", found?.markdown());
    Ok(())
}

fn find<'a>(rows: &'a [Row], id: &str) -> anyhow::Result<&'a Row> {
    match rows.iter().find(|row| row.id == id) {
        None => bail!("the scoreboard has no row `{id}`; `onewrite paper --list` shows them"),
        Some(row) if !row.can_run() => bail!("row `{id}` cannot be run yet: {}", row.metric),
        Some(row) => Ok(row),
    }
}
