//! `onewrite run`

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail};
use onewrite_block::layer::TraceEvent;
use onewrite_cache::PageRequest;
use onewrite_fs::ext4::Mode;
use onewrite_lab::report::{Compared, Comparison};
use onewrite_lab::results::RunResult;
use onewrite_lab::session::{self, Extras, F2fsStack, RunSpec, Stack};
use onewrite_lab::trace::TraceWriter;
use onewrite_lab::{LabError, Partial};

use super::job;
use crate::args::{FsKind, FsModes, Run};
use crate::output::{is_stdout, write_json};
use crate::outputs::Outputs;
use crate::progress::Spinner;

/// Runs one job.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let Run { json, trace, page_trace, image, .. } = args;
    let outputs = Outputs {
        json: json.as_ref(),
        files: trace.iter().chain(page_trace).collect(),
        images: image.iter().collect(),
        force: args.job.force,
    };
    outputs.check(&job::inputs(&args.job))?;
    let experiment = job::experiment(&args.job)?;
    let stack = stack(args)?;
    let choice = experiment.choice()?.under(stack);
    let spec = experiment.spec(&choice, stack)?;
    let (device, partial) = experiment.device(&spec, &choice, &[spec.stack], &job::opened)?;
    job::announce(&spec, &*device);
    let spinner = Spinner::new(&spec.job.name());
    let trace = trace.as_deref().map(RequestTrace::create).transpose()?;
    let page_trace = page_writer(args)?;
    let extras = Extras {
        trace: trace.as_ref().map(request_sink),
        pages: page_trace.as_ref().map(page_sink),
        watcher: Some(spinner.watcher()),
        image: args.image.clone(),
    };
    let result = session::run(&spec, device, extras)?;
    partial.map_or(Ok(()), Partial::keep_new).with_context(|| spec.device.clone())?;
    page_trace.as_ref().map(end_page_trace).transpose()?;
    spinner.finish(&spec.job.name(), operations(&result));
    trace.and_then(|trace| trace.take()).map_or(Ok(()), RequestTrace::end)?;
    print(&spec, result, args.json.as_deref())
}

fn stack(args: &Run) -> anyhow::Result<Stack> {
    if let (FsKind::Ext4 | FsKind::Raw, Some(mode)) = (args.fs, args.modes.fsync_mode) {
        bail!("--fsync-mode {mode} is for F2FS; leave it out, or add --fs f2fs");
    }
    if let (FsKind::Ext4 | FsKind::Raw, Some(clean)) = (args.fs, args.modes.clean) {
        bail!("--clean {clean} is for F2FS; leave it out, or add --fs f2fs");
    }
    if let (FsKind::Ext4 | FsKind::Raw, Some(_)) = (args.fs, args.modes.stage) {
        bail!("--stage is for F2FS; leave it out, or add --fs f2fs");
    }
    if let (FsKind::Ext4 | FsKind::Raw, Some(_)) = (args.fs, args.modes.ipu) {
        bail!("--ipu is for F2FS; leave it out, or add --fs f2fs");
    }
    match (args.fs, &args.modes.mode) {
        (FsKind::Raw, Some(mode)) => bail!("--mode {mode} needs a file system; leave --fs raw out"),
        (FsKind::Raw, None) => Ok(Stack::Raw),
        (FsKind::F2fs, _) => Ok(Stack::F2fs(f2fs_stack(&args.modes)?)),
        (FsKind::Ext4, None) => Ok(Stack::Ext4(Mode::Ordered)),
        (FsKind::Ext4, Some(mode)) => Ok(Stack::Ext4(job::mode(mode)?)),
    }
}

fn f2fs_stack(modes: &FsModes) -> anyhow::Result<F2fsStack> {
    let log_mode = modes.mode.as_deref().map(str::parse).transpose();
    let log_mode = log_mode.map_err(anyhow::Error::msg).context("--mode")?;
    Ok(F2fsStack {
        fsync_mode: modes.fsync_mode.unwrap_or_default(),
        clean: modes.clean.unwrap_or_default(),
        log_mode: log_mode.unwrap_or_default(),
        in_place_below: modes.ipu.unwrap_or(0),
        stage_bytes: modes.stage.unwrap_or(0),
    })
}

