//! Recovery after a run that ends in a power cut: ext4 must first write the blocks in its log home, F2FS take in what
//! fsyncs left behind its checkpoint.

use std::rc::Rc;

use onewrite_block::{Choices, Device, DevicePort, Executor, Nanos};
use onewrite_fs::ext4::{Ext4, Mode, replay};
use onewrite_fs::f2fs::F2fs;
use onewrite_fs::journal::Recovered;
use onewrite_fs::{AnyFs, FileSystem, FsError};

use super::files::Planned;
use super::format::{FormatOptions, format, plan_f2fs};
use super::spec::RunSpec;
use super::stack::Stack;
use crate::driver::RunOptions;
use crate::error::LabError;

/// Runs `spec` on `device`, cuts the power instead of unmounting, and recovers. Gives the work and the time of
/// recovery, without the time that the device needs to start. `None` if the log was empty.
///
/// # Errors
/// If the run or the recovery fails, or the device has no power switch.
pub(crate) fn recovery_after(spec: &RunSpec, device: Box<dyn Device>) -> Result<Option<Recovered>, LabError> {
    if !matches!(spec.stack, Stack::Ext4(_)) {
        return Err(LabError::Option("the replay of a log is measured on ext4".to_owned()));
    }
    let (executor, port) = started_anew(spec, device)?;
    Ok(executor.block_on(async move { replay(&port).await })??)
}

/// A mount behind a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remounted {
    /// Its time, without the time that the device needs to start.
    pub(crate) time: Nanos,
    /// Transactions that it found in the staging area.
    pub(crate) transactions: u64,
    /// Bytes that it read.
    pub(crate) read_bytes: u64,
    /// Bytes that it wrote.
    pub(crate) written_bytes: u64,
}

/// Runs `spec`, which is of F2FS, on `device`, cuts the power instead of unmounting, and mounts.
///
/// # Errors
/// As [`recovery_after`].
pub(crate) fn remount_after(spec: &RunSpec, device: Box<dyn Device>) -> Result<Remounted, LabError> {
    let Stack::F2fs(stack) = spec.stack else {
        return Err(LabError::Option("the mount behind a cut is measured on F2FS".to_owned()));
    };
    let (executor, port) = started_anew(spec, device)?;
    let (runtime, options) = (executor.runtime(), spec.f2fs_options(stack));
    executor.block_on(async move {
        port.device_mut().reset_counters();
        let begin = runtime.now();
        let fs = F2fs::mount(port.clone(), options).await?;
        let (time, counters) = (runtime.now() - begin, port.device().counters());
        let transactions = fs.recovered().map_or(0, |recovered| recovered.transactions);
        fs.unmount().await?;
        let (read_bytes, written_bytes) = (counters.host_read_bytes, counters.host_write_bytes());
        Ok::<_, LabError>(Remounted { time, transactions, read_bytes, written_bytes })
    })?
}

/// The device after the run and a power cut, started again.
fn started_anew(spec: &RunSpec, device: Box<dyn Device>) -> Result<(Executor, DevicePort), LabError> {
    let (mut device, now) = at_the_end(spec, device)?;
    let Some(power) = device.as_power_cut() else {
        return Err(LabError::Option(format!("{} is real; only an emulated device can lose its power", spec.device)));
    };
    power.cut(&mut Choices::new(spec.seed).stream("power cuts", 0));
    let report = power.recover(now).map_err(FsError::from)?;
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    executor.run_until(now + report.duration)?;
    let port = executor.runtime().attach(device);
    Ok((executor, port))
}

/// The device after the run, with the file system still mounted, and the time.
fn at_the_end(spec: &RunSpec, device: Box<dyn Device>) -> Result<(Box<dyn Device>, Nanos), LabError> {
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let (task_spec, task_port) = (spec.clone(), port.clone());
    executor.block_on(async move { run_and_stay(&task_spec, task_port).await })??;
    Ok((port.unplug(), runtime.now()))
}

async fn run_and_stay(spec: &RunSpec, port: DevicePort) -> Result<(), LabError> {
    let (runtime, choices) = (port.runtime().clone(), Choices::new(spec.seed));
    let (fs, mode) = match spec.stack {
        Stack::Ext4(mode) => {
            let journal_bytes = spec.journal_bytes(mode, &port);
            let options = FormatOptions { journal_bytes, is_zeroed: true, ..FormatOptions::default() };
            format(&port, &options, &mut choices.stream("mkfs", 0)).await?;
            (AnyFs::Ext4(Box::new(Ext4::mount(port, spec.ext4_options(mode)).await?)), mode)
        }
        Stack::F2fs(stack) => {
            let stage_bytes = stack.stage_bytes;
            let options = FormatOptions { stage_bytes, is_zeroed: true, ..FormatOptions::default() };
            plan_f2fs(&port, &options, &mut choices.stream("mkfs", 0))?.write(&port).await?;
            (AnyFs::F2fs(Box::new(F2fs::mount(port, spec.f2fs_options(stack)).await?)), Mode::Ordered)
        }
        Stack::Raw => return Err(LabError::Option("without a file system there is nothing to recover".to_owned())),
    };
    let planned = Planned::of(&spec.job, &choices)?;
    planned.carry_out((&runtime, Rc::new(fs), mode), (&choices, &RunOptions::default())).await?;
    Ok(())
}
