//! LevelDB's benchmark of SQLite: keys with values of 100 bytes, each put in a transaction of its own.
//!
//! Source: LevelDB's `db_bench_sqlite3` (its `fillseqsync`, `fillrandsync`, `fillseq` and `fillrandom`), which
//! StageFS's tables 5 and 7 call seq-sync, rand-sync, seq-async and rand-async: pages of 1 KiB, 4096 of them cached, a
//! write-ahead log that is checkpointed every 4096 pages, an exclusive lock, keys of 16 digits. A random key is one of
//! as many as there are operations. Without sync, SQLite leaves all writeback to the file system.
//!
//! For garbage collection StageFS's §5.5 puts many values in a transaction, into records that are there before: 1,000
//! puts and 20 records for each put (rand-sync1k), or 10,000 and 5 (rand-sync10k). An operation is a transaction there.

use std::collections::BTreeSet;

use onewrite_block::Choices;
use rusqlite::{Connection, Result, Statement};

use super::application::{Application, Session};

/// Puts.
const PUTS: u32 = 5_000;
/// Bytes of a value.
const VALUE: usize = 100;

/// What each database of the benchmark sets before its first table.
pub(super) const PRAGMAS: &str = "PRAGMA page_size = 1024; PRAGMA cache_size = 4096; \
                                  PRAGMA wal_autocheckpoint = 4096; PRAGMA locking_mode = EXCLUSIVE";

const TABLE: &str = "CREATE TABLE test (key BLOB, value BLOB, PRIMARY KEY (key))";

const PUT: &str = "REPLACE INTO test (key, value) VALUES (?1, ?2)";

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    Random,
}

/// Whether a put is durable when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Puts {
    Synced,
    Unsynced,
}

pub(super) struct DbBench {
    order: Order,
    puts: Puts,
    operations: u32,
    keys: BTreeSet<u64>,
}

impl DbBench {
    pub(super) fn new(order: Order, puts: Puts, operations: Option<u32>) -> DbBench {
        DbBench { order, puts, operations: operations.unwrap_or(PUTS), keys: BTreeSet::new() }
    }
}

/// Puts in transactions of many, into records that are there before.
pub(super) struct Batches {
    batch: Batch,
    transactions: u32,
}

/// Puts of a transaction, and what they are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Puts of one transaction.
    pub(super) puts: u32,
    /// Records that are there before, for each put of the run.
    pub(super) records_for_each_put: u32,
}

/// Transactions of a run with [`Batches`].
const TRANSACTIONS: u32 = 20;
/// Records in each transaction that prepares them.
const PREPARED: u64 = 50_000;

impl Batches {
    pub(super) fn new(batch: Batch, transactions: Option<u32>) -> Batches {
        Batches { batch, transactions: transactions.unwrap_or(TRANSACTIONS) }
    }

    fn records(&self) -> u64 {
        u64::from(self.transactions) * u64::from(self.batch.puts) * u64::from(self.batch.records_for_each_put)
    }
}

impl Application for Batches {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        session.database.execute_batch(TABLE)?;
        let records = self.records();
        for first in (0..records).step_by(PREPARED as usize) {
            put_all(session.database, &mut session.chance, first..records.min(first + PREPARED))?;
        }
        Ok(())
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        let records = self.records();
        for _ in 0..self.transactions {
            let keys: Vec<u64> = (0..self.batch.puts).map(|_| session.chance.below(records)).collect();
            session.operation("transaction", |database, chance| put_all(database, chance, keys))?;
        }
        Ok(())
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("test", self.records())]
    }
}

/// Puts a random value at each key, all in one transaction.
fn put_all(database: &Connection, chance: &mut Choices, keys: impl IntoIterator<Item = u64>) -> Result<()> {
    database.execute_batch("BEGIN IMMEDIATE")?;
    let mut statement = database.prepare(PUT)?;
    for key in keys {
        put(&mut statement, chance, key)?;
    }
    database.execute_batch("COMMIT")
}

fn put(statement: &mut Statement<'_>, chance: &mut Choices, key: u64) -> Result<usize> {
    let value: [u8; VALUE] = std::array::from_fn(|_| chance.bits() as u8);
    statement.execute((format!("{key:016}").into_bytes(), value))
}

impl Application for DbBench {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        if self.puts == Puts::Unsynced {
            session.database.execute_batch("PRAGMA synchronous = OFF")?;
        }
        session.database.execute_batch(TABLE)
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        for number in 0..u64::from(self.operations) {
            let key = match self.order {
                Order::Sequential => number,
                Order::Random => session.chance.below(self.operations.into()),
            };
            session.operation("put", |database, chance| put(&mut database.prepare(PUT)?, chance, key))?;
            self.keys.insert(key);
        }
        Ok(())
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("test", self.keys.len() as u64)]
    }
}
