//! Cuts: cuts the power in the middle of a run, recovers the image, and checks the promises.
//!
//! A short run of the job is repeated from the same seed. Each repetition is cut at another of the device's own cut
//! points, which are spread evenly over the run. Then four things must hold: the device recovers; the log replays (F2FS
//! rolls forward); all metadata is sound; and every file that was not touched since an fsync of it returned is there,
//! with its size and its content.
//!
//! This is the crash test of `compare`, a sample. The crash explorer tries every state and every promise.

use std::rc::Rc;

use onewrite_block::{Choices, Device, DevicePort, Executor, Halt, Nanos, Runtime};
use onewrite_fs::api::resolve;
use onewrite_fs::ext4::{Ext4, MountOptions};
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::f2fs::{F2fs, F2fsOptions};
use onewrite_fs::{AnyFs, FileSystem, FileView, FsResult, Manner};

use super::format::{FormatOptions, plan_ext4, plan_f2fs};
use super::judge::judge;
use super::spec::{JobSpec, RunSpec};
use super::stack::Stack;
use crate::driver::{self, DurableFile, Files, Ledger, RunOptions};
use crate::error::LabError;
use crate::report::CrashVerdict;
use crate::workload::filebench::Personality;
use crate::workload::fio;

/// Operations of the run that is cut.
const OPERATIONS: u64 = 2000;
/// Files of a personality in that run; a fio job keeps its own number.
const FILES: u32 = 200;

/// Cuts the power `count` times in runs of `spec`, and calls `watch`, whose error stops it, with the number
/// of cuts tried. Each run gets a
/// blank device from `device`, always the same.
///
/// # Errors
/// If the run fails without a cut, or the device has no power switch. The verdict contains what a cut breaks.
pub fn try_cuts(
    spec: &RunSpec,
    device: impl Fn() -> Result<Box<dyn Device>, LabError>,
    count: u64,
    watch: impl Fn(u64) -> Result<(), LabError>,
) -> Result<CrashVerdict, LabError> {
    if spec.stack == Stack::Raw {
        return Err(LabError::Option("power cuts need a file system that promises something".to_owned()));
    }
    let mut first = device()?;
    if first.as_power_cut().is_none() {
        return Err(LabError::Option(format!("{} is real; only an emulated device can lose its power", spec.device)));
    }
    let spec = Rc::new(short(spec));
    let (begin, end) = Attempt::start(&spec, first)?.run_to_the_end()?;
    let mut chance = Choices::new(spec.seed).stream("power cuts", 0);
    let mut verdict = CrashVerdict { cuts: count, losses: 0, first_loss: None };
    for cut in 0..count {
        let length = (end - begin).max(1);
        let point = begin + (length * cut + chance.below(length)) / count;
        let attempt = Attempt::start(&spec, device()?)?;
        if let Err(loss) = attempt.cut_at(point, &mut chance)? {
            verdict.losses += 1;
            let place = format!("{loss} (seed {}, cut point {point} of {end})", spec.seed);
            verdict.first_loss.get_or_insert(place);
        }
        watch(cut + 1)?;
    }
    Ok(verdict)
}

fn short(spec: &RunSpec) -> RunSpec {
    let mut short = spec.clone();
    if let JobSpec::Personality(personality, parameters) = &mut short.job {
        let least = if *personality == Personality::Varmail { FILES } else { FILES.max(parameters.threads * 5) };
        parameters.files = parameters.files.min(least);
        if *personality == Personality::Fileserver {
            // A file that is open is not deleted, and each thread makes one: few threads, or none is left to make.
            parameters.threads = parameters.threads.min(FILES / 20);
        }
    }
    if let JobSpec::PostMark(parameters) = &mut short.job {
        parameters.files = parameters.files.min(FILES);
        parameters.subdirectories = parameters.subdirectories.min(FILES);
    }
    short
}

/// One run, up to the moment when its file system is mounted.
struct Attempt {
    spec: Rc<RunSpec>,
    executor: Executor,
    port: DevicePort,
    files: Rc<Files<AnyFs>>,
    fs: Rc<AnyFs>,
}

impl Attempt {
    fn start(spec: &Rc<RunSpec>, device: Box<dyn Device>) -> Result<Attempt, LabError> {
        let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
        let port = executor.runtime().attach(device);
        let (task_spec, task_port) = (Rc::clone(spec), port.clone());
        let fs = Rc::new(executor.block_on(async move { new_fs(&task_spec, task_port).await })??);
        let files = Rc::new(Files::followed(Rc::clone(&fs)));
        Ok(Attempt { spec: Rc::clone(spec), executor, port, files, fs })
    }

    fn cut_points(&self) -> u64 {
        self.port.device_mut().as_power_cut().expect("an emulated device").cut_points()
    }

    /// Numbers of the device's cut points before the run, and after the run and the unmount.
    fn run_to_the_end(self) -> Result<(u64, u64), LabError> {
        let begin = self.cut_points();
        self.work()??;
        Ok((begin, self.cut_points()))
    }

