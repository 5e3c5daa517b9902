//! `onewrite run`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail};
use onewrite_block::layer::TraceEvent;
use onewrite_fs::ext4::Mode;
use onewrite_lab::report::{Compared, Comparison};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, DeviceChoice, Extras, RunSpec, Stack};

use super::job;
use crate::args::{FsKind, Run};
use crate::progress::Spinner;

/// Runs one job.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let choice = DeviceChoice::named(&args.job.device)?;
    let spec = job::spec(&args.job, &choice, stack(args)?)?;
    let device = job::device(&args.job, &choice)?;
    job::announce(&spec, &*device);
    let spinner = Spinner::new(spec.job.name());
    let trace = args.trace.as_deref().map(trace).transpose()?;
    let failure = trace.as_ref().map(|(_, failure)| Rc::clone(failure));
    let extras =
        Extras { trace: trace.map(|(sink, _)| sink), watcher: Some(spinner.watcher()), image: args.image.clone() };
    let result = session::run(&spec, device, extras)?;
    spinner.finish(spec.job.name(), operations(&result));
    if let Some(error) = failure.and_then(|failure| failure.take()) {
        return Err(error).context("the trace is incomplete");
    }
    print(&spec, result, args.json.as_deref())
}

fn stack(args: &Run) -> anyhow::Result<Stack> {
    match (args.fs, &args.mode) {
        (FsKind::Raw, Some(mode)) => bail!("--mode {mode} needs a file system; leave --fs raw out"),
        (FsKind::Raw, None) => Ok(Stack::Raw),
        (FsKind::Ext4, None) => Ok(Stack::Ext4(Mode::Ordered)),
        (FsKind::Ext4, Some(mode)) => Ok(Stack::Ext4(job::mode(mode)?)),
    }
}

/// Operations of all jobs.
pub fn operations(result: &RunResult) -> u64 {
    let total = &result.onewrite.total;
    let transfers = total.read.total_ios + total.write.total_ios + total.trim.total_ios + total.sync.total_ios;
    total.onewrite.as_ref().map_or(transfers, |all| all.operations)
}

fn print(spec: &RunSpec, result: RunResult, json: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = json {
        write_json(path, &result.to_json())?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    let label = match spec.stack {
        Stack::Ext4(mode) => mode.name(),
        Stack::Raw => "raw",
    };
    let runs = vec![Compared { label: label.to_owned(), result, crash: None }];
    print!("{}", Comparison { command: String::new(), runs }.table());
    Ok(())
}

/// Whether `path` stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes JSON to `path`, or to standard output.
pub fn write_json(path: &Path, json: &str) -> anyhow::Result<()> {
    if is_stdout(path) {
        return Ok(std::io::stdout().write_all(json.as_bytes())?);
    }
    std::fs::write(path, json).with_context(|| path.display().to_string())
}

/// Takes every request.
type Sink = Box<dyn FnMut(TraceEvent)>;
/// The first line that could not be written.
type Failure = Rc<std::cell::Cell<Option<std::io::Error>>>;

/// A sink that writes one line of CSV for each request.
fn trace(path: &Path) -> anyhow::Result<(Sink, Failure)> {
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    writeln!(file, "submitted_ns,latency_ns,operation,start_page,pages,cause,failed")?;
    let failure = Failure::default();
    let noted = Rc::clone(&failure);
    let sink = move |event: TraceEvent| {
        let TraceEvent { submitted, latency, operation, start, count, cause, failed } = event;
        let line = format!("{},{},{operation},{},{count},{},{failed}", submitted.0, latency.0, start.0, cause.name());
        if let Err(error) = writeln!(file, "{line}") {
            noted.set(Some(error));
        }
    };
    Ok((Box::new(sink), failure))
}
