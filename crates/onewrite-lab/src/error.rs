//! Errors of the laboratory; each one names the place and the cure.

use onewrite_block::{DeviceError, Halt};
use onewrite_fs::FsError;
use thiserror::Error;

/// Any failure of this crate.
#[derive(Debug, Error)]
pub enum LabError {
    /// A job file is not understood. All faults are reported at once, one on each line.
    #[error("{}", told(refusals))]
    Job {
        /// At least one fault.
        refusals: Vec<Refusal>,
    },
    /// A trace is not understood.
    #[error("{file}: {place}: {problem}")]
    Trace {
        /// The trace.
        file: String,
        /// `line 7`, or `byte 96` of a binary trace.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {message}")]
    ReadFile {
        /// The file.
        path: String,
        /// The system's message.
        message: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {message}")]
    WriteFile {
        /// The file.
        path: String,
        /// The system's message.
        message: String,
    },
    /// A device could not be made or opened.
    #[error(transparent)]
    DeviceSetup(#[from] onewrite_device::Error),
    /// A file system could not be made.
    #[error("mkfs: {0}")]
    Mkfs(#[from] onewrite_fs::ext4::mkfs::MkfsError),
    /// An option makes no sense; the text says which one, and what is possible.
    #[error("{0}")]
    Option(String),
    /// The file system failed in the middle of a run.
    #[error("{job}: {operation} failed: {source}")]
    Operation {
        /// The job.
        job: String,
        /// What was tried.
        operation: String,
        /// Why it failed.
        source: FsError,
    },
    /// The device failed in the middle of a raw run.
    #[error("{job}: {operation} failed: {source}")]
    Raw {
        /// The job.
        job: String,
        /// What was tried.
        operation: String,
        /// Why it failed.
        source: DeviceError,
    },
    /// Content read back differs from what was written.
    #[error("{job}: verify failed in {file} at byte {offset}: {problem}")]
    Verify {
        /// The job.
        job: String,
        /// The file.
        file: String,
        /// First byte of the block.
        offset: u64,
        /// The difference.
        problem: String,
    },
    /// A database failed, or what it left is not right.
    #[error("{0}")]
    Database(String),
    /// A job missed its speed limits (`rate_min`, `max_latency`, `latency_target`).
    #[error("{0}")]
    Missed(String),
    /// The device is too small for the job.
    #[error("{cause}; the device has {has} bytes: {wanted} gives the job room")]
    NoRoom {
        /// What failed.
        cause: Box<LabError>,
        /// Bytes of the device.
        has: u64,
        /// The option that makes it large enough.
        wanted: String,
    },
    /// A file set ran out of files.
    #[error("{job}: no {wanted} file is left; take more files or fewer threads")]
    NoFile {
        /// The job.
        job: String,
        /// `existing` or `missing`.
        wanted: &'static str,
    },
    /// The file system failed outside of a job.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// No room is left for the content to be copied.
    #[error("{place}: {problem}")]
    Full {
        /// What was being copied.
        place: String,
        /// How much is missing, and what helps.
        problem: String,
    },
    /// The watcher stopped the transfer or the run.
    #[error("stopped; what was copied by then is whole and stays")]
    Stopped,
    /// Crash states could not be explored.
    #[error(transparent)]
    Crash(#[from] onewrite_crash::CrashError),
    /// The run stopped.
    #[error("the run stopped: {0}")]
    Halt(#[from] Halt),
}

/// A part of a job file that is not understood or not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The job file.
    pub file: String,
    /// The line, counted from one; zero for the file as a whole.
    pub line: usize,
    /// What is wrong and what would be right.
    pub problem: String,
}

fn told(refusals: &[Refusal]) -> String {
    let line = |Refusal { file, line, problem }: &Refusal| match line {
        0 => format!("{file}: {problem}"),
        line => format!("{file}:{line}: {problem}"),
    };
    refusals.iter().map(line).collect::<Vec<_>>().join("\n")
}
