//! Experiment: a job, a device and a machine as people name them, on the command line and from Python.
//!
//! Texts become a [`RunSpec`] and a device here, and nowhere else; so both doors know the same names, have the same
//! defaults, and refuse the same things. Options are called as on the command line in every refusal.

mod cache;
mod crash;
mod layer;
mod spot;

use std::path::Path;
use std::time::{Duration, SystemTime};

use onewrite_block::{Device, Executor, HostProfile, MIB, Nanos, PAGE_SIZE, Time};
use onewrite_device::{Age, Error, FileDisk};
use onewrite_fs::ext4::{Mode, ModeError, MountOptions, PolicyKind};
use onewrite_fs::f2fs::LogMode;

use crate::error::LabError;
use crate::innodb::{InnodbJob, Load};
use crate::job::{JobFile, Reading, Variables};
use crate::partial::Partial;
use crate::session::{DEFAULT_BYTES, DeviceChoice, JobSpec, RunSpec, Stack, held_by};
use crate::sqlite::{Kind, SqliteJob};
use crate::workload::filebench::{Length, Parameters, Personality};
use crate::workload::postmark;

pub use cache::{CacheExperiment, TraceChoice};
pub use crash::{CrashExperiment, CrashFs, Exploration};
pub use layer::{Ftl, LayerChoice};
pub use spot::eviction_spot;

/// See the module's head. The fields are the options of `onewrite run` and `compare`.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// A job file, a personality or `postmark`.
    pub job: String,
    /// The text of the job file, if it is not at the path `job`.
    pub job_text: Option<String>,
    /// Emulated device by name, or a real disk or image by path.
    pub device: String,
    /// Its translation layer.
    pub layer: LayerChoice,
    /// Writes done to it before.
    pub age: Age,
    /// Host profile: `default`, `ideal` or a file.
    pub host: String,
    /// Bytes of an emulated device or a new image.
    pub size: Option<u64>,
    /// Bytes of the journal.
    pub journal_size: Option<u64>,
    /// Bytes of the page cache.
    pub cache_size: u64,
    /// Its replacement policy.
    pub cache_policy: PolicyKind,
    /// Whether blocks are allocated when pages are written out, where the mode can.
    pub delayed_allocation: bool,
    /// Longest time for which a commit of ext4 waits for other tasks that sync.
    pub max_batch_time: Duration,
    /// For modes that pad: bytes, or the file of a probe.
    pub eviction_spot: Option<String>,
    /// Whether the page cache is emptied before the jobs.
    pub drop_caches: bool,
    /// The seed of all chance.
    pub seed: u64,
    /// Whether what a real disk holds may go.
    pub force: bool,
    /// Changes to a job file.
    pub file: FileChanges,
    /// Options of the personalities and postmark.
    pub personality: PersonalityChanges,
}

/// Changes to a fio job file.
#[derive(Clone, Debug, Default)]
pub struct FileChanges {
    /// The only sections to run; all if it is empty.
    pub sections: Vec<String>,
    /// Settings of every job, `key=value`.
    pub settings: Vec<String>,
}

/// Changes to what is published of a personality or postmark; `runtime` also to a job file.
#[derive(Clone, Copy, Debug, Default)]
pub struct PersonalityChanges {
    /// Files in the file set.
    pub files: Option<u32>,
    /// Threads.
    pub threads: Option<u32>,
    /// Mean bytes of a file.
    pub file_size: Option<u64>,
    /// Percent of the content that compresses.
    pub compressible: Option<u8>,
    /// Time to run.
    pub runtime: Option<Duration>,
    /// Operations to run instead.
    pub operations: Option<u64>,
}

