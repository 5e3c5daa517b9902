//! Cell: one run in the studies of journal modes: a device, a workload, a mode and a log.

use onewrite_block::{GIB, MIB};
use onewrite_device::Profile;
use onewrite_fs::FsError;
use onewrite_fs::ext4::Mode;

use super::variant::Variant;
use crate::error::LabError;
use crate::innodb::InnodbJob;
use crate::job::JobFile;
use crate::results::RunResult;
use crate::session::{self, Extras, JobSpec, RunSpec, Stack};
use crate::sqlite::SqliteJob;
use crate::workload::filebench::{Length, Parameters, Personality};
use crate::workload::postmark;

/// Workload of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// fio's random writes with an fsync after every `interval`.
    RandomWrites {
        /// Bytes of one write.
        block_bytes: u64,
        /// Threads; each has its own file.
        threads: u32,
        /// Bytes of all files.
        file_bytes: u64,
        /// Bytes written by all threads.
        io_bytes: u64,
        /// Writes between two fsyncs.
        interval: u32,
    },
    /// Random writes over a small file, with an fsync after each.
    Synced {
        /// Bytes of one write.
        block_bytes: u64,
        /// Bytes of the file.
        file_bytes: u64,
        /// Bytes written.
        io_bytes: u64,
        /// Percent of the content that compresses, 0 to 100.
        compressible_percent: u8,
    },
    /// A filebench personality.
    Personality {
        /// The personality.
        personality: Personality,
        /// Files, if not filebench's number.
        files: Option<u32>,
        /// Time or operations of all threads.
        length: Length,
        /// Percent of the content that compresses, 0 to 100.
        compressible_percent: u8,
    },
    /// A part of PostMark as in `papers/001` §6.1 (10,000 files, 25,000 subdirectories, 50,000 transactions, 1 MB). We
    /// read "read/write size" as the largest file size of 1 MB. This gives 21 GB; table 1 has 16.
    PostMark {
        /// Divisor: one `part`-th of the files, directories and transactions.
        part: u32,
    },
    /// An application of SQLite.
    Sqlite(SqliteJob),
    /// A load on an engine of InnoDB's shape.
    Innodb(InnodbJob),
    /// A job file of fio, with the name that the paper has for it.
    Fio {
        /// The name.
        name: &'static str,
        /// Its text.
        text: &'static str,
    },
    /// Files of 4 MiB written in order; they hardly compress.
    Copy {
        /// Bytes of all files.
        bytes: u64,
    },
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Device profile.
    pub device: &'static str,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// Journal mode.
    pub mode: Mode,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of the page cache.
    pub cache_bytes: u64,
    /// The workload.
    pub work: Work,
    /// Whether blocks are allocated only at writeback; the LDJ papers ran without.
    pub delayed_allocation: bool,
    /// Seed and threads, if not seed 1 and the work's own.
    pub(super) variant: Variant,
}

/// Longest time of random writes, in virtual time.
const RUNTIME_SECONDS: u32 = 30;

impl Cell {
    /// A cell on 16 GiB of `device` with a log of 128 MiB and 256 MiB of page cache.
    pub const fn new(device: &'static str, mode: Mode, work: Work) -> Cell {
        let variant = Variant::PLAIN;
        Cell {
            device,
            device_bytes: 16 * GIB,
            mode,
            log_bytes: 128 * MIB,
            cache_bytes: 256 * MIB,
            work,
            delayed_allocation: true,
            variant,
        }
    }

    /// Runs the cell with the default host. `None` if the device lacks what the mode
    /// needs.
    ///
    /// # Errors
    /// All other failures.
    pub fn run(&self) -> Result<Option<RunResult>, LabError> {
        let device = Profile::load(self.device)?.device(Some(self.device_bytes))?;
        match session::run(&self.spec()?, device, Extras::default()) {
            Err(LabError::Fs(FsError::Unsupported(_))) => Ok(None),
            outcome => Ok(Some(outcome?)),
        }
    }

    /// Runs the cell; an error if the device lacks what the mode needs.
    pub(super) fn result(&self) -> Result<RunResult, LabError> {
        let refused = || LabError::Option(format!("mode {} cannot run on {}", self.mode, self.device));
        self.run()?.ok_or_else(refused)
    }

    /// [`Work::speed`] of its workload.
    pub fn speed(&self, result: &RunResult) -> f64 {
        self.work.speed(result)
    }

