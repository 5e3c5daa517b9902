//! What can go wrong in the laboratory: each error names the place and the cure.

use onewrite_block::{DeviceError, Halt};
use onewrite_fs::FsError;
use thiserror::Error;

/// Any failure of this crate.
#[derive(Debug, Error)]
pub enum LabError {
    /// A job file was not understood.
    #[error("{file}:{line}: {problem}")]
    Job {
        /// The job file.
        file: String,
        /// The line, counted from one; zero where the file as a whole is meant.
        line: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A trace was not understood.
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
        /// The system's words.
        message: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {message}")]
    WriteFile {
        /// The file.
        path: String,
        /// The system's words.
        message: String,
    },
    /// A device could not be made or opened.
    #[error(transparent)]
    DeviceSetup(#[from] onewrite_device::Error),
    /// A file system could not be made.
    #[error("mkfs: {0}")]
    Mkfs(#[from] onewrite_fs::ext4::mkfs::MkfsError),
    /// An option makes no sense; the text says which, and what would.
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
    /// Content read back was not what had been written.
    #[error("{job}: verify failed in {file} at byte {offset}: {problem}")]
    Verify {
        /// The job.
        job: String,
        /// The file.
        file: String,
        /// First byte of the block.
        offset: u64,
        /// What was wrong with it.
        problem: String,
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
    /// The run stopped.
    #[error("the run stopped: {0}")]
    Halt(#[from] Halt),
}