impl FileChanges {
    /// The first of them that is given, by its option.
    pub fn given(&self) -> Option<&'static str> {
        let options = [("--section", !self.sections.is_empty()), ("--set", !self.settings.is_empty())];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

impl PersonalityChanges {
    /// The first of them that a job file cannot have, by its option.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--files", self.files.is_some()),
            ("--threads", self.threads.is_some()),
            ("--file-size", self.file_size.is_some()),
            ("--compressible", self.compressible.is_some()),
            ("--operations", self.operations.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Most files and threads of a personality.
const FILES_MAX: u32 = 1 << 24;
const THREADS_MAX: u32 = 1 << 16;
/// Most bytes of a page cache ([`onewrite_cache::CacheShape`]).
const CACHE_BYTES_MAX: u64 = (1 << 27) * PAGE_SIZE as u64;

/// Opens an emulated device of a size; may show that this takes a while.
pub type Open<'o> = &'o dyn Fn(&DeviceChoice, Option<u64>) -> Result<Box<dyn Device>, LabError>;

impl Experiment {
    /// `job` on a new `sata-850pro`, with seed 1 and all other defaults.
    pub fn new(job: &str) -> Experiment {
        Experiment {
            job: job.to_owned(),
            job_text: None,
            device: "sata-850pro".to_owned(),
            layer: LayerChoice::default(),
            age: Age::New,
            host: "default".to_owned(),
            size: None,
            journal_size: None,
            cache_size: 64 * MIB,
            cache_policy: PolicyKind::Lru,
            delayed_allocation: true,
            max_batch_time: Duration::ZERO,
            eviction_spot: None,
            drop_caches: false,
            seed: 1,
            force: false,
            file: FileChanges::default(),
            personality: PersonalityChanges::default(),
        }
    }

    /// The device by name, with its translation layer and age.
    ///
    /// # Errors
    /// A profile that is not known; a layer or an age for a real disk.
    pub fn choice(&self) -> Result<DeviceChoice, LabError> {
        let choice = match DeviceChoice::named(&self.device)? {
            DeviceChoice::Emulated { profile, age } => {
                DeviceChoice::Emulated { profile: Box::new(self.layer.over(*profile)?), age }
            }
            DeviceChoice::Disk(path) if self.layer.is_given() => {
                return Err(LabError::Option(format!(
                    "{}: a real disk has its own translation layer; leave --ftl, --log-blocks and --map-cache out",
                    path.display()
                )));
            }
            disk => disk,
        };
        choice.of_age(self.age)
    }

    /// The run on `stack`.
    ///
    /// # Errors
    /// What is not known or makes no sense; a file that cannot be read.
    pub fn spec(&self, device: &DeviceChoice, stack: Stack) -> Result<RunSpec, LabError> {
        let (host_name, host) = host(&self.host)?;
        if self.cache_size > CACHE_BYTES_MAX {
            return refused(format!("--cache-size: the page cache takes at most {} GiB", CACHE_BYTES_MAX >> 30));
        }
        if self.drop_caches && stack == Stack::Raw {
            return refused("--drop-caches empties a page cache, and --fs raw has none; leave it out");
        }
        Ok(RunSpec {
            job: self.job(&host)?,
            stack,
            device: device.name(),
            setup: device.setup(),
            time: if device.is_emulated() { Time::Virtual } else { wall_time() },
            host_name,
            host,
            journal_bytes: self.journal_size,
            cache_bytes: self.cache_size,
            cache_policy: self.cache_policy,
            delayed_allocation: self.delayed_allocation,
            max_batch_time: Nanos(self.max_batch_time.as_nanos() as u64),
            eviction_spot: self.eviction_spot.as_deref().map(eviction_spot).transpose()?,
            drop_caches: self.drop_caches,
            seed: self.seed,
        })
    }

    fn job(&self, host: &HostProfile) -> Result<JobSpec, LabError> {
        let name = self.job.as_str();
        let personality = Personality::from_name(name).filter(|_| self.job_text.is_none());
        let is_postmark = name == postmark::NAME && self.job_text.is_none();
        if let Some(option) = self.file.given().filter(|_| personality.is_some() || is_postmark) {
            return refused(format!("{option} is for job files, and {name} is none"));
        }
        if let Some(personality) = personality {
            return Ok(JobSpec::Personality(personality, parameters(personality, &self.personality)?));
        }
        if let Some(database) = database(name).filter(|_| self.job_text.is_none()) {
            return self.with_operations(database?);
        }
        if is_postmark {
            return Ok(JobSpec::PostMark(postmark_parameters(&self.personality)?));
        }
        if self.job_text.is_none() && !Path::new(name).exists() {
            return refused(format!("{name}: neither a job file nor one of {}", known()));
        }
        if let Some(option) = self.personality.given() {
            return refused(format!("{option} is for {}; a job file says such things itself", streams()));
        }
        let machine = Machine { cores: host.cores as u64, cache_bytes: self.cache_size };
        let text = self.job_text.as_deref();
        Ok(JobSpec::Fio(job_file((name, text), &self.file, self.personality.runtime, machine)?))
    }

    /// A job of a database, with the options that it has.
    fn with_operations(&self, database: JobSpec) -> Result<JobSpec, LabError> {
        let PersonalityChanges { operations, runtime, mut threads, .. } = self.personality;
        let (clients, taken) = match database {
            JobSpec::Innodb(_) => (threads.take(), "--operations and --threads"),
            _ => (None, "--operations"),
        };
        let others = PersonalityChanges { operations: None, threads, ..self.personality };
        if let Some(option) = self.file.given().or(others.given()).or(runtime.map(|_| "--runtime")) {
            let name = database.name();
            return refused(format!("{option} is not for {name}: of these options it takes {taken}"));
        }
        let clients = clients.map(|count| match u16::try_from(count) {
            Ok(count @ 1..) => Ok(count),
            _ => refused("--threads: these jobs have 1 to 65535"),
        });
        let too_many = |_| LabError::Option("--operations: jobs of databases have less than 2^32".to_owned());
        let operations = operations.map(u32::try_from).transpose().map_err(too_many)?;
        Ok(match database {
            JobSpec::Sqlite(job) => JobSpec::Sqlite(SqliteJob { operations, ..job }),
            JobSpec::Innodb(job) => {
                let clients = clients.transpose()?.unwrap_or(job.clients);
                JobSpec::Innodb(InnodbJob { operations, clients, ..job })
            }
            stream => stream,
        })
    }

    /// Bytes of the device: those asked for, or for a new device what the job needs.
    ///
    /// # Errors
    /// A job that cannot be planned.
    pub fn device_bytes(&self, spec: &RunSpec, choice: &DeviceChoice) -> Result<Option<u64>, LabError> {
        let is_made = match choice {
            DeviceChoice::Emulated { .. } => true,
            DeviceChoice::Disk(path) => !path.exists(),
        };
        if self.size.is_some() || !is_made {
            return Ok(self.size);
        }
        Ok(Some(if choice.has_zones_for(spec.stack) { spec.bytes_wanted_in_zones()? } else { spec.bytes_wanted()? }))
    }

    /// Opens the device; an emulated one by `open`. First checks that nothing is lost without `force`, that it has what
    /// `stacks` need, and that one of them has what the options are for. A new file is partial until the run is done.
    ///
    /// # Errors
    /// A disk that holds something; one that cannot be opened; what a mode lacks.
    pub fn device(
        &self,
        spec: &RunSpec,
        choice: &DeviceChoice,
        stacks: &[Stack],
        open: Open<'_>,
    ) -> Result<(Box<dyn Device>, Option<Partial>), LabError> {
        self.check_ext4_options(stacks)?;
        let modes: Vec<Mode> = stacks.iter().filter_map(|stack| stack.mode()).collect();
        self.check_spot(&modes)?;
        self.check_held(choice)?;
        let size = self.device_bytes(spec, choice)?;
        let (device, partial) = match choice {
            DeviceChoice::Disk(path) => disk(path, size)?,
            DeviceChoice::Emulated { .. } => (self.emulated(spec, choice, size, open)?, None),
        };
        stacks.iter().try_for_each(|stack| match stack {
            Stack::Ext4(mode) => MountOptions::new(*mode).check_device(device.geometry()),
            Stack::F2fs(f2fs) => f2fs.clean.check_device(device.geometry()),
            Stack::Raw => Ok(()),
        })?;
        Ok((device, partial))
    }

    /// Refuses options that only ext4 has, if F2FS runs and ext4 does not.
    fn check_ext4_options(&self, stacks: &[Stack]) -> Result<(), LabError> {
        let has_ext4 = stacks.iter().any(|stack| stack.mode().is_some());
        let Some(stack) = stacks.iter().find(|stack| matches!(stack, Stack::F2fs(_))) else { return Ok(()) };
        let given = [
            ("--journal-size", self.journal_size.is_some()),
            ("--nodelalloc", !self.delayed_allocation),
            ("--max-batch-time", !self.max_batch_time.is_zero()),
            ("--eviction-spot", self.eviction_spot.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) if !has_ext4 => {
                refused(format!("{option} is for ext4, and the file system is {stack}; leave it out"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a real disk that holds something.
    fn check_held(&self, choice: &DeviceChoice) -> Result<(), LabError> {
        let DeviceChoice::Disk(path) = choice else { return Ok(()) };
        if self.force || !path.exists() {
            return Ok(());
        }
        let executor = Executor::new(wall_time(), HostProfile::default());
        let port = executor.runtime().attach(choice.open(self.size)?);
        match executor.block_on(async move { held_by(&port).await })?? {
            Some(held) => refused(format!(
                "{}: it holds {held}, which the run would destroy; --force runs all the same",
                path.display()
            )),
            None => Ok(()),
        }
    }

    /// Refuses an eviction spot if no mode of `modes` pads.
    fn check_spot(&self, modes: &[Mode]) -> Result<(), LabError> {
        if self.eviction_spot.is_none() || modes.iter().any(|mode| mode.padding().is_some()) {
            return Ok(());
        }
        let named = match modes {
            [] => "without a file system nothing".to_owned(),
            modes => modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(", ") + " never",
        };
        refused(format!(
            "--eviction-spot says how much zp and zp-data pad, and {named} pads; leave it out, or take --mode zp"
        ))
    }

    /// Opens the emulated device. If the job itself makes it too large, the error says so.
    fn emulated(
        &self,
        spec: &RunSpec,
        choice: &DeviceChoice,
        size: Option<u64>,
        open: Open<'_>,
    ) -> Result<Box<dyn Device>, LabError> {
        match open(choice, size) {
            Err(LabError::DeviceSetup(Error::Capacity { bytes })) if self.size.is_none() => {
                let needed = spec.job.bytes_needed(spec.stack, spec.seed)?;
                refused(format!(
                    "{}: its files take {needed} bytes, and a device for them {bytes}; an emulated device has 4TiB \
                     at most: make the job smaller",
                    spec.job.name()
                ))
            }
            opened => opened,
        }
    }
}

fn refused<T>(problem: impl Into<String>) -> Result<T, LabError> {
    Err(LabError::Option(problem.into()))
}

/// What variables of a job file say of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores.
    pub cores: u64,
    /// Bytes of the page cache; a job file takes them for the memory.
    pub cache_bytes: u64,
}

/// The job file at a path, or its text, with `changes`, for a machine.
///
/// # Errors
/// A file that cannot be read; every fault in it.
pub fn job_file(
    (path, text): (&str, Option<&str>),
    changes: &FileChanges,
    runtime: Option<Duration>,
    Machine { cores, cache_bytes }: Machine,
) -> Result<JobFile, LabError> {
    let environment = |name: &str| std::env::var(name).ok();
    let runtime = runtime.map(|span| format!("runtime={}us", span.as_micros()));
    let reading = Reading {
        variables: Variables { cores, memory_mib: cache_bytes / MIB, environment: &environment },
        sections: changes.sections.clone(),
        settings: runtime.into_iter().chain(changes.settings.iter().cloned()).collect(),
    };
    match text {
        Some(text) => reading.parse(path, text),
        None => reading.load(Path::new(path)),
    }
}

/// The journal mode called `name`.
///
/// # Errors
/// If there is none.
pub fn mode(name: &str) -> Result<Mode, LabError> {
    let is_of_f2fs = name.parse::<LogMode>().is_ok();
    let cure = if is_of_f2fs { format!("; `{name}` is a mode of F2FS: add --fs f2fs") } else { String::new() };
    name.parse().map_err(|error: ModeError| LabError::Option(format!("{error}{cure}")))
}

/// The job of a database called `name`; `None` if the name is of another kind.
fn database(name: &str) -> Option<Result<JobSpec, LabError>> {
    let sqlite = SqliteJob::named(name).map(|job| job.map(JobSpec::Sqlite));
    sqlite.or_else(|| InnodbJob::named(name).map(|job| job.map(JobSpec::Innodb)))
}

/// Names of the jobs that need no file.
pub fn known() -> String {
    let (sqlite, innodb) = (Kind::ALL.map(Kind::name).join(", "), Load::ALL.map(Load::name).join(", "));
    format!("{}, {sqlite}, {innodb}", streams())
}

/// Names of those that are streams of operations.
pub fn streams() -> String {
    format!("{}, {}", Personality::ALL.map(Personality::name).join(", "), postmark::NAME)
}

fn parameters(personality: Personality, changes: &PersonalityChanges) -> Result<Parameters, LabError> {
    let published = personality.parameters();
    if changes.runtime == Some(Duration::ZERO) {
        return refused("--runtime 0: nothing would be run; give a time, as 500ms, 60s or 2m");
    }
    let files = within("--files", changes.files, published.files, FILES_MAX)?;
    let threads = within("--threads", changes.threads, published.threads, THREADS_MAX)?;
    let length = match (changes.runtime, changes.operations) {
        (Some(span), _) => Length::Time(Nanos(span.as_nanos() as u64)),
        (None, Some(count)) => Length::Operations(count),
        (None, None) => published.length,
    };
    Ok(Parameters {
        files,
        threads,
        file_size: changes.file_size.unwrap_or(published.file_size),
        compressible_percent: changes.compressible.unwrap_or(published.compressible_percent),
        length,
        ..published
    })
}

/// What an option says, if this program's memory holds so many; else what is published.
fn within(option: &str, given: Option<u32>, published: u32, most: u32) -> Result<u32, LabError> {
    match given {
        Some(count) if count > most => refused(format!("{option} {count}: take at most {most}")),
        given => Ok(given.unwrap_or(published)),
    }
}

/// File sizes from the published smallest one to the one that gives the requested mean.
fn postmark_parameters(changes: &PersonalityChanges) -> Result<postmark::Parameters, LabError> {
    for (option, is_given) in [("--threads", changes.threads.is_some()), ("--runtime", changes.runtime.is_some())] {
        if is_given {
            return refused(format!(
                "{option} is not for postmark: it has one thread and ends after --operations transactions"
            ));
        }
    }
    let published = postmark::Parameters::default();
    let (least, most) = published.size;
    let most = match changes.file_size {
        None => most,
        Some(mean) if mean > least => {
            let twice = mean.checked_mul(2).ok_or_else(|| LabError::Option(format!("--file-size {mean}: too large")));
            twice? - least
        }
        Some(mean) => {
            return refused(format!(
                "--file-size {mean}: postmark's smallest file has {least} bytes, the mean must be larger"
            ));
        }
    };
    let too_many = |_| LabError::Option("--operations: postmark has less than 2^32 transactions".to_owned());
    Ok(postmark::Parameters {
        files: within("--files", changes.files, published.files, FILES_MAX)?,
        transactions: changes.operations.map_or(Ok(published.transactions), u32::try_from).map_err(too_many)?,
        size: (least, most),
        compressible_percent: changes.compressible.unwrap_or(published.compressible_percent),
        ..published
    })
}

/// The host profile called `name`, or the one in the file `name`.
///
/// # Errors
/// One that is not known or not understood.
pub fn host(name: &str) -> Result<(String, HostProfile), LabError> {
    let profile = match name {
        "default" => HostProfile::default(),
        "ideal" => HostProfile::ideal(),
        path if Path::new(path).exists() => {
            HostProfile::from_toml(&text(path)?).map_err(|error| LabError::Option(format!("{path}: {error}")))?
        }
        other => {
            return refused(format!(
                "host profile `{other}`: neither `default` nor `ideal` nor a file; `onewrite host measure` writes one"
            ));
        }
    };
    Ok((name.to_owned(), profile))
}

/// The text of a file.
fn text(path: &str) -> Result<String, LabError> {
    std::fs::read_to_string(path).map_err(|error| of_host(path, "reading it", &error, "name a file that can be read"))
}

/// A failure of the host at `path`.
fn of_host(path: &str, operation: &'static str, error: &std::io::Error, cure: &'static str) -> LabError {
    let (path, kind, message) = (path.to_owned(), error.kind(), error.to_string());
    LabError::DeviceSetup(Error::Host { path, operation, kind, message, cure })
}

/// Opens the image or disk at `path`. A missing file is made with `size` bytes and is partial until it is kept.
///
/// # Errors
/// One that cannot be opened or made.
pub fn disk(path: &Path, size: Option<u64>) -> Result<(Box<dyn Device>, Option<Partial>), LabError> {
    if path.exists() {
        return Ok((DeviceChoice::Disk(path.to_owned()).open(size)?, None));
    }
    let bytes = size.unwrap_or(DEFAULT_BYTES) / PAGE_SIZE as u64 * PAGE_SIZE as u64;
    if bytes == 0 {
        return refused(format!("{}: a disk has at least one page of {PAGE_SIZE} bytes", path.display()));
    }
    let told = |error| of_host(&path.display().to_string(), "making it", &error, "name a place that has room");
    let (_, partial) = Partial::create(path).map_err(told)?;
    let device = FileDisk::create(partial.path(), bytes)?;
    Ok((Box::new(device.called(path)), Some(partial)))
}

/// Wall time that starts now.
pub fn wall_time() -> Time {
    #[expect(clippy::disallowed_methods, reason = "files in an image carry the date")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::Wall { civil_start: Nanos(since.as_nanos() as u64) }
}