    /// Runs and unmounts; this may end in a power cut.
    fn work(&self) -> Result<Result<(), LabError>, Halt> {
        let runtime: Runtime = self.executor.runtime();
        let (spec, files, fs) = (Rc::clone(&self.spec), Rc::clone(&self.files), Rc::clone(&self.fs));
        self.executor.block_on(async move {
            let workload = spec.job.plan(fio::Target::Files, &Choices::new(spec.seed))?;
            let options = RunOptions { operations_max: Some(OPERATIONS), ..RunOptions::default() };
            driver::run(&runtime, files, workload, options).await?;
            Ok(fs.unmount().await?)
        })
    }

    /// Runs to the cut point and tells what was lost there.
    fn cut_at(self, point: u64, chance: &mut Choices) -> Result<Result<(), String>, LabError> {
        self.port.device_mut().as_power_cut().expect("an emulated device").arm(point);
        match self.work() {
            Ok(finished) => finished?,
            Err(Halt::PowerLost) => (),
            Err(halt) => return Err(halt.into()),
        }
        let (now, ledger) = (self.executor.runtime().now(), self.files.ledger());
        let mut device = self.port.unplug();
        let power = device.as_power_cut().expect("an emulated device");
        power.cut(chance);
        match power.recover(now) {
            Err(error) => Ok(Err(format!("the device did not recover: {error}"))),
            Ok(report) => recovered(device, now + report.duration, &self.spec, &ledger),
        }
    }
}

/// Makes the file system of `spec` on a blank device and mounts it.
async fn new_fs(spec: &RunSpec, port: DevicePort) -> Result<AnyFs, LabError> {
    let mut chance = Choices::new(spec.seed).stream("mkfs", 0);
    let options = FormatOptions { is_zeroed: true, ..FormatOptions::default() };
    match spec.stack {
        Stack::Ext4(mode) => {
            let options = FormatOptions { journal_bytes: spec.journal_bytes(mode, &port), ..options };
            plan_ext4(&port, &options, &mut chance)?.write(&port).await?;
            Ok(AnyFs::Ext4(Box::new(Ext4::mount(port, spec.ext4_options(mode)).await?)))
        }
        Stack::F2fs(stack) => {
            let options = FormatOptions { stage_bytes: stack.stage_bytes, ..options };
            plan_f2fs(&port, &options, &mut chance)?.write(&port).await?;
            Ok(AnyFs::F2fs(Box::new(F2fs::mount(port, spec.f2fs_options(stack)).await?)))
        }
        Stack::Raw => unreachable!("refused before the first cut"),
    }
}

/// Checks the promises on a device that has its power back since `now`.
fn recovered(
    device: Box<dyn Device>,
    now: Nanos,
    spec: &RunSpec,
    ledger: &Ledger,
) -> Result<Result<(), String>, LabError> {
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    executor.run_until(now)?;
    let port = executor.runtime().attach(device);
    let (durable, stack) = (ledger.durable_files(), spec.stack);
    let looked = executor.block_on(async move { look(port, stack, durable).await })?;
    Ok(looked.unwrap_or_else(|error| Err(format!("recovery failed: {error}"))))
}

/// Mounts what is left and looks for everything that was synced. ext4 is checked between the replay of its log and the
/// mount, F2FS after the unmount, since its mount is the recovery.
async fn look(port: DevicePort, stack: Stack, durable: Vec<DurableFile>) -> FsResult<Result<(), String>> {
    let fs = match stack {
        Stack::Ext4(mode) => {
            if let Some(finding) = judge(&port).await?.report.findings.first() {
                return Ok(Err(finding.to_string()));
            }
            AnyFs::Ext4(Box::new(Ext4::mount(port.clone(), MountOptions::new(mode)).await?))
        }
        _ => AnyFs::F2fs(Box::new(F2fs::mount(port.clone(), F2fsOptions::default()).await?)),
    };
    for file in &durable {
        if let Err(loss) = survives(&fs, file).await {
            return Ok(Err(format!("{}, synced before: {loss}", file.path)));
        }
    }
    fs.unmount().await?;
    if let AnyFs::F2fs(_) = fs
        && let Some(finding) = check(&port, &CheckOptions::default()).await?.findings.first()
    {
        return Ok(Err(finding.to_string()));
    }
    Ok(Ok(()))
}

async fn survives(fs: &AnyFs, file: &DurableFile) -> Result<(), String> {
    let ino = resolve(fs, file.path.as_bytes()).await.map_err(|error| error.to_string())?;
    let size = fs.attributes(ino).await.map_err(|error| error.to_string())?.size;
    if size != file.size {
        return Err(format!("{size} bytes, not {}", file.size));
    }
    let data = fs.read(ino, 0, size, Manner::default()).await.map_err(|error| error.to_string())?;
    file.contents.check(0, &data.to_vec()).map_err(|(offset, problem)| format!("at byte {offset}: {problem}"))
}
