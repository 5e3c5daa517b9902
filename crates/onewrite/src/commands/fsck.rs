//! `onewrite fsck`

use std::process::ExitCode;

use anyhow::Context;
use onewrite_fs::FsError;
use onewrite_fs::repair::{Change, Manner};
use onewrite_lab::session::{Judgement, Mended, judge, mend};

use crate::args::Fsck;
use crate::escape;
use crate::open::{replayed, with_device};
use crate::output::{is_stdout, write_json};
use crate::outputs::Outputs;

/// Exit code of fsck(8) for errors that were corrected.
const CORRECTED: u8 = 1;
/// Exit code of fsck(8) for errors that are left.
const ERRORS_LEFT: u8 = 4;

/// Replays the log and checks every structure; repairs it, if that is asked for.
pub fn fsck(args: &Fsck) -> anyhow::Result<ExitCode> {
    Outputs { json: args.json.as_ref(), ..Outputs::default() }.check(&[&args.image])?;
    match (args.safe, args.all) {
        (true, _) => return repair(args, Manner::Safe),
        (_, true) => return repair(args, Manner::All),
        _ => {}
    }
    let name = args.image.display().to_string();
    let judged = with_device(&args.image, !args.no_changes, async move |port| match judge(&port).await {
        Err(FsError::Damaged { place, problem }) => {
            let cure = "`onewrite fsck -y` may repair it";
            Ok(Err(format!("too damaged to check: {place}: {problem}; {cure}")))
        }
        other => Ok(Ok(other?)),
    });
    Ok(match judged.with_context(|| name.clone())? {
        Ok(judgement) => {
            if let Some(path) = &args.json {
                write_json(path, &json(&name, &judgement, &[])?)?;
            }
            let is_told = args.json.as_deref().is_some_and(is_stdout);
            say(&name, &judgement, (args.no_changes, false), is_told)
        }
        Err(damage) => {
            outln!("{name}: {damage}");
            ExitCode::from(ERRORS_LEFT)
        }
    })
}

/// Repairs all that `manner` allows, or nothing.
fn repair(args: &Fsck, manner: Manner) -> anyhow::Result<ExitCode> {
    let name = args.image.display().to_string();
    let mended = with_device(&args.image, true, async move |port| Ok(mend(&port, manner).await?));
    let Mended { recovered, repaired } = mended.with_context(|| name.clone())?;
    let refusal = repaired.refusal.clone();
    let is_repaired = !repaired.blocks.is_empty();
    let done: &[Change] = if is_repaired { &repaired.changes } else { &[] };
    let refused = repaired.changes.iter().filter(|change| !is_repaired && !change.is_safe).count();
    let judgement = Judgement { recovered, report: repaired.after };
    if let Some(path) = &args.json {
        write_json(path, &json(&name, &judgement, done)?)?;
    }
    if args.json.as_deref().is_none_or(|path| !is_stdout(path)) {
        done.iter().for_each(|change| outln!("{name}: repaired: {}", escape::message(&change.to_string())));
        if let Some(refusal) = refusal {
            outln!("{name}: cannot repair it: {}", escape::message(&refusal));
        } else if refused > 0 && manner == Manner::Safe {
            outln!("{name}: {refused} of the repairs may lose something: nothing was written, run with -y");
        }
    }
    let is_told = args.json.as_deref().is_some_and(is_stdout);
    let code = say(&name, &judgement, (false, true), is_told);
    let is_clean = judgement.report.is_clean();
    Ok(if is_clean && is_repaired { ExitCode::from(CORRECTED) } else { code })
}

/// What was replayed, found and repaired, for programs: docs/results-json.md.
fn json(name: &str, judgement: &Judgement, repaired: &[Change]) -> anyhow::Result<String> {
    let report = &judgement.report;
    let value = serde_json::json!({
        "image": name,
        "clean": report.is_clean(),
        "recovered": judgement.recovered,
        "errors": report.finding_count,
        "findings": report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "repaired": repaired.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "used_inodes": report.used_inodes,
        "used_blocks": report.used_blocks,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Tells it to people, unless programs were told in its place.
fn say(name: &str, judgement: &Judgement, (no_changes, repairs): (bool, bool), is_told: bool) -> ExitCode {
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
    let cure = if repairs { "e2fsck may repair them" } else { "`onewrite fsck -y` repairs them" };
    outln!("{name}: {} errors; {cure}", report.finding_count);
    ExitCode::from(ERRORS_LEFT)
}
