//! `onewrite crash`

use std::process::ExitCode;

use anyhow::bail;
use onewrite_block::Nanos;
use onewrite_crash::{ExploreOptions, Report, Sound, Violation, WorkloadSpec, crash as explore, replay};
use onewrite_device::Profile;

use super::run::write_json;
use crate::args::Crash;
use crate::progress::Spinner;

/// Explores a workload, or judges one state again.
pub fn crash(args: &Crash) -> anyhow::Result<ExitCode> {
    let options = options(args)?;
    let workload: WorkloadSpec = args.workload.parse()?;
    let spinner = Spinner::new("states");
    let report = match (&args.state, &workload) {
        (None, _) => explore(Sound, &workload, &options, true, |report| {
            spinner.say(format!("{} judged, {} workloads", report.states, report.workloads));
        })?,
        (Some(state), WorkloadSpec::Script(script)) => replay(Sound, script, state, &options)?,
        (Some(_), _) => bail!("--state names a state of one workload: write it out as `script:…`"),
    };
    spinner.finish("states", report.judged);
    summarise(&report);
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn options(args: &Crash) -> anyhow::Result<ExploreOptions> {
    let plain = ExploreOptions {
        size_bytes: args.size,
        journal_blocks: args.journal_blocks,
        cache_pages: args.cache_pages,
        delayed_allocation: !args.nodelalloc,
        commit_interval: Nanos(args.commit_interval.as_nanos() as u64),
        checkpoint_age: Nanos(args.checkpoint_age.as_nanos() as u64),
        seed: args.seed,
        states_max: args.states,
        e2fsck_every: args.e2fsck_every,
        ..ExploreOptions::new(args.mode.parse()?)
    };
    let geometry = match &args.device {
        Some(name) => Profile::load(name)?.device(Some(args.size))?.geometry().clone(),
        None => plain.geometry.clone(),
    };
    Ok(plain.on(&geometry))
}

fn summarise(report: &Report) {
    let kinds = &report.states_by_kind;
    let percent = report.replaying_percent();
    eprintln!(
        "{} distinct states of {} workloads; in {percent:.0}% recovery replays something",
        report.states, report.workloads
    );
    let lines = [
        ("every subset of unflushed writes", kinds.subset),
        ("drawn subsets", kinds.sampled),
        ("torn pages", kinds.torn_page),
        ("inside recovery", kinds.inside_recovery),
        ("inside recovery of recovery", kinds.inside_nested_recovery),
        ("torn commits", kinds.torn_commit),
        ("wrapped logs", kinds.log_wrapped),
        ("forced checkpoints", kinds.forced_checkpoint),
        ("revokes", kinds.revoke),
    ];
    lines.iter().for_each(|(name, count)| eprintln!("  {name:34} {count:>9}"));
    eprintln!("  {:34} {:>9}", "judged by e2fsck, too", report.e2fsck_runs);
    report.violations.iter().for_each(tell);
    eprintln!("{} violations", report.violations.len());
}

fn tell(violation: &Violation) {
    eprintln!("\nBROKEN {:?}: {}", violation.promise, violation.what);
    violation.difference.iter().for_each(|line| eprintln!("  {line}"));
    eprintln!("replay: {}\n", violation.replay);
}
