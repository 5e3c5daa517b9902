//! `onewrite run`

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail};
use onewrite_block::layer::TraceEvent;
use onewrite_cache::PageRequest;
use onewrite_fs::ext4::Mode;
use onewrite_lab::LabError;
use onewrite_lab::report::{Compared, Comparison};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, DeviceChoice, Extras, RunSpec, Stack};
use onewrite_lab::trace::TraceWriter;

use super::job;
use crate::args::{FsKind, Run};
use crate::progress::Spinner;

/// Runs one job.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let choice = DeviceChoice::named(&args.job.device)?;
    let spec = job::spec(&args.job, &choice, stack(args)?)?;
    let modes = match spec.stack {
        Stack::Ext4(mode) => vec![mode],
        Stack::Raw => Vec::new(),
    };
    let device = job::device(&args.job, &choice, &modes)?;
    job::announce(&spec, &*device);
    let spinner = Spinner::new(spec.job.name());
    let trace = args.trace.as_deref().map(trace).transpose()?;
    let failure = trace.as_ref().map(|(_, failure)| Rc::clone(failure));
    let page_trace = page_trace(args)?;
    let extras = Extras {
        trace: trace.map(|(sink, _)| sink),
        pages: page_trace.as_ref().map(page_sink),
        watcher: Some(spinner.watcher()),
        image: args.image.clone(),
    };
    let result = session::run(&spec, device, extras)?;
    page_trace.as_ref().map(end_page_trace).transpose()?;
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

/// Takes every page.
type PageSink = Box<dyn FnMut(PageRequest)>;

/// The trace of pages: written until the first line that cannot be.
type PageTrace = Rc<RefCell<Result<TraceWriter, LabError>>>;

fn page_trace(args: &Run) -> anyhow::Result<Option<PageTrace>> {
    match &args.page_trace {
        None => Ok(None),
        Some(_) if args.fs == FsKind::Raw => {
            bail!("--page-trace writes what goes through a page cache, and --fs raw has none; --trace writes requests")
        }
        Some(path) => Ok(Some(Rc::new(RefCell::new(Ok(TraceWriter::create(path)?))))),
    }
}

fn page_sink(trace: &PageTrace) -> PageSink {
    let trace = Rc::clone(trace);
    Box::new(move |request| {
        let mut trace = trace.borrow_mut();
        if let Ok(writer) = &mut *trace
            && let Err(error) = writer.page(request)
        {
            *trace = Err(error);
        }
    })
}

/// Ends the file.
fn end_page_trace(trace: &PageTrace) -> anyhow::Result<()> {
    let ended = Err(LabError::Option("the trace of pages has ended".into()));
    trace.replace(ended).and_then(TraceWriter::finish).context("the trace of pages is incomplete")
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
