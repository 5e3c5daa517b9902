//! Workloads, sessions, experiments, metrics, scoreboard and report.
//!
//! A [`JobFile`](job::JobFile) says what to run, a [`Workload`](workload::Workload) is that as streams of operations,
//! and [`driver::run`] carries it out and measures it.

pub mod cache;
mod cores;
pub mod driver;
pub mod error;
pub mod generate;
pub mod host;
pub mod job;
pub mod paper;
mod partial;
pub mod probe;
pub mod report;
pub mod results;
pub mod session;
pub mod trace;
pub mod transfer;
pub mod workload;

pub use error::LabError;
pub use partial::{Partial, is_same_file, remove_all};
