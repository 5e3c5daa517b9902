//! `onewrite fsck`

use std::process::ExitCode;

use anyhow::Context;
use onewrite_fs::FsError;
use onewrite_lab::session::{Judgement, judge};

use crate::args::Fsck;
use crate::open::{replayed, with_device};
use crate::output::{self, is_stdout, write_json};

/// Exit code for an image with errors, as e2fsck has it for errors that are left.
const ERRORS_LEFT: u8 = 4;

/// Replays the log and checks every structure.
pub fn fsck(args: &Fsck) -> anyhow::Result<ExitCode> {
    output::check(&[args.json.as_ref()])?;
    let name = args.image.display().to_string();
    let judged = with_device(&args.image, !args.no_changes, async move |port| match judge(&port).await {
        Err(FsError::Damaged { place, problem }) => {
            let cure = "e2fsck may repair it, from a backup with `-b 32768` if the superblock is gone";
            Ok(Err(format!("too damaged to check: {place}: {problem}; {cure}")))
        }
        Err(error @ FsError::Unsupported(_)) => Ok(Err(error.to_string())),
        other => Ok(Ok(other?)),
    });
    Ok(match judged.with_context(|| name.clone())? {
        Ok(judgement) => {
            if let Some(path) = &args.json {
                write_json(path, &json(&name, &judgement)?)?;
            }
            let is_told = args.json.as_deref().is_some_and(is_stdout);
            say(&name, &judgement, args.no_changes, is_told)
        }
        Err(damage) => {
            outln!("{name}: {damage}");
            ExitCode::from(ERRORS_LEFT)
        }
    })
}

/// What was replayed and found, for programs: docs/results-json.md.
fn json(name: &str, judgement: &Judgement) -> anyhow::Result<String> {
    let report = &judgement.report;
    let value = serde_json::json!({
        "image": name,
        "clean": report.is_clean(),
        "recovered": judgement.recovered,
        "errors": report.finding_count,
        "findings": report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "used_inodes": report.used_inodes,
        "used_blocks": report.used_blocks,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Tells it to people, unless programs were told in its place.
fn say(name: &str, judgement: &Judgement, no_changes: bool, is_told: bool) -> ExitCode {
    let report = &judgement.report;
    if is_told {
        return if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ERRORS_LEFT) };
    }
    if let Some(recovered) = judgement.recovered {
        outln!("{name}: {}", replayed(&recovered, !no_changes));
    }
    report.findings.iter().for_each(|finding| outln!("{name}: {finding}"));
    let unkept = report.finding_count - report.findings.len() as u64;
    if unkept > 0 {
        outln!("{name}: and {unkept} more");
    }
    if report.is_clean() {
        outln!("{name}: clean, {} inodes and {} blocks in use", report.used_inodes, report.used_blocks);
        return ExitCode::SUCCESS;
    }
    outln!("{name}: {} errors; e2fsck can repair them", report.finding_count);
    ExitCode::from(ERRORS_LEFT)
}
