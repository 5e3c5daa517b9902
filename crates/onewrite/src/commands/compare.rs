//! `onewrite compare`

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onewrite_lab::Partial;
use onewrite_lab::experiment::Experiment;
use onewrite_lab::report::{Compared, Comparison};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, DeviceChoice, Extras, RunSpec, Stack, try_cuts};

use super::job;
use super::run::operations;
use crate::args::Compare;
use crate::output::{self, is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::{Bar, Spinner};

/// Runs one job in several modes.
pub fn compare(args: &Compare) -> anyhow::Result<()> {
    let images: Vec<PathBuf> = args.modes.iter().filter_map(|mode| image(args, mode)).collect();
    let outputs = Outputs {
        json: args.json.as_ref(),
        files: vec![&args.html],
        images: images.iter().collect(),
        force: args.job.force,
    };
    if let Some(directory) = &args.images {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    outputs.check(&job::inputs(&args.job))?;
    let experiment = job::experiment(&args.job)?;
    let choice = experiment.choice()?;
    if !choice.is_emulated() && args.modes.len() > 1 && !args.job.force {
        bail!("on a real disk each mode formats it anew; --force compares all the same");
    }
    let stacks = stacks(&args.modes)?;
    let mut runs = Vec::new();
    for stack in &stacks {
        runs.push(one(args, (&experiment, &choice), *stack, &stacks)?);
    }
    let comparison = Comparison { command: command(), runs };
    if !args.json.as_deref().is_some_and(is_stdout) {
        out!("{}", comparison.table());
    }
    output::write(&args.html, &comparison.html())?;
    note!("report: {}", args.html.display());
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, &json(&comparison)?))
}

/// Where to save the device of a mode.
fn image(args: &Compare, mode: &str) -> Option<PathBuf> {
    args.images.as_ref().map(|directory| directory.join(format!("{}.img", mode.trim())))
}

/// The modes and file systems by name, each once.
fn stacks(names: &[String]) -> anyhow::Result<Vec<Stack>> {
    let mut stacks = Vec::new();
    for name in names {
        let stack: Stack = name.trim().parse()?;
        if stacks.contains(&stack) {
            bail!("--modes names {stack} twice, and one seed gives one run; name it once");
        }
        stacks.push(stack);
    }
    Ok(stacks)
}

/// Runs one stack. `all` are the requested ones; what one of them lacks is reported before the first runs.
fn one(
    args: &Compare,
    (experiment, choice): (&Experiment, &DeviceChoice),
    stack: Stack,
    all: &[Stack],
) -> anyhow::Result<Compared> {
    let choice = &choice.under(stack);
    let spec = experiment.spec(choice, stack)?;
    let label = stack.to_string();
    let (device, partial) = experiment.device(&spec, choice, all, &job::opened)?;
    job::announce(&spec, &*device);
    let spinner = Spinner::new(&label);
    let extras = Extras { watcher: Some(spinner.watcher()), image: image(args, &label), ..Extras::default() };
    let result = session::run(&spec, device, extras)?;
    partial.map_or(Ok(()), Partial::keep_new).with_context(|| spec.device.clone())?;
    spinner.finish(&label, operations(&result));
    let crash = crash(args, (experiment, choice), &spec)?;
    Ok(Compared { label, result, crash })
}

/// Tries power cuts, if the device is emulated and the job says beforehand what it does.
fn crash(
    args: &Compare,
    (experiment, choice): (&Experiment, &DeviceChoice),
    spec: &RunSpec,
) -> anyhow::Result<Option<onewrite_lab::report::CrashVerdict>> {
    if args.cuts == 0 || !choice.is_emulated() || spec.job.is_database() {
        return Ok(None);
    }
    let mut ready = job::opened(choice, experiment.device_bytes(spec, choice)?)?;
    let ready = ready.as_power_cut().context("an emulated device has a power switch")?;
    let bar = Bar::new(&format!("{} with power cuts", spec.job.name()), "cuts");
    bar.reach(0, args.cuts);
    let verdict = try_cuts(
        spec,
        || Ok(ready.fork()),
        args.cuts,
        |done| {
            bar.reach(done, args.cuts);
            Ok(())
        },
    )?;
    bar.finish("power cuts");
    Ok(Some(verdict))
}

fn json(comparison: &Comparison) -> anyhow::Result<String> {
    let results: Vec<&RunResult> = comparison.runs.iter().map(|run| &run.result).collect();
    Ok(serde_json::to_string_pretty(&results)? + "\n")
}

/// The command line, with the program's plain name.
fn command() -> String {
    let quoted = |argument: String| {
        let is_plain = argument.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./=,+:@%".contains(letter));
        if is_plain && !argument.is_empty() { argument } else { format!("'{}'", argument.replace('\'', "'\\''")) }
    };
    let program = std::iter::once("onewrite".to_owned());
    let arguments = std::env::args_os().skip(1).map(|argument| Path::new(&argument).display().to_string());
    program.chain(arguments.map(quoted)).collect::<Vec<_>>().join(" ")
}
