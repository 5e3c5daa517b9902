//! `onewrite fsck` of an F2FS image: checks it and writes nothing.

use std::process::ExitCode;

use anyhow::bail;
use onewrite_fs::FsError;
use onewrite_fs::f2fs::check::{CheckOptions, Report, check};

use crate::args::Fsck;
use crate::open::{Changes, with_device};
use crate::output::{is_stdout, write_json};

/// Exit code of fsck(8) for errors that are left.
const ERRORS_LEFT: u8 = 4;
/// The advice for a damaged image.
const CURE: &str = "copy the image first; fsck.f2fs may repair it";

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
    if let Some(path) = &args.json {
        write_json(path, &json(&name, &report)?)?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        say(&name, &report);
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(ERRORS_LEFT) })
}

/// As for ext4; docs/results-json.md describes it.
fn json(name: &str, report: &Report) -> anyhow::Result<String> {
    let value = serde_json::json!({
        "image": name,
        "clean": report.is_clean(),
        "recovered": null,
        "errors": report.finding_count,
        "findings": report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "repaired": [],
        "used_inodes": report.used_inodes,
        "used_blocks": report.used_blocks,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn say(name: &str, report: &Report) {
    report.notes.iter().for_each(|note| outln!("{name}: {note} (no error)"));
    report.findings.iter().for_each(|finding| outln!("{name}: {finding}"));
    let unkept = report.finding_count - report.findings.len() as u64;
    if unkept > 0 {
        outln!("{name}: and {unkept} more");
    }
    if report.is_clean() {
        outln!("{name}: clean, {} inodes and {} blocks in use", report.used_inodes, report.used_blocks);
    } else {
        let plural = if report.finding_count == 1 { "" } else { "s" };
        outln!("{name}: {} error{plural}; {CURE}", report.finding_count);
    }
}
