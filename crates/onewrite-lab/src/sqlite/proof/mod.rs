//! Proof: what a power cut leaves of databases of SQLite.
//!
//! SQLite commits transactions on a recorded disk, in virtual time, and acknowledges each. Then each state that a power
//! cut may leave is recovered, and another SQLite opens the databases there, by the host's own VFS: it rolls a journal
//! back or a log forward, `integrity_check` has to find nothing, and the rows are those after `n` transactions. Which
//! `n` are right, [`Kept`] says.
//!
//! ```text
//!   client (its own thread) ─► VFS ─► core: file system ─► Recorder      one mark for each commit that returned
//!   Recorder ─► states ─► recovered ─► files, laid out on the host ─► judge
//! ```

mod client;
mod judge;
mod kept;
mod named;

use std::num::NonZeroI32;
use std::path::Path;
use std::rc::Rc;

use onewrite_block::{Choices, Executor};
use onewrite_crash::{
    Application, ApplicationReport, CrashError, ExploreOptions, Purpose, Recorder, RecoveredTree, Subject,
    explore_application,
};
use onewrite_fs::AnyFs;
use onewrite_sqlite::Seeded;

pub use self::kept::Kept;
pub use self::named::{SqliteProof, Synchronous};
use super::beside::{Core, beside};
use super::storage::FsStorage;
use crate::error::LabError;
use judge::{Found, judge};

/// What became of the states.
#[derive(Clone, Debug, Default)]
pub struct SqliteProved {
    /// States and checks; a check that was refused is a broken promise.
    pub report: ApplicationReport,
    /// What was promised.
    pub kept: Kept,
    /// Distinct trees whose databases are damaged, where [`Kept::Nothing`] admits it.
    pub damaged: u64,
    /// Distinct trees that lack transactions which had returned, where that is admitted.
    pub shorter: u64,
}

/// Runs the transactions on a new image of `subject` and judges what cuts leave, in the empty directory `room`. Calls
/// `watch` with the numbers of states and of checks.
///
/// # Errors
/// What SQLite or the file system refuses; an error of the host.
pub(crate) fn prove<S: Subject>(
    subject: S,
    wrap: impl FnOnce(S::Fs) -> AnyFs + 'static,
    (proof, options): (SqliteProof, &ExploreOptions),
    room: &Path,
    watch: &dyn Fn(u64, u64),
) -> Result<SqliteProved, LabError> {
    let directories = subject.directories();
    let subject = Rc::new(subject);
    let (application, kept) = record(&subject, wrap, proof, options)?;
    let mut proved = SqliteProved { kept, ..SqliteProved::default() };
    let mut check = |tree: &RecoveredTree, acked: &[String]| {
        let host = |error: std::io::Error| CrashError::Tool { tool: "SQLite", reason: error.to_string() };
        let place = room.join("tree");
        std::fs::create_dir(&place).and_then(|()| tree.lay_out(&place, directories)).map_err(host)?;
        let found = judge(&place, proof.attached);
        std::fs::remove_dir_all(&place).map_err(host)?;
        match &found {
            Found::Damaged(_) if kept == Kept::Nothing => proved.damaged += 1,
            Found::Whole(count) if *count < acked.len() as u32 => proved.shorter += 1,
            _ => (),
        }
        Ok(kept.judge(&found, acked.len() as u32))
    };
    let owned = Rc::into_inner(subject).expect("the run has ended");
    let report = explore_application(owned, &application, options, &mut check, watch)?;
    Ok(SqliteProved { report, ..proved })
}

/// The recorded run, and what it promises.
fn record<S: Subject>(
    subject: &Rc<S>,
    wrap: impl FnOnce(S::Fs) -> AnyFs + 'static,
    proof: SqliteProof,
    options: &ExploreOptions,
) -> Result<(Application, Kept), LabError> {
    let choices = Choices::new(options.seed);
    let mut chance = choices.stream("sqlite", 0);
    let _seeded = Seeded::new(NonZeroI32::new(chance.below(i32::MAX as u64) as i32 + 1).expect("at least 1"));
    let machine = chance.stream("machine", 0);
    let (recorder, device) = Recorder::new(&**subject, options)?;
    let executor = Executor::ideal();
    let runtime = executor.runtime();
    let port = runtime.attach(device);
    let (owned, mounting, marker) = (Rc::clone(subject), options.mounting(Purpose::Run), recorder.marker());
    let promises = subject.promises();
    let played = executor.block_on(async move {
        let fs = Rc::new(wrap(owned.mount(port, mounting).await?));
        let core = Rc::new(Core::new(fs, runtime).with_marker(marker));
        let promise = core.promise();
        let kept = Kept::of(proof, promises, promise)?;
        let played = beside(core, move |caller| {
            let storage = FsStorage::new(caller, machine, promise);
            client::play(caller, storage, (proof, promise))
        });
        let acknowledged = played.await?.map_err(|what| LabError::Database(format!("{proof}: {what}")))?;
        Ok::<_, LabError>((acknowledged, kept))
    })?;
    let (acknowledged, kept) = played?;
    Ok((recorder.finish((0..acknowledged).map(|number| number.to_string()).collect()), kept))
}
