//! Lab: runs of the laboratory in this process. Results are the JSON of the command line (`docs/results-json.md`).

use std::path::PathBuf;
use std::rc::Rc;

use onewrite_lab::driver::{Progress, Watcher};
use onewrite_lab::experiment::{CacheExperiment, CrashExperiment, Experiment};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, DeviceChoice, Extras, Stack};
use onewrite_lab::trace::TraceWriter;
use onewrite_lab::{LabError, Partial};
use pyo3::prelude::*;

use crate::failure::of_lab;
use crate::options::{Given, Options};
use crate::stop::{Stop, stoppable};

/// Runs a job in each of `modes` (journal modes, or `f2fs`), or on the device itself if there is none.
///
/// `job_text` is the text of a job file called `job`. `page_trace`, for one mode, gets the before-cache trace. Returns
/// the results as a JSON array.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    job: String,
    job_text: Option<String>,
    modes: Vec<String>,
    options: Given,
    page_trace: Option<PathBuf>,
) -> PyResult<String> {
    let mut experiment = Experiment { job_text, ..Experiment::new(&job) };
    let mut options = Options(options);
    options.of_run(&mut experiment)?;
    options.end()?;
    let stacks: Result<Vec<Stack>, LabError> = modes.iter().map(|name| name.parse()).collect();
    let stacks = stacks.map_err(of_lab)?;
    stoppable(py, move |stop| {
        let results = run_all(&experiment, stacks, page_trace, stop)?;
        told(&results)
    })
}

fn run_all(
    experiment: &Experiment,
    mut stacks: Vec<Stack>,
    page_trace: Option<PathBuf>,
    stop: &Stop,
) -> Result<Vec<RunResult>, LabError> {
    let choice = experiment.choice()?;
    if !choice.is_emulated() && stacks.len() > 1 && !experiment.force {
        let problem = "on a real disk each mode formats it anew; force=True compares all the same";
        return Err(LabError::Option(problem.to_owned()));
    }
    if stacks.is_empty() {
        stacks.push(Stack::Raw);
    }
    stacks.iter().map(|stack| one(experiment, (&choice, &stacks), *stack, (page_trace.as_ref(), stop))).collect()
}

fn one(
    experiment: &Experiment,
    (choice, stacks): (&DeviceChoice, &[Stack]),
    stack: Stack,
    (page_trace, stop): (Option<&PathBuf>, &Stop),
) -> Result<RunResult, LabError> {
    let choice = &choice.under(stack);
    let spec = experiment.spec(choice, stack)?;
    let (device, partial) = experiment.device(&spec, choice, stacks, &|choice, size| choice.open(size))?;
    let pages = page_trace.map(|path| TraceWriter::create(path)).transpose()?;
    let shared = Rc::new(std::cell::RefCell::new((pages, Ok(()))));
    let sink = Rc::clone(&shared);
    let extras = Extras {
        pages: page_trace.map(|_| -> Box<dyn FnMut(onewrite_cache::PageRequest)> {
            Box::new(move |request| {
                let (writer, ended) = &mut *sink.borrow_mut();
                if let (Some(writer), true) = (writer, ended.is_ok()) {
                    *ended = writer.page(request);
                }
            })
        }),
        watcher: Some(watcher(stop)),
        ..Extras::default()
    };
    let result = session::run(&spec, device, extras)?;
    let (writer, ended) = shared.replace((None, Ok(())));
    ended?;
    writer.map_or(Ok(()), TraceWriter::finish)?;
    let unkept = |error: std::io::Error| LabError::WriteFile { path: spec.device.clone(), message: error.to_string() };
    partial.map_or(Ok(()), Partial::keep_new).map_err(unkept)?;
    Ok(result)
}

fn watcher(stop: &Stop) -> Watcher {
    let stop = stop.clone();
    Rc::new(move |_: Progress| stop.check())
}

/// Runs a trace through policies and sizes of a page cache. Returns the figures as JSON.
#[pyfunction]
pub(crate) fn cache(py: Python<'_>, trace: PathBuf, options: Given, after: Option<PathBuf>) -> PyResult<String> {
    let mut experiment = CacheExperiment { after, ..CacheExperiment::new(trace) };
    let mut options = Options(options);
    options.of_cache(&mut experiment)?;
    options.end()?;
    stoppable(py, move |stop| {
        let how = experiment.input.options(&experiment.trace)?;
        told(&experiment.study(how)?.run(&|_| stop.check())?)
    })
}

/// Cuts the power at every moment of a workload and judges what is recovered. Returns the report as JSON.
#[pyfunction]
pub(crate) fn crash(py: Python<'_>, workload: String, job_text: Option<String>, options: Given) -> PyResult<String> {
    let mut experiment = CrashExperiment { job_text, ..CrashExperiment::new(&workload) };
    let mut options = Options(options);
    options.of_crash(&mut experiment)?;
    options.end()?;
    stoppable(py, move |stop| {
        let exploration = experiment.exploration()?;
        let workloads = experiment.workloads(&exploration)?.take_while(|_| !stop.is_asked());
        told(&exploration.explore(workloads, |_| (), |_| ())?)
    })
}

fn told(results: &impl serde::Serialize) -> Result<String, LabError> {
    serde_json::to_string(results).map_err(|error| LabError::Option(error.to_string()))
}
