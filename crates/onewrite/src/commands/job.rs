//! Shared code of `run` and `compare`: makes a [`RunSpec`] from arguments.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use onewrite_block::{Device, HostProfile, MIB, Nanos, PAGE_SIZE, Time};
use onewrite_device::{Age, Error, FileDisk};
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_lab::job::{JobFile, Reading, Variables};
use onewrite_lab::session::{DEFAULT_BYTES, DeviceChoice, JobSpec, RunSpec, Stack, held_by, lazy_journal_bytes};
use onewrite_lab::workload::filebench::{Length, Parameters, Personality};
use onewrite_lab::workload::postmark;
use onewrite_lab::{LabError, Partial};

use super::probe::eviction_spot;
use super::stdin;
use crate::args::{AgeArg, FioArgs, JobArgs, PersonalityArgs};
use crate::open::{on_device, wall_time};
use crate::progress::Waiting;

/// The journal mode called `name`.
pub fn mode(name: &str) -> anyhow::Result<Mode> {
    Ok(Mode::from_str(name)?)
}

/// The device named in `args`, with its translation layer and age.
pub fn choice(args: &JobArgs) -> anyhow::Result<DeviceChoice> {
    let age = match args.age {
        AgeArg::None => Age::New,
        AgeArg::Filled => Age::Filled,
        AgeArg::Steady => Age::Steady,
    };
    let choice = match DeviceChoice::named(&args.device)? {
        DeviceChoice::Emulated { profile, age } => {
            DeviceChoice::Emulated { profile: Box::new(args.layer.over(*profile)?), age }
        }
        DeviceChoice::Disk(path) if args.layer.is_given() => {
            bail!(
                "{}: a real disk has its own translation layer; leave --ftl, --log-blocks and --map-cache out",
                path.display()
            )
        }
        disk => disk,
    };
    Ok(choice.of_age(age)?)
}

/// The run that `args` describe, on `stack`.
pub fn spec(args: &JobArgs, device: &DeviceChoice, stack: Stack) -> anyhow::Result<RunSpec> {
    let (host_name, host) = host(&args.host)?;
    if args.drop_caches && stack == Stack::Raw {
        bail!("--drop-caches empties a page cache, and --fs raw has none; leave it out");
    }
    Ok(RunSpec {
        job: job(args, &host)?,
        stack,
        device: device.name(),
        setup: device.setup(),
        time: if device.is_emulated() { Time::Virtual } else { wall_time() },
        host_name,
        host,
        journal_bytes: args.journal_size,
        cache_bytes: args.cache_size,
        cache_policy: args.cache_policy,
        delayed_allocation: !args.nodelalloc,
        eviction_spot: args.eviction_spot.as_deref().map(eviction_spot).transpose()?,
        drop_caches: args.drop_caches,
        seed: args.seed,
    })
}

fn job(args: &JobArgs, host: &HostProfile) -> anyhow::Result<JobSpec> {
    let is_file = Personality::from_name(&args.job).is_none() && args.job != postmark::NAME;
    if !is_file && let Some(option) = given_for_files(&args.fio) {
        bail!("{option} is for job files, and {} is none", args.job);
    }
    if let Some(personality) = Personality::from_name(&args.job) {
        let parameters = parameters(personality, &args.personality)?;
        return Ok(JobSpec::Personality(personality, parameters));
    }
    if args.job == postmark::NAME {
        return Ok(JobSpec::PostMark(postmark_parameters(&args.personality)?));
    }
    if args.job != stdin::NAME && !Path::new(&args.job).exists() {
        bail!("{}: neither a job file nor one of {}", args.job, known());
    }
    if let Some(option) = given(&args.personality) {
        bail!("{option} is for {}; a job file says such things itself", known());
    }
    let runtime = args.personality.runtime;
    Ok(JobSpec::Fio(job_file(&args.job, &args.fio, runtime, (host.cores as u64, args.cache_size))?))
}

/// Existing files of the host that a run of `args` reads.
pub fn inputs(args: &JobArgs) -> Vec<&Path> {
    [&args.job, &args.device, &args.host].into_iter().map(Path::new).filter(|path| path.exists()).collect()
}

/// The job file at `path` or from standard input, changed by `args`; `cores` and `cache_bytes` describe the machine.
pub fn job_file(
    path: &str,
    args: &FioArgs,
    runtime: Option<Duration>,
    (cores, cache_bytes): (u64, u64),
) -> anyhow::Result<JobFile> {
    let environment = |name: &str| std::env::var(name).ok();
    let runtime = runtime.map(|span| format!("runtime={}us", span.as_micros()));
    let reading = Reading {
        variables: Variables { cores, memory_mib: cache_bytes / MIB, environment: &environment },
        sections: args.section.clone(),
        settings: runtime.into_iter().chain(args.set.iter().cloned()).collect(),
    };
    match path {
        stdin::NAME => Ok(reading.parse("standard input", &stdin::text()?)?),
        path => Ok(reading.load(Path::new(path))?),
    }
}

/// The first given option that only job files have.
pub fn given_for_files(args: &FioArgs) -> Option<&'static str> {
    let options = [("--section", !args.section.is_empty()), ("--set", !args.set.is_empty())];
    options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
}

/// Names of the jobs that need no file.
pub fn known() -> String {
    format!("{}, {}", Personality::ALL.map(Personality::name).join(", "), postmark::NAME)
}

