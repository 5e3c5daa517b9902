//! Mechanisms: what each consistency mechanism of the papers costs for the same work, beside one another on one device:
//! the journal modes, zero padding, SHARE, compressed logs, F2FS, its cleaning by SHARE, staging, and TS-CLOCK.
//!
//! A mechanism is a file system with its defaults, as a user of `onewrite run` gets it; nothing is chosen for a job.
//!
//! ```text
//!   mod.rs   the study: devices, mechanisms, jobs; one run each
//!   show.rs  its tables and charts
//! ```

mod show;

use onewrite_block::{GIB, MIB};
use onewrite_cache::PolicyKind;
use onewrite_fs::FsError;

use super::cell::Work;
use super::variant::Variant;
use crate::cores::side_by_side;
use crate::error::LabError;
use crate::results::RunResult;
use crate::session::{self, DeviceChoice, Extras, RunSpec, Stack};
use crate::sqlite::{Journal, Kind, SqliteJob, SyncCall};
use crate::workload::filebench::{Length, Personality};

/// A mechanism: what it is called, the paper that has it (none for what the papers compare with), and how it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mechanism {
    name: &'static str,
    paper: &'static str,
    stack: &'static str,
    policy: PolicyKind,
}

impl Mechanism {
    const fn new(stack: &'static str, paper: &'static str) -> Mechanism {
        Mechanism { name: stack, paper, stack, policy: PolicyKind::Lru }
    }
}

const MECHANISMS: [Mechanism; 15] = [
    Mechanism::new("ordered", ""),
    Mechanism { name: "ts-clock", policy: PolicyKind::TsClock, ..Mechanism::new("ordered", "000") },
    Mechanism::new("data", ""),
    Mechanism::new("data+async", ""),
    Mechanism::new("data+cmp", "001"),
    Mechanism::new("ldj", "001"),
    Mechanism::new("soj", "000, 004"),
    Mechanism::new("sdj", "000, 004"),
    Mechanism::new("sdj+async", "000"),
    Mechanism::new("zp", "003"),
    Mechanism::new("zp-data", "003"),
    Mechanism::new("f2fs", ""),
    Mechanism::new("f2fs+ipu", ""),
    Mechanism::new("f2fs+share", "000, 004"),
    Mechanism::new("f2fs+stage", "002"),
];

/// A job of the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Job {
    name: &'static str,
    work: Work,
    /// Half of it. What this writes is taken off: layout, mount and unmount, and what a new file system does first.
    half: Work,
    cost: Cost,
    cache_bytes: u64,
    /// Whether it runs only where files are atomic.
    needs_drafts: bool,
}

/// Jobs of a study.
const JOBS: usize = 7;

/// By what the bytes are divided that a run writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// Bytes that the workload wrote.
    PerByte,
    /// KiB for each operation: databases write some of their bytes twice themselves.
    KibPerOperation,
}

/// Scope of a study.
#[derive(Clone, Debug)]
pub struct MechanismStudy {
    devices: Vec<&'static str>,
    device_bytes: u64,
    /// Divisor of all lengths.
    part: u32,
}

impl MechanismStudy {
    /// The study of `docs/mechanisms.md`.
    pub fn full() -> MechanismStudy {
        let devices = vec!["sata-850pro", "nvme-share", "ocssd-huawei", "microsd-adata"];
        MechanismStudy { devices, device_bytes: 16 * GIB, part: 1 }
    }

    /// A small study that takes seconds.
    pub fn short() -> MechanismStudy {
        MechanismStudy { devices: vec!["nvme-share", "ocssd-huawei"], device_bytes: 4 * GIB, part: 50 }
    }

