//! InnoDB's shape: a storage engine with a redo log, a buffer pool and a page cleaner, as far as files see it. Rows,
//! locks and SQL are not here: a transaction is the pages that it reads and changes.
//!
//! ```text
//!   16 clients ─► pool (misses: read a page)           ─► data files
//!       │          └─ dirty pages ─► cleaner: batches ─┬─► doublewrite file, fsync ─┐
//!       │                                              └─► data files, fsync ◄──────┘
//!       └─ commit ─► redo log, fsync by one for all that wait (group commit)
//! ```
//!
//! Sources: the MySQL 5.7 reference manual (InnoDB: doublewrite buffer, redo log, buffer pool flushing), `papers/000`
//! §3.6.2. There the data are 10 GB in 20 files, the pool 5 GB, 16 threads, 1,000,000 operations; here a twentieth of
//! everything but the threads, with a log of a twentieth of the manual's default (2 × 48 MiB). `papers/001` §6.1 has
//! 128 threads. `docs/jobs.md` tells what is left out.
//!
//! # Invariants
//! - A transaction has ended when the log is durable up to its last record.
//! - A page that is written in place was in the log, durably, before; with doublewrite it is durable there, too.
//! - Only pages that are not dirty leave the pool.

mod cleaner;
mod engine;
mod fsyncs;
mod job;
mod load;
mod log;
mod pool;
mod rows;
mod run;
mod scale;

pub use job::{Doublewrite, Filling, InnodbJob, Load, LogSyncs};
pub(crate) use run::run;
pub(crate) use scale::{BYTES, INODES};