fn given(args: &PersonalityArgs) -> Option<&'static str> {
    let options = [
        ("--files", args.files.is_some()),
        ("--threads", args.threads.is_some()),
        ("--file-size", args.file_size.is_some()),
        ("--compressible", args.compressible.is_some()),
        ("--operations", args.operations.is_some()),
    ];
    options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
}

fn parameters(personality: Personality, args: &PersonalityArgs) -> anyhow::Result<Parameters> {
    let published = personality.parameters();
    if args.runtime == Some(Duration::ZERO) {
        bail!("--runtime 0: nothing would be run; give a time, as 500ms, 60s or 2m");
    }
    let length = match (args.runtime, args.operations) {
        (Some(span), _) => Length::Time(Nanos(span.as_nanos() as u64)),
        (None, Some(count)) => Length::Operations(count),
        (None, None) => published.length,
    };
    Ok(Parameters {
        files: args.files.unwrap_or(published.files),
        threads: args.threads.unwrap_or(published.threads),
        file_size: args.file_size.unwrap_or(published.file_size),
        compressible_percent: args.compressible.unwrap_or(published.compressible_percent),
        length,
        ..published
    })
}

/// File sizes from the published smallest one to the one that gives the requested mean.
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

/// The host profile called `name`, or the one in the file `name`.
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

/// Refuses an eviction spot if no mode of `modes` pads.
fn check_spot(args: &JobArgs, modes: &[Mode]) -> anyhow::Result<()> {
    if args.eviction_spot.is_some() && modes.iter().all(|mode| mode.padding().is_none()) {
        let named = match modes {
            [] => "without a file system nothing".to_owned(),
            modes => modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(", ") + " never",
        };
        bail!("--eviction-spot says how much zp and zp-data pad, and {named} pads; leave it out, or take --mode zp");
    }
    Ok(())
}

/// Bytes of the device: the requested size, or for a new device what the job needs.
pub fn size(args: &JobArgs, spec: &RunSpec, choice: &DeviceChoice) -> anyhow::Result<Option<u64>> {
    let is_made = match choice {
        DeviceChoice::Emulated { .. } => true,
        DeviceChoice::Disk(path) => !path.exists(),
    };
    Ok(if args.size.is_none() && is_made { Some(spec.bytes_wanted()?) } else { args.size })
}

/// Opens the device. First checks that nothing is lost without `force`, and that it has what `modes` need. A new file
/// is partial until the run is done.
pub fn device(
    args: &JobArgs,
    spec: &RunSpec,
    choice: &DeviceChoice,
    modes: &[Mode],
) -> anyhow::Result<(Box<dyn Device>, Option<Partial>)> {
    check_spot(args, modes)?;
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
    let size = size(args, spec, choice)?;
    let (device, partial) = match choice {
        DeviceChoice::Disk(path) => disk(path, size)?,
        DeviceChoice::Emulated { .. } => (emulated(args, spec, choice, size)?, None),
    };
    modes.iter().try_for_each(|mode| MountOptions::new(*mode).check_device(device.geometry()))?;
    Ok((device, partial))
}

/// Opens a device; shows a note while it ages an emulated one.
pub fn opened(choice: &DeviceChoice, size: Option<u64>) -> Result<Box<dyn Device>, LabError> {
    let age = match choice {
        DeviceChoice::Emulated { age, .. } if *age != Age::New => Some(age.name()),
        _ => None,
    };
    let _waiting = age.map(|age| Waiting::new(&format!("making the device {age} (--age)")));
    choice.open(size)
}

/// Opens the emulated device. If the job itself makes it too large, the error says so.
fn emulated(
    args: &JobArgs,
    spec: &RunSpec,
    choice: &DeviceChoice,
    size: Option<u64>,
) -> anyhow::Result<Box<dyn Device>> {
    match opened(choice, size) {
        Err(LabError::DeviceSetup(Error::Capacity { bytes })) if args.size.is_none() => {
            let needed = spec.job.bytes_needed(spec.stack, spec.seed)?;
            bail!(
                "{}: its files take {needed} bytes, and a device for them {bytes}; an emulated device has 4TiB at \
                 most: make the job smaller",
                spec.job.name()
            )
        }
        opened => Ok(opened?),
    }
}

/// Opens the image or disk at `path`. A missing file is made with `size` bytes and is partial until it is kept.
pub fn disk(path: &Path, size: Option<u64>) -> anyhow::Result<(Box<dyn Device>, Option<Partial>)> {
    if path.exists() {
        return Ok((DeviceChoice::Disk(path.to_owned()).open(size)?, None));
    }
    let bytes = size.unwrap_or(DEFAULT_BYTES) / PAGE_SIZE as u64 * PAGE_SIZE as u64;
    if bytes == 0 {
        bail!("{}: a disk has at least one page of {PAGE_SIZE} bytes", path.display());
    }
    let (_, partial) = Partial::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let device = FileDisk::create(partial.path(), bytes).with_context(|| path.display().to_string())?;
    Ok((Box::new(device.called(path)), Some(partial)))
}

/// Prints all settings, defaults included, on standard error.
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
    let setup = spec.setup.words().map(|words| format!(" ({words})")).unwrap_or_default();
    let time = if spec.time == Time::Virtual { "virtual time" } else { "real disk, wall time" };
    note!(
        "{}: {stack}; device {}, {size} bytes{setup}, {time}; host {}; seed {}",
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

/// Warns on standard error about conditions of a mode that do not hold.
pub fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| errln!("warning: {warning}"));
}
