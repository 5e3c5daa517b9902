//! Perform: plays a workload on a file system, from the mount to the unmount, and records all requests.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, Recording};
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

/// Runs `workload`, without its setup, on what `medium` holds, whose tree is `tree`. Records the requests to the disk.
pub(crate) fn recorded<S: Subject>(
    subject: &Rc<S>,
    (medium, tree): (&Rc<RefCell<Medium>>, Tree),
    workload: Workload,
    options: &ExploreOptions,
) -> Result<(History, Recording), CrashError> {
    let recording = Rc::new(RefCell::new(Recording::default()));
    let disk = Disk::paced(medium, &options.geometry, options.pace());
    let recorded = Box::new(Recorded::new(Box::new(disk), Rc::clone(&recording)));
    let device = subject.layer(in_memory(recorded));
    let history = perform(subject, device, (tree, &recording), workload, options.mounting(Purpose::Run))?;
    let recording = std::mem::take(&mut *recording.borrow_mut());
    Ok((history, recording))
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
