//! Workloads, sessions, experiments, metrics, scoreboard and report.
//!
//! Two types matter. A [`JobFile`](job::JobFile) says what to run, and a [`Workload`](workload::Workload) is that as
//! streams of operations.

pub mod error;
pub mod job;
pub mod workload;

pub use error::LabError;
