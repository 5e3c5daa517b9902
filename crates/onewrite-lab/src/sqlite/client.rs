//! Client: the thread of SQLite. Opens a database on the storage, lets the application work, and judges what is there
//! at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_block::Choices;
use onewrite_fs::FileSystem;
use onewrite_sqlite::register_storage;
use rusqlite::{Connection, OpenFlags};

use super::application::{Application, Session};
use super::beside::Caller;
use super::db_bench::{Batch, Batches, DbBench, Order, Puts};
use super::job::{Journal, Kind, SqliteJob};
use super::storage::{FsStorage, Syncs};
use super::{androbench::Androbench, facebook::Facebook, gmail::Gmail};
use crate::driver::{JobMeasure, Moment};
use crate::workload::JobPlan;

/// Path of the database.
const DATABASE: &str = "/app.db";

/// Runs a job with a journal mode from an empty file system to its judgement; an error says what went wrong.
pub(super) fn play(
    caller: &Caller,
    storage: FsStorage,
    (job, journal): (SqliteJob, Journal),
    (plan, chance): (JobPlan, Choices),
) -> Result<JobMeasure, String> {
    // SQLite knows VFSs by their names, in the whole process.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let syncs = storage.syncs();
    let vfs = format!("onewrite-lab-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let _registered = register_storage(&vfs, storage).map_err(|failure| failure.text)?;
    let mut application = application_of(job);
    let opening = (job.kind, journal);
    let measure = worked(caller, (&vfs, opening), &mut *application, (plan, chance), &syncs)
        .map_err(|error| error.to_string())?;
    judge(&open(&vfs, opening).map_err(|error| error.to_string())?, &*application)?;
    Ok(measure)
}

fn application_of(SqliteJob { kind, operations, .. }: SqliteJob) -> Box<dyn Application> {
    match kind {
        Kind::Androbench => Box::new(Androbench::new(operations)),
        Kind::Facebook => Box::new(Facebook::new(operations)),
        Kind::Gmail => Box::new(Gmail::new(operations)),
        Kind::SeqSync => Box::new(DbBench::new(Order::Sequential, Puts::Synced, operations)),
        Kind::RandSync => Box::new(DbBench::new(Order::Random, Puts::Synced, operations)),
        Kind::SeqAsync => Box::new(DbBench::new(Order::Sequential, Puts::Unsynced, operations)),
        Kind::RandAsync => Box::new(DbBench::new(Order::Random, Puts::Unsynced, operations)),
        Kind::RandSync1k => Box::new(Batches::new(Batch { puts: 1_000, records_for_each_put: 20 }, operations)),
        Kind::RandSync10k => Box::new(Batches::new(Batch { puts: 10_000, records_for_each_put: 5 }, operations)),
    }
}

/// Opens the database.
fn open(vfs: &str, (kind, journal): (Kind, Journal)) -> rusqlite::Result<Connection> {
    let database = Connection::open_with_flags_and_vfs(DATABASE, OpenFlags::default(), vfs)?;
    // What a statement spills goes into memory, not into files of the host.
    database.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA synchronous = FULL")?;
    database.execute_batch(kind.pragmas())?;
    let sql = format!("PRAGMA journal_mode = {}", journal.name());
    let got: String = database.query_row(&sql, [], |row| row.get(0))?;
    match got == journal.name() {
        true => Ok(database),
        false => Err(rusqlite::Error::InvalidParameterName(format!("SQLite takes journal_mode {got} for {sql}"))),
    }
}

/// Lays the database out, makes it durable, and lets the application work.
fn worked(
    caller: &Caller,
    (vfs, opening): (&str, (Kind, Journal)),
    application: &mut dyn Application,
    (plan, chance): (JobPlan, Choices),
    syncs: &Syncs,
) -> rusqlite::Result<JobMeasure> {
    let database = open(vfs, opening)?;
    let now = || caller.now();
    let mut session =
        Session { database: &database, chance, measure: JobMeasure::new(plan), now: &now, origin: caller.now() };
    application.prepare(&mut session)?;
    let _ = caller.call(async move |core| core.fs.sync().await);
    session.origin = caller.now();
    application.work(&mut session)?;
    let origin = session.origin;
    for (begin, end) in syncs.all().into_iter().filter(|(begin, _)| *begin >= origin) {
        session.measure.count_sync(Moment { origin, begin, end });
    }
    Ok(session.measure)
}

/// SQLite finds nothing wrong, and each table has the rows that were committed.
fn judge(database: &Connection, application: &dyn Application) -> Result<(), String> {
    let asked = |sql: &str| database.query_row(sql, [], |row| row.get(0)).map_err(|error| error.to_string());
    let found: String = asked("PRAGMA integrity_check")?;
    if found != "ok" {
        return Err(format!("integrity_check after the run: {found}"));
    }
    for (table, rows) in application.rows() {
        let sql = format!("SELECT CAST(count(*) AS TEXT) FROM {table}");
        let found: String = database.query_row(&sql, [], |row| row.get(0)).map_err(|error| error.to_string())?;
        if found != rows.to_string() {
            return Err(format!("table {table} has {found} rows after the run; {rows} were committed"));
        }
    }
    Ok(())
}
