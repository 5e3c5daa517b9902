//! Recovery after a run that ends in a power cut: the blocks in the log must first be written home.

use std::rc::Rc;

use onewrite_block::{Choices, Device, Executor, Nanos};
use onewrite_fs::FsError;
use onewrite_fs::ext4::{Ext4, replay};
use onewrite_fs::journal::Recovered;

use super::format::{FormatOptions, format};
use super::spec::RunSpec;
use super::stack::Stack;
use crate::driver::{self, Files, RunOptions};
use crate::error::LabError;
use crate::workload::fio;

/// Runs `spec` on `device`, cuts the power instead of unmounting, and recovers. Gives the work and the time of
/// recovery, without the time that the device needs to start. `None` if the log was empty.
///
/// # Errors
/// If the run or the recovery fails, or the device has no power switch.
pub(crate) fn recovery_after(spec: &RunSpec, device: Box<dyn Device>) -> Result<Option<Recovered>, LabError> {
    let (mut device, now) = at_the_end(spec, device)?;
    let Some(power) = device.as_power_cut() else {
        return Err(LabError::Option(format!("{} is real; only an emulated device can lose its power", spec.device)));
    };
    power.cut(&mut Choices::new(spec.seed).stream("power cuts", 0));
    let report = power.recover(now).map_err(FsError::from)?;
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    executor.run_until(now + report.duration)?;
    let port = executor.runtime().attach(device);
    Ok(executor.block_on(async move { replay(&port).await })??)
}

/// The device after the run, with the file system still mounted, and the time.
fn at_the_end(spec: &RunSpec, device: Box<dyn Device>) -> Result<(Box<dyn Device>, Nanos), LabError> {
    let Stack::Ext4(mode) = spec.stack else {
        return Err(LabError::Option("the time of a recovery is measured on ext4".to_owned()));
    };
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let (task_spec, task_port, task_runtime) = (spec.clone(), port.clone(), runtime.clone());
    executor.block_on(async move {
        let (spec, port) = (task_spec, task_port);
        let options = FormatOptions {
            journal_bytes: spec.journal_bytes(mode, &port),
            is_zeroed: true,
            ..FormatOptions::default()
        };
        let choices = Choices::new(spec.seed);
        format(&port, &options, &mut choices.stream("mkfs", 0)).await?;
        let fs = Rc::new(Ext4::mount(port, spec.ext4_options(mode)).await?);
        let workload = spec.job.plan(fio::Target::Files, &choices)?;
        driver::run(&task_runtime, Rc::new(Files::new(fs)), workload, RunOptions::default()).await?;
        Ok::<_, LabError>(())
    })??;
    Ok((port.unplug(), runtime.now()))
}
