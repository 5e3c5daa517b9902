//! Run: runs a workload on a file system and records all requests and operations.
//!
//! ```text
//!   garbage on every page ─► mkfs ─► setup, unmounted or cut off ─► base image
//!   base image ─► mount ─► tasks side by side ─► unmount       (recorded: requests, and marks of the history)
//! ```
//!
//! Recognisable garbage fills the image before mkfs, so that stale block content is noticed.

use std::rc::Rc;

use onewrite_block::Image;
use onewrite_block::layer::{RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};

use crate::action::Workload;
use crate::disk::Medium;
use crate::error::CrashError;
use crate::history::History;
use crate::lives::prepare;
use crate::options::ExploreOptions;
use crate::perform::recorded;
use crate::subject::Subject;
use crate::verdict::Verdict;

/// The outcome of a run.
pub(crate) struct Run {
    /// The image before the run.
    pub(crate) base: Image,
    /// The requests to the disk, with the marks of the history.
    pub(crate) events: Vec<RecordedEvent>,
    /// The marks reached before each of them.
    pub(crate) marks: Vec<Marks>,
    /// The operations.
    pub(crate) history: History,
    /// The verdict on the mounted file system, if it was asked for.
    pub(crate) mounted: Verdict,
}

/// Runs `workload` on a new image.
pub(crate) fn run<S: Subject>(
    subject: &Rc<S>,
    workload: &Workload,
    options: &ExploreOptions,
) -> Result<Run, CrashError> {
    let (base, tree) = prepare(subject, workload, options)?;
    let medium = Medium::new(base.clone());
    let work = || recorded(subject, (&medium, tree), workload.clone(), options);
    let (history, Recording { events, marks }) = mark::during(work).0?;
    Ok(Run { base, events, marks, history, mounted: Verdict::Unknown })
}
