//! The crash explorer: recovers and judges every state that a power cut may leave.
//!
//! Four types matter. A [`Workload`] is what runs: tasks of plain actions with a text form. A [`Subject`] is the file
//! system that it runs on. [`ExploreOptions`] choose the disk and the bounds. An [`Explorer`] (or [`explore()`] for one
//! workload) returns a [`Report`]: the number of distinct states of each kind, and every broken promise with the
//! command that replays it.
//!
//! ```
//! use onewrite_crash::{Ext4Subject, ExploreOptions, Workload, explore};
//!
//! let workload: Workload = "create /a; write /a 0 5000 1; fsync /a; rename /a /b; sync".parse()?;
//! let subject = Ext4Subject::new("data".parse().expect("a mode"));
//! let options = ExploreOptions { states_max: 100, ..ExploreOptions::default() };
//! let report = explore(subject, &workload, &options)?;
//! assert!(report.is_sound() && report.states == 100);
//! # Ok::<(), onewrite_crash::CrashError>(())
//! ```
//!
//! It knows requests, promises and power cuts, but no concrete device; it knows a file system only by the [`Subject`]
//! trait.
#![deny(unreachable_pub)]

mod action;
mod aged;
mod ahead;
mod application;
mod background;
mod base;
mod capturing;
mod crash;
mod cut;
mod disk;
mod drafting;
mod enter;
mod error;
mod explore;
mod explorer;
mod faults;
mod glance;
mod hash;
mod history;
mod in_line;
mod in_memory;
mod judge;
mod ledger;
mod lives;
mod logged;
mod look;
mod marks;
mod minimise;
mod model;
mod mounted;
mod nested;
mod one;
mod opened;
mod options;
mod perform;
mod plan;
mod player;
mod read_tree;
mod reading;
mod reads;
mod recovery;
mod report;
mod run;
mod sampling;
mod sharing;
mod sizes;
mod state_id;
mod states;
mod subject;
mod survivors;
mod trace;
mod turns;
mod verdict;
mod view;
mod walk;
mod workload;
mod write_log;

pub use action::{Action, AttributeChange, Blocks, SharePart, Workload};
pub use application::{
    Application, ApplicationFailure, ApplicationReport, Check, Recorder, RecoveredTree, Verdict, explore_application,
};
pub use background::device_pages;
pub use base::BaseImage;
pub use crash::{crash, minimise, replay};
pub use cut::DeviceCuts;
pub use error::CrashError;
pub use explore::explore;
pub use explorer::Explorer;
pub use judge::Promise;
pub use logged::record;
pub use marks::{MarkCount, MarkCounts};
pub use onewrite_block::mark::Room as MarkRoom;
pub use options::ExploreOptions;
pub use plan::{CrashPlan, MakeDevice, Stage};
pub use report::{Report, Shrunk, StatesByKind, Violation};
pub use subject::{
    Alter, Altered, DraftChange, DraftChanged, Ext4Subject, F2fsSubject, Flag, Keeps, Mounting, Name, Promises,
    Purpose, Replayed, Steps, Subject, SyncedNames,
};
pub use trace::trace;
pub use workload::{Guided, Operations, SwarmMachine, WorkloadSpec};
