//! What can go wrong with an exploration itself; what it finds is no error but a violation.

use onewrite_block::Halt;
use onewrite_fs::FsError;
use thiserror::Error;

/// Why an exploration could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CrashError {
    /// A workload's text that means nothing.
    #[error(
        "workload `{text}`: {reason}; use ace:1, ace:2, ace:3, random:OPERATIONS, random-all:OPERATIONS or script:…"
    )]
    Workload {
        /// What was asked for.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A state's address that means nothing here.
    #[error("state `{text}`: {reason}")]
    State {
        /// What was asked for.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No image can be made with these options.
    #[error("mkfs: {0}")]
    Image(String),
    /// The file system failed although nothing was cut.
    #[error("{what} failed although no power was cut: {error}")]
    FileSystem {
        /// What was tried.
        what: String,
        /// What the file system said.
        error: FsError,
    },
    /// The run ended before its end.
    #[error("{what}: {halt}")]
    Halted {
        /// What ran.
        what: String,
        /// Why it ended.
        halt: Halt,
    },
    /// A log of writes that is not one.
    #[error("write log: {0}")]
    WriteLog(String),
    /// A tool that was asked to judge could not.
    #[error("{tool}: {reason}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// Why it could not.
        reason: String,
    },
}

impl CrashError {
    /// A state was named that a run does not have.
    pub(crate) fn no_such_state(state: &str) -> CrashError {
        CrashError::State { text: state.into(), reason: "there is no such state in this run".into() }
    }
}
