//! Session: puts a device, a file system, options and a job together, runs them, and takes them apart again.
//!
//! ```text
//!   device ─► mkfs ─► counters to zero ─► mount ─► layout and job ─► unmount ─► figures ─► image, if asked for
//! ```
//!
//! # Invariants
//! - Figures cover the time from the end of mkfs to the end of the clean unmount, with the layout and the last
//!   checkpoint.
//! - On an emulated device time is virtual, and the same [`RunSpec`] gives the same [`RunResult`] to the byte.

mod crash;
mod cuts;
mod device;
mod first_page;
mod format;
mod image;
mod judge;
mod recovery;
mod room;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use onewrite_block::layer::{Gauged, TraceEvent, Traced, Usage};
use onewrite_block::{Choices, Device, DevicePort, Executor, HostProfile, MIB, Nanos, PAGE_SIZE, Runtime, Time};
use onewrite_cache::PageRequest;
use onewrite_fs::FileSystem;
use onewrite_fs::ext4::{Ext4, Mode, MountOptions, PolicyKind, Scope};
use onewrite_fs::journal::EvictionSpot;

pub use crash::crash_workloads;
pub use cuts::try_cuts;
pub use device::{DEFAULT_BYTES, DeviceChoice, open_disk, view_disk};
pub use first_page::{FirstPage, Unfinished};
pub use format::{FormatOptions, Formatted, format, held_by, held_in, lazy_journal_bytes, plan_ext4, plan_f2fs};
pub(crate) use image::save_image;
pub use judge::{Judgement, Mended, Prospect, judge, mend, prospect};
pub(crate) use recovery::recovery_after;

use crate::driver::{self, Files, JobMeasure, Phase, Raw, RunOptions, Watcher};
use crate::error::LabError;
use crate::innodb::{self, InnodbJob};
use crate::job::JobFile;
use crate::results::{DeviceFigures, DeviceSetup, DiskUtil, Figures, FsFigures, RunResult, Settings};
use crate::sqlite::{self, SqliteJob};
use crate::trace::Pages;
use crate::workload::filebench::{self, Parameters, Personality};
use crate::workload::{Workload, fio, postmark};

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub enum JobSpec {
    /// A fio job file.
    Fio(JobFile),
    /// A filebench personality.
    Personality(Personality, Parameters),
    /// PostMark.
    PostMark(postmark::Parameters),
    /// An application of SQLite.
    Sqlite(SqliteJob),
    /// A load on an engine of InnoDB's shape.
    Innodb(InnodbJob),
}

impl JobSpec {
    /// Name in reports, with the variant of a database job that was asked for.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            JobSpec::Fio(file) => (&file.origin).into(),
            JobSpec::Personality(personality, _) => personality.name().into(),
            JobSpec::PostMark(_) => postmark::NAME.into(),
            JobSpec::Sqlite(job) => job.to_string().into(),
            JobSpec::Innodb(job) => job.to_string().into(),
        }
    }

    /// Whether a database decides what is read and written, so that it is not known beforehand.
    pub const fn is_database(&self) -> bool {
        matches!(self, JobSpec::Sqlite(_) | JobSpec::Innodb(_))
    }

    fn plan(&self, target: fio::Target, choices: &Choices) -> Result<Workload, LabError> {
        match self {
            JobSpec::Fio(file) => fio::plan(file, target, choices),
            JobSpec::Personality(personality, parameters) => filebench::plan(*personality, *parameters, choices),
            JobSpec::PostMark(parameters) => postmark::plan(*parameters, choices),
            JobSpec::Sqlite(_) | JobSpec::Innodb(_) => Err(LabError::Option(format!(
                "{}: a database decides itself what it reads and writes; it takes a file system, in `onewrite run` or \
                 `onewrite compare`",
                self.name()
            ))),
        }
    }
}

/// What lies between the job and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// ext4 in a journal mode.
    Ext4(Mode),
    /// Nothing: the job uses the device itself.
    Raw,
}

