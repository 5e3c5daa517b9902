//! A mounted F2FS that can be changed.
//!
//! Its one idea: everything gets a new address. Content goes to the logs when it is written back, nodes when an fsync
//! or a checkpoint writes them. What the last checkpoint names stays untouched until the next one is durable.
//!
//! ```text
//!   operations ─► nodes and inodes in memory ─┬─ fsync: content, FLUSH, the file's nodes, FLUSH     (sync)
//!   writeback ──► content at new addresses ───┤
//!                                             └─ checkpoint: directories, all nodes, NAT, SIT, pack (checkpoint)
//!   mount: the newer checkpoint ─► nodes of fsyncs behind it (recover) ─► files without names go (orphans)
//! ```
//!
//! # Invariants
//! - An operation that changes nodes, inodes or names holds `changes` for reading; a checkpoint holds it alone.
//! - Content gets no new address while the gate is closed, so a checkpoint sees one state of all nodes.
//! - A changed node stays in memory until it is written; it is pinned.
//! - After a failed write of a node or checkpoint nothing changes any more ([`volume::Volume::fail`]).
//! - Lock order: renames, directories by number, the file, `changes`.
//!
//! What an operation rarely waits for is boxed: its future stays small, and is made and moved in less time.

mod atomic;
mod attributes;
mod backing;
mod balance;
mod check;
mod checkpoint;
mod clean;
mod clean_share;
mod convert;
mod create;
mod directories;
mod file;
mod files;
mod gate;
mod load;
mod look;
mod map;
mod mount;
mod name_index;
mod node_batch;
mod nodes;
mod number_search;
mod numbers;
mod operations;
mod options;
mod orphans;
mod pack;
mod recover;
mod rename;
#[cfg(test)]
mod self_checks;
mod stage;
mod sync;
mod sync_line;
mod truncate;
mod unnamed;
mod views;
mod volume;
mod wanted;
mod write;

pub use mount::F2fs;
pub use options::{Clean, F2fsOptions, FsyncMode, LogMode};
pub use recover::Recovered;
