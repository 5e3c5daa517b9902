//! `onewrite fsck`

use std::process::ExitCode;

use anyhow::Context;
use onewrite_fs::FsError;
use onewrite_lab::session::{Judgement, judge};

use crate::args::Fsck;
use crate::open::with_device;

/// Exit code for an image with errors, as e2fsck has it for errors that are left.
const ERRORS_LEFT: u8 = 4;

/// Replays the log and checks every structure.
pub fn fsck(args: &Fsck) -> anyhow::Result<ExitCode> {
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
        Ok(judgement) => say(&name, &judgement, args.no_changes),
        Err(damage) => {
            println!("{name}: {damage}");
            ExitCode::from(ERRORS_LEFT)
        }
    })
}

fn say(name: &str, judgement: &Judgement, no_changes: bool) -> ExitCode {
    let report = &judgement.report;
    if let Some(recovered) = judgement.recovered {
        let place = if no_changes { " in memory" } else { "" };
        println!(
            "{name}: log replayed{place}: {} transactions, {} blocks written home",
            recovered.transactions, recovered.written_blocks
        );
    }
    report.findings.iter().for_each(|finding| println!("{name}: {finding}"));
    let unkept = report.finding_count - report.findings.len() as u64;
    if unkept > 0 {
        println!("{name}: and {unkept} more");
    }
    if report.is_clean() {
        println!("{name}: clean, {} inodes and {} blocks in use", report.used_inodes, report.used_blocks);
        return ExitCode::SUCCESS;
    }
    println!("{name}: {} errors; e2fsck can repair them", report.finding_count);
    ExitCode::from(ERRORS_LEFT)
}
