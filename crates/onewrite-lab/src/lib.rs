//! Workloads, sessions, experiments, metrics, scoreboard and report.
//!
//! Three types matter. A [`JobFile`](job::JobFile) says what to run.

pub mod error;
pub mod job;

pub use error::LabError;
