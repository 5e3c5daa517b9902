//! `onewrite fsck`

mod f2fs;
mod verdict;

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use onewrite_block::DevicePort;
use onewrite_fs::repair::{Change, Manner};
use onewrite_fs::{FsError, is_f2fs};
use onewrite_lab::LabError;
use onewrite_lab::session::{Judgement, Mended, Prospect, judge, mend, prospect};

use crate::args::Fsck;
use crate::escape;
use crate::open::{Changes, with_device};
use crate::output::{is_stdout, write_json};
use crate::outputs::Outputs;
use verdict::{ERRORS_LEFT, Verdict, words};

/// Exit code of fsck(8) for errors that were corrected.
const CORRECTED: u8 = 1;
/// Exit code of fsck(8) for an image that could not be checked.
const NOT_CHECKED: u8 = 8;

/// Replays the log, checks all metadata, and repairs it if asked to.
pub fn fsck(args: &Fsck) -> anyhow::Result<ExitCode> {
    Outputs { json: args.json.as_ref(), ..Outputs::default() }.check(&[&args.image])?;
    if with_device(&args.image, Changes::InMemory, async |port| Ok(is_f2fs(&port).await?))? {
        let name = args.image.display().to_string();
        return f2fs::fsck(args).map_err(|error| with_cure(error, args, "fsck.f2fs")).with_context(|| name);
    }
    let done = match (args.safe, args.all) {
        (true, _) => repair(args, Manner::Safe),
        (_, true) => repair(args, Manner::All),
        _ => look(args),
    };
    let name = args.image.display().to_string();
    done.map_err(|error| with_cure(error, args, "e2fsck")).with_context(|| name)
}

/// Adds advice to the error of an image that cannot be checked or may not be changed; `other` names a tool that may
/// know more.
fn with_cure(error: anyhow::Error, args: &Fsck, other: &str) -> anyhow::Error {
    if let Some(FsError::Unsupported(what)) = error.downcast_ref() {
        return anyhow!("cannot check it: {what}; {other} can check it");
    }
    let is_refused = error.chain().any(is_permission);
    if is_refused && !args.no_changes && std::fs::File::open(&args.image).is_ok() {
        return error.context("it may not be written; `onewrite fsck -n` checks it without");
    }
    error
}

fn is_permission(cause: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let setup = match cause.downcast_ref::<LabError>() {
        Some(LabError::DeviceSetup(error)) => Some(error),
        _ => cause.downcast_ref(),
    };
    matches!(setup, Some(onewrite_device::Error::Host { kind: PermissionDenied | ReadOnlyFilesystem, .. }))
}

/// Result of a check: a judgement or the reason why there is none, and the repairs that would put the image right.
type Looked = (Result<Judgement, String>, Option<Prospect>);

fn look(args: &Fsck) -> anyhow::Result<ExitCode> {
    let name = args.image.display().to_string();
    let changes = if args.no_changes { Changes::InMemory } else { Changes::Kept };
    let (judged, prospect) = with_device(&args.image, changes, looked)?;
    let judgement = match judged {
        Ok(judgement) => judgement,
        Err(damage) => {
            outln!("{name}: too damaged to check: {damage}; {}", cure(prospect.as_ref()));
            return Ok(ExitCode::from(ERRORS_LEFT));
        }
    };
    if let Some(path) = &args.json {
        write_json(path, &verdict(&judgement, &[], changes).json(&name)?)?;
    }
    let is_told = args.json.as_deref().is_some_and(is_stdout);
    Ok(say(&name, &judgement, (changes, &cure(prospect.as_ref())), is_told))
}

async fn looked(port: DevicePort) -> anyhow::Result<Looked> {
    match judge(&port).await {
        Err(FsError::Damaged { place, problem }) => {
            Ok((Err(format!("{place}: {problem}")), Some(prospect(&port).await)))
        }
        Ok(judgement) if judgement.report.is_clean() || judgement.report.has_unknown_features => {
            Ok((Ok(judgement), None))
        }
        other => Ok((Ok(other?), Some(prospect(&port).await))),
    }
}

/// The advice for a damaged image.
fn cure(prospect: Option<&Prospect>) -> String {
    let copy = "copy the image first; then `--rescue` reads what is left of it";
    match prospect {
        Some(Prospect::Safe) => "`onewrite fsck -p` repairs it and loses nothing".to_owned(),
        Some(Prospect::All) => "`onewrite fsck -y` repairs it; copy the image first if it matters".to_owned(),
        Some(Prospect::None(Some(why))) => format!("no repair is known: {}; {copy}", escape::message(why)),
        Some(Prospect::None(None)) | None => format!("no repair is known; {copy}, and e2fsck may repair it"),
    }
}

/// Makes all repairs that `manner` allows, or none.
fn repair(args: &Fsck, manner: Manner) -> anyhow::Result<ExitCode> {
    let name = args.image.display().to_string();
    let mended = with_device(&args.image, Changes::Kept, async move |port| Ok(mend(&port, manner).await?));
    let Mended { recovered, repaired, prospect } = mended?;
    let is_repaired = !repaired.blocks.is_empty();
    let done: &[Change] = if is_repaired { &repaired.changes } else { &[] };
    let refused = repaired.changes.iter().filter(|change| !is_repaired && !change.is_safe).count();
    let judgement = Judgement { recovered, finished: 0, report: repaired.after };
    if let Some(path) = &args.json {
        write_json(path, &verdict(&judgement, done, Changes::Kept).json(&name)?)?;
    }
    let is_told = args.json.as_deref().is_some_and(is_stdout);
    if !is_told {
        done.iter().for_each(|change| outln!("{name}: repaired: {}", escape::message(&change.to_string())));
        if manner == Manner::Safe && prospect == Prospect::All {
            outln!("{name}: {refused} of the repairs may lose something: nothing was written, run with -y");
        }
    }
    let code = say(&name, &judgement, (Changes::Kept, &cure(Some(&prospect))), is_told);
    let is_clean = judgement.report.is_clean();
    Ok(if is_clean && is_repaired { ExitCode::from(CORRECTED) } else { code })
}

fn verdict(judgement: &Judgement, repaired: &[Change], changes: Changes) -> Verdict {
    let report = &judgement.report;
    Verdict {
        recovered: judgement.recovered,
        repaired: words(repaired),
        notes: finished(judgement.finished, changes),
        findings: words(&report.findings),
        errors: report.finding_count,
        used_inodes: report.used_inodes,
        used_blocks: report.used_blocks,
    }
}

/// A note on removals and truncations that the last use of the image began.
fn finished(count: u64, changes: Changes) -> Vec<String> {
    let done = match changes {
        Changes::Kept => "finished",
        Changes::InMemory => "a mount or `onewrite fsck` without -n would finish",
    };
    match count {
        0 => Vec::new(),
        1 => vec![format!("{done} 1 removal or truncation that was under way")],
        _ => vec![format!("{done} {count} removals and truncations that were under way")],
    }
}

/// Prints the result for people, unless JSON was printed in its place; `cure` is the advice for remaining damage.
fn say(name: &str, judgement: &Judgement, (changes, cure): (Changes, &str), is_told: bool) -> ExitCode {
    let report = &judgement.report;
    if !is_told {
        verdict(judgement, &[], changes).say(name, changes, (!report.has_unknown_features).then_some(cure));
    }
    match (report.is_clean(), report.has_unknown_features) {
        (true, _) => ExitCode::SUCCESS,
        (_, true) => ExitCode::from(NOT_CHECKED),
        _ => ExitCode::from(ERRORS_LEFT),
    }
}
