//! LevelDB's benchmark of SQLite: keys with values of 100 bytes, each put in a transaction of its own.
//!
//! Source: LevelDB's `db_bench_sqlite3` (its `fillseqsync`, `fillrandsync`, `fillseq` and `fillrandom`), which
//! StageFS's tables 5 and 7 call seq-sync, rand-sync, seq-async and rand-async: pages of 1 KiB, 4096 of them cached, a
//! write-ahead log that is checkpointed every 4096 pages, an exclusive lock, keys of 16 digits. A random key is one of
//! as many as there are operations. Without sync, SQLite leaves all writeback to the file system.

use std::collections::BTreeSet;

use rusqlite::Result;

use super::application::{Application, Session};

/// Puts.
const PUTS: u32 = 5_000;
/// Bytes of a value.
const VALUE: usize = 100;

/// What each database of the benchmark sets before its first table.
pub(super) const PRAGMAS: &str = "PRAGMA page_size = 1024; PRAGMA cache_size = 4096; \
                                  PRAGMA wal_autocheckpoint = 4096; PRAGMA locking_mode = EXCLUSIVE";

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

impl Application for DbBench {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<()> {
        if self.puts == Puts::Unsynced {
            session.database.execute_batch("PRAGMA synchronous = OFF")?;
        }
        session.database.execute_batch("CREATE TABLE test (key BLOB, value BLOB, PRIMARY KEY (key))")
    }

    fn work(&mut self, session: &mut Session<'_>) -> Result<()> {
        for number in 0..u64::from(self.operations) {
            let key = match self.order {
                Order::Sequential => number,
                Order::Random => session.chance.below(self.operations.into()),
            };
            session.operation("put", |database, chance| {
                let value: Vec<u8> = (0..VALUE).map(|_| chance.bits() as u8).collect();
                let mut put = database.prepare("REPLACE INTO test (key, value) VALUES (?1, ?2)")?;
                put.execute((format!("{key:016}").into_bytes(), value))
            })?;
            self.keys.insert(key);
        }
        Ok(())
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        vec![("test", self.keys.len() as u64)]
    }
}
