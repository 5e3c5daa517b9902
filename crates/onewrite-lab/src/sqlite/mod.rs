//! SQLite: real SQLite as a workload, on the file system and the device of a session, in virtual time.
//!
//! SQLite is blocking C code, the core one thread of async code. So SQLite has a thread of its own ([`mod@beside`]),
//! and its VFS is that of `onewrite-sqlite` over a storage that hands each call to the core ([`storage`]). At any
//! moment only one of the two threads runs; while SQLite computes no virtual time passes.
//!
//! ```text
//!   application ─► rusqlite ─► VFS ─► letter ═══► core: AnyFs ─► device    virtual time passes here only
//!   (its own thread)                   ◄═══ answer
//! ```
//!
//! # Invariants
//! - One seed gives one run, to the byte: time, sleep and chance of the VFS are those of the run, and SQLite's own
//!   generator has a seed. It is one for the whole process, so runs of SQLite in one process come one after the other.
//! - A run ends well only if a second connection finds the database sound, with the rows that were committed.

mod androbench;
mod application;
mod beside;
mod client;
mod db_bench;
mod facebook;
mod gmail;
mod job;
mod proof;
mod storage;

use std::num::NonZeroI32;
use std::rc::Rc;

use onewrite_block::{Choices, Runtime};
use onewrite_fs::AnyFs;
use onewrite_sqlite::Seeded;
use onewrite_sqlite::storage::Promise;

use self::beside::{Core, beside};
pub(crate) use self::job::BYTES;
pub use self::job::{Journal, Kind, SqliteJob, SyncCall};
pub(crate) use self::proof::prove;
pub use self::proof::{Kept, SqliteProof, SqliteProved, Synchronous};
use crate::driver::JobMeasure;
use crate::error::LabError;
use crate::workload::JobPlan;

/// Runs `job` on `fs`; operations are those of the application.
///
/// # Errors
/// What SQLite refuses; a database that is not as it should be at the end.
pub(crate) async fn run(
    runtime: &Runtime,
    fs: Rc<AnyFs>,
    job: SqliteJob,
    choices: &Choices,
) -> Result<Vec<JobMeasure>, LabError> {
    let mut chance = choices.stream("sqlite", 0);
    let seed = NonZeroI32::new(chance.below(i32::MAX as u64) as i32 + 1).expect("at least 1");
    let _seeded = Seeded::new(seed);
    let machine = chance.stream("machine", 0);
    let plan = JobPlan { name: job.to_string(), group: 0, operations_count: true, options: Vec::new() };
    let core = Rc::new(Core::new(fs, runtime.clone()));
    let promise = core.promise();
    let has_drafts = promise != Promise::Synced;
    let journal = job.journal.unwrap_or(if has_drafts { Journal::Off } else { job.kind.journal() });
    let played = beside(core, move |caller| {
        let storage = storage::FsStorage::new(caller, machine, promise).synced_by(job.sync_call);
        client::play(caller, storage, (job, journal), (plan, chance))
    });
    let measure = played.await?.map_err(|what| LabError::Database(format!("{job}: {what}")))?;
    Ok(vec![measure])
}

#[cfg(test)]
mod tests {
    use onewrite_block::{Executor, MIB, Nanos, RamDisk};
    use onewrite_fs::ext4::{Ext4, Mode, MountOptions};
    use rusqlite::OpenFlags;

    use super::*;
    use crate::session::{FormatOptions, format};

    /// What `body` finds on a new file system, with SQLite's generator seeded by `seed`.
    fn found<T: Send + 'static>(
        seed: i32,
        body: impl FnOnce(&beside::Caller, &rusqlite::Connection) -> T + Send + 'static,
    ) -> Result<T, LabError> {
        let _seeded = Seeded::new(NonZeroI32::new(seed).unwrap());
        let executor = Executor::ideal();
        let runtime = executor.runtime();
        let port = runtime.attach(Box::new(RamDisk::volatile(32 * MIB / 4096)));
        executor.block_on(async move {
            format(&port, &FormatOptions { is_zeroed: true, ..FormatOptions::default() }, &mut Choices::new(1)).await?;
            let fs = Ext4::mount(port, MountOptions::new(Mode::DataAsync)).await?;
            let fs = Rc::new(AnyFs::Ext4(Box::new(fs)));
            let core = Rc::new(Core::new(fs, runtime));
            let promise = core.promise();
            beside(core, move |caller| {
                let name = format!("onewrite-test-{seed}");
                let storage = storage::FsStorage::new(caller, Choices::new(seed as u64), promise);
                let _registered = onewrite_sqlite::register_storage(&name, storage).unwrap();
                let flags = OpenFlags::default();
                let database = rusqlite::Connection::open_with_flags_and_vfs("/db", flags, name.as_str()).unwrap();
                body(caller, &database)
            })
            .await
        })?
    }

    fn asked(database: &rusqlite::Connection, sql: &str) -> String {
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn sqlite_has_the_clock_of_the_run() {
        let (first, second, slept) = found(101, |caller, database| {
            let now = || asked(database, "SELECT strftime('%s', 'now')").parse::<i64>().unwrap();
            let (first, begin) = (now(), caller.now());
            caller.call(async move |core| core.runtime.sleep(Nanos::from_millis(10_000)).await).unwrap();
            (first, now(), caller.now() - begin)
        })
        .unwrap();
        assert_eq!((second - first, slept), (10, Nanos::from_millis(10_000)));
        assert!((first as u64) < 1 << 32, "{first} is no civil time");
    }

    #[test]
    fn sqlite_draws_from_the_seed() {
        let blob = |seed| found(seed, |_, database| asked(database, "SELECT hex(randomblob(16))")).unwrap();
        let first = blob(201);
        assert_eq!(first, blob(201));
        assert_ne!(first, blob(202));
    }

    #[test]
    fn a_panic_of_the_thread_is_an_error() {
        let error = found(301, |_, _| -> u8 { panic!("on purpose") }).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }
}
