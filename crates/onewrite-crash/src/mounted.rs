//! Mounted: judges a run without a power cut: its operations, its reads, the tree behind them, and its unmount.
//!
//! The workload runs once more for that, on the same disk with the same chance, so that looking changes nothing of the
//! run whose states are explored. A page cache that lies shows nowhere else.
//!
//! # What must hold
//! 1. No operation fails as on a bad disk, and a commit of drafts finds the room that its drafts were given.
//! 2. Reads return what was written (`reads`).
//! 3. When all operations have ended, the mounted tree is the one after them.
//! 4. An unmount leaves nothing to do, its image reads the same through a view, and no block is lost (`unmounted`).
//!
//! If an operation failed halfway, nobody knows the tree after it, and only 1, 2 and the first part of 4 are asked.

mod reads;
mod unmounted;

use std::cell::RefCell;
use std::rc::Rc;

use onewrite_block::{Executor, mark};
use onewrite_fs::{FileSystem, FileView, FsError, FsResult, Space};

use crate::action::Workload;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::history::{History, Operation};
use crate::judge::{Breach, Promise};
use crate::model::Listing;
use crate::options::ExploreOptions;
use crate::perform::in_memory;
use crate::player::Player;
use crate::read_tree::{Extended, read_tree};
use crate::run::Run;
use crate::subject::{Purpose, Subject};
use crate::verdict::Verdict;
use unmounted::Unmounted;

/// What a run showed until its unmount.
struct Seen {
    breach: Option<Breach>,
    /// The tree after all operations, if it is known.
    done: Option<Listing>,
    /// The space before the unmount, if nothing but names kept blocks then.
    space: Option<Space>,
}

/// Judges `workload` without a cut; its recorded run was `run`. `asks_stranger`: whether the foreign checker looks at
/// the image behind the unmount, too; that takes longer than all else.
///
/// # Errors
/// If the workload cannot be run.
pub(crate) fn judged<S: Subject>(
    subject: &Rc<S>,
    (workload, run): (&Workload, &Run),
    options: &ExploreOptions,
    asks_stranger: bool,
) -> Result<Verdict, CrashError> {
    let judge = || {
        let medium = Medium::new(run.base.clone());
        let seen = play(subject, &medium, (workload, run), options)?;
        let is_known = seen.done.is_some();
        let image = medium.borrow().image.clone();
        let asks_stranger = asks_stranger && options.e2fsck_every > 0;
        let unmounted = Unmounted { subject, image, extended: Extended::of(workload), options, asks_stranger };
        let breach = match seen.breach {
            Some(breach) => Some(breach),
            None => unmounted.breach(seen.done.as_ref(), seen.space)?,
        };
        Ok(match breach {
            Some(breach) => Verdict::Broken(Box::new(breach)),
            None if is_known => Verdict::Sound,
            None => Verdict::Unknown,
        })
    };
    mark::during(judge).0
}

fn play<S: Subject>(
    subject: &Rc<S>,
    medium: &Rc<RefCell<Medium>>,
    (workload, run): (&Workload, &Run),
    options: &ExploreOptions,
) -> Result<Seen, CrashError> {
    let disk = Disk::paced(medium, &options.geometry, options.pace());
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(subject.layer(in_memory(Box::new(disk))));
    let (subject, mounting) = (Rc::clone(subject), options.mounting(Purpose::Run));
    let (workload, history) = (workload.clone(), History::new(run.history.initial.clone()));
    let work = async move {
        let fs = Rc::new(subject.mount(port, mounting).await?);
        let player = Player::new((subject, Rc::clone(&fs)), runtime, history, Rc::default());
        player.bind_all().await?;
        let extended = Extended::of(&workload);
        player.play_all(workload).await;
        let seen = seen(&player, extended).await?;
        fs.unmount().await?;
        Ok(seen)
    };
    let outcome = executor.block_on(work);
    drop(executor);
    let outcome = outcome.map_err(|halt| CrashError::Halted { what: "the run".into(), halt })?;
    outcome.map_err(|error| CrashError::FileSystem { what: "the run".into(), error })
}

/// Looks at a mounted file system when all operations have ended.
async fn seen<S: Subject>(player: &Player<S>, extended: Extended) -> FsResult<Seen> {
    let history = player.history();
    let breach = failure(&history).or_else(|| reads::wrong_read(&history));
    if history.operations.iter().any(|operation| operation.failed.is_some()) {
        return Ok(Seen { breach, done: None, space: None });
    }
    let done = player.tree().listing();
    let breach = breach.or(difference(&done, read_tree(&*player.fs, extended).await));
    player.fs.sync().await?;
    let space = if player.keeps_files_open() { None } else { Some(player.fs.space().await?) };
    Ok(Seen { breach, done: Some(done), space })
}

/// The first operation that failed although the disk is healthy.
fn failure(history: &History) -> Option<Breach> {
    let operation = history.operations.iter().find(|operation| is_failure(operation))?;
    let error = operation.error.as_ref()?;
    let what = format!("`{}` failed on a healthy disk: {error}", operation.action);
    Some(Breach { promise: Promise::Service, what, difference: Vec::new() })
}

fn is_failure(operation: &Operation) -> bool {
    let is_damage = matches!(operation.error, Some(FsError::Damaged { .. }));
    operation.is_fault() || is_damage || operation.is_commit_without_room()
}

fn difference(done: &Listing, read: FsResult<Listing>) -> Option<Breach> {
    let broken = |what: String, difference| Some(Breach { promise: Promise::Reading, what, difference });
    let read = match read {
        Ok(read) => read,
        Err(error) => return broken(format!("the mounted tree cannot be read: {error}"), Vec::new()),
    };
    let what = "the mounted tree does not read as what was done";
    if done.full_hash() == read.full_hash() { None } else { broken(what.into(), done.difference(&read)) }
}