/// Everything that decides a run, except the device itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// What to run.
    pub job: JobSpec,
    /// Where to run it.
    pub stack: Stack,
    /// Name of the device in reports.
    pub device: String,
    /// Other properties of the device for reports.
    pub setup: DeviceSetup,
    /// Clock: virtual for emulated devices, wall for real ones.
    pub time: Time,
    /// Name of the host profile in reports.
    pub host_name: String,
    /// The modelled machine.
    pub host: HostProfile,
    /// Bytes of the journal. `None` for the size that mke2fs chooses; in lazy modes, for [`lazy_journal_bytes`].
    pub journal_bytes: Option<u64>,
    /// Bytes of the page cache.
    pub cache_bytes: u64,
    /// Replacement policy of the page cache.
    pub cache_policy: PolicyKind,
    /// Whether blocks are allocated only at writeback, in modes that can.
    pub delayed_allocation: bool,
    /// For modes that pad: a measured eviction spot of the write buffer; else the one that the device states.
    pub eviction_spot: Option<EvictionSpot>,
    /// Whether the page cache is emptied before the jobs, so that no read finds pages of the layout in memory.
    pub drop_caches: bool,
    /// The seed of all chance.
    pub seed: u64,
}

impl RunSpec {
    /// A run on the emulated device `device` in virtual time, with seed 1, the default host, 64 MiB of page cache and
    /// all other defaults.
    pub fn new(job: JobSpec, stack: Stack, device: &str) -> RunSpec {
        RunSpec {
            job,
            stack,
            device: device.to_owned(),
            setup: DeviceSetup::default(),
            time: Time::Virtual,
            host_name: "default".to_owned(),
            host: HostProfile::default(),
            journal_bytes: None,
            cache_bytes: 64 * MIB,
            cache_policy: PolicyKind::Lru,
            delayed_allocation: true,
            eviction_spot: None,
            drop_caches: false,
            seed: 1,
        }
    }
}

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
    let executor = Executor::new(spec.time, spec.host.clone());
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

/// How busy the device was.
type SharedUsage = Rc<RefCell<Usage>>;

/// Receives page requests of files.
type PageSink = Box<dyn FnMut(PageRequest)>;

