//! Run: runs a workload on a file system and records all requests and operations.
//!
//! ```text
//!   garbage on every page ─► mkfs ─► setup, unmounted ─► base image
//!   base image ─► mount ─► tasks side by side ─► unmount       (recorded: requests, and marks of the history)
//! ```
//!
//! Recognisable garbage fills the image before mkfs, so that stale block content is noticed.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, RecordedEvent, Recording};
use onewrite_block::mark::{self, Marks};
use onewrite_block::{Choices, Device, DevicePort, Executor, Image, Lpn, PAGE_SIZE, Page, Pattern};

use crate::action::Workload;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::history::History;
use crate::in_memory::InMemory;
use crate::model::Tree;
use crate::options::ExploreOptions;
use crate::player::Player;
use crate::subject::{Mounting, Purpose, Subject};
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

/// A new image, with garbage wherever mkfs writes nothing.
pub(crate) fn new_image<S: Subject>(subject: &S, options: &ExploreOptions) -> Result<Image, CrashError> {
    let choices = Choices::new(options.seed);
    let mut image = Image::new(options.size_bytes / PAGE_SIZE as u64);
    let garbage = choices.stream("garbage", 0).bits();
    for lpn in 0..image.pages() {
        image.set(Lpn(lpn), Page::pattern(Pattern { seed: garbage ^ lpn << 32, compressible_percent: 0 }));
    }
    subject.format(&mut image, &choices)?;
    Ok(image)
}

/// Runs `workload` on a new image.
pub(crate) fn run<S: Subject>(
    subject: &Rc<S>,
    workload: &Workload,
    options: &ExploreOptions,
) -> Result<Run, CrashError> {
    let (base, tree) = prepare(subject, workload, options)?;
    let recording = Rc::new(RefCell::new(Recording::default()));
    let medium = Medium::new(base.clone());
    let disk = Disk::paced(&medium, &options.geometry, Choices::new(options.seed).stream("pace", 0));
    let recorded = Box::new(Recorded::new(Box::new(disk), Rc::clone(&recording)));
    let mounting = options.mounting(Purpose::Run);
    let device = subject.layer(in_memory(recorded));
    let work = || perform(subject, device, (tree, &recording), workload.clone(), mounting);
    let history = mark::during(work).0?;
    let Recording { events, marks } = std::mem::take(&mut *recording.borrow_mut());
    Ok(Run { base, events, marks, history, mounted: Verdict::Unknown })
}

/// The image and the tree after the setup.
pub(crate) fn prepare<S: Subject>(
    subject: &Rc<S>,
    workload: &Workload,
    options: &ExploreOptions,
) -> Result<(Image, Tree), CrashError> {
    let (image, tree) = (new_image(&**subject, options)?, Tree::of_directories(subject.directories()));
    if workload.setup.is_empty() {
        return Ok((image, tree));
    }
    let medium = Medium::new(image);
    let disk = in_memory(Box::new(Disk::instant(&medium, &options.geometry)));
    let recording = Rc::default();
    let setup = Workload::of(workload.setup.clone());
    let history = perform(subject, disk, (tree, &recording), setup, options.mounting(Purpose::Run))?;
    let mut tree = history.initial.clone();
    for operation in history.ended() {
        history.operations[operation].steps.iter().for_each(|step| drop(tree.apply(step)));
    }
    let image = medium.borrow().image.clone();
    Ok((image, tree))
}

/// The content of all pages as bytes.
pub(crate) fn in_memory(device: Box<dyn Device>) -> Box<InMemory> {
    let end = Lpn(device.geometry().pages);
    Box::new(InMemory::new(device, end))
}

/// Mounts, plays the warm-up, plays the tasks side by side, and unmounts.
pub(crate) fn perform<S: Subject>(
    subject: &Rc<S>,
    device: Box<dyn Device>,
    (tree, recording): (Tree, &Rc<RefCell<Recording>>),
    workload: Workload,
    mounting: Mounting,
) -> Result<History, CrashError> {
    let executor = Executor::ideal();
    let port = executor.runtime().attach(device);
    perform_at((executor, port), subject, (tree, recording), workload, mounting)
}

/// Like [`perform`], but with a device that is already attached.
pub(crate) fn perform_at<S: Subject>(
    (executor, port): (Executor, DevicePort),
    subject: &Rc<S>,
    (tree, recording): (Tree, &Rc<RefCell<Recording>>),
    workload: Workload,
    mounting: Mounting,
) -> Result<History, CrashError> {
    let runtime = executor.runtime();
    let (subject, recording) = (Rc::clone(subject), Rc::clone(recording));
    let work = async move {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error| CrashError::FileSystem { what, error }
        };
        let fs = Rc::new(subject.mount(port, mounting).await.map_err(failed("mount"))?);
        let player = Player::new((Rc::clone(&subject), Rc::clone(&fs)), runtime.clone(), History::new(tree), recording);
        player.bind_all().await.map_err(failed("reading the tree"))?;
        player.play_all(workload).await;
        player.unmount().await.map_err(failed("unmount"))?;
        Ok(player.history())
    };
    let outcome = executor.block_on(work);
    drop(executor);
    outcome.map_err(|halt| CrashError::Halted { what: "the run".into(), halt })?
}
