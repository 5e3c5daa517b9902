//! StageFS: an fsync writes what changed into the staging area; the next checkpoint brings it into the image.
//!
//! ```text
//!   changes ─► pending ─► fsync: whole pages into the image, unnamed ─► transaction ─► FLUSH       (sync)
//!                 │                                                        │
//!                 └── checkpoint: pages that only the log has, nodes, pack ◄┘ the log begins anew  (patch)
//!   mount: the transactions of this checkpoint ─► files in memory ─► checkpoint                    (recover)
//! ```
//!
//! A round of fsyncs is one transaction. It has all changes of names and inodes so far, and the content of the files
//! that are synced. So after a crash the tree is one that was there, and each synced file is whole.
//!
//! # Invariants
//! - No block that a transaction names is used again before the next checkpoint: [`super::super::space`] keeps it.
//! - A page with bytes in the log that the image lacks is dirty in memory, or under way.
//! - A transaction names only blocks whose write ended well.
//! - While a transaction is under way, no checkpoint ends.

mod collect;
mod inode_bytes;
mod note;
mod patch;
mod recover;
mod state;
mod sync;

pub(in crate::f2fs) use state::Stage;
