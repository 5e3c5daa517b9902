//! Judge: what SQLite finds in databases that were laid out on the host.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::client::{DATABASES, entries, text};

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Sound databases with the rows after so many transactions, the one that makes the tables included.
    Whole(u32),
    /// Something that no number of transactions leaves.
    Damaged(String),
}

/// Opens the databases in `place`, which rolls them back or forward, and looks at all that they hold.
pub(super) fn judge(place: &Path, attached: bool) -> Found {
    let count = if attached { 2 } else { 1 };
    let counts: Result<Vec<u32>, String> = DATABASES[..count].iter().map(|name| transactions(place, name)).collect();
    match counts.as_deref() {
        Ok([first, second]) if first != second => {
            Found::Damaged(format!("{first} transactions in {}, {second} in {}", DATABASES[0], DATABASES[1]))
        }
        Ok(counts) => Found::Whole(counts[0]),
        Err(what) => Found::Damaged(what.clone()),
    }
}

/// Number of transactions that a database holds.
fn transactions(place: &Path, name: &str) -> Result<u32, String> {
    let path = place.join(name);
    if !path.exists() {
        return Ok(0);
    }
    let told = |error: rusqlite::Error| format!("{name}: {error}");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags_and_vfs(&path, flags, "unix").map_err(told)?;
    database.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF").map_err(told)?;
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(told)?;
    if check != "ok" {
        return Err(format!("{name}: integrity_check: {check}"));
    }
    let tables: u32 = database.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(told)?;
    match tables {
        0 => Ok(0),
        3 => rows(&database).map_err(told)?.map_err(|what| format!("{name}: {what}")),
        _ => Err(format!("{name}: {tables} of 3 tables and indexes")),
    }
}

/// Number of transactions by the rows; `Err` if the rows contradict each other.
fn rows(database: &Connection) -> rusqlite::Result<Result<u32, String>> {
    let Some(last) = database.query_row("SELECT number FROM last", [], |row| row.get(0)).optional()? else {
        return Ok(Err("a table without its row".to_owned()));
    };
    let mut select = database.prepare("SELECT number, text FROM entry ORDER BY number")?;
    let found: Vec<(u32, String)> =
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let wanted: Vec<(u32, String)> = entries(last).map(|number| (number, text(number))).collect();
    Ok(match found == wanted {
        true => Ok(last + 1),
        false => Err(format!(
            "entries {:?} after transaction {last}",
            found.iter().map(|(number, _)| number).collect::<Vec<_>>()
        )),
    })
}
