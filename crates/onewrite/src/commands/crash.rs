//! `onewrite crash`

mod application;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use onewrite_block::{Geometry, HostProfile, Nanos, PAGE_SIZE, PowerCut};
use onewrite_crash::{
    CrashPlan, ExploreOptions, Ext4Subject, MakeDevice, Report, Stage, Subject, Violation, Workload, WorkloadSpec,
    crash as explore, replay,
};
use onewrite_device::Profile;
use onewrite_fs::journal::padding_warnings;
use onewrite_lab::session::{JobSpec, crash_workloads};
use onewrite_lab::workload::filebench::Personality;
use onewrite_lab::workload::postmark;

use super::job::{given_for_files, job_file, known, warn};
use super::probe::eviction_spot;
use super::stdin;
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
    if args.device.is_none() && args.layer.is_given() {
        bail!("--ftl, --log-blocks and --map-cache belong to --device; name one");
    }
    let profile = args.device.as_deref().map(Profile::named).transpose()?;
    let profile = profile.map(|profile| args.layer.over(profile)).transpose()?;
    let subject = subject(args)?;
    let options = options(args, &subject, profile.as_ref())?;
    if let (Some(run), Some(check)) = (&args.run, &args.check) {
        return application::application(&subject, &options, &Wanted { run, check, args });
    }
    let workloads = workloads(args, &subject)?;
    let make = |pages: u64| device(profile.as_ref().expect("a device was named"), pages);
    let device = args.device.is_some().then_some(&make as &MakeDevice<'_>);
    let jobs = args.jobs.map_or_else(all_cores, usize::from);
    let plan = CrashPlan { options: &options, device, faults: args.faults, minimises: true, jobs };
    let bar = Bar::new("crash", if args.faults { "runs" } else { "states" });
    let report = match &args.state {
        None => explore(subject, workloads, plan, |stage| show(&bar, stage, args))?,
        Some(state) => replay(subject, &script(args)?, state, plan)?,
    };
    let seconds = bar.end();
    summarise(&report, seconds);
    if let Some(path) = &args.json {
        write_json(path, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows the stage of the exploration.
fn show(bar: &Bar, stage: Stage, args: &Crash) {
    match stage {
        Stage::Aging => bar.stage(("crash: aging the device", "states"), 0, 0),
        Stage::Judging { judged, .. } if args.faults => bar.stage(("crash", "runs"), judged, args.states),
        Stage::Judging { states, judged } => {
            bar.stage((&format!("crash: {judged} judged"), "states"), states, args.states);
        }
        Stage::Shrinking { number, count, tries, tries_max } => {
            let name = format!("crash: making violation {number} of {count} smaller");
            bar.stage((&name, "smaller workloads"), tries as u64, tries_max as u64);
        }
    }
}

/// The workloads to explore: by name, from a job file, or of a personality.
fn workloads(args: &Crash, subject: &Ext4Subject) -> anyhow::Result<Box<dyn Iterator<Item = Workload>>> {
    let name = args.workload.as_deref().unwrap_or_default();
    let is_named = ["ace:", "random:", "random-all:", "script:"].iter().any(|kind| name.starts_with(kind));
    let is_file = !is_named && Personality::from_name(name).is_none() && name != postmark::NAME;
    let for_files = given_for_files(&args.fio).or(args.runtime.map(|_| "--runtime"));
    if let Some(option) = for_files.filter(|_| !is_file) {
        bail!("{option} is for job files, and {name} is none");
    }
    if let Some(personality) = Personality::from_name(name) {
        let job = JobSpec::Personality(personality, personality.parameters());
        return Ok(Box::new(crash_workloads(&job, args.seed)?));
    }
    if name == postmark::NAME {
        let job = JobSpec::PostMark(postmark::Parameters::default());
        return Ok(Box::new(crash_workloads(&job, args.seed)?));
    }
    if !is_named && (name == stdin::NAME || Path::new(name).exists()) {
        let machine = (HostProfile::default().cores as u64, args.cache_pages as u64 * PAGE_SIZE as u64);
        let job = JobSpec::Fio(job_file(name, &args.fio, args.runtime, machine)?);
        return Ok(Box::new(crash_workloads(&job, args.seed)?));
    }
    if !is_named {
        bail!(
            "{name}: neither a job file nor ace:1, ace:2, ace:3, random:OPERATIONS, random-all:OPERATIONS, \
             script:ACTIONS, {}",
            known()
        );
    }
    Ok(name.parse::<WorkloadSpec>()?.workloads(subject, args.seed))
}

fn script(args: &Crash) -> anyhow::Result<Workload> {
    match args.workload.as_deref().unwrap_or_default().parse() {
        Ok(WorkloadSpec::Script(script)) => Ok(script),
        _ => bail!("--state names a state of one workload: write it out as `script:…`"),
    }
}

fn device(profile: &Profile, pages: u64) -> Box<dyn PowerCut> {
    profile.device(Some(pages * PAGE_SIZE as u64)).expect("the profile gave a smaller device before")
}

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The file system under test, in its mode.
fn subject(args: &Crash) -> anyhow::Result<Ext4Subject> {
    let subject = Ext4Subject {
        journal_blocks: args.journal_blocks,
        delayed_allocation: !args.nodelalloc,
        eviction_spot: args.eviction_spot.as_deref().map(eviction_spot).transpose()?,
        ..Ext4Subject::new(args.mode.parse()?)
    };
    if subject.eviction_spot.is_some() && !subject.promises().pads {
        bail!(
            "--eviction-spot says how much zp and zp-data pad, and {} never pads; leave it out, or take --mode zp",
            subject.mode
        );
    }
    Ok(subject)
}

fn options(args: &Crash, subject: &Ext4Subject, profile: Option<&Profile>) -> anyhow::Result<ExploreOptions> {
    let plain = ExploreOptions {
        size_bytes: args.size,
        cache_pages: args.cache_pages,
        cache_policy: args.cache_policy,
        commit_interval: Nanos(args.commit_interval.as_nanos() as u64),
        checkpoint_age: Nanos(args.checkpoint_age.as_nanos() as u64),
        seed: args.seed,
        states_max: args.states,
        e2fsck_every: args.e2fsck_every,
        ..ExploreOptions::default()
    };
    let geometry = match profile {
        Some(profile) => profile.device(Some(args.size))?.geometry().clone(),
        None => plain.geometry.clone(),
    };
    if let Some(padding) = subject.mode.padding() {
        warn(&padding_warnings(padding, &geometry, subject.eviction_spot));
    }
    let atomic_write_pages = if args.torn_pages { 0 } else { geometry.atomic_write_pages };
    let share_atomic = geometry.share_atomic && !args.torn_shares;
    Ok(plain.on(&Geometry { atomic_write_pages, share_atomic, ..geometry }))
}

fn summarise(report: &Report, seconds: f64) {
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
        ("judged by e2fsck, too", report.e2fsck_runs),
        ("judged in all", report.judged),
    ];
    lines.iter().for_each(|(name, count)| note!("  {name:34} {count:>9}"));
    report.violations.iter().for_each(tell);
    errln!("violations: {}", by_promise(report));
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
}
