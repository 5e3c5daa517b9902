//! Errors of the exploration itself. What it finds is a violation, not an error.

use onewrite_block::Halt;
use onewrite_fs::FsError;
use thiserror::Error;

/// Why an exploration could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CrashError {
    /// The text of a workload is invalid.
    #[error("workload `{text}`: {reason}")]
    Workload {
        /// The given text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An action of a script is invalid.
    #[error("action `{text}`: {reason}")]
    Action {
        /// The given text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address of a state is invalid or names no state of this run.
    #[error("state `{text}`: {reason}")]
    State {
        /// The given text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No image can be made with these options.
    #[error("mkfs: {0}")]
    Image(String),
    /// The file system failed although the power was not cut.
    #[error("{what} failed before any power cut: {error}")]
    FileSystem {
        /// What was tried.
        what: String,
        /// What the file system said.
        error: FsError,
    },
    /// The run stopped early.
    #[error("{what}: {halt}")]
    Halted {
        /// What ran.
        what: String,
        /// Why it stopped.
        halt: Halt,
    },
    /// The log of writes is malformed.
    #[error("write log: {0}")]
    WriteLog(String),
    /// A foreign checker could not run.
    #[error("{tool}: {reason}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// Why it could not run.
        reason: String,
    },
}

impl CrashError {
    /// The error for a state that the run does not have.
    pub(crate) fn no_such_state(state: &str) -> CrashError {
        CrashError::State { text: state.into(), reason: "there is no such state in this run".into() }
    }
}
