//! AndroBench's SQLite part: rows of one table inserted, updated and deleted, each in a transaction of its own.
//!
//! Source: J.-M. Kim and J.-S. Kim, "AndroBench: Benchmarking the Storage Performance of Android-Based Mobile Devices",
//! AISC 133, 2012; the default of its application is 300 transactions of each kind on a table of 17 columns. It does
//! not say which columns: here a key, eight numbers and eight short texts, 300 bytes in all. Rows are taken in the
//! order of their keys.

use onewrite_block::Choices;
use rusqlite::{Result, params_from_iter, types::Value};

use super::application::{Application, Session, text};

/// Transactions of each kind.
const EACH: u32 = 300;

/// Columns without the key: as many numbers as texts.
const COLUMNS: usize = 16;

pub(super) struct Androbench {
    each: u32,
    rows: u64,
}

impl Androbench {
    /// A third of `operations` for each kind.
    pub(super) fn new(operations: Option<u32>) -> Androbench {
        Androbench { each: operations.map_or(EACH, |operations| operations.div_ceil(3)), rows: 0 }
    }
}

/// The values of a row behind its key.
fn values(chance: &mut Choices) -> impl Iterator<Item = Value> {
    let one = |column: usize| match column % 2 {
        0 => Value::Integer(chance.below(1 << 40) as i64),
        _ => Value::Text(text(chance, 20, 40)),
    };
    (0..COLUMNS).map(one).collect::<Vec<_>>().into_iter()
}

impl Application for Androbench {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        let columns =
            (0..COLUMNS).map(|column| format!("c{column} {}", if column % 2 == 0 { "INTEGER" } else { "TEXT" }));
        let columns = columns.collect::<Vec<_>>().join(", ");
        session.database.execute_batch(&format!("CREATE TABLE contact (number INTEGER PRIMARY KEY, {columns})"))
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        let marks = vec!["?"; COLUMNS + 1].join(", ");
        let insert = format!("INSERT INTO contact VALUES ({marks})");
        let sets: Vec<String> = (0..COLUMNS).map(|column| format!("c{column} = ?{}", column + 2)).collect();
        let update = format!("UPDATE contact SET {} WHERE number = ?1", sets.join(", "));
        for (kind, sql) in [("insert", insert), ("update", update)] {
            for number in 1..=i64::from(self.each) {
                session.operation(kind, |database, chance| {
                    let row = std::iter::once(Value::Integer(number)).chain(values(chance));
                    database.execute(&sql, params_from_iter(row))
                })?;
                self.rows += u64::from(kind == "insert");
            }
        }
        for number in 1..=i64::from(self.each) {
            session.operation("delete", |database, _| {
                database.execute("DELETE FROM contact WHERE number = ?1", [number])
            })?;
            self.rows -= 1;
        }
        Ok(())
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("contact", self.rows)]
    }
}