    /// Random writes of 1 KiB with an fsync after each, over 1 MiB: each page is written many times. Then filebench's
    /// mail and file server, and AndroBench's SQLite with its log and by atomic files.
    fn jobs(&self) -> [Job; JOBS] {
        let part = u64::from(self.part);
        let halves = |all: u64| [all / part, all / part / 2];
        let synced = |compressible_percent| {
            let work = |io_bytes| Work::Synced { block_bytes: 1024, file_bytes: MIB, io_bytes, compressible_percent };
            halves(4 * MIB).map(work)
        };
        let personality = |personality: Personality, operations| {
            let files = (self.part > 1).then_some(500);
            let work = |operations| Work::Personality {
                personality,
                files,
                length: Length::Operations(operations),
                compressible_percent: 50,
            };
            halves(operations).map(work)
        };
        let sqlite = |journal| {
            let work = |operations| {
                let operations = Some(operations as u32);
                Work::Sqlite(SqliteJob { kind: Kind::Androbench, journal, sync_call: SyncCall::Fdatasync, operations })
            };
            halves(3000).map(work)
        };
        let (mail, files) = (Personality::Varmail, Personality::Fileserver);
        let job = |name, [work, half]: [Work; 2], cost| Job {
            name,
            work,
            half,
            cost,
            cache_bytes: 256 * MIB,
            needs_drafts: false,
        };
        let small_cache = job("fileserver, small cache", personality(files, 50_000), Cost::PerByte);
        let atomic = job("SQLite, atomic files", sqlite(None), Cost::KibPerOperation);
        [
            job("1 KiB, fsync each", synced(50), Cost::PerByte),
            job("1 KiB, random content", synced(0), Cost::PerByte),
            job("varmail", personality(mail, 50_000), Cost::PerByte),
            job("fileserver", personality(files, 50_000), Cost::PerByte),
            Job { cache_bytes: 16 * MIB, ..small_cache },
            job("SQLite, WAL", sqlite(Some(Journal::Wal)), Cost::KibPerOperation),
            Job { needs_drafts: true, ..atomic },
        ]
    }

    /// Runs all cells on all cores. After each one calls `watch` with the number of all.
    ///
    /// # Errors
    /// The first error, in the order of the tables.
    pub fn run(&self, watch: &(dyn Fn(usize) + Sync)) -> Result<Mechanisms, LabError> {
        let jobs = self.jobs();
        let row = |device| move |mechanism: Mechanism| jobs.map(|job| (device, mechanism, job));
        let cells: Vec<_> =
            self.devices.iter().flat_map(|device| MECHANISMS.into_iter().flat_map(row(*device))).collect();
        let figures = side_by_side(0, cells.len(), |place| {
            let (device, mechanism, job) = &cells[place];
            let figure = self.figure(device, *mechanism, job)?;
            watch(cells.len());
            Ok(figure)
        })?;
        let mut figures = figures.into_iter();
        let mut rows = || MECHANISMS.map(|mechanism| (mechanism, figures.by_ref().take(jobs.len()).collect())).into();
        let tables = self.devices.iter().map(|device| Table { device, rows: rows() }).collect();
        Ok(Mechanisms { is_short: self.part > 1, jobs, tables })
    }

    /// `None` if the device or the file system lacks what is needed.
    fn figure(&self, device: &str, mechanism: Mechanism, job: &Job) -> Result<Option<Figure>, LabError> {
        let stack: Stack = mechanism.stack.parse()?;
        if job.needs_drafts && !stack.has_drafts() {
            return Ok(None);
        }
        let run = |work: &Work| {
            let plain = RunSpec::new(work.job(Variant::PLAIN)?, stack, device);
            let spec = RunSpec { cache_bytes: job.cache_bytes, cache_policy: mechanism.policy, ..plain };
            let place = DeviceChoice::named(device)?.under(stack).open(Some(self.device_bytes))?;
            session::run(&spec, place, Extras::default())
        };
        match run(&job.work) {
            Err(LabError::Fs(FsError::Unsupported(_))) => Ok(None),
            outcome => Ok(Some(Figure::of(job, &outcome?, &run(&job.half)?))),
        }
    }
}

/// Figures of one cell.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    /// Operations a second.
    speed: f64,
    /// Bytes written to the device, by [`Cost`].
    written: f64,
    /// Bytes programmed on flash, by [`Cost`].
    programmed: f64,
    /// What survives a power cut besides what was synced.
    promise: String,
}

impl Figure {
    fn of(job: &Job, result: &RunResult, half: &RunResult) -> Figure {
        let difference = |count: fn(&RunResult) -> u64| count(result).saturating_sub(count(half)) as f64;
        let work = match job.cost {
            Cost::PerByte => difference(|run| run.onewrite.total.write.io_bytes),
            Cost::KibPerOperation => difference(operations) * 1024.0,
        };
        Figure {
            speed: job.work.speed(result),
            written: difference(|run| run.onewrite.device.host_write_bytes) / work,
            programmed: difference(|run| run.onewrite.device.flash_program_bytes) / work,
            promise: result.onewrite.fs.as_ref().map_or_else(String::new, |fs| fs.promise.clone()),
        }
    }
}

fn operations(run: &RunResult) -> u64 {
    run.onewrite.total.onewrite.as_ref().map_or(0, |all| all.operations)
}

/// The table of one device.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    device: &'static str,
    rows: Vec<(Mechanism, Vec<Option<Figure>>)>,
}

/// All figures of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanisms {
    is_short: bool,
    jobs: [Job; JOBS],
    tables: Vec<Table>,
}
