//! Target: where operations are carried out, and why one failed.

use std::cell::RefCell;

use super::layout::LayoutWatch;
use crate::error::LabError;
use crate::workload::{Operation, ReadBefore, Workload};

/// Where operations are carried out.
#[expect(async_fn_in_trait, reason = "single-threaded: no caller needs a Send bound")]
pub trait Target {
    /// Open files of one task.
    type Descriptors: Default;

    /// Makes and fills the files of `workload`, and counts them.
    async fn lay_out(&self, workload: &Workload, watch: &LayoutWatch<'_>) -> Result<(), LabError>;

    /// Makes everything durable, then empties the page cache of all that nothing needs.
    async fn drop_caches(&self) -> Result<(), LabError>;

    /// Reads `parts` into the cache, if the target has one.
    async fn read_before(&self, parts: &[ReadBefore]) -> Result<(), LabError>;

    /// Carries one operation out; returns the bytes it read or wrote.
    async fn carry_out(&self, descriptors: &RefCell<Self::Descriptors>, operation: &Operation) -> Result<u64, Failure>;
}

/// Why an operation failed; the driver adds the name of the job.
pub enum Failure {
    /// The file system refused.
    Fs(onewrite_fs::FsError),
    /// The device refused.
    Device(onewrite_block::DeviceError),
    /// The content differs from what was written.
    Content {
        /// Path of the file.
        file: String,
        /// First byte.
        offset: u64,
        /// The difference.
        problem: String,
    },
}

impl Failure {
    /// The error of the job `job` whose `operation` failed so.
    pub(super) fn of(self, job: &str, operation: &Operation) -> LabError {
        let (job, operation) = (job.to_owned(), operation.name().to_owned());
        match self {
            Failure::Fs(source) => LabError::Operation { job, operation, source },
            Failure::Device(source) => LabError::Raw { job, operation, source },
            Failure::Content { file, offset, problem } => LabError::Verify { job, file, offset, problem },
        }
    }

    /// The error number that a program would see.
    pub(super) fn errno(&self) -> i32 {
        match self {
            Failure::Fs(error) => error.errno(),
            Failure::Device(_) => EIO,
            Failure::Content { .. } => EILSEQ,
        }
    }
}

const EIO: i32 = 5;
const EILSEQ: i32 = 84;

impl From<onewrite_fs::FsError> for Failure {
    fn from(error: onewrite_fs::FsError) -> Failure {
        Failure::Fs(error)
    }
}

impl From<onewrite_block::DeviceError> for Failure {
    fn from(error: onewrite_block::DeviceError) -> Failure {
        Failure::Device(error)
    }
}
