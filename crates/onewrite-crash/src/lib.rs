//! The crash explorer: every state a power cut may leave, recovered and judged.
//!
//! Three types matter. A [`Workload`] is what runs: tasks of plain actions that have a text form. [`ExploreOptions`]
//! say on what and how far. An [`Explorer`] (or [`explore()`] for one workload) gives a [`Report`]: how many distinct
//! states of which kind, and every promise that was broken, with the command that replays it.
//!
//! ```
//! use onewrite_crash::{ExploreOptions, Workload, explore};
//! use onewrite_fs::ext4::Mode;
//!
//! let workload: Workload = "create /a; write /a 0 5000 1; fsync /a; rename /a /b; sync".parse()?;
//! let options = ExploreOptions { states_max: 100, ..ExploreOptions::new(Mode::Data) };
//! let report = explore(&workload, &options)?;
//! assert!(report.is_sound() && report.states == 100);
//! # Ok::<(), onewrite_crash::CrashError>(())
//! ```
//!
//! It knows requests, promises and power cuts, no device; and file systems by their public API alone.

mod action;
mod crash;
mod cut;
mod disk;
mod e2fsck;
mod error;
mod explore;
mod faults;
mod hash;
mod history;
mod judge;
mod logged;
mod minimise;
mod model;
mod neighbour;
mod nested;
mod options;
mod player;
mod recovery;
mod report;
mod run;
mod sampling;
mod sizes;
mod state_id;
mod states;
mod subject;
mod trace;
mod watched;
mod workload;
mod write_log;

pub use action::{Action, Blocks, Workload};
pub use crash::{CrashPlan, Stage, crash, replay};
pub use cut::{DeviceCuts, MakeDevice};
pub use error::CrashError;
pub use explore::{Explorer, explore, explore_subject};
pub use judge::Promise;
pub use logged::record;
pub use minimise::minimise;
pub use options::ExploreOptions;
pub use report::{Report, StatesByKind, Violation};
pub use subject::{Sound, Subject};
pub use trace::trace;
pub use workload::WorkloadSpec;
