//! Files: runs a job on a file system: makes it, mounts it, lets the job work, and unmounts it.

use std::ops::Range;
use std::rc::Rc;

use onewrite_block::layer::Usage;
use onewrite_block::{Choices, DevicePort, Nanos, Runtime};
use onewrite_cache::{Access, PageRequest};
use onewrite_fs::ext4::{Ext4, Mode};
use onewrite_fs::f2fs::F2fs;
use onewrite_fs::f2fs::check::{CheckOptions, check};
use onewrite_fs::{AnyFs, FileSystem, Ino};

use super::format::{FormatOptions, plan_ext4, plan_f2fs};
use super::gather::{SharedUsage, gather};
use super::judge::judge;
use super::spec::{JobSpec, RunSpec, device_bytes};
use super::stack::F2fsStack;
use crate::driver::{self, Files, JobMeasure, Phase, RunOptions, Watcher};
use crate::error::LabError;
use crate::innodb::{self, InnodbJob};
use crate::results::{FsFigures, RunResult};
use crate::sqlite::{self, SqliteJob};
use crate::trace::Pages;
use crate::workload::{Workload, fio};

/// Receives page requests of files.
pub(super) type PageSink = Box<dyn FnMut(PageRequest)>;

/// Runs `spec` on a new ext4 in `mode`.
pub(super) async fn run_ext4(
    spec: &RunSpec,
    mode: Mode,
    (port, usage): (DevicePort, SharedUsage),
    (watcher, pages): (Option<Watcher>, Option<PageSink>),
) -> Result<RunResult, LabError> {
    let course = Course::new(spec, &port, watcher);
    let planned = Planned::of(&spec.job, &course.choices)?;
    let mount = spec.ext4_options(mode);
    mount.check_device(port.geometry())?;
    let options = course.format_options(spec.journal_bytes(mode, &port))?;
    let plan = plan_ext4(&port, &options, &mut course.choices.stream("mkfs", 0))?;
    let journal_bytes = plan.write(&port).await?.journal_bytes;
    let begin = course.begin();
    let fs = Ext4::mount(port.clone(), mount).await?;
    if let Some(sink) = pages {
        fs.watch(pages_to(sink));
    }
    let fs = Rc::new(AnyFs::Ext4(Box::new(fs)));
    let measured = planned.carry_out((&course.runtime, Rc::clone(&fs), mode), (&course.choices, &course.options)).await;
    let measures = course.measured(measured)?;
    let (span, counters) = course.unmount(&*fs, begin).await?;
    let figures = FsFigures::new(mode.name(), mode.promise().name(), counters).with_note(spec.job.risk(mode));
    let usage: Usage = *usage.borrow();
    let result = gather(spec, &port, &measures, (span, usage), Some((figures, Some(journal_bytes))));
    if spec.job.is_database() {
        check_clean(&spec.job, &port).await?;
    }
    Ok(result)
}

/// Runs `spec` on a new F2FS.
pub(super) async fn run_f2fs(
    spec: &RunSpec,
    stack: F2fsStack,
    (port, usage): (DevicePort, SharedUsage),
    (watcher, pages): (Option<Watcher>, Option<PageSink>),
) -> Result<RunResult, LabError> {
    if let JobSpec::Innodb(job) = &spec.job {
        return Err(LabError::Option(format!("{job}: runs on ext4 so far, not on F2FS; leave --fs f2fs out")));
    }
    stack.clean.check_device(port.geometry())?;
    let course = Course::new(spec, &port, watcher);
    let planned = Planned::of(&spec.job, &course.choices)?;
    let options = FormatOptions { stage_bytes: stack.stage_bytes, ..course.format_options(None)? };
    plan_f2fs(&port, &options, &mut course.choices.stream("mkfs", 0))?.write(&port).await?;
    let begin = course.begin();
    let fs = F2fs::mount(port.clone(), spec.f2fs_options(stack)).await?;
    if let Some(sink) = pages {
        fs.watch(pages_to(sink));
    }
    let fs = Rc::new(AnyFs::F2fs(Box::new(fs)));
    let chance = (&course.choices, &course.options);
    let measured = planned.carry_out((&course.runtime, Rc::clone(&fs), Mode::Ordered), chance).await;
    let measures = course.measured(measured)?;
    let (span, counters) = course.unmount(&*fs, begin).await?;
    let figures = FsFigures::new(&spec.stack.to_string(), stack.promise(), counters).with_cleaning(counters.cleaning);
    let usage: Usage = *usage.borrow();
    let result = gather(spec, &port, &measures, (span, usage), Some((figures, None)));
    if spec.job.is_database() {
        refuse_damage(&spec.job, check(&port, &CheckOptions::default()).await?.findings.first())?;
    }
    Ok(result)
}

