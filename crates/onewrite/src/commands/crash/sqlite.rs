//! `onewrite crash sqlite:…`: databases of SQLite on a recorded disk, judged by SQLite after power cuts.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, bail};
use onewrite_lab::experiment::Exploration;
use onewrite_lab::sqlite::{Kept, SqliteProof, SqliteProved};

use super::application::{self, Room};
use crate::args::Crash;
use crate::output::write_json;
use crate::progress::Bar;
use crate::stop;

/// Runs the transactions, explores, and tells what was found.
pub fn sqlite(exploration: &Exploration, proof: SqliteProof, args: &Crash) -> anyhow::Result<ExitCode> {
    let given = [("--faults", args.faults), ("--state", args.state.is_some()), ("--marks", args.marks)];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{option} is for workloads of the file system, not for {proof}; leave it out");
    }
    let kept_at = application::kept_at(args)?;
    let room = Room::new()?;
    let place = room.at("states");
    fs::create_dir(&place)?;
    let _changing = stop::Changing::begin()?;
    let bar = Bar::new("crash", "states");
    let watch =
        |states: u64, checks: u64| bar.stage((&format!("crash: {checks} databases"), "states"), states, args.states);
    let SqliteProved { report, kept, damaged, shorter } = exploration.prove_sqlite(proof, &place, &watch)?;
    let seconds = bar.end();
    note!("{proof}: {}", kept.told());
    application::tell(&report, seconds);
    match kept {
        Kept::Nothing => note!("damaged, as SQLite's documentation admits: {damaged} of {} checks", report.checks),
        Kept::All => (),
        Kept::AllButLast | Kept::Some => {
            note!("fewer transactions than had returned, as is admitted: {shorter} of {} checks", report.checks);
        }
    }
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    let Some(failure) = &report.failure else { return Ok(ExitCode::SUCCESS) };
    application::keep_failure(exploration.directories(), failure, &kept_at)
        .with_context(|| kept_at.display().to_string())?;
    application::tell_failure(failure, &kept_at);
    errln!("look: sqlite3 {}/tree/app.db 'PRAGMA integrity_check; SELECT * FROM last'", kept_at.display());
    errln!("violations: Application 1");
    Ok(ExitCode::FAILURE)
}