    /// The run of this cell.
    pub(super) fn spec(&self) -> Result<RunSpec, LabError> {
        Ok(RunSpec {
            journal_bytes: Some(self.log_bytes),
            cache_bytes: self.cache_bytes,
            delayed_allocation: self.delayed_allocation,
            seed: self.variant.seed,
            ..RunSpec::new(self.work.job(self.variant)?, Stack::Ext4(self.mode), self.device)
        })
    }
}

impl Work {
    /// Writes a second for fio, all operations a second for filebench, PostMark and databases; for a copy, bytes a
    /// second until the last file is synced. Checkpoints at unmount do not count, because nobody waits for them.
    pub(super) fn speed(&self, result: &RunResult) -> f64 {
        match self {
            Work::RandomWrites { .. } | Work::Synced { .. } | Work::Fio { .. } => result.onewrite.total.write.iops,
            Work::Personality { .. } | Work::PostMark { .. } | Work::Sqlite(_) | Work::Innodb(_) => {
                result.onewrite.operations_per_second
            }
            Work::Copy { bytes } => {
                let slowest = result.jobs.iter().map(|job| job.job_runtime).max().unwrap_or(0);
                *bytes as f64 * 1000.0 / slowest as f64
            }
        }
    }

    /// What it is called beside figures.
    pub(super) fn name(&self) -> String {
        match self {
            Work::RandomWrites { interval, .. } => format!("fsync every {interval}"),
            Work::Synced { block_bytes, .. } => format!("{block_bytes} B, fsync each"),
            Work::Personality { personality, files: None, .. } => personality.name().to_owned(),
            Work::Personality { personality, files: Some(files), .. } => {
                format!("{} of {files} files", personality.name())
            }
            Work::PostMark { .. } => "postmark".to_owned(),
            Work::Sqlite(job) => job.kind.name().to_owned(),
            Work::Innodb(job) => job.load.name().to_owned(),
            Work::Fio { name, .. } => (*name).to_owned(),
            Work::Copy { .. } => "copy".to_owned(),
        }
    }

    /// The job, with the threads of `variant`.
    pub(super) fn job(self, variant: Variant) -> Result<JobSpec, LabError> {
        let text = match self {
            Work::RandomWrites { block_bytes, threads, file_bytes, io_bytes, interval } => {
                let threads = variant.of(threads);
                let (size, io_size) = (file_bytes / u64::from(threads), io_bytes / u64::from(threads));
                format!(
                    "[writes]\nrw=randwrite\nbs={block_bytes}\nnumjobs={threads}\nsize={size}\nio_size={io_size}\n\
                     runtime={RUNTIME_SECONDS}s\nfsync={interval}\nbuffer_compress_percentage=50\ngroup_reporting\n"
                )
            }
            Work::Synced { block_bytes, file_bytes, io_bytes, compressible_percent } => format!(
                "[writes]\nrw=randwrite\nbs={block_bytes}\nsize={file_bytes}\nio_size={io_bytes}\nfsync=1\n\
                 buffer_compress_percentage={compressible_percent}\n"
            ),
            Work::Copy { bytes } => {
                let files = bytes / (4 * MIB);
                format!(
                    "[copy]\nrw=write\nbs=128k\nsize={bytes}\nnrfiles={files}\nend_fsync=1\n\
                     buffer_compress_percentage=6\n"
                )
            }
            Work::Fio { name, text } => format!("[{name}]\n{text}"),
            Work::PostMark { part } => {
                return Ok(JobSpec::PostMark(postmark::Parameters {
                    files: 10_000 / part,
                    transactions: 50_000 / part,
                    size: (500, MIB),
                    subdirectories: 25_000 / part,
                    chunk: MIB,
                    synced_set: true,
                    compressible_percent: 0,
                    one_text: true,
                }));
            }
            Work::Sqlite(job) => return Ok(JobSpec::Sqlite(job)),
            Work::Innodb(job) => return Ok(JobSpec::Innodb(job)),
            Work::Personality { personality, files, length, compressible_percent } => {
                let plain = personality.parameters();
                let parameters = Parameters {
                    files: files.unwrap_or(plain.files),
                    compressible_percent,
                    length,
                    threads: variant.of(plain.threads),
                    ..plain
                };
                return Ok(JobSpec::Personality(personality, parameters));
            }
        };
        Ok(JobSpec::Fio(JobFile::parse("cell.fio", &text)?))
    }
}