/// What the course of a run needs, whatever the file system.
struct Course<'s> {
    spec: &'s RunSpec,
    port: &'s DevicePort,
    runtime: Runtime,
    choices: Choices,
    options: RunOptions,
}

impl<'s> Course<'s> {
    fn new(spec: &'s RunSpec, port: &'s DevicePort, watcher: Option<Watcher>) -> Course<'s> {
        let options = RunOptions { watcher, drops_caches: spec.drop_caches, ..RunOptions::default() };
        Course { spec, port, runtime: port.runtime().clone(), choices: Choices::new(spec.seed), options }
    }

    /// Begins to make the file system; gives the options of mkfs.
    fn format_options(&self, journal_bytes: Option<u64>) -> Result<FormatOptions, LabError> {
        self.options.enter(Phase::Formatting, self.runtime.now())?;
        Ok(FormatOptions {
            journal_bytes,
            is_zeroed: self.runtime.is_virtual(),
            unix_time: (self.runtime.civil_now().0 / 1_000_000_000) as u32,
            ..FormatOptions::default()
        })
    }

    /// From now on everything counts; gives the time.
    fn begin(&self) -> Nanos {
        self.port.device_mut().reset_counters();
        self.runtime.now()
    }

    /// The measures; if there was no room, the error says how much the job needs.
    fn measured(&self, measured: Result<Vec<JobMeasure>, LabError>) -> Result<Vec<JobMeasure>, LabError> {
        measured.map_err(|error| self.spec.with_need(error, device_bytes(self.port)))
    }

    /// Unmounts; gives the time since `begin` and what the file system counted.
    async fn unmount(&self, fs: &impl FileSystem, begin: Nanos) -> Result<(Nanos, onewrite_fs::FsCounters), LabError> {
        self.options.enter(Phase::Unmounting, self.runtime.now())?;
        fs.unmount().await?;
        Ok((self.runtime.now() - begin, fs.counters()))
    }
}

/// Gives every page that a file system reads or writes through its cache to `sink`.
fn pages_to(mut sink: PageSink) -> impl FnMut(Ino, Range<u64>, Access) {
    let mut places = Pages::default();
    move |file, pages, access| {
        pages.for_each(|page| sink(PageRequest::new(places.page(file, page), access)));
    }
}

/// What runs on a file system.
pub(super) enum Planned {
    /// Streams of operations.
    Streams(Workload),
    /// SQLite, which decides its operations itself.
    Sqlite(SqliteJob),
    /// An engine that goes by what is in its memory.
    Innodb(InnodbJob),
}

impl Planned {
    pub(super) fn of(job: &JobSpec, choices: &Choices) -> Result<Planned, LabError> {
        Ok(match job {
            JobSpec::Sqlite(job) => Planned::Sqlite(*job),
            JobSpec::Innodb(job) => Planned::Innodb(*job),
            streams => Planned::Streams(streams.plan(fio::Target::Files, choices)?),
        })
    }

    pub(super) async fn carry_out(
        self,
        (runtime, fs, mode): (&Runtime, Rc<AnyFs>, Mode),
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
    refuse_damage(job, judge(port).await?.report.findings.first())
}

fn refuse_damage(job: &JobSpec, first: Option<&impl std::fmt::Display>) -> Result<(), LabError> {
    match first {
        None => Ok(()),
        Some(first) => Err(LabError::Database(format!("{}: the image is damaged after the run: {first}", job.name()))),
    }
}