/// Number of operations of all jobs.
pub fn operations(result: &RunResult) -> u64 {
    let total = &result.onewrite.total;
    let transfers = total.read.total_ios + total.write.total_ios + total.trim.total_ios + total.sync.total_ios;
    total.onewrite.as_ref().map_or(transfers, |all| all.operations)
}

fn print(spec: &RunSpec, result: RunResult, json: Option<&Path>) -> anyhow::Result<()> {
    let document = json.map(|path| (path, result.to_json()));
    if let Some((path, document)) = document.as_ref().filter(|(path, _)| is_stdout(path)) {
        return write_json(path, document);
    }
    let runs = vec![Compared { label: spec.stack.to_string(), result, crash: None }];
    out!("{}", Comparison { command: String::new(), runs }.table());
    document.map_or(Ok(()), |(path, document)| write_json(path, &document))
}

/// Receives every page request.
type PageSink = Box<dyn FnMut(PageRequest)>;

/// The page trace; it ends at the first line that cannot be written.
type PageTrace = Rc<RefCell<Result<TraceWriter, LabError>>>;

fn page_writer(args: &Run) -> anyhow::Result<Option<PageTrace>> {
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

/// Ends the page trace.
fn end_page_trace(trace: &PageTrace) -> anyhow::Result<()> {
    let ended = Err(LabError::Option("the trace of pages has ended".into()));
    trace.replace(ended).and_then(TraceWriter::finish).context("the trace of pages is incomplete")
}

/// File name endings of compressed files.
const COMPRESSED: [&str; 5] = ["zst", "gz", "xz", "bz2", "lz4"];

/// Receives every device request.
type Sink = Box<dyn FnMut(TraceEvent)>;

/// The trace of device requests as CSV; removed if it does not become complete.
struct RequestTrace {
    path: PathBuf,
    file: BufWriter<File>,
    partial: Partial,
    failure: Option<std::io::Error>,
}

/// The trace, until it ends.
type SharedTrace = Rc<RefCell<Option<RequestTrace>>>;

impl RequestTrace {
    fn create(path: &Path) -> anyhow::Result<SharedTrace> {
        if let Some(ending) = path.extension().filter(|ending| COMPRESSED.iter().any(|known| known == ending)) {
            bail!("--trace {}: it is plain CSV; leave .{} out", path.display(), ending.display());
        }
        let (file, partial) = Partial::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut trace = RequestTrace { path: path.to_owned(), file: BufWriter::new(file), partial, failure: None };
        trace.line("submitted_ns,latency_ns,operation,start_page,pages,cause,failed");
        Ok(Rc::new(RefCell::new(Some(trace))))
    }

    /// Writes a line, unless an earlier one failed.
    fn line(&mut self, line: &str) {
        if self.failure.is_none() {
            self.failure = writeln!(self.file, "{line}").err();
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        let TraceEvent { submitted, latency, operation, start, count, cause, failed } = event;
        let cause = cause.name();
        self.line(&format!("{},{},{operation},{},{count},{cause},{failed}", submitted.0, latency.0, start.0));
    }

    fn end(mut self) -> anyhow::Result<()> {
        let ended = self.failure.take().map_or(Ok(()), Err).and_then(|()| self.file.flush());
        let kept = ended.and_then(|()| self.partial.keep());
        kept.with_context(|| format!("cannot write the trace {} whole", self.path.display()))
    }
}

fn request_sink(trace: &SharedTrace) -> Sink {
    let trace = Rc::clone(trace);
    Box::new(move |event| {
        if let Some(trace) = &mut *trace.borrow_mut() {
            trace.event(&event);
        }
    })
}
