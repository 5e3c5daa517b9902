//! Workloads, sessions, experiments, metrics, scoreboard and report.
//!
//! A [`JobFile`](job::JobFile) says what to run. A [`Workload`](workload::Workload) turns it into streams of
//! operations. [`driver::run`] carries them out and measures them.
#![deny(unreachable_pub)]

pub mod cache;
mod cores;
pub mod draw;
pub mod driver;
pub mod error;
pub mod experiment;
pub mod generate;
pub mod host;
pub mod innodb;
pub mod job;
pub mod paper;
mod partial;
pub mod probe;
pub mod report;
pub mod results;
pub mod session;
pub mod size;
pub mod sqlite;
pub mod trace;
pub mod transfer;
pub mod workload;

pub use error::LabError;
pub use partial::{Partial, is_same_file, remove_all};
