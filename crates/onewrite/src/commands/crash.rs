//! `onewrite crash`

mod application;
mod marks;
mod sqlite;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use onewrite_crash::{Report, Shrunk, Stage, Violation};
use onewrite_lab::experiment::CrashExperiment;
use onewrite_lab::sqlite::SqliteProof;

use super::job::{changes, named, warn};
use crate::args::Crash;
use crate::output::write_json;
use crate::outputs::Outputs;
use crate::progress::Bar;
use application::Wanted;

/// Explores a workload, or judges one state again.
pub fn crash(args: &Crash) -> anyhow::Result<ExitCode> {
    let inputs: Vec<&Path> =
        [args.workload.as_ref(), args.device.as_ref()].into_iter().flatten().map(Path::new).collect();
    Outputs { json: args.json.as_ref(), ..Outputs::default() }.check(&inputs)?;
    let experiment = experiment(args)?;
    let exploration = experiment.exploration()?;
    warn(&exploration.warnings);
    if let (Some(run), Some(check)) = (&args.run, &args.check) {
        let Some(ext4) = exploration.ext4() else {
            bail!("--run records a mount of ext4; leave --fs f2fs out");
        };
        return application::application(ext4, &exploration.options, &Wanted { run, check, args });
    }
    if let Some(proof) = args.workload.as_deref().and_then(SqliteProof::named) {
        return sqlite::sqlite(&exploration, proof?, args);
    }
    if args.keep.is_some() {
        bail!("--keep is for --run and sqlite:…; a workload of the file system prints the command that repeats it");
    }
    let workloads = experiment.workloads(&exploration)?;
    let bar = Bar::new("crash", if args.faults { "runs" } else { "states" });
    let report = match &args.state {
        None => exploration.explore(workloads, |stage| show(&bar, stage, args), |violation| found(violation, args))?,
        Some(state) => exploration.replay(&experiment.script()?, state)?,
    };
    let seconds = bar.end();
    summarise(&report, seconds, args.marks);
    if args.minimise > 0 || args.state.is_some() {
        report.violations.iter().for_each(tell);
    }
    errln!("violations: {}", by_promise(&report));
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows the stage of the exploration.
fn show(bar: &Bar, stage: Stage, args: &Crash) {
    match stage {
        Stage::Aging => bar.stage(("crash: aging the device", "states"), 0, 0),
        Stage::Failing { stretch, stretches, request, requests } => {
            let name = format!("crash: part {stretch} of {stretches} of the workload");
            bar.stage((&name, "failed requests"), request, requests);
        }
        Stage::Judging { .. } if args.faults => (),
        Stage::Judging { states, judged } => {
            bar.stage((&format!("crash: {judged} judged"), "states"), states, args.states);
        }
        // `found` tells of it.
        Stage::Broken(_) => (),
        Stage::Shrinking { number, count, judged, judged_max } => {
            let name = format!("crash: making violation {number} of {count} smaller");
            bar.stage((&name, "judgements"), judged, judged_max);
        }
    }
}

/// Tells of a violation at once.
fn found(violation: &Violation, args: &Crash) {
    tell(violation);
    if args.minimise > 0 {
        note!("making it smaller, in at most {} judgements (`--minimise 0` leaves it)", args.minimise);
    }
}

fn experiment(args: &Crash) -> anyhow::Result<CrashExperiment> {
    let (workload, job_text) = named(args.workload.as_deref().unwrap_or_default())?;
    Ok(CrashExperiment {
        workload,
        job_text,
        file: changes(&args.fio),
        runtime: args.runtime,
        fs: args.fs.into(),
        mode: args.modes.mode.clone(),
        fsync_mode: args.modes.fsync_mode,
        clean: args.modes.clean,
        in_place_below: args.modes.ipu.unwrap_or(0),
        stage: args.modes.stage,
        device: args.device.clone(),
        layer: args.layer.choice(),
        eviction_spot: args.eviction_spot.clone(),
        size: args.size,
        journal_blocks: args.journal_blocks,
        cache_pages: args.cache_pages,
        cache_policy: args.cache_policy,
        delayed_allocation: !args.nodelalloc,
        commit_interval: args.commit_interval,
        checkpoint_age: args.checkpoint_age,
        prompt_writeback: args.prompt_writeback,
        slow_one_in: args.slow_one_in,
        mkfs: args.mkfs.clone(),
        states: args.states,
        seed: args.seed,
        e2fsck_every: args.e2fsck_every,
        thorough_every: args.thorough_every,
        nested_every: args.nested_every,
        torn_pages: args.torn_pages,
        torn_shares: args.torn_shares,
        faults: args.faults,
        jobs: args.jobs,
        minimise: args.minimise,
    })
}

fn summarise(report: &Report, seconds: f64, lists_marks: bool) {
    let kinds = &report.states_by_kind;
    let (percent, rate) = (report.replaying_percent(), report.states as f64 / seconds.max(1e-9));
    note!(
        "{} distinct states of {} workloads in {seconds:.1} s, {rate:.0} a second; in {percent:.0}% recovery replays \
         something",
        report.states,
        report.workloads
    );
    let lines = [
        ("every subset of unflushed writes", kinds.subset),
        ("drawn subsets", kinds.sampled),
        ("torn pages", kinds.torn_page),
        ("torn SHAREs", kinds.torn_share),
        ("inside the device", kinds.inside_device),
        ("  inside SHARE", kinds.inside_share),
        ("  inside its map log", kinds.inside_map_log),
        ("  inside garbage collection", kinds.inside_collection),
        ("  inside its recovery", kinds.inside_device_recovery),
        ("inside recovery", kinds.inside_recovery),
        ("inside recovery of recovery", kinds.inside_nested_recovery),
        ("something in the log", kinds.log_not_empty),
        ("torn commits", kinds.torn_commit),
        ("wrapped logs", kinds.log_wrapped),
        ("forced checkpoints", kinds.forced_checkpoint),
        ("revokes", kinds.revoke),
        ("judged by a foreign checker, too", report.e2fsck_runs),
        ("operations in all runs", report.operations),
        ("  of them, answered with an error", report.operations_with_errors),
        ("judged in all", report.judged),
        ("mounted trees judged", report.mounted),
        ("workloads judged at some places only", report.glances),
    ];
    lines.iter().for_each(|(name, count)| note!("  {name:34} {count:>9}"));
    marks::summarise(&report.marks, lists_marks);
}

/// Counts the violations of each promise.
fn by_promise(report: &Report) -> String {
    let mut counts = std::collections::BTreeMap::new();
    report.violations.iter().for_each(|violation| *counts.entry(violation.promise).or_insert(0) += 1);
    let told: Vec<String> = counts.iter().map(|(promise, count)| format!("{promise:?} {count}")).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn tell(violation: &Violation) {
    errln!("\nBROKEN {:?}: {}", violation.promise, violation.what);
    violation.difference.iter().for_each(|line| errln!("  {line}"));
    errln!("replay: {}\n", violation.replay);
    if violation.shrunk == Shrunk::ToTheBound {
        errln!("the search for a smaller one met its bound; more judgements (`--minimise`) may find one\n");
    }
}
