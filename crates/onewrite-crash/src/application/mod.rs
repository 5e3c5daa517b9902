//! Application: judges what a power cut leaves of a program's files, by the program's own check.
//!
//! Its one idea: a program runs unmodified on a mount of a recorded disk, and acknowledges what must survive from then
//! on. Afterwards each state that a power cut may leave is recovered and given to the check as a tree of files, with
//! the acknowledgements up to that moment.
//!
//! ```text
//!   Recorder: new image ─► disk that records ─► (mount, program, acknowledgements: the caller) ─► Application
//!   Application ─► for each event: states ─► recovered ─► tree, not met before ─► the caller's check ─► failure
//! ```
//!
//! The model of the disk is that of the explorer (docs/crash-model.md). A run of a foreign program is not repeatable,
//! so a failure carries its image and its tree. Source of the approach: ALICE (Pillai et al., OSDI 2014) and
//! CrashMonkey (Mohan et al., OSDI 2018).

mod explore;
mod layout;
mod recorder;

use std::rc::Rc;

use onewrite_block::Image;
use onewrite_block::layer::RecordedEvent;
use serde::Serialize;

use crate::model::Listing;

pub use explore::{Check, Verdict, explore_application};
pub use recorder::Recorder;

/// A recorded run of a program.
#[derive(Clone, Debug)]
pub struct Application {
    /// The image before the run.
    pub(crate) base: Image,
    /// The requests to the disk; mark `n` says that token `n` was acknowledged.
    pub(crate) events: Vec<RecordedEvent>,
    /// What the program acknowledged, in order.
    pub(crate) tokens: Vec<String>,
}

impl Application {
    /// A run recorded elsewhere: the image before it, its requests with mark `n` for token `n`, and the tokens.
    pub fn recorded(base: Image, events: Vec<RecordedEvent>, tokens: Vec<String>) -> Application {
        Application { base, events, tokens }
    }

    /// Number of requests to the disk, without reads.
    pub fn requests(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, RecordedEvent::Submitted(..))).count()
    }

    /// What the program acknowledged, in order.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }
}

/// The tree of files in a recovered state.
#[derive(Clone, Debug)]
pub struct RecoveredTree(pub(crate) Rc<Listing>);

/// A state that the check did not accept.
#[derive(Clone, Debug)]
pub struct ApplicationFailure {
    /// Address of the state in this run.
    pub state: String,
    /// The requests that were lost, and the moment.
    pub lost: Vec<String>,
    /// What was acknowledged before the power cut.
    pub acknowledged: Vec<String>,
    /// What the check said, or what is wrong with the file system.
    pub complaint: String,
    /// The image as the power cut left it; recovery has not run.
    pub image: Image,
    /// The recovered tree; `None` if recovery failed.
    pub tree: Option<RecoveredTree>,
}

/// What an exploration did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ApplicationReport {
    /// Distinct states of the disk that were recovered.
    pub states: u64,
    /// States of the disk that may occur, repetitions included. More than were taken if the bound was too small.
    pub possible: u64,
    /// Distinct recovered trees with their acknowledgements: the number of checks.
    pub checks: u64,
    /// Recovered trees that the check did not accept.
    pub refused: u64,
    /// The first of them with the fewest lost writes.
    #[serde(skip)]
    pub failure: Option<ApplicationFailure>,
}
