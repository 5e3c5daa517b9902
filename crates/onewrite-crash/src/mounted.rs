//! Mounted: judges what the mounted file system reads as when all operations have ended, before the unmount.
//!
//! The workload runs once more for that, on the same disk with the same chance, so that reading changes nothing of the
//! run whose states are explored. A page cache that lies shows nowhere else.

use std::rc::Rc;

use onewrite_block::{Choices, Executor, mark};
use onewrite_fs::FsResult;

use crate::action::Workload;
use crate::disk::{Disk, Medium};
use crate::error::CrashError;
use crate::history::History;
use crate::judge::{Breach, Promise};
use crate::model::Listing;
use crate::options::ExploreOptions;
use crate::perform::in_memory;
use crate::player::Player;
use crate::recovery::{Extended, read_tree};
use crate::run::Run;
use crate::subject::{Purpose, Subject};
use crate::verdict::Verdict;

/// Judges the mounted tree behind `workload`, whose run was `run`.
///
/// # Errors
/// If the workload cannot be run.
pub(crate) fn judged<S: Subject>(
    subject: &Rc<S>,
    (workload, run): (&Workload, &Run),
    options: &ExploreOptions,
) -> Result<Verdict, CrashError> {
    let medium = Medium::new(run.base.clone());
    let disk = Disk::paced(&medium, &options.geometry, Choices::new(options.seed).stream("pace", 0));
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(subject.layer(in_memory(Box::new(disk))));
    let (subject, mounting) = (Rc::clone(subject), options.mounting(Purpose::Run));
    let (workload, history) = (workload.clone(), History::new(run.history.initial.clone()));
    let work = async move {
        let failed = |error| CrashError::FileSystem { what: "mount".into(), error };
        let fs = Rc::new(subject.mount(port, mounting).await.map_err(failed)?);
        let player = Player::new((subject, Rc::clone(&fs)), runtime, history, Rc::default());
        player.bind_all().await.map_err(failed)?;
        let extended = Extended::of(&workload);
        player.play_all(workload).await;
        if player.history().operations.iter().any(|operation| operation.failed.is_some()) {
            return Ok(Verdict::Unknown);
        }
        let breach = difference(&player, read_tree(&*fs, extended).await);
        Ok(breach.map_or(Verdict::Sound, |breach| Verdict::Broken(Box::new(breach))))
    };
    let outcome = mark::during(|| executor.block_on(work)).0;
    drop(executor);
    outcome.map_err(|halt| CrashError::Halted { what: "the run".into(), halt })?
}

fn difference<S: Subject>(player: &Player<S>, read: FsResult<Listing>) -> Option<Breach> {
    let broken = |what: String, difference| Some(Breach { promise: Promise::Reading, what, difference });
    let (done, read) = match read {
        Ok(read) => (player.tree().listing(), read),
        Err(error) => return broken(format!("the mounted tree cannot be read: {error}"), Vec::new()),
    };
    let what = "the mounted tree does not read as what was done";
    if done.full_hash() == read.full_hash() { None } else { broken(what.into(), done.difference(&read)) }
}
