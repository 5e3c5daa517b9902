//! `onewrite fsck` of an F2FS image: checks it and writes nothing.

use std::process::ExitCode;

use anyhow::bail;
use onewrite_fs::FsError;
use onewrite_fs::f2fs::check::{CheckOptions, Report, check};

use super::verdict::{ERRORS_LEFT, Verdict, words};
use crate::args::Fsck;
use crate::open::{Changes, with_device};
use crate::output::{is_stdout, write_json};

/// The advice for a damaged image.
const CURE: &str = "copy the image first; fsck.f2fs may repair it";

/// The advice if only its staging area is damaged.
const CURE_OF_STAGE: &str = "copy the image first; a mount with `-o discard_stage` gives up what fsyncs staged";

/// Checks the image.
pub fn fsck(args: &Fsck) -> anyhow::Result<ExitCode> {
    if args.safe || args.all {
        bail!("F2FS is only checked here: run `onewrite fsck` without -p and -y; fsck.f2fs repairs it");
    }
    let name = args.image.display().to_string();
    let checked =
        with_device(&args.image, Changes::InMemory, async |port| match check(&port, &CheckOptions::default()).await {
            Err(FsError::Damaged { place, problem }) => Ok(Err(format!("{place}: {problem}"))),
            other => Ok(Ok(other?)),
        });
    let report = match checked? {
        Ok(report) => report,
        Err(damage) => {
            outln!("{name}: too damaged to check: {damage}; {CURE}");
            return Ok(ExitCode::from(ERRORS_LEFT));
        }
    };
    let verdict = verdict(&report);
    if let Some(path) = &args.json {
        write_json(path, &verdict.json(&name)?)?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        let cure = if report.is_of_stage_alone { CURE_OF_STAGE } else { CURE };
        verdict.say(&name, Changes::InMemory, Some(cure));
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ERRORS_LEFT) })
}

fn verdict(report: &Report) -> Verdict {
    Verdict {
        notes: words(&report.notes),
        findings: words(&report.findings),
        errors: report.finding_count,
        used_inodes: report.used_inodes,
        used_blocks: report.used_blocks,
        ..Verdict::default()
    }
}
