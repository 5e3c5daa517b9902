//! Shared code of `run` and `compare`: makes an [`Experiment`] from arguments, and tells what it is.

use std::path::Path;

use onewrite_block::{Device, PAGE_SIZE, Time};
use onewrite_device::Age;
use onewrite_fs::ext4::{Mode, MountOptions};
use onewrite_lab::LabError;
use onewrite_lab::experiment::{self, Experiment, FileChanges, PersonalityChanges};
use onewrite_lab::session::{DeviceChoice, RunSpec, Stack, lazy_journal_bytes};

use super::stdin;
use crate::args::{AgeArg, FioArgs, JobArgs, PersonalityArgs};
use crate::progress::Waiting;

/// The journal mode called `name`.
pub fn mode(name: &str) -> anyhow::Result<Mode> {
    Ok(experiment::mode(name)?)
}

/// What `args` ask for. Reads standard input if the job is there.
pub fn experiment(args: &JobArgs) -> anyhow::Result<Experiment> {
    let (job, job_text) = named(&args.job)?;
    Ok(Experiment {
        job,
        job_text,
        device: args.device.clone(),
        layer: args.layer.choice(),
        age: match args.age {
            AgeArg::None => Age::New,
            AgeArg::Filled => Age::Filled,
            AgeArg::Steady => Age::Steady,
        },
        host: args.host.clone(),
        size: args.size,
        journal_size: args.journal_size,
        cache_size: args.cache_size,
        cache_policy: args.cache_policy,
        delayed_allocation: !args.nodelalloc,
        max_batch_time: args.max_batch_time,
        eviction_spot: args.eviction_spot.clone(),
        drop_caches: args.drop_caches,
        seed: args.seed,
        force: args.force,
        file: changes(&args.fio),
        personality: personality(&args.personality),
    })
}

/// Name of a job and, if it is on standard input, its text.
pub fn named(job: &str) -> anyhow::Result<(String, Option<String>)> {
    match job {
        stdin::NAME => Ok(("standard input".to_owned(), Some(stdin::text()?))),
        job => Ok((job.to_owned(), None)),
    }
}

/// Changes to a job file.
pub fn changes(args: &FioArgs) -> FileChanges {
    FileChanges { sections: args.section.clone(), settings: args.set.clone() }
}

fn personality(args: &PersonalityArgs) -> PersonalityChanges {
    let PersonalityArgs { files, threads, file_size, compressible, runtime, operations } = *args;
    PersonalityChanges { files, threads, file_size, compressible, runtime, operations }
}

/// Existing files of the host that a run of `args` reads.
pub fn inputs(args: &JobArgs) -> Vec<&Path> {
    [&args.job, &args.device, &args.host].into_iter().map(Path::new).filter(|path| path.exists()).collect()
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
            let waits = match spec.max_batch_time.0 / 1_000_000 {
                0 => String::new(),
                millis => format!(", commits wait up to {millis} ms for others"),
            };
            format!(
                "ext4, mode {mode} (promises {}), journal {journal}{waits}, page cache {} bytes ({}), {}",
                mode.promise().name(),
                spec.cache_bytes,
                spec.cache_policy,
                if spec.delayed_allocation { "delayed allocation where the mode allows it" } else { "nodelalloc" }
            )
        }
        Stack::F2fs(stack) => format!(
            "F2FS, mode {}, {}{}fsync mode {} (promises {}), cleaning by {}, page cache {} bytes ({})",
            stack.log_mode,
            match stack.in_place_below {
                0 => String::new(),
                pages => format!("fsyncs below {pages} pages in place, "),
            },
            match stack.stage_bytes {
                0 => String::new(),
                bytes => format!("staging area of {bytes} bytes, "),
            },
            stack.fsync_mode,
            stack.promise(),
            stack.clean,
            spec.cache_bytes,
            spec.cache_policy
        ),
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