async fn carry_out(
    spec: Rc<RunSpec>,
    device: (DevicePort, SharedUsage),
    watcher: Option<Watcher>,
    pages: Option<PageSink>,
) -> Result<RunResult, LabError> {
    match spec.stack {
        Stack::Raw => run_raw(&spec, device, watcher).await,
        Stack::Ext4(mode) => run_ext4(&spec, mode, device, (watcher, pages)).await,
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

async fn run_ext4(
    spec: &RunSpec,
    mode: Mode,
    (port, usage): (DevicePort, SharedUsage),
    (watcher, pages): (Option<Watcher>, Option<PageSink>),
) -> Result<RunResult, LabError> {
    let runtime = port.runtime().clone();
    let choices = Choices::new(spec.seed);
    let planned = match &spec.job {
        JobSpec::Sqlite(job) => Planned::Sqlite(*job),
        JobSpec::Innodb(job) => Planned::Innodb(*job),
        streams => Planned::Streams(streams.plan(fio::Target::Files, &choices)?),
    };
    let mount = mount_options(spec, mode);
    mount.check_device(port.geometry())?;
    let run_options = RunOptions { watcher, drops_caches: spec.drop_caches, ..RunOptions::default() };
    run_options.enter(Phase::Formatting, runtime.now())?;
    let options = FormatOptions {
        journal_bytes: journal_bytes(spec, mode, &port),
        is_zeroed: runtime.is_virtual(),
        unix_time: (runtime.civil_now().0 / 1_000_000_000) as u32,
        label: String::new(),
    };
    let formatted = format(&port, &options, &mut choices.stream("mkfs", 0)).await?;
    port.device_mut().reset_counters();
    let begin = runtime.now();
    let fs = Rc::new(Ext4::mount(port.clone(), mount).await?);
    if let Some(mut sink) = pages {
        let mut places = Pages::default();
        fs.watch(move |file, pages, access| {
            pages.for_each(|page| sink(PageRequest::new(places.page(file, page), access)));
        });
    }
    let measured = planned.carry_out((&runtime, Rc::clone(&fs), mode), (&choices, &run_options)).await;
    let measures = measured.map_err(|error| spec.with_need(error, device_bytes(&port)))?;
    run_options.enter(Phase::Unmounting, runtime.now())?;
    fs.unmount().await?;
    let figures = FsFigures::new(mode.name(), mode.promise().name(), fs.counters());
    let span = runtime.now() - begin;
    let usage = *usage.borrow();
    let result = gather(spec, &port, &measures, (span, usage), Some((figures, formatted.journal_bytes)));
    if matches!(spec.job, JobSpec::Sqlite(_) | JobSpec::Innodb(_)) {
        check_clean(&spec.job, &port).await?;
    }
    Ok(result)
}

/// What runs on a file system.
enum Planned {
    /// Streams of operations.
    Streams(Workload),
    /// SQLite, which decides its operations itself.
    Sqlite(SqliteJob),
    /// An engine that goes by what is in its memory.
    Innodb(InnodbJob),
}

impl Planned {
    async fn carry_out(
        self,
        (runtime, fs, mode): (&Runtime, Rc<Ext4>, Mode),
        (choices, options): (&Choices, &RunOptions),
    ) -> Result<Vec<JobMeasure>, LabError> {
        match self {
            Planned::Sqlite(job) => {
                options.enter(Phase::Jobs, runtime.now())?;
                sqlite::run(runtime, fs, job, choices).await
            }
            Planned::Innodb(job) => {
                options.enter(Phase::Jobs, runtime.now())?;
                innodb::run(runtime, fs, (job, mode), choices).await
            }
            Planned::Streams(workload) => {
                driver::run(runtime, Rc::new(Files::new(fs)), workload, options.clone()).await
            }
        }
    }
}

/// Refuses an image in which the checker finds anything.
async fn check_clean(job: &JobSpec, port: &DevicePort) -> Result<(), LabError> {
    let found = judge(port).await?.report;
    match found.findings.first() {
        None => Ok(()),
        Some(first) => Err(LabError::Database(format!("{}: the image is damaged after the run: {first}", job.name()))),
    }
}

/// Bytes of the journal for mkfs.
fn journal_bytes(spec: &RunSpec, mode: Mode, port: &DevicePort) -> Option<u64> {
    spec.journal_bytes.or_else(|| mode.is_lazy().then(|| lazy_journal_bytes(device_bytes(port))))
}

fn mount_options(spec: &RunSpec, mode: Mode) -> MountOptions {
    let cache_pages = (spec.cache_bytes / PAGE_SIZE as u64) as usize;
    let RunSpec { delayed_allocation, cache_policy, eviction_spot, .. } = *spec;
    MountOptions { cache_pages, cache_policy, delayed_allocation, eviction_spot, ..MountOptions::new(mode) }
}

fn device_bytes(port: &DevicePort) -> u64 {
    port.geometry().pages * PAGE_SIZE as u64
}

fn gather(
    spec: &RunSpec,
    port: &DevicePort,
    measures: &[JobMeasure],
    (duration, usage): (Nanos, Usage),
    fs: Option<(FsFigures, u64)>,
) -> RunResult {
    let seconds = Some(duration.as_secs_f64());
    let (virtual_seconds, wall_seconds) = if spec.time == Time::Virtual { (seconds, None) } else { (None, seconds) };
    let is_raw = spec.stack == Stack::Raw;
    let (fs, journal_bytes) = fs.unzip();
    RunResult::new(measures, DiskUtil::new(&spec.device, &usage, duration), |total| Figures {
        job: spec.job.name().into_owned(),
        seed: spec.seed,
        virtual_seconds,
        wall_seconds,
        device: DeviceFigures::new(&spec.device, &port.device().counters(), total.write.io_bytes),
        total,
        settings: Settings {
            fs: if is_raw { "raw" } else { "ext4" }.to_owned(),
            mode: fs.as_ref().map(|fs| fs.mode.clone()),
            device: spec.device.clone(),
            setup: spec.setup.clone(),
            host: spec.host_name.clone(),
            size_bytes: device_bytes(port),
            journal_bytes,
            cache_bytes: (!is_raw).then_some(spec.cache_bytes),
            cache_policy: (!is_raw).then(|| spec.cache_policy.name().to_owned()),
            delayed_allocation: match spec.stack {
                Stack::Ext4(mode) => Some(spec.delayed_allocation && mode.scope() != Scope::Full),
                Stack::Raw => None,
            },
            drop_caches: spec.drop_caches,
        },
        fs,
    })
}
