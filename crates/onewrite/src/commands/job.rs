//! What `run` and `compare` have in common: from arguments to a [`RunSpec`].

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use onewrite_block::{Device, HostProfile, Nanos, PAGE_SIZE, Time};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_lab::job::JobFile;
use onewrite_lab::session::{DeviceChoice, JobSpec, RunSpec, Stack, held_by, lazy_journal_bytes};
use onewrite_lab::workload::filebench::{Length, Parameters, Personality};
use onewrite_lab::workload::postmark;

use super::probe::eviction_spot;
use crate::args::{JobArgs, PersonalityArgs};
use crate::open::{on_device, wall_time};

/// The journal mode called `name`.
pub fn mode(name: &str) -> anyhow::Result<Mode> {
    Ok(Mode::from_str(name)?)
}

/// The run that `args` describe, with `stack` under it.
pub fn spec(args: &JobArgs, device: &DeviceChoice, stack: Stack) -> anyhow::Result<RunSpec> {
    let (host_name, host) = host(&args.host)?;
    Ok(RunSpec {
        job: job(args)?,
        stack,
        device: device.name(),
        time: if device.is_emulated() { Time::Virtual } else { wall_time() },
        host_name,
        host,
        journal_bytes: args.journal_size,
        cache_bytes: args.cache_size,
        cache_policy: args.cache_policy,
        delayed_allocation: !args.nodelalloc,
        eviction_spot: args.eviction_spot.as_deref().map(eviction_spot).transpose()?,
        seed: args.seed,
    })
}

fn job(args: &JobArgs) -> anyhow::Result<JobSpec> {
    if let Some(personality) = Personality::from_name(&args.job) {
        let parameters = parameters(personality, &args.personality);
        return Ok(JobSpec::Personality(personality, parameters));
    }
    if args.job == postmark::NAME {
        return Ok(JobSpec::PostMark(postmark_parameters(&args.personality)?));
    }
    if !Path::new(&args.job).exists() {
        bail!("{}: neither a job file nor one of {}", args.job, known());
    }
    if let Some(option) = given(&args.personality) {
        bail!("{option} is for {}; a job file says such things itself", known());
    }
    Ok(JobSpec::Fio(JobFile::load(Path::new(&args.job))?))
}

/// The jobs that have a name.
pub fn known() -> String {
    format!("{}, {}", Personality::ALL.map(Personality::name).join(", "), postmark::NAME)
}

fn given(args: &PersonalityArgs) -> Option<&'static str> {
    let options = [
        ("--files", args.files.is_some()),
        ("--threads", args.threads.is_some()),
        ("--file-size", args.file_size.is_some()),
        ("--compressible", args.compressible.is_some()),
        ("--runtime", args.runtime.is_some()),
        ("--operations", args.operations.is_some()),
    ];
    options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
}

fn parameters(personality: Personality, args: &PersonalityArgs) -> Parameters {
    let published = personality.parameters();
    let length = match (args.runtime, args.operations) {
        (Some(span), _) => Length::Time(Nanos(span.as_nanos() as u64)),
        (None, Some(count)) => Length::Operations(count),
        (None, None) => published.length,
    };
    Parameters {
        files: args.files.unwrap_or(published.files),
        threads: args.threads.unwrap_or(published.threads),
        file_size: args.file_size.unwrap_or(published.file_size),
        compressible_percent: args.compressible.unwrap_or(published.compressible_percent),
        length,
        ..published
    }
}

/// Sizes go evenly from the published smallest one to what makes the mean that is asked for.
fn postmark_parameters(args: &PersonalityArgs) -> anyhow::Result<postmark::Parameters> {
    for (option, is_given) in [("--threads", args.threads.is_some()), ("--runtime", args.runtime.is_some())] {
        if is_given {
            bail!("{option} is not for postmark: it has one thread and ends after --operations transactions");
        }
    }
    let published = postmark::Parameters::default();
    let (least, most) = published.size;
    let most = match args.file_size {
        None => most,
        Some(mean) if mean > least => mean.checked_mul(2).context("--file-size")? - least,
        Some(mean) => bail!("--file-size {mean}: postmark's smallest file has {least} bytes, the mean must be larger"),
    };
    Ok(postmark::Parameters {
        files: args.files.unwrap_or(published.files),
        transactions: args.operations.map_or(Ok(published.transactions), u32::try_from).context("--operations")?,
        size: (least, most),
        compressible_percent: args.compressible.unwrap_or(published.compressible_percent),
        ..published
    })
}

/// The host profile called `name`, or the one in that file.
pub fn host(name: &str) -> anyhow::Result<(String, HostProfile)> {
    let profile = match name {
        "default" => HostProfile::default(),
        "ideal" => HostProfile::ideal(),
        path if Path::new(path).exists() => {
            let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
            HostProfile::from_toml(&text).with_context(|| path.to_owned())?
        }
        other => bail!(
            "host profile `{other}`: neither `default` nor `ideal` nor a file; `onewrite host measure` writes one"
        ),
    };
    Ok((name.to_owned(), profile))
}

/// The device, after making sure that nothing is lost without `force`, and that it has what `modes` need; if not, no file is
/// left that was not there before.
pub fn device(args: &JobArgs, choice: &DeviceChoice, modes: &[Mode]) -> anyhow::Result<Box<dyn Device>> {
    if !args.force
        && let DeviceChoice::Disk(path) = choice
        && path.exists()
    {
        let name = path.display().to_string();
        let held = on_device(choice.open(args.size)?, async move |port| Ok(held_by(&port).await?))?;
        if let Some(held) = held {
            bail!("{name}: it holds {held}, which the run would destroy; --force runs all the same");
        }
    }
    let made = match choice {
        DeviceChoice::Disk(path) if !path.exists() => Some(path),
        _ => None,
    };
    let device = choice.open(args.size)?;
    let can = modes.iter().try_for_each(|mode| MountOptions::new(*mode).check_device(device.geometry()));
    if let (Err(_), Some(path)) = (&can, made) {
        std::fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    can?;
    Ok(device)
}

/// Everything that was decided, defaults included, on standard error.
pub fn announce(spec: &RunSpec, device: &dyn Device) {
    let size = device.geometry().pages * PAGE_SIZE as u64;
    let stack = match spec.stack {
        Stack::Ext4(mode) => {
            let journal = match spec.journal_bytes {
                Some(bytes) => format!("{bytes} bytes"),
                None if mode.is_lazy() => format!("{} bytes", lazy_journal_bytes(size)),
                None => "as mke2fs makes it".to_owned(),
            };
            format!(
                "ext4, mode {mode} (promises {}), journal {journal}, page cache {} bytes ({}), {}",
                mode.promise().name(),
                spec.cache_bytes,
                spec.cache_policy,
                if spec.delayed_allocation { "delayed allocation where the mode allows it" } else { "nodelalloc" }
            )
        }
        Stack::Raw => "no file system".to_owned(),
    };
    let time = if spec.time == Time::Virtual { "virtual time" } else { "real disk, wall time" };
    eprintln!(
        "{}: {stack}; device {}, {size} bytes, {time}; host {}; seed {}",
        spec.job.name(),
        spec.device,
        spec.host_name,
        spec.seed
    );
    if let Stack::Ext4(mode) = spec.stack {
        let options = MountOptions { eviction_spot: spec.eviction_spot, ..MountOptions::new(mode) };
        warn(&options.warnings(device.geometry()));
    }
}

/// What does not hold of what a mode rests on, on standard error.
pub fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
}
