//! Client: the transactions whose states are judged. What they leave is known from their number alone.

use std::sync::atomic::{AtomicU64, Ordering};

use onewrite_sqlite::register_storage;
use onewrite_sqlite::storage::Promise;
use rusqlite::{Connection, OpenFlags, Result};

use super::super::beside::Caller;
use super::super::job::Journal;
use super::super::storage::FsStorage;
use super::named::SqliteProof;

/// Names of the databases in the root.
pub(super) const DATABASES: [&str; 2] = ["app.db", "second.db"];
/// Transactions behind that which makes the tables.
const TRANSACTIONS: u32 = 12;
/// Entries that stay: each transaction adds one and removes the oldest.
const ENTRIES: u32 = 5;
/// A transaction of more pages than a draft holds in memory.
const LARGE: u32 = 7;
/// Transactions before which another one is rolled back.
const ROLLED_BACK: [u32; 2] = [3, 8];

/// Makes the tables, commits the transactions and acknowledges each; returns how many that were.
pub(super) fn play(
    caller: &Caller,
    storage: FsStorage,
    (proof, promise): (SqliteProof, Promise),
) -> std::result::Result<u32, String> {
    // SQLite knows VFSs by their names, in the whole process.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let vfs = format!("onewrite-proof-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let _registered = register_storage(&vfs, storage).map_err(|failure| failure.text)?;
    let acknowledge = |number: u32| caller.call(async move |core| core.mark(number.into()));
    // Without a journal a large transaction is a draft: of ext4, which spills, or of F2FS, which refuses it.
    let needs_drafts = matches!(proof.journal, Journal::Memory | Journal::Off);
    let fits = !needs_drafts || promise != Promise::Drafts;
    let worked = opened(&vfs, proof).and_then(|database| {
        for number in 0..=TRANSACTIONS {
            let is_large = fits && number == LARGE;
            commit(&database, (number, is_large), proof.attached)?;
            // A call fails only with the run, and then the next commit says why.
            let _ = acknowledge(number);
        }
        Ok(())
    });
    worked.map(|()| TRANSACTIONS + 1).map_err(|error| error.to_string())
}

fn opened(vfs: &str, proof: SqliteProof) -> Result<Connection> {
    let path = |name: &str| format!("/{name}");
    let database = Connection::open_with_flags_and_vfs(path(DATABASES[0]), OpenFlags::default(), vfs)?;
    database.execute_batch("PRAGMA temp_store = MEMORY")?;
    if proof.attached {
        database.execute("ATTACH ?1 AS second", [path(DATABASES[1])])?;
    }
    for schema in schemas(proof.attached) {
        let (journal, synchronous) = (proof.journal.name(), proof.synchronous.name());
        // Before the journal mode: a change to WAL is a transaction, too.
        database.execute_batch(&format!("PRAGMA {schema}.synchronous = {synchronous}"))?;
        let sql = format!("PRAGMA {schema}.journal_mode = {journal}");
        let got: String = database.query_row(&sql, [], |row| row.get(0))?;
        if got != journal {
            return Err(rusqlite::Error::InvalidParameterName(format!("SQLite takes {got} for {sql}")));
        }
    }
    Ok(database)
}

fn schemas(attached: bool) -> &'static [&'static str] {
    if attached { &["main", "second"] } else { &["main"] }
}

/// Transaction `number`: 0 makes the tables, each other changes them.
fn commit(database: &Connection, (number, is_large): (u32, bool), attached: bool) -> Result<()> {
    if ROLLED_BACK.contains(&number) {
        database.execute_batch("BEGIN")?;
        schemas(attached).iter().try_for_each(|schema| change(database, schema, number + 100, is_large))?;
        database.execute_batch("ROLLBACK")?;
    }
    database.execute_batch("BEGIN IMMEDIATE")?;
    for schema in schemas(attached) {
        match number {
            0 => make(database, schema)?,
            _ => change(database, schema, number, is_large)?,
        }
    }
    database.execute_batch("COMMIT")
}

fn make(database: &Connection, schema: &str) -> Result<()> {
    database.execute_batch(&format!(
        "CREATE TABLE {schema}.entry (number INTEGER PRIMARY KEY, text TEXT, filler BLOB);
         CREATE INDEX {schema}.by_text ON entry (text);
         CREATE TABLE {schema}.last (number INTEGER); INSERT INTO {schema}.last VALUES (0);"
    ))
}

fn change(database: &Connection, schema: &str, number: u32, is_large: bool) -> Result<()> {
    let filler = if is_large { 1_200_000 } else { 0 };
    let insert = format!("INSERT INTO {schema}.entry VALUES (?1, ?2, zeroblob(?3))");
    database.execute(&insert, (number, text(number), filler))?;
    database
        .execute(&format!("DELETE FROM {schema}.entry WHERE number = ?1"), [i64::from(number) - i64::from(ENTRIES)])?;
    database.execute(&format!("UPDATE {schema}.last SET number = ?1"), [number])?;
    Ok(())
}

/// The text of an entry: a few bytes, or some pages.
pub(super) fn text(number: u32) -> String {
    format!("{number:04} ").repeat(1 + number as usize * 977 % 7 * 350)
}

/// Numbers of the entries after transaction `last`.
pub(super) fn entries(last: u32) -> std::ops::RangeInclusive<u32> {
    (last + 1).saturating_sub(ENTRIES).max(1)..=last
}
