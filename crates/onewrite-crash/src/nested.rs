//! Nested: records the writes of a recovery, so that the power can be cut inside it.

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::layer::{Recorded, Recording};
use onewrite_block::mark;
use onewrite_block::{Executor, Image};
use onewrite_fs::FileSystem;

use crate::disk::{Disk, Medium};
use crate::options::ExploreOptions;
use crate::subject::{Purpose, Subject};

/// Recovers `image` by a mount, unmounts it, and returns the requests. If the recovery fails, returns the requests up
/// to then; the judge of `image` reports the failure.
pub(crate) fn record_recovery<S: Subject>(subject: &Rc<S>, image: &Image, options: &ExploreOptions) -> Recording {
    let recording = Rc::new(RefCell::new(Recording::default()));
    let medium = Medium::new(image.clone());
    let disk = Disk::paced(&medium, &options.geometry, options.pace_of("recovery"));
    let recorded = Box::new(Recorded::new(Box::new(disk), Rc::clone(&recording)));
    let executor = Executor::ideal();
    let port = executor.runtime().attach(subject.recovery_layer(recorded));
    let (subject, mounting) = (Rc::clone(subject), options.mounting(Purpose::Recovery));
    let work = async move { subject.mount(port, mounting).await?.unmount().await };
    let ended = mark::during(|| executor.block_on(work));
    // Ignores the outcome: the state before this recovery is judged separately.
    drop((ended, executor));
    std::mem::take(&mut *recording.borrow_mut())
}
