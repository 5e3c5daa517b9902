//! Run: puts a job and its stack on a device, and takes them apart again.

use std::path::PathBuf;
use std::rc::Rc;

use onewrite_block::layer::{Gauged, TraceEvent, Traced};
use onewrite_block::{Choices, Device, DevicePort, Executor};
use onewrite_cache::PageRequest;

use super::files::{PageSink, run_ext4, run_f2fs};
use super::gather::{SharedUsage, gather};
use super::image::save_image;
use super::spec::{RunSpec, device_bytes};
use super::stack::Stack;
use crate::driver::{self, Raw, RunOptions, Watcher};
use crate::error::LabError;
use crate::results::RunResult;
use crate::workload::fio;

/// Optional outputs of a run.
#[derive(Default)]
pub struct Extras {
    /// Called with every device request when it ends.
    pub trace: Option<Box<dyn FnMut(TraceEvent)>>,
    /// Called with every page of a file that is read or written through the page cache.
    pub pages: Option<Box<dyn FnMut(PageRequest)>>,
    /// Called now and then with the progress of the run.
    pub watcher: Option<Watcher>,
    /// Where to save the content of the device after the run.
    pub image: Option<PathBuf>,
}

/// Runs `spec` on `device` and overwrites its content.
///
/// # Errors
/// The first failure: an impossible option, a failed operation, an image that cannot be written.
pub fn run(spec: &RunSpec, device: Box<dyn Device>, extras: Extras) -> Result<RunResult, LabError> {
    let executor = Executor::seeded(spec.time, spec.host.clone(), spec.seed);
    let runtime = executor.runtime();
    let device = match extras.trace {
        Some(sink) => Box::new(Traced::new(device, sink)),
        None => device,
    };
    let usage = SharedUsage::default();
    let port = runtime.attach(Box::new(Gauged::new(device, Rc::clone(&usage))));
    let (spec, watcher, pages) = (Rc::new(spec.clone()), extras.watcher, extras.pages);
    let (task_port, task_spec) = (port.clone(), Rc::clone(&spec));
    let result = executor.block_on(async move { carry_out(task_spec, (task_port, usage), watcher, pages).await })??;
    if let Some(path) = extras.image {
        let port = port.clone();
        executor.block_on(async move { save_image(&port, &path).await })??;
    }
    Ok(result)
}

async fn carry_out(
    spec: Rc<RunSpec>,
    device: (DevicePort, SharedUsage),
    watcher: Option<Watcher>,
    pages: Option<PageSink>,
) -> Result<RunResult, LabError> {
    match spec.stack {
        Stack::Raw => run_raw(&spec, device, watcher).await,
        Stack::Ext4(mode) => run_ext4(&spec, mode, device, (watcher, pages)).await,
        Stack::F2fs(stack) => run_f2fs(&spec, stack, device, (watcher, pages)).await,
    }
}

async fn run_raw(
    spec: &RunSpec,
    (port, usage): (DevicePort, SharedUsage),
    watcher: Option<Watcher>,
) -> Result<RunResult, LabError> {
    let runtime = port.runtime().clone();
    let bytes = device_bytes(&port);
    let workload = spec.job.plan(fio::Target::Device { bytes }, &Choices::new(spec.seed))?;
    port.device_mut().reset_counters();
    let begin = runtime.now();
    let options = RunOptions { watcher, ..RunOptions::default() };
    let measures = driver::run(&runtime, Rc::new(Raw::new(port.clone())), workload, options).await?;
    let span = runtime.now() - begin;
    let usage = *usage.borrow();
    Ok(gather(spec, &port, &measures, (span, usage), None))
}
